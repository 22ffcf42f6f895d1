"""The sessions that an engine orders: one that works, one that hands over, one that says where the run continues."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace
from pydantic import JsonValue

from gitswarm.engines.base import RouteTerms, StepRequest
from gitswarm.engines.claude.order import SessionOrder
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.engines.claude.said import SUBAGENT_TOOLS
from gitswarm.records.navigator import RouteQuestion

USUAL_TOOLS = ("Read", "Write", "Edit", "Bash", "Grep", "Glob")
"""For a station that names none."""

FINALIZE = (
    "The work of this step is over, and no tools are left. Hand over now: fill in the handoff from what you did and "
    "saw in this session, by the rules that you were given for its status. What you did not check you did not verify."
)
NAVIGATOR = "You are the navigator of a run of software agents. You choose where it goes on, from what you are given."
NO_MODEL = ("default", "none")


def work_order(request: StepRequest, profile: ClaudeProfile, program: Path, folder: Path) -> SessionOrder:
    """
    :param folder: the session's own.
    """
    terms = request.terms
    return SessionOrder(
        prompt=request.prompt.user,
        cwd=request.worktree,
        folder=folder,
        env=profile.environment(request.env),
        settings=profile.settings,
        program=program,
        tools=_by_every_name(terms.tools or USUAL_TOOLS),
        system=request.prompt.system,
        model=None if request.model in NO_MODEL else request.model,
        max_turns=terms.max_turns,
        max_cost_usd=terms.max_cost_usd,
        max_tokens=terms.max_tokens,
    )


def _by_every_name(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Which name of the subagent tool the program knows depends on its version; it passes over the other."""
    return tuple(dict.fromkeys((*tools, *SUBAGENT_TOOLS))) if not {*tools}.isdisjoint(SUBAGENT_TOOLS) else tools


def finalize_order(work: SessionOrder, schema: Mapping[str, JsonValue], session: str) -> SessionOrder:
    """Goes on with the conversation of `session`, with nothing left to do but to hand over."""
    # A field more than there are costs no attempt: it is dropped.
    open_ended = {**schema, "additionalProperties": True}
    return replace(work, prompt=FINALIZE, tools=(), max_turns=None, schema=open_ended, resume=session)


def route_order(
    question: RouteQuestion, terms: RouteTerms, profile: ClaudeProfile, program: Path, folder: Path
) -> SessionOrder:
    """Only answers: no tools, and nothing that stays behind."""
    return SessionOrder(
        prompt=question.prompt,
        cwd=terms.worktree,
        folder=folder,
        env=profile.environment(terms.env),
        settings=profile.settings,
        program=program,
        system=NAVIGATOR,
        bare=True,
        model=None if terms.model in NO_MODEL else terms.model,
        schema=question.schema,
    )
