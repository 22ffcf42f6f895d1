"""Steps of Claude at the engine's own border: the real CLI, a scripted provider, a worktree of their own."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from gitswarm.engines.base import EngineAccess, SessionTerms, StepRequest, StepResult
from gitswarm.engines.claude.claude_code import ClaudeSettings
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.provider import ClaudeProfile
from gitswarm.engines.claude.transports import CliTransport, SdkTransport, Transport
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Execution
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import ToolCall
from gitswarm.records.record import without_defaults
from gitswarm.records.safety import Allow, Deny, Verdict
from gitswarm.specs.compile import Prompt
from tests.loopback.api import ApiRequest, Model
from tests.loopback.server import Loopback

TRANSPORTS: Mapping[str, type[Transport]] = {"cli": CliTransport, "sdk": SdkTransport}
both = pytest.mark.parametrize("mode", TRANSPORTS)


def by(mode: str, name: str = "mode", *, indirect: bool = False) -> pytest.MarkDecorator:
    """By this transport, and where all is run by the other too: they have little to do with it.

    :param name: of the parameter that gets it.
    """
    found = [pytest.param(each, marks=_marks(each, mode)) for each in TRANSPORTS]
    return pytest.mark.parametrize(name, found, indirect=indirect)


def in_turns(name: str, cases: Mapping[str, object], *, every: int = 1) -> pytest.MarkDecorator:
    """All cases by both transports in the soak, else each case, or every second one, by one of them in turns.

    :param name: of the parameter that gets the case; the other one is `mode`.
    """
    usual = itertools.cycle(mode for mode in TRANSPORTS for _skipped in range(every))
    found = [
        pytest.param(mode, case, marks=_marks(mode, turn if number % every == 0 else ""), id=f"{title}-{mode}")
        for number, ((title, case), turn) in enumerate(zip(cases.items(), usual, strict=False))
        for mode in TRANSPORTS
    ]
    return pytest.mark.parametrize(("mode", name), found)


def _marks(mode: str, usual: str) -> Sequence[pytest.MarkDecorator]:
    return () if mode == usual else (pytest.mark.soak,)


MODEL = "claude-sonnet-4-5"
KEY = "sk-ant-api03-planted-0123456789abcdefghij"
LOGIN = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-planted-0123456789abcdefghij"}
"""A seat instead of a key: only that has usage limits."""
NO_RETRIES = {"CLAUDE_CODE_MAX_RETRIES": "0"}
EVERYTHING: Mapping[str, JsonValue] = {"permissions": {"allow": ["Bash(*)", "Write", "Edit", "Agent"]}}
"""Settings of Claude Code by which all that no hook denies is allowed."""
SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["VERIFIED", "UNVERIFIED", "PARTIAL", "BLOCKED"]},
        "summary": {"type": "string"},
    },
    "required": ["status", "summary"],
}
BOUND_S = 60.0
"""No step in these tests takes longer on a busy machine; most take less than one second on an idle one."""
MARK = "TEST_STAGE"

Given = Mapping[str, JsonValue]


def allow(_tool: str, _given: Given) -> Verdict:
    return Allow()


def deny(_tool: str, _given: Given) -> Verdict:
    return Deny("test-rule", "not in this test", "do something else")


def quick(*, cli: Path | None = None, decision_s: float = 20.0, **settings: object) -> ClaudeProfile:
    """
    :param cli: another program than the bundled one.
    """
    return ClaudeProfile(
        "anthropic",
        ClaudeSettings.from_plain(settings),
        EngineAccess(cli=str(cli) if cli else None),
        retry_wait_s=0.05,
        decision_s=decision_s,
    )


def terms_of(**more: Any) -> SessionTerms:
    return SessionTerms(**{"output_schema": SCHEMA, **more})


def engine_of(mode: str, profile: ClaudeProfile) -> ClaudeEngine:
    return ClaudeEngine(TRANSPORTS[mode](), profile, lambda: datetime.now(UTC))


def request_for(folder: Path, env: Mapping[str, str], **more: Any) -> StepRequest:
    """
    :param folder: of a stage.
    """
    return StepRequest(
        execution=Execution("run-20260101-000000-000000", "one", "work", 1, "code-implementer"),
        executed=0,
        model=MODEL,
        worktree=folder / "worktree",
        run_base=folder / "worktree" / "base",
        prompt=Prompt("You are an implementer.", "Do the work."),
        outputs=(),
        env=env,
        scratch=folder / "scratch",
        **{"mode": "sdk", "decide": allow, "terms": terms_of(), **more},
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a step. `asked`: the requests that the provider saw."""

    result: StepResult
    events: tuple[Event, ...]
    asked: tuple[ApiRequest, ...]
    files: Mapping[str, str]

    @property
    def outcome(self) -> dict[str, Any]:
        """Without its text."""
        assert self.result.outcome is not None
        found: dict[str, Any] = without_defaults(self.result.outcome)
        found.pop("detail", None)
        return found

    @property
    def detail(self) -> str:
        assert self.result.outcome is not None
        return self.result.outcome.detail

    @property
    def handoff(self) -> Handoff | None:
        return self.result.handoff

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self.result.tool_calls

    @property
    def blocked(self) -> list[str | None]:
        """Why each call was not carried out; None: it was."""
        return [call.blocked_reason for call in self.calls]

    @property
    def retries(self) -> list[Mapping[str, JsonValue]]:
        return [event.payload for event in self.events if event.kind is EventKind.ENGINE_RETRY]

    @property
    def at_work(self) -> list[ApiRequest]:
        """The requests before the handoff was asked for."""
        return [asked for asked in self.asked if not asked.wants_result]

    @property
    def at_the_end(self) -> list[ApiRequest]:
        """The requests for the handoff."""
        return [asked for asked in self.asked if asked.wants_result]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a step is executed: `folder` has its worktree, home and folders for temporary files. `env`: the whole
    environment of the sessions. `events`: what they told so far. `ended`: that nobody waits for the step any more."""

    loopback: Loopback
    folder: Path
    env: Mapping[str, str] = field(repr=False)
    events: list[Event] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def make(cls, loopback: Loopback, folder: Path) -> Stage:
        """With a key, and a provider of its own."""
        for name in ("worktree/base", "home", "scratch", "tmp"):
            (folder / name).mkdir(parents=True)
        scenario = secrets.token_hex(4)
        env = {
            "HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin",
            "TMPDIR": str(folder / "tmp"),
            "LC_ALL": "C.UTF-8",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{loopback.port}/{scenario}",
            MARK: scenario,
        }
        return cls(loopback, folder, env)

    def having(self, **env: str) -> Stage:
        """The same with these variables; an empty value takes one away."""
        found = {**self.env, **env}
        return replace(self, env={name: value for name, value in found.items() if value})

    def play(self, model: Model) -> None:
        self.loopback.play(self.env[MARK], model)

    def run(self, mode: str, model: Model, *, profile: ClaudeProfile | None = None, **more: Any) -> Told:
        """However it ends, it does so in bounded time, and no process is left of it.

        :param more: of the request.
        """
        self.play(model)
        request = request_for(self.folder, self.env, mode=mode, ended=self.ended, **more)
        started = time.monotonic()
        try:
            result = engine_of(mode, profile or quick()).run(request, self.events.append)
        finally:
            assert time.monotonic() - started < BOUND_S
            assert self.processes == []
        return Told(result, tuple(self.events), tuple(self.asked), self.files)

    @property
    def worktree(self) -> Path:
        return self.folder / "worktree"

    @property
    def files(self) -> dict[str, str]:
        """Of the worktree."""
        found = sorted(path for path in self.worktree.rglob("*") if path.is_file())
        return {path.relative_to(self.worktree).as_posix(): path.read_text("utf-8") for path in found}

    @property
    def asked(self) -> list[ApiRequest]:
        return self.loopback.of(self.env[MARK])

    @property
    def processes(self) -> list[list[str]]:
        return living(MARK, self.env[MARK])

    def settings(self, place: str, said: Mapping[str, JsonValue]) -> None:
        """Settings of Claude Code: `home` for the user's, `worktree` for the project's."""
        path = self.folder / place / ".claude" / "settings.json"
        path.parent.mkdir()
        path.write_text(json.dumps(said), encoding="utf-8")


def living(name: str, value: str) -> list[list[str]]:
    """Command lines of the living processes that have `name=value` in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.cmdline())
        except (psutil.Error, OSError):
            continue
    return found
