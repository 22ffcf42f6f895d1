"""The views of decisions as pure functions: long reasons, wide letters, long names, and what is rare in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gitswarm.cli.console import hanging, labelled, wrapped
from gitswarm.cli.decisions import decision_lines, entry_lines, target_text
from gitswarm.cli.graph_view import graph_lines
from gitswarm.cli.progress import notable_decision
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.reading import HistoryEntry, RunEnd
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.execution import Execution, Result, RunStatus, Status
from gitswarm.records.routing import Action, Decision, Superseded
from tests.cli.test_reading import columns

RUN = RunLayout("run-20260101-000000-abcdef")
LONG = "a_step_with_a_name_of_exactly_40_letters"
WIDE = "すべての挨拶を新しい関数に移し、テストを書き直して、文書も更新しました。次は批評家の番です。"
REASON = "the reason " * 40
BACK = {
    "decision": "advance",
    "flow": "line",
    "step": "b",
    "candidate_id": "advance:b",
    "reason": "the only next step",
}
TOP: dict[str, Any] = {"kind": "sidequest", "id": "look", "opened": 1, "flow": "line", "step": "a", "back": BACK}


def decision(action: str = "advance", to_step: str | None = "b", **more: Any) -> Decision:
    told: dict[str, Any] = {
        "decision": action,
        "to_step": to_step,
        "reason": "the only next step",
        "routing_source": "deterministic",
        "candidate_id": f"{action}:{to_step}",
        "candidates": [],
        "seq": 1,
        "ts": "2026-01-01T00:00:00.000Z",
        "flow_key": "line",
        "from_step": "a",
        "iteration": 1,
        "routing_mode": "assist",
    }
    return Decision.from_plain({**told, **more})


def record(number: int, step: str, **more: Any) -> StepRecord:
    told: dict[str, Any] = {
        "number": number,
        "commit": f"{number:040}",
        "tree": "t",
        "parent": "p",
        "execution": Execution(RUN.run_id, "line", step, more.pop("iteration", 1), more.pop("agent", "fixer")),
        "engine": "claude-step",
        "mode": "stub",
        "model": "none",
        "status": Status.VERIFIED,
        "result": Result.SUCCEEDED,
        "summary": "fine",
        "tokens": 0,
        "cost_usd": 0.0,
    }
    return StepRecord(**{**told, **more})


def graph(*entries: tuple[StepRecord | RunEnd, Decision | None], start: Decision | None = None) -> list[str]:
    """The drawing without its legend."""
    lines = graph_lines([HistoryEntry(*entry) for entry in entries], start)
    return lines[: lines.index("")]


def too_wide(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if columns(line) > 80]


# --- lines ------------------------------------------------------------------------------------------------------


def test_text_is_wrapped_at_words() -> None:
    assert wrapped("one two  three\nfour", 9) == ["one two", "three", "four"]


def test_a_word_that_is_too_long_is_broken() -> None:
    assert wrapped("go abcdefghij", 4) == ["go", "abcd", "efgh", "ij"]


def test_wide_letters_count_twice() -> None:
    assert wrapped("挨拶挨拶", 5) == ["挨拶", "挨拶"]


@pytest.mark.parametrize("text", ["", "  \n "])
def test_nothing_is_one_empty_line(text: str) -> None:
    assert wrapped(text, 10) == [""]


def test_further_lines_hang_below_the_first() -> None:
    assert hanging("say: ", "one two", 8) == ["say: one", "     two"]


def test_a_label_stands_once() -> None:
    assert labelled("events", "one", "two") == ["   events    one", "             two"]


# --- a decision -------------------------------------------------------------------------------------------------

FULL = decision(
    "detour",
    "sq-look-look",
    iteration=3,
    reason="look at it",
    elapsed_us=1_234_567,
    routing_source="navigator:detour",
    candidate_id="detour:look",
    candidates=[
        {"candidate_id": "advance:b", "action": "advance", "target": "b", "reason": "on", "is_default": True},
        {"candidate_id": "detour:look", "action": "detour", "reason": "look: why", "priority": 7},
    ],
    loop_state={"iteration": 2, "max_iterations": 3},
    explanation={
        "conditions": [
            {"expression": "evidence.tests.passed", "target": "b", "error": "no field 'passed'"},
            {"expression": "envelope.status", "target": "c", "value": "PARTIAL"},
            {"expression": "envelope.route", "target": "d", "value": None},
        ],
        "eliminated": [
            {"candidate_id": "advance:b", "reason": "the flow's default, but detour:look was taken: look at it"},
            {"candidate_id": "repeat:a", "reason": "not taken: look at it"},
            {"candidate_id": "detour:doctor", "reason": "used up: 3 of 3 in this run"},
        ],
        "stall": {"passes": 3, "window": 3, "signature": "failure:abc", "same_failure": True},
        "navigator": {"chosen": "detour:look", "reasoning": "look at it"},
    },
    stack=[{**TOP, "kind": "flow", "id": "tool", "step": None}, TOP],
    why_now={"trigger": "it broke", "relevance_to_charter": "it must not"},
    events=[
        {"kind": "stack_overflow_prevented", "payload": {"candidate_id": "detour:x", "depth": 10, "max_depth": 10}},
        {"kind": "routing_rejected", "payload": {"from": "envelope", "candidate_id": None, "problem": "no such way"}},
    ],
    supersedes={"commit": "c" * 40, "seq": 2},
)


def test_everything_of_a_decision_is_told() -> None:
    assert "\n".join(decision_lines(FULL)) == (
        "1. line/a@3 -> line/sq-look-look: detour\n"
        "   because   look at it\n"
        "   decided   navigator:detour, mode assist, in 1.2s\n"
        "   at        2026-01-01T00:00:00.000Z\n"
        "   options   > taken, * the default; priority, id, reason\n"
        "              *  50  advance:b    on\n"
        "             >    7  detour:look  look: why\n"
        "   not taken advance:b      the flow's default, but detour:look was taken\n"
        "             detour:doctor  used up: 3 of 3 in this run\n"
        "             repeat:a       another candidate was taken\n"
        "   if        evidence.tests.passed\n"
        "             cannot be evaluated: no field 'passed' (for b)\n"
        "             envelope.status\n"
        "             is PARTIAL (for c)\n"
        "             envelope.route\n"
        "             is null (for d)\n"
        "   loop      pass 2 of at most 3\n"
        "   stall     stalled: 3 passes in a row with the same failing tests, 3 are a\n"
        "             stall (failure:abc)\n"
        "   navigator chose detour:look\n"
        "   why now   trigger    it broke\n"
        "             relevance  it must not\n"
        "   within    2 interruptions open\n"
        "             1. flow tool, begun before line; returns to line/b\n"
        "             2. sidequest look, begun after line/a; returns to line/b\n"
        "   events    stack_overflow_prevented: candidate_id detour:x, depth 10,\n"
        "             max_depth 10\n"
        "             routing_rejected: from envelope, no candidate: no such way\n"
        "   replaces  decision 2 after cccccccccccc"
    )


def test_a_plain_decision_is_short() -> None:
    assert decision_lines(decision(from_step=None)) == [
        "1. start of line -> line/b: advance",
        "   because   the only next step",
        "   decided   deterministic, mode assist",
        "   at        2026-01-01T00:00:00.000Z",
    ]


def test_a_fork_and_its_join_are_told() -> None:
    fork = {"commit": "f" * 40, "targets": ["x", "y"], "pending": ["y"], "join": "z", "void": ["d" * 40]}
    met = {
        "strategy": "all_complete",
        "is_met": False,
        "reason": "y failed",
        "worst": "PARTIAL",
        "statuses": {"x": "VERIFIED", "y": "failed"},
    }
    assert decision_lines(decision("fork", "y", fork=fork, join=met))[4:] == [
        "   fork      x, y in parallel, then z",
        "             all of them start from ffffffffffff",
        "             still to come: y",
        "             undone: dddddddddddd",
        "   join      all_complete is not met: y failed",
        "             x VERIFIED, y failed; worst: PARTIAL",
    ]


@pytest.mark.parametrize(
    ("more", "to"),
    [
        ({"action": "terminate"}, "end: terminate"),
        ({"action": "terminate", "failed": True}, "end, as failed: terminate"),
        ({"action": "escalate"}, "a person: escalate"),
        ({"action": "advance", "to_step": "x", "to_flow": "other"}, "other/x: advance"),
    ],
)
def test_the_headline_says_where_it_leads(more: dict[str, Any], to: str) -> None:
    assert decision_lines(decision(**{"to_step": None, **more}))[0] == f"1. line/a -> {to}"


def test_an_entry_that_takes_decisions_back_is_told() -> None:
    void_commits = Superseded(
        seq=2, ts="2026-01-01T00:00:00.000Z", superseded_by="refs/swarm/x", reason="rollback to a"
    )
    assert entry_lines(void_commits) == [
        "2. undone, what is above: rollback to a",
        "   at        2026-01-01T00:00:00.000Z",
        "   kept in   refs/swarm/x",
    ]


def everywhere(text: str, name: str = "b") -> Decision:
    """A decision that says the same in every place."""
    candidates = [{"candidate_id": f"advance:{name}", "action": "advance", "target": name, "reason": text}]
    navigator = {"chosen": f"advance:{name}", "reasoning": f"{text}.", "problem": text}
    return decision(
        to_step=name,
        to_flow=name,
        from_step=name,
        reason=text,
        candidates=candidates,
        explanation={
            "conditions": [{"expression": text, "target": name, "error": text}],
            "eliminated": [{"candidate_id": f"detour:{name}", "reason": text}],
            "stall": {"passes": 1, "window": 3, "signature": text, "same_failure": False},
            "navigator": navigator,
        },
        stack=[{**TOP, "id": name, "flow": name, "back": {**BACK, "flow": name, "step": name}}],
        resume_at={**BACK, "flow": name, "step": name, "reason": text},
        why_now={"trigger": text, "relevance_to_charter": text, "alternatives_considered": [text]},
        skip_justification={
            "skip_reason": text,
            "why_not_needed_for_exit": text,
            "replacement_assurance": text,
        },
        proposal={
            "id": "p",
            "flow_key": name,
            "after_step": name,
            "nodes": [{"id": "x", "station": name, "objective": text}],
            "why_now": {"trigger": text, "relevance_to_charter": text},
            "reasoning": text,
        },
        fork={"targets": [name] * 5, "pending": [], "join": name},
        join={"strategy": "x", "is_met": True, "reason": text, "worst": "VERIFIED", "statuses": {name: text}},
        events=[{"kind": "node_injected", "payload": {"text": text, "list": [name, {"a": 1}], "yes": True}}],
    )


@pytest.mark.parametrize("text", [REASON, WIDE, "x" * 300, "two\nlines"], ids=["long", "wide", "word", "lines"])
@pytest.mark.parametrize("name", ["b", LONG])
def test_nothing_is_wider_than_80_columns(text: str, name: str) -> None:
    assert too_wide(decision_lines(everywhere(text, name))) == []


def test_nothing_is_cut_off() -> None:
    said = "".join("".join(line.split()) for line in decision_lines(everywhere(WIDE, LONG)))
    assert (said.count(WIDE), "…" in said) == (20, False)


# --- the graph --------------------------------------------------------------------------------------------------


def test_siblings_of_a_fork_stand_in_a_bracket() -> None:
    fork = {"commit": "f" * 40, "targets": ["x", "y", "z"], "pending": ["x", "y", "z"], "join": "join"}
    rest = decision("fork", "y", fork={**fork, "pending": ["y", "z"]})
    met = {"strategy": "all_complete", "is_met": True, "reason": "", "worst": "VERIFIED", "statuses": {}}
    drawn = graph(
        (record(1, "a"), decision("fork", "x", fork=fork, reason="three at once")),
        (record(2, "x", fork="f"), rest),
        (record(3, "y", fork="f", result=Result.FAILED), rest),
        (record(4, "z", fork="f"), decision(to_step="join", join=met, reason="all_complete is met")),
        (record(5, "join"), None),
    )
    assert drawn == [
        "── line ──",
        "●   1  a     VERIFIED  → x, y, z in parallel: three at once",
        "● ┌ 2  x     VERIFIED",
        "✗ │ 3  y     failed",
        "● └ 4  z     VERIFIED  → join: all_complete is met",
        "●   5  join  VERIFIED",
    ]


def test_a_sidequest_before_the_first_step_begins_below_the_flow() -> None:
    start = decision(
        "detour", "sq-env-doctor-look", from_step=None, stack=[{**TOP, "id": "env-doctor"}], reason="no git"
    )
    assert graph(
        (record(1, "sq-env-doctor-look", stack=("sidequest:env-doctor@0",)), decision(to_step="a")), start=start
    ) == [
        "── line ──",
        "○      start → sidequest env-doctor: no git",
        "├─┐    sidequest env-doctor",
        "│ ● 1  sq-env-doctor-look  VERIFIED",
    ]


def test_two_interruptions_that_end_together_have_a_line_each() -> None:
    stack = ("flow:tool@1", "sidequest:look@2")
    pops = [{"kind": "stack_pop", "payload": {"frame": token}} for token in stack]
    assert graph(
        (record(1, "x", stack=stack), decision(to_step="b", events=pops)),
        (record(2, "b"), None),
    ) == [
        "├─┐      injected flow tool",
        "│ ├─┐    sidequest look",
        "│ │ ● 1  x  VERIFIED",
        "│ ├─┘    sidequest look ended",
        "├─┘      injected flow tool ended, next: b",
        "── line ──",
        "●     2  b  VERIFIED",
    ]


def test_a_run_that_stops_inside_an_interruption_leaves_it_open() -> None:
    stack = ("sidequest:look@1",)
    inside = decision(to_step="y", stack=[TOP])
    assert graph(
        (record(1, "x", stack=stack), inside),
        (RunEnd("e", RunStatus.STOPPED, "by hand"), inside),
        (record(2, "y", stack=stack), None),
    ) == [
        "├─┐    sidequest look",
        "│ ● 1  x  VERIFIED",
        "│ ■    stopped: by hand",
        "│ ▶    resumed at y",
        "│ ● 2  y  VERIFIED",
    ]


def test_what_people_did_and_what_was_forked_off_has_signs() -> None:
    entries = [
        HistoryEntry(record(1, "a"), None),
        HistoryEntry(record(2, "adopt", agent="human"), None),
        HistoryEntry(record(3, "b", agent="human", result=Result.SKIPPED), None),
    ]
    assert graph_lines(entries, None, shared=1) == [
        "── line ──",
        "● 1  a      VERIFIED",
        "◇    forked here: the steps above are those of the original run",
        "◆ 2  adopt  VERIFIED",
        "◌ 3  b      skipped",
        "",
        "● a step   ◌ a step skipped by hand   ◆ done by a person",
        "◇ this run was forked here",
        "a decision in full: git swarm show NUMBER --routing",
    ]


def test_a_run_without_steps_can_be_drawn() -> None:
    assert graph_lines([], None) == ["", "a decision in full: git swarm show NUMBER --routing"]


@pytest.mark.parametrize("depth", [0, 1, 4, 10])
@pytest.mark.parametrize("reason", [REASON, WIDE], ids=["long", "wide"])
def test_the_graph_is_never_wider_than_80_columns(depth: int, reason: str) -> None:
    stack = tuple(f"sidequest:{LONG}@{number}" for number in range(depth))
    entries = [
        HistoryEntry(record(1, LONG, stack=stack, iteration=12), decision("loop", LONG, reason=reason, to_flow=LONG)),
        HistoryEntry(RunEnd("e", RunStatus.FAILED, reason), None),
        HistoryEntry(
            record(2, WIDE, stack=stack), decision("detour", LONG, reason=reason, stack=[{**TOP, "id": LONG}])
        ),
        HistoryEntry(record(3, "b"), decision("repeat", None, routing_source="navigator", reason=reason)),
    ]
    assert too_wide(graph_lines(entries, decision("detour", LONG, reason=reason))) == []


# --- progress ---------------------------------------------------------------------------------------------------

FORK = {"targets": ["x", "y"], "pending": ["x", "y"], "join": "z"}
NODES = {**TOP, "kind": "nodes", "nodes": [{"id": "probe", "station": "s", "objective": "o"}]}


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        (decision(), None),
        (decision("terminate", None), None),
        (decision("loop", "a", reason="loop_iteration:1"), "↺ back to a"),
        (decision("advance", "c", reason="max_iterations_reached:3"), "loop gave up after 3 of 3"),
        (decision("branch", "done", reason="it passed"), None),
        (decision("detour", "sq", stack=[TOP], reason="a\nstall"), "→ sidequest look: a stall"),
        (decision("inject_flow", "x", to_flow="tool", reason="r"), "→ flow tool: r"),
        (decision("inject_nodes", "node-probe", stack=[NODES], reason="r"), "→ new probe: r"),
        (decision("skip", "c", candidate_id="skip:b", reason="r"), "→ c without b: r"),
        (decision("fork", "x", fork=FORK, reason="r"), "→ x, y in parallel: r"),
        (decision("fork", "y", fork={**FORK, "pending": ["y"]}), None),
        (decision("pause", None, reason="which one?"), "pause: which one?"),
        (decision("escalate", None, reason="stuck"), "escalate: stuck"),
        (decision(to_flow="gate", reason="build is complete"), "→ gate/b: build is complete"),
    ],
    ids=lambda value: value.decision if isinstance(value, Decision) else None,
)
def test_progress_tells_of_what_is_not_the_next_step(decided: Decision, told: str | None) -> None:
    assert notable_decision(decided) == told


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("to_step", ["b", None])
def test_every_decision_has_a_text(action: Action, to_step: str | None) -> None:
    assert target_text(decision(action.value, to_step)) != ""
