"""What an engine under test is made to do, and what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import psutil
from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.base import Engine, StepRequest, StepResult
from gitswarm.records.event import Event, EventKind
from gitswarm.records.json_value import JsonValue
from gitswarm.records.safety import Allow, Verdict
from gitswarm.specs.script import Script

Fault = Literal["dies", "noise", "silent", "nonsense", "hangs"]
"""`dies`: the agent ends with an error in the middle of it. `noise`: what it says before it ends cannot be read, and
it hands nothing over. `silent`: it ends well and hands nothing over. `nonsense`: its handoff is none. `hangs`: it
does nothing for minutes."""

Given = Mapping[str, JsonValue]
MARK = "SWARM_CONTRACT"
"""In the environment of every process of a test; its value is the test's own."""
SECRET = "sk-acme-9f8e7d6c5b4a39281706f5e4d3c2b1a0"  # noqa: S105 - made up
VERIFIED: Mapping[str, JsonValue] = {"status": "VERIFIED", "summary": "done as it was ordered"}


class Orders(Struct, frozen=True):
    """What the agent does, in this order: files that it writes, lines that it runs in a shell, what it says, what it
    has used (tokens in and out, US dollars), and how it ends: with a handoff, or by a fault."""

    writes: Mapping[str, str] = field(default_factory=dict)
    runs: Sequence[str] = ()
    says: str = ""
    used: tuple[int, int, float] | None = None
    handoff: Mapping[str, JsonValue] = field(default_factory=lambda: VERIFIED)
    fault: Fault | None = None


class EngineFixture(Struct, frozen=True):
    """How the engine is brought to follow orders: by its environment, by its section of the configuration, or, in
    mode `stub`, by a script. `model`: for an agent that does not take every name; "": that of the stub."""

    env: Mapping[str, str] = field(default_factory=dict)
    section: Mapping[str, JsonValue] = field(default_factory=dict)
    script: Script | None = None
    model: str = ""


def allow(_tool: str, _given: Given) -> Verdict:
    return Allow()


class SeenStep(Struct):
    """One step at the border of an engine. `asked`: tool calls that the policy was asked about, with the files that
    were there. `raised`: what came instead of a result."""

    request: StepRequest
    result: StepResult | None
    events: list[Event]
    asked: list[tuple[str, Given, frozenset[str]]]
    took_s: float
    raised: BaseException | None = None

    @property
    def done(self) -> StepResult:
        assert self.result is not None, self.raised
        return self.result

    @property
    def files(self) -> dict[str, str]:
        found = [path for path in self.request.worktree.rglob("*") if path.is_file()]
        return {path.relative_to(self.request.worktree).as_posix(): path.read_text("utf-8") for path in found}

    def events_of(self, kind: EventKind) -> list[Mapping[str, JsonValue]]:
        return [event.payload for event in self.events if event.kind is kind]


def watch(engine: Engine, request: StepRequest, ends_after: float | None = None) -> SeenStep:
    """Has a step executed.

    :param ends_after: seconds after which nobody waits for the step any more.
    """
    events: list[Event] = []
    asked: list[tuple[str, Given, frozenset[str]]] = []
    decide = request.decide

    def judge(tool: str, given: Given) -> Verdict:
        names = (path.relative_to(request.worktree).as_posix() for path in request.worktree.rglob("*"))
        asked.append((tool, given, frozenset(names)))
        return decide(tool, given)

    seen = SeenStep(replace(request, decide=judge), None, events, asked, 0.0)
    began = time.monotonic()

    def work() -> None:
        try:
            seen.result = engine.run(seen.request, events.append)
        except BaseException as error:  # noqa: BLE001 - it is what the test is about
            seen.raised = error

    worker = threading.Thread(target=work)
    worker.start()
    if ends_after is not None:
        worker.join(ends_after)
        request.ended.set()
    worker.join()
    seen.took_s = time.monotonic() - began
    return seen


def living(value: str) -> list[list[str]]:
    """Command lines of the processes that a test has left."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.cmdline())
        except (psutil.Error, OSError):
            continue
    return found


class Product(Struct, frozen=True):
    """A repository, and git-swarm in it as a process of its own."""

    root: Path
    env: Mapping[str, str]

    def git(self, *words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=self.env, capture_output=True, text=True, check=True, input=stdin
        )
        return done.stdout

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "gitswarm", *words],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def swarm(self, *words: str, code: int = 0) -> str:
        process = self.begin(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, f"{words}: exit code {process.returncode}\n{out}{err}"
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self.swarm(*words, "--json"))

    def objects(self) -> str:
        """Everything that git keeps here."""
        names = self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        done = subprocess.run(
            ["git", "cat-file", "--batch"],
            cwd=self.root,
            env=self.env,
            capture_output=True,
            check=True,
            input=names.encode(),
        )
        return done.stdout.decode(errors="replace")
