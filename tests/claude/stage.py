"""One step through a real Claude engine, against a scripted provider: what it answers, tells and leaves behind."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from pydantic import JsonValue

from gitswarm.engines.base import EngineAccess, SessionTerms, StepRequest, StepResult
from gitswarm.engines.claude.cli import CliTransport
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.order import Transport
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.engines.claude.sdk import SdkTransport
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, EventKind
from gitswarm.records.policy import Allow, Verdict
from gitswarm.records.run_spec import ClaudeSettings
from gitswarm.specs.compile import Prompt
from tests.loopback.api import Asked, Model, Reply, Text, use
from tests.loopback.server import Loopback

MODES = ("cli", "sdk")
MODEL = "claude-sonnet-4-5"
KEY = "sk-ant-api03-planted-0123456789abcdefghij"
SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["VERIFIED", "UNVERIFIED", "PARTIAL", "BLOCKED"]},
        "summary": {"type": "string"},
    },
    "required": ["status", "summary"],
}
QUICK = ClaudeProfile("anthropic", ClaudeSettings(), EngineAccess(), retry_wait_s=0.05)
NO_RETRIES = {"CLAUDE_CODE_MAX_RETRIES": "0"}
TRANSPORTS: Mapping[str, type[Transport]] = {"cli": CliTransport, "sdk": SdkTransport}
BOUND_S = 60.0
"""No fault in these tests takes longer on a busy machine; most take less than one second on an idle one."""
_MARK = "TEST_STAGE"


WORK = use("Bash", command="echo hi >> a.txt")
LOGIN = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-planted-0123456789abcdefghij"}
"""A seat instead of a key: only that has usage limits."""


def failing(status: int, text: str = "scripted", **headers: str) -> Reply:
    return Reply((Text(text),), status=status, headers={name.replace("_", "-"): headers[name] for name in headers})


def limit_reached(resets_at: int | None) -> Reply:
    """
    :param resets_at: seconds since the epoch; None: the provider does not say.
    """
    until = {} if resets_at is None else {"anthropic_ratelimit_unified_reset": str(resets_at)}
    return failing(
        429,
        "limit",
        anthropic_ratelimit_unified_status="rejected",
        anthropic_ratelimit_unified_representative_claim="five_hour",
        retry_after="3600",
        **until,
    )


def handed_over(status: str = "VERIFIED", **more: JsonValue) -> Reply:
    """The model's answer when it is asked for the handoff."""
    return use("StructuredOutput", status=status, summary="did it", **more)


def working(*replies: Reply, final: Reply | None = None) -> Model:
    """Gives one reply after the other while it works (the last for good), and a handoff when it is asked for one."""

    def answer(asked: Asked) -> Reply:
        if asked.wants_result:
            return final or handed_over()
        return replies[min(asked.turn, len(replies) - 1)]

    return answer


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a step. `asked`: the requests that the provider saw."""

    result: StepResult
    events: tuple[Event, ...]
    asked: tuple[Asked, ...]
    worktree: Path

    @property
    def outcome(self) -> dict[str, Any]:
        """Without its text."""
        assert self.result.outcome is not None
        return self.result.outcome.model_dump(exclude={"detail"}, exclude_defaults=True)

    @property
    def detail(self) -> str:
        assert self.result.outcome is not None
        return self.result.outcome.detail

    @property
    def handoff(self) -> Handoff | None:
        return self.result.handoff

    @property
    def retries(self) -> list[Mapping[str, JsonValue]]:
        return [event.payload for event in self.events if event.kind is EventKind.ENGINE_RETRY]

    @property
    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.worktree.iterdir())}


@dataclass(slots=True)
class Stage:
    """`env` is the whole environment of the sessions, but for the address of the provider."""

    loopback: Loopback
    folder: Path
    env: Mapping[str, str] = field(repr=False)

    def run(
        self,
        mode: str,
        model: Model,
        *,
        profile: ClaudeProfile = QUICK,
        terms: SessionTerms | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Told:
        """
        It ends in bounded time, and no process is left of it.

        :param env: added; an empty value takes a variable away.
        """
        scenario = secrets.token_hex(4)
        base = self.loopback.play(scenario, model)
        whole = {**self.env, "ANTHROPIC_BASE_URL": base, _MARK: scenario, **(env or {})}
        worktree = self.folder / scenario
        worktree.mkdir()
        events: list[Event] = []
        started = time.monotonic()
        given = {name: value for name, value in whole.items() if value}
        request = request_for(worktree, given, mode=mode, scratch=self.folder / "sessions", terms=terms or terms_of())
        result = ClaudeEngine(TRANSPORTS[mode](), profile, lambda: datetime.now(UTC)).run(request, events.append)
        seconds = time.monotonic() - started
        assert seconds < BOUND_S
        assert left_behind(_MARK, scenario) == []
        return Told(result, tuple(events), tuple(self.loopback.of(scenario)), worktree)


def request_for(worktree: Path, env: Mapping[str, str], **more: Any) -> StepRequest:
    return StepRequest(
        run_id="run-20260101-000000-000000",
        flow_key="one",
        step_id="work",
        iteration=1,
        execution=0,
        agent_key="code-implementer",
        model=MODEL,
        worktree=worktree,
        run_base=worktree,
        prompt=Prompt("You are an implementer.", "Do the work."),
        outputs=(),
        env=env,
        decide=allow,
        **{"mode": "sdk", "scratch": worktree, **more},
    )


def terms_of(**more: Any) -> SessionTerms:
    return SessionTerms(**{"output_schema": SCHEMA, **more})


def allow(_tool: str, _given: Mapping[str, JsonValue]) -> Verdict:
    return Allow()


def left_behind(name: str, value: str) -> list[str]:
    """Command lines of the living processes that have `name=value` in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found
