"""What the engines are said to be capable of, shown by sessions of the real program."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue

from gitswarm.engines.base import EngineAccess, SessionTerms, StepEndedError, StepRequest, StepResult
from gitswarm.engines.claude.cli import CliTransport
from gitswarm.engines.claude.engine import CAPABILITIES, ClaudeEngine
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.engines.claude.sdk import SdkTransport
from gitswarm.processes import end_processes_with
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, EventKind
from gitswarm.records.outcome import Status
from gitswarm.records.policy import Allow, Deny, Rewrite, Verdict
from gitswarm.records.run_spec import ClaudeSettings
from gitswarm.specs.compile import Prompt
from tests.claude.runs import KEY, REAL_MODES
from tests.loopback.api import Asked, Reply, say, use
from tests.loopback.server import Loopback, serving
from tests.waiting import wait_until

MARK = "SWARM_TEST_SESSION"
HOUSE_RULE = "Every file ends with a poem."
HANDOFF: dict[str, JsonValue] = {"status": "VERIFIED", "summary": "both files are there"}


@dataclass
class Session:
    """One step by an engine, and all that it asked and told."""

    folder: Path
    engine: ClaudeEngine
    request: StepRequest
    asked: list[Asked]
    events: list[Event] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)
    result: StepResult | None = None

    def run(self) -> StepResult:
        self.result = self.engine.run(self.request, self.events.append)
        return self.result

    def file(self, name: str) -> str | None:
        path = self.request.worktree / name
        return path.read_text(encoding="utf-8") if path.exists() else None


def session(folder: Path, mode: str, loopback: Loopback, *sources: str) -> Session:
    """Ready to run; its model is behind the scenario that is named after the folder."""
    worktree, home = folder / "worktree", folder / "home"
    worktree.mkdir(parents=True)
    home.mkdir()
    (worktree / "CLAUDE.md").write_text(HOUSE_RULE, encoding="utf-8")
    url = loopback.play(folder.name, lambda _asked: say("?"))
    settings = ClaudeSettings.model_validate({"setting_sources": sources, "step_timeout": 60})
    transport = SdkTransport() if mode == "sdk" else CliTransport()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), MARK: uuid.uuid4().hex}
    access = EngineAccess({"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY})
    engine = ClaudeEngine(transport, ClaudeProfile("anthropic", settings, access), lambda: datetime.now(UTC))
    request = StepRequest(
        run_id="run",
        flow_key="f",
        step_id="s",
        iteration=1,
        execution=0,
        agent_key="maker",
        mode=mode,
        model="claude-sonnet-4-5",
        worktree=worktree,
        run_base=worktree / ".swarm/runs/run",
        prompt=Prompt("You make files.", "Make two files."),
        outputs=(),
        env=env,
        scratch=folder / "scratch",
        decide=lambda _tool, _given: Allow(),
        terms=SessionTerms(output_schema=Handoff.model_json_schema()),
    )
    return Session(folder, engine, request, loopback.asked)


def plays(made: Session, loopback: Loopback) -> None:
    """Three calls: the policy allows one, changes one and denies one. The handoff is right the second time."""

    def decide(tool: str, given: Mapping[str, JsonValue]) -> Verdict:
        command = str(given.get("command", ""))
        made.decided.append(f"{tool} {'late' if made.file('asked.txt') or made.file('denied.txt') else 'in time'}")
        if "denied" in command:
            return Deny("test", "not this one", "leave it")
        return Rewrite({**given, "command": "echo changed > changed.txt"}, "better so") if command else Allow()

    def answer(asked: Asked) -> Reply:
        if asked.wants_result:
            return use("StructuredOutput", **(HANDOFF if asked.answers else {"status": "DONE"}))
        if asked.turn == 0:
            return use("Write", file_path="made.txt", content="made\n")
        if asked.turn == 1:
            wait_until(lambda: EventKind.TOOL_END in kinds(made), "the first call is told while the session lasts")
            return use("Bash", command="echo asked > asked.txt")
        return use("Bash", command="echo no > denied.txt") if asked.turn == 2 else say("done")

    made.request = replace(made.request, decide=decide)
    loopback.models[made.folder.name] = answer


def kinds(made: Session) -> list[EventKind]:
    return [event.kind for event in made.events]


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module", params=REAL_MODES)
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, loopback: Loopback) -> Session:
    """A step that came to its end, with the project's own settings."""
    folder = tmp_path_factory.mktemp("sessions") / request.param
    made = session(folder, request.param, loopback, "project")
    plays(made, loopback)
    made.run()
    made.asked = loopback.of(folder.name)
    return made


def work(made: Session) -> list[Asked]:
    return [asked for asked in made.asked if not asked.wants_result]


def final(made: Session) -> list[Asked]:
    return [asked for asked in made.asked if asked.wants_result]


def test_session(done: Session) -> None:
    """A model works in it, in phases; the second goes on with the session of the first."""
    assert (len(work(done)), len(final(done))) == (4, 2)
    assert len({str(asked.body["metadata"]) for asked in done.asked}) == 1


def test_native_tools(done: Session) -> None:
    assert done.file("made.txt") == "made\n"


def test_output_format(done: Session) -> None:
    """What does not keep the schema is not taken: the model is asked again."""
    assert done.result is not None
    assert final(done)[1].answers[0]["is_error"]
    assert done.result.handoff == Handoff(status=Status.VERIFIED, summary="both files are there")


def test_hooks(done: Session) -> None:
    """Each call is asked about, before it is carried out."""
    assert done.decided == ["Write in time", "Bash in time", "Bash in time"]


def test_tool_observation(done: Session) -> None:
    assert done.result is not None
    assert [(call.tool, call.success, call.blocked) for call in done.result.tool_calls] == [
        ("Write", True, False),
        ("Bash", True, False),
        ("Bash", False, True),
    ]


def test_tool_interception(done: Session) -> None:
    assert [done.file(name) for name in ("asked.txt", "changed.txt", "denied.txt")] == [None, "changed\n", None]


def test_streaming(done: Session) -> None:
    """The model did not go on before the first call was told; it would have waited in vain."""
    assert kinds(done)[:2] == [EventKind.TOOL_START, EventKind.TOOL_END]
    assert kinds(done)[-1] is EventKind.MESSAGE


def test_hot_context(done: Session) -> None:
    """Who hands over remembers the work: its prompt, and what its tools said."""
    said = final(done)[0].said
    assert said[: len(work(done)[0].said)] == work(done)[0].said
    assert any("not this one" in text for text in said)


def test_project_context(done: Session, tmp_path: Path, loopback: Loopback) -> None:
    """The project's CLAUDE.md is read where that is configured, and nowhere else."""
    isolated = session(tmp_path / f"isolated-{done.engine.mode}", done.engine.mode, loopback)
    loopback.models[isolated.folder.name] = lambda asked: (
        use("StructuredOutput", **HANDOFF) if asked.wants_result else say("done")
    )

    isolated.run()

    without = loopback.of(isolated.folder.name)
    assert HOUSE_RULE in "\n".join(work(done)[0].said)
    assert without
    assert HOUSE_RULE not in "\n".join(text for asked in without for text in (*asked.said, asked.system))


@pytest.mark.parametrize("mode", REAL_MODES)
def test_interrupts(mode: str, tmp_path: Path, loopback: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of a call it ends, with what the call had started, and without a word on the terminal."""
    made = session(tmp_path / f"interrupted-{mode}", mode, loopback)
    loopback.models[made.folder.name] = lambda _asked: use("Bash", command="setsid sleep 300 & echo > on; sleep 300")

    def stop() -> None:
        wait_until(lambda: made.file("on"), "the call is at work")
        made.request.ended.set()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(StepEndedError):
        made.run()
    stopping.join()

    assert end_processes_with(MARK, made.request.env[MARK]) == 0
    assert caplog.records == []


def test_nothing_is_said_that_is_not_shown() -> None:
    said = {each.name for each in fields(CAPABILITIES) if getattr(CAPABILITIES, each.name) is True}
    assert {f"test_{name}" for name in said} <= set(globals())
    assert not CAPABILITIES.rewind
