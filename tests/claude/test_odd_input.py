"""Tool calls as no model should make them, and a listener that breaks: the step goes on, or says how far it came."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gitswarm.engines.base import StepEndedError, StepRequest
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.messages import ToolStart
from gitswarm.engines.handoff import as_input, encodable
from gitswarm.errors import StorageError
from gitswarm.records.event import Event, EventKind, Message, ToolResult, ToolUse
from gitswarm.records.execution import Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome
from tests.claude.stage import Stage, by, engine_of, quick, request_for
from tests.loopback.api import Reply, Use, say
from tests.loopback.replies import WORK, working

NOTE = "[… nested more than 50 levels deep …]"


INPUTS: list[dict[str, JsonValue]] = [{"input": ["ls"]}, {"input": "ls"}, {"input": 7}, {}]
"""Of null the CLI itself makes an empty object."""


def nested(levels: int, bottom: JsonValue = "bottom") -> JsonValue:
    value = bottom
    for _ in range(levels):
        value = [value]
    return value


@by("sdk")
def test_malformed_input_of_a_tool_call_is_recorded_and_the_step_goes_on(stage: Stage, mode: str) -> None:
    deep = nested(500)
    odd = Reply(
        (
            Use("Bash", ["ls"]),
            Use("Bash", "ls"),
            Use("Bash", 7),
            Use("Bash", None),
            Use("Read", {"file_path": "a.txt", "deep": deep}),
        )
    )

    told = stage.run(mode, working(odd, WORK, say("done")))

    assert told.outcome == {"kind": "ok"}
    assert told.files == {"a.txt": "hi\n"}
    *first, read, work = told.result.tool_calls
    assert [call.input for call in first] == INPUTS
    assert [call.success for call in told.result.tool_calls] == [False] * 5 + [True]
    assert read.input == {"file_path": "a.txt", "deep": nested(49, NOTE)}
    assert work.input == {"command": "echo hi >> a.txt"}


@pytest.mark.parametrize("value", [["ls"], "ls", 7, True, None])
def test_what_is_no_object_stands_under_input(value: JsonValue) -> None:
    assert as_input(value) == {"input": value}


def test_what_is_nested_too_deeply_is_cut_to_a_note() -> None:
    kept = encodable(ToolStart("t1", "Bash", {"a": nested(49), "b": nested(50)}))
    assert kept == ToolStart("t1", "Bash", {"a": nested(49), "b": nested(49, NOTE)})


@dataclass(slots=True)
class Breaking:
    """An emit that raises once, at the first event of a kind behind which a call has ended."""

    kind: EventKind
    error: Exception
    events: list[Event] = field(default_factory=list)
    has_raised: bool = False

    def __call__(self, event: Event) -> None:
        if event.kind is self.kind and not self.has_raised:
            self.has_raised = True
            raise self.error
        self.events.append(event)


def engine_and_request(stage: Stage, mode: str) -> tuple[ClaudeEngine, StepRequest]:
    stage.play(working(WORK, say("done")))
    return engine_of(mode, quick()), request_for(stage.folder, stage.env, mode=mode)


@by("cli")
@pytest.mark.parametrize("kind", [EventKind.TOOL_START, EventKind.TOOL_END])
def test_a_step_that_breaks_keeps_what_was_recorded(stage: Stage, mode: str, kind: EventKind) -> None:
    engine, request = engine_and_request(stage, mode)

    result = engine.run(request, Breaking(kind, ValueError("too odd")))

    assert (result.status, result.error) == (Result.FAILED, "claude: ValueError: too odd")
    assert result.outcome == EngineOutcome(kind="killed", detail="ValueError: too odd")
    assert result.cost_usd is None
    assert [call.input for call in result.tool_calls] == [{"command": "echo hi >> a.txt"}]
    assert result.tool_calls[0].success == (kind is EventKind.TOOL_END)
    assert [type(line) for line in result.transcript] == [Message, Message, Message, ToolUse, ToolResult]


@pytest.mark.parametrize("error", [StepEndedError(), StorageError("no room")])
def test_what_concerns_the_owner_passes_through(stage: Stage, error: Exception) -> None:
    engine, request = engine_and_request(stage, "cli")
    with pytest.raises(type(error)):
        engine.run(request, Breaking(EventKind.TOOL_START, error))
