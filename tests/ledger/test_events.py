"""Which events there may be, and the order they come in."""

from __future__ import annotations

from msgspec.structs import replace

from gitswarm.ledger.journal import current, payload_problems, read_lines
from gitswarm.records.event import Event, EventKind, LoggedEvent
from gitswarm.records.json_value import JsonValue
from tests.event_order import order_problems
from tests.tables import table

REQUIRED: dict[str, list[str]] = {
    "run_created": ["flows", "backend", "initiator", "stepwise"],
    "run_started": ["mode", "routing_enabled"],
    "run_completed": ["status", "error", "steps_completed", "total_steps_executed"],
    "step_start": ["role", "agents", "step_index", "engine"],
    "step_end": ["status", "duration_ms", "engine"],
    "step_error": ["status", "duration_ms", "error", "engine"],
    "tool_start": ["tool", "input"],
    "tool_end": ["tool", "success", "output"],
    "route_decision": ["from_step", "to_step", "reason", "loop_state", "routing_source"],
}


@table("kind", REQUIRED)
def test_every_field_of_seed_000_is_required(kind: str) -> None:
    assert payload_problems(Event(EventKind(kind), {})) == [f"{kind}: '{key}' is missing" for key in REQUIRED[kind]]


@table("kind", REQUIRED)
def test_a_payload_with_every_field_has_no_problem_though_one_is_null(kind: str) -> None:
    payload: dict[str, JsonValue] = dict.fromkeys(REQUIRED[kind])
    assert payload_problems(Event(EventKind(kind), {**payload, "more": 1})) == []


@table("kind", list(EventKind))
def test_every_kind_has_a_rule(kind: EventKind) -> None:
    assert all(problem.startswith(f"{kind}: ") for problem in payload_problems(Event(kind, {})))


def stream(text: str) -> list[LoggedEvent]:
    """`run_created run_started step_start:a@1 …` as events."""
    found = []
    for seq, word in enumerate(text.split(), start=1):
        kind, _, step = word.partition(":")
        name, _, iteration = step.partition("@")
        found.append(
            LoggedEvent(
                run_id="run-20260101-000000-abcdef",
                seq=seq,
                ts="2026-01-01T00:00:00.000Z",
                kind=EventKind(kind),
                flow_key="build" if name else None,
                step_id=name or None,
                iteration=int(iteration) if iteration else None,
                payload={},
            )
        )
    return found


STEP = "step_start:a@1 step_end:a@1"


@table(
    "text",
    [
        f"run_created run_started {STEP} run_completed",
        "run_created run_started step_start:a@1 step_error:a@1 run_completed",
        f"run_created run_started {STEP} step_start:a@2 step_end:a@2 run_paused",
        f"run_created run_started {STEP} run_stopped",
        "run_created run_started step_start:a@1 tool_start:a@1 tool_end:a@1 step_end:a@1 run_completed",
        "run_created run_started run_completed",
        f"run_created run_started {STEP}",
    ],
)
def test_a_sound_stream_has_no_problem(text: str) -> None:
    assert list(order_problems(stream(text))) == []


@table(
    ("text", "problems"),
    [
        ("", ["run_created is not first", "run_started is missing"]),
        ("run_started run_created run_completed", ["run_created is not first"]),
        ("run_created run_completed", ["run_started is missing"]),
        (f"run_created {STEP} run_started run_completed", ["a step starts before run_started"]),
        ("run_created run_started step_end:a@1", ["build/a@1 ends without a start"]),
        ("run_created run_started step_start:a@1", ["build/a@1 starts and does not end"]),
        (f"run_created run_started {STEP} {STEP}", ["build/a@1 starts twice"]),
        (f"run_created run_started {STEP} step_error:a@1", ["build/a@1 ends without a start"]),
        (f"run_created run_started run_completed {STEP}", ["run_completed is not last"]),
        (f"run_created run_started {STEP} run_paused run_completed", ["run_paused is not last"]),
    ],
)
def test_a_breach_of_the_order_is_named(text: str, problems: list[str]) -> None:
    assert list(order_problems(stream(text))) == problems


@table(
    ("text", "kept"),
    [
        ("run_created run_completed", "run_created run_completed"),
        (
            "run_created run_completed run_resumed run_completed",
            "run_created run_resumed run_completed",
        ),
        (
            "run_created run_paused run_resumed run_stopped run_resumed run_completed",
            "run_created run_resumed run_resumed run_completed",
        ),
        ("run_created run_completed run_resumed step_start:a@2", "run_created run_resumed step_start:a@2"),
        ("run_created", "run_created"),
        ("", ""),
    ],
)
def test_of_several_ends_only_the_last_one_is_shown(text: str, kept: str) -> None:
    assert [event.kind.value for event in current(stream(text))] == [word.split(":")[0] for word in kept.split()]


def test_lines_are_read_in_order() -> None:
    events = stream(f"run_created run_started {STEP}")
    assert read_lines(b"".join(event.to_line() for event in events)) == events


def test_a_torn_last_line_is_passed_over() -> None:
    first, second = stream("run_created run_started")
    assert read_lines(first.to_line() + second.to_line()[:-12]) == [first]


@table("line", [b"", b"{}", b"null", b"garbled", b"\xff\xfe", b'{"run_id": "x"}'])
def test_a_line_that_is_no_event_is_passed_over(line: bytes) -> None:
    (event,) = stream("run_created")
    assert read_lines(line + b"\n" + event.to_line()) == [event]


def test_text_with_odd_line_separators_stays_one_line() -> None:
    (event,) = stream("run_created")
    odd = replace(event, payload={"message": "a\nb\rc\u2028d\u0085e\x0bf"})
    assert read_lines(odd.to_line()) == [odd]
