"""What one session is given, the same for both transports; and the sessions of a step: work, handoff, route."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace
from pydantic import JsonValue

from gitswarm.containment import UNCONTAINED, Containment, Uncontained
from gitswarm.engines import launch
from gitswarm.engines.agent_session import FINALIZE, NAVIGATOR, USUAL_TOOLS, named_model
from gitswarm.engines.base import RouteTerms, StepRequest
from gitswarm.engines.claude.claude_code import ClaudeSettings
from gitswarm.engines.claude.gate import Gate
from gitswarm.engines.claude.messages import SUBAGENT_TOOLS, Said
from gitswarm.engines.claude.provider import ClaudeProfile
from gitswarm.records.route_question import RouteQuestion


class SessionOrder(Struct, frozen=True):
    """`folder` is the session's own, outside of the worktree. `system` is appended to Claude Code's own prompt, or,
    with `bare`, stands in its place. `tools` empty: none. `schema`: of the structured
    output that it ends with; None: it ends when the model has nothing more to say. `resume`: the session whose
    conversation it goes on with. `env` is complete. `model` None: the CLI's own choice. `max_cost_usd`, `max_tokens`:
    of all sessions of the step together. `containment`: of the program and everything that it starts."""

    prompt: str
    cwd: Path
    folder: Path
    env: Mapping[str, str]
    settings: ClaudeSettings
    program: Path
    tools: tuple[str, ...] = ()
    system: str = ""
    bare: bool = False
    model: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    schema: Mapping[str, JsonValue] | None = None
    resume: str | None = None
    containment: Containment = UNCONTAINED

    @property
    def system_file(self) -> Path:
        return self.folder / "system.md"

    def write_system(self) -> None:
        """A file, as everybody can read a command line; it may also be too long for one."""
        self.system_file.write_text(self.system, encoding="utf-8")

    def launched(self) -> tuple[str, ...]:
        """The command line of the program, as far as it is the same for both transports (see launch.py)."""
        names, depth = ",".join(self.env), str(self.containment.depth)
        confined = self.containment.wrap([str(self.program)])
        return (sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), names, depth, *confined)

    def own_settings(self, hooks: Mapping[str, JsonValue] | None = None) -> str:
        """JSON for `--settings`, which comes before every other source."""
        # Agents make no commits: what Claude Code would tell them to write into messages is noise.
        # A user's or a project's settings may switch all hooks off, ours with them.
        settings: dict[str, JsonValue] = {"includeCoAuthoredBy": False, "disableAllHooks": False}
        if not isinstance(self.containment, Uncontained):
            # Claude Code's own cannot be nested in ours; a user's settings may ask for it.
            settings["sandbox"] = {"enabled": False}
        return json.dumps(settings | ({"hooks": dict(hooks)} if hooks else {}))


Tell = Callable[[Said], None]


class Transport(Protocol):
    @property
    def mode(self) -> str: ...

    def hold(self, order: SessionOrder, gate: Gate, tell: Tell) -> AbstractContextManager[None]:
        """Starts a session. What it says is told from other threads, `Gone` last. When the block is left nothing of
        the transport's own waits for it any more; its processes are the caller's to end."""


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
        model=named_model(request.model),
        max_turns=terms.max_turns,
        max_cost_usd=terms.max_cost_usd,
        max_tokens=terms.max_tokens,
        schema=open_ended(terms.output_schema),
    )


def _by_every_name(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Which name of the subagent tool the program knows depends on its version; it passes over the other."""
    return tuple(dict.fromkeys((*tools, *SUBAGENT_TOOLS))) if not {*tools}.isdisjoint(SUBAGENT_TOOLS) else tools


def open_ended(schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """A field more than there are costs no attempt: it is dropped."""
    return {**schema, "additionalProperties": True}


def finalize_order(work: SessionOrder, session: str) -> SessionOrder:
    """Goes on with the conversation of `session`, with nothing left to do but to hand over."""
    return replace(work, prompt=FINALIZE, tools=(), max_turns=None, resume=session)


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
        model=named_model(terms.model),
        schema=question.schema,
    )
