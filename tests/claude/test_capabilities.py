"""What the engines are said to be capable of, shown by sessions of the real program."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from msgspec.structs import fields

from gitswarm.engines.base import StepEndedError
from gitswarm.engines.claude.claude_code import CAPABILITIES
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.safety import Allow, Deny, Rewrite, Verdict
from tests.claude.stage import TRANSPORTS, Given, Stage, Told, both, quick
from tests.loopback.api import ApiRequest, Reply, say, use
from tests.loopback.replies import always, bash, working
from tests.loopback.server import Loopback
from tests.waiting import wait_until

HOUSE_RULE = "Every file ends with a poem."
HANDOFF: dict[str, JsonValue] = {"status": "VERIFIED", "summary": "both files are there"}


@dataclass(frozen=True)
class Shown:
    """`decided`: what the policy was asked, and whether that was in time."""

    mode: str
    told: Told
    decided: list[str]


@pytest.fixture(scope="module", params=TRANSPORTS)
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, loopback: Loopback) -> Shown:
    """A step that came to its end, with the project's own settings. It makes three calls: the policy allows one,
    changes one and denies one. The handoff is right the second time."""
    stage = ruled(Stage.make(loopback, tmp_path_factory.mktemp("done")))
    decided: list[str] = []

    def decide(tool: str, given: Given) -> Verdict:
        command = str(given.get("command", ""))
        decided.append(f"{tool} {'late' if {'asked.txt', 'denied.txt'} & set(stage.files) else 'in time'}")
        if "denied" in command:
            return Deny("test", "not this one", "leave it")
        return Rewrite({**given, "command": "echo changed > changed.txt"}, "better so") if command else Allow()

    def answer(asked: ApiRequest) -> Reply:
        if asked.wants_result:
            return use("StructuredOutput", **(HANDOFF if asked.answers else {"status": "DONE"}))
        if asked.turn == 0:
            return use("Write", file_path="made.txt", content="made\n")
        if asked.turn == 1:
            wait_until(lambda: EventKind.TOOL_END in kinds(stage.events), "the first call is told meanwhile")
            return bash("echo asked > asked.txt")
        return bash("echo no > denied.txt") if asked.turn == 2 else say("done")

    told = stage.run(request.param, answer, decide=decide, profile=quick(setting_sources=("project",)))
    return Shown(request.param, told, decided)


def kinds(events: Sequence[Event]) -> list[EventKind]:
    return [event.kind for event in events]


def ruled(stage: Stage) -> Stage:
    (stage.worktree / "CLAUDE.md").write_text(HOUSE_RULE, encoding="utf-8")
    return stage


def test_session(done: Shown) -> None:
    """A model works in it and hands over, in one conversation with the same tools: caches are read again."""
    assert (len(done.told.at_work), len(done.told.at_the_end)) == (4, 2)
    assert len({(str(asked.body["metadata"]), asked.tools) for asked in done.told.asked}) == 1


def test_native_tools(done: Shown) -> None:
    assert done.told.files["made.txt"] == "made\n"


def test_output_format(done: Shown) -> None:
    """What does not keep the schema is not taken: the model is asked again."""
    assert done.told.at_the_end[1].answers[0]["is_error"]
    assert done.told.handoff == Handoff(status=Status.VERIFIED, summary="both files are there")


def test_hooks(done: Shown) -> None:
    """Each call is asked about, before it is carried out."""
    assert done.decided == ["Write in time", "Bash in time", "Bash in time"]


def test_tool_observation(done: Shown) -> None:
    assert [(call.tool_name, call.success, call.blocked) for call in done.told.calls] == [
        ("Write", True, False),
        ("Bash", True, False),
        ("Bash", False, True),
    ]


def test_tool_interception(done: Shown) -> None:
    assert done.told.files == {"CLAUDE.md": HOUSE_RULE, "changed.txt": "changed\n", "made.txt": "made\n"}


def test_streaming(done: Shown) -> None:
    """The model did not go on before the first call was told; it would have waited in vain."""
    told = [kind for kind in kinds(done.told.events) if kind is not EventKind.USAGE]
    assert told[:2] == [EventKind.TOOL_START, EventKind.TOOL_END]
    assert told[-1] is EventKind.MESSAGE


def test_hot_context(done: Shown) -> None:
    """Who hands over remembers the work: its prompt, and what its tools said."""
    said = done.told.at_the_end[0].said
    first = done.told.at_work[0].said
    assert said[: len(first)] == first
    assert any("not this one" in text for text in said)


def test_project_context(done: Shown, stage: Stage) -> None:
    """The project's CLAUDE.md is read where that is configured, and nowhere else."""
    isolated = ruled(stage).run(done.mode, working())
    assert HOUSE_RULE in "\n".join(done.told.at_work[0].said)
    assert isolated.asked
    assert HOUSE_RULE not in "\n".join(text for asked in isolated.asked for text in (*asked.said, asked.system))


@both
def test_interrupts(stage: Stage, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of a call that ignores SIGTERM it ends, with all that the call had started, and without a word on
    the terminal."""

    def stop() -> None:
        wait_until((stage.worktree / "up").exists, "the call is at work")
        stage.ended.set()

    stopping = threading.Thread(target=stop)
    stopping.start()
    stubborn = "trap '' TERM; setsid sleep 300 & touch up; while :; do sleep 0.1; done"
    with pytest.raises(StepEndedError):
        stage.run(mode, always(bash(stubborn)))
    stopping.join()
    assert stage.processes == []
    assert list((stage.folder / "scratch").iterdir()) == []
    assert caplog.records == []


def test_nothing_is_said_that_is_not_shown() -> None:
    said = {each.name for each in fields(CAPABILITIES) if getattr(CAPABILITIES, each.name) is True}
    assert {f"test_{name}" for name in said} <= set(globals())
    assert not CAPABILITIES.rewind
