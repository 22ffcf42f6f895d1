"""Steps of Claude at the engine's own border: the real CLI, a scripted model on loopback, a worktree of its own."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from pydantic import JsonValue

from gitswarm.engines.base import EngineAccess, SessionTerms, StepRequest, StepResult
from gitswarm.engines.claude.cli import CliTransport
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.engines.claude.sdk import SdkTransport
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event
from gitswarm.records.outcome import Status
from gitswarm.records.policy import Allow, Decide, Deny, Verdict
from gitswarm.records.run_spec import ClaudeSettings
from gitswarm.specs.compile import Prompt
from tests.loopback.api import Asked, Model, Reply, say, use
from tests.loopback.server import Loopback, serving

MODES = ("cli", "sdk")
KEY = "sk-ant-api03-dummy-key-000"

Given = Mapping[str, JsonValue]

EVERYTHING: dict[str, JsonValue] = {"permissions": {"allow": ["Bash(*)", "Write", "Edit", "Agent"]}}
"""Settings of Claude Code by which all that no hook denies is allowed."""


def allow(_tool: str, _given: Given) -> Verdict:
    return Allow()


def deny(_tool: str, _given: Given) -> Verdict:
    return Deny("test-rule", "not in this test", "do something else")


def bash(command: str) -> Reply:
    return use("Bash", command=command)


def plays(*replies: Reply) -> Model:
    """A model that says these in order, hands over when it is asked to, and says `done` when it has nothing more."""
    handoff = Handoff(status=Status.VERIFIED, summary="done").model_dump(mode="json", exclude_none=True)

    def model(asked: Asked) -> Reply:
        if asked.wants_result:
            return use("StructuredOutput", **handoff)
        return replies[asked.turn] if asked.turn < len(replies) else say("done")

    return model


@contextmanager
def entered(folder: Path) -> Iterator[Room]:
    """A room while the block lasts. Nothing that was started in it may live longer."""
    with serving() as loopback:
        room = Room.make(folder, loopback)
        yield room
        assert room.processes() == []


@dataclass
class Room:
    """Where a session works. `env`: its whole environment; what it told stands in `events`."""

    folder: Path
    loopback: Loopback
    env: dict[str, str]
    events: list[Event] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def make(cls, folder: Path, loopback: Loopback) -> Room:
        for name in ("worktree/base", "home", "scratch", "tmp"):
            (folder / name).mkdir(parents=True)
        return cls.of(folder, loopback)

    @classmethod
    def of(cls, folder: Path, loopback: Loopback) -> Room:
        """One that was made already."""
        env = {
            "HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin",
            "TMPDIR": str(folder / "tmp"),
            "LC_ALL": "C.UTF-8",
            "ANTHROPIC_API_KEY": KEY,
            "SWARM_ROOM": str(folder),
        }
        return cls(folder, loopback, env)

    @property
    def worktree(self) -> Path:
        return self.folder / "worktree"

    @property
    def asked(self) -> list[Asked]:
        """What the model was asked, the handing over left out."""
        return [asked for asked in self.loopback.of("room") if not asked.wants_result]

    @property
    def answered(self) -> list[str]:
        """What the model was told in place of results of its tool calls, in order."""
        return [str(answer["content"]) for answer in self.asked[-1].answers] if self.asked else []

    def settings(self, place: str, said: Mapping[str, JsonValue]) -> None:
        """Settings of Claude Code: `home` for the user's, `worktree` for the project's."""
        path = self.folder / place / ".claude" / "settings.json"
        path.parent.mkdir()
        path.write_text(json.dumps(said), encoding="utf-8")

    @property
    def files(self) -> dict[str, str]:
        found = sorted(path for path in self.worktree.rglob("*") if path.is_file())
        return {path.relative_to(self.worktree).as_posix(): path.read_text("utf-8") for path in found}

    def request(self, decide: Decide = allow, tools: Sequence[str] = (), max_turns: int = 15) -> StepRequest:
        return StepRequest(
            run_id="run-1",
            flow_key="one",
            step_id="write",
            iteration=1,
            execution=0,
            agent_key="code-implementer",
            mode="cli",
            model="claude-sonnet-4-5",
            worktree=self.worktree,
            run_base=self.worktree / "base",
            prompt=Prompt("You are in a test.", "Do it."),
            outputs=(),
            env=self.env,
            scratch=self.folder / "scratch",
            decide=decide,
            terms=SessionTerms(tuple(tools), max_turns, Handoff.model_json_schema()),
            ended=self.ended,
        )

    def engine(
        self, mode: str, *, cli: Path | None = None, decision_s: float = 20.0, **settings: object
    ) -> ClaudeEngine:
        transport = CliTransport() if mode == "cli" else SdkTransport()
        profile = ClaudeProfile(
            "anthropic",
            ClaudeSettings.model_validate({"step_timeout": 60, "attempts": 1, **settings}),
            EngineAccess(cli=str(cli) if cli else None),
            retry_wait_s=0.05,
            decision_s=decision_s,
        )
        return ClaudeEngine(transport, profile, lambda: datetime.now(UTC))

    def play(self, *replies: Reply, model: Model | None = None) -> None:
        self.env["ANTHROPIC_BASE_URL"] = self.loopback.play("room", model or plays(*replies))

    def run(self, engine: ClaudeEngine, request: StepRequest) -> StepResult:
        return engine.run(request, self.events.append)

    def processes(self) -> list[str]:
        """Command lines of what lives and works in this room: none is left when a step is over."""
        return [" ".join(command) for command, _env in living("SWARM_ROOM", str(self.folder))]


def living(marker: str, value: str) -> list[tuple[list[str], dict[str, str]]]:
    """Every living process with this variable in its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            env = process.environ()
            if env.get(marker) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process.cmdline(), env))
        except psutil.Error:
            continue
    return found
