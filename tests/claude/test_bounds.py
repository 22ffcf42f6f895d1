"""What is left of a handoff that says too much."""

from __future__ import annotations

from gitswarm.engines.handoff import bounded
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.specs.context import cut
from tests.claude.stage import SCHEMA, Stage, by, terms_of
from tests.loopback.api import say
from tests.loopback.replies import handed_over, working

LONG = "x" * 10_001


def test_a_long_summary_is_cut() -> None:
    kept, concerns = bounded({"summary": LONG})
    assert (kept, concerns) == ({"summary": cut(LONG, 10_000)}, ())


def test_a_handoff_within_its_bounds_is_as_it_was() -> None:
    said: dict[str, JsonValue] = {
        "status": "VERIFIED",
        "summary": LONG[1:],
        "concerns": ["x" * 2_000] * 100,
        "routing": None,
    }
    assert bounded(said) == (said, ())


def test_long_lists_and_long_items_are_cut() -> None:
    kept, concerns = bounded(
        {"concerns": [LONG] * 101, "file_changes": [{"path": LONG, "change": "added"}], "summary": "s"}
    )
    assert kept == {
        "concerns": [cut(LONG, 2_000)] * 100,
        "file_changes": [{"path": cut(LONG, 2_000), "change": "added"}],
        "summary": "s",
    }
    assert concerns == ("handoff field 'concerns' has 101 items, of which the first 100 are kept",)


def test_unknown_fields_are_dropped_and_told() -> None:
    assert bounded({"summary": "s", "mood": "good"}) == (
        {"summary": "s"},
        ("handoff field 'mood' is unknown and was dropped",),
    )


@by("cli")
def test_an_unknown_field_does_not_cost_the_handoff(stage: Stage, mode: str) -> None:
    closed = {**SCHEMA, "additionalProperties": False}
    final = handed_over(mood="good")
    told = stage.run(mode, working(say("done"), final=final), terms=terms_of(output_schema=closed))
    assert told.outcome == {"kind": "ok"}
    assert told.handoff is not None
    assert (told.handoff.status, told.handoff.summary) == (Status.VERIFIED, "did it")
    assert told.handoff.concerns == ("handoff field 'mood' is unknown and was dropped",)
    assert [asked.wants_result for asked in told.asked] == [False, True]
