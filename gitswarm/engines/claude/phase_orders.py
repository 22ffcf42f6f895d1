"""The sessions that an engine orders: one that works, one that hands over, one that says where the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from gitswarm.engines.base import RouteQuestion, SessionTerms, StepRequest
from gitswarm.engines.claude.order import SessionOrder
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.records.policy import Deny, Verdict
from gitswarm.specs.compile import Prompt

USUAL_TOOLS = ("Read", "Write", "Edit", "Bash", "Grep", "Glob")
"""For a station that names none."""

FINALIZE = (
    "The work of this step is over, and no tools are left. Hand over now: fill in the handoff from what you did and "
    "saw in this session, by the rules that you were given for its status. What you did not check you did not verify."
)
_NAVIGATOR = (
    "You are the navigator of a run of software agents. You choose where it goes on, from what you are given."
)
_NO_MODEL = ("default", "none")


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
        tools=terms.tools or USUAL_TOOLS,
        system=request.prompt.system,
        model=None if request.model in _NO_MODEL else request.model,
        max_turns=terms.max_turns,
        max_cost_usd=terms.max_cost_usd,
    )


def finalize_order(work: SessionOrder, schema: Mapping[str, JsonValue], session: str) -> SessionOrder:
    """Goes on with the conversation of `session`, with nothing left to do but to hand over."""
    # A field more than there are costs no attempt: it is dropped.
    open_ended = {**schema, "additionalProperties": True}
    return replace(work, prompt=FINALIZE, tools=(), max_turns=None, schema=open_ended, resume=session)


def route_order(work: SessionOrder, schema: Mapping[str, JsonValue]) -> SessionOrder:
    """Only answers."""
    return replace(work, tools=(), max_turns=None, bare=True, schema=schema)


def as_request(question: RouteQuestion, mode: str) -> StepRequest:
    """A navigator's session has no tools and leaves nothing behind: its answer says it all."""

    def deny(_tool: str, _given: Mapping[str, JsonValue]) -> Verdict:
        return Deny("tool", "a navigator only answers", "answer from what you were given")

    return StepRequest(
        run_id="",
        flow_key=question.flow_key,
        step_id=question.step_id,
        iteration=question.execution + 1,
        execution=question.execution,
        agent_key="navigator",
        mode=mode,
        model=question.model,
        worktree=question.folder,
        run_base=question.folder,
        prompt=Prompt(_NAVIGATOR, question.prompt),
        outputs=(),
        env=question.env,
        scratch=question.scratch,
        decide=deny,
        terms=SessionTerms(output_schema=question.schema),
    )
