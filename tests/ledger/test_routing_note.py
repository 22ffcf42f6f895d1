"""The routing note: what is written is read again, whatever stands in it, and it is fit for a terminal."""

from __future__ import annotations

import json
import subprocess

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gitswarm.ledger.reading import decision_line, is_corrupt, parse_note, render_entry
from gitswarm.records.routing import (
    Action,
    Candidate,
    ConditionTrace,
    Decision,
    Elimination,
    Explanation,
    LoopState,
    RoutingMode,
    RoutingSource,
    Supersedes,
)
from gitswarm.records.text import columns
from tests.conftest import Project
from tests.tables import table

WIDTH = 76
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]  # explaining costs ten seconds

DECISION = Decision(
    decision=Action.LOOP,
    to_step="implement",
    reason="loop_iteration:1",
    routing_source=RoutingSource.DETERMINISTIC,
    candidate_id="loop:implement:iter_2",
    candidates=(
        Candidate(
            candidate_id="loop:implement:iter_2",
            action=Action.LOOP,
            target="implement",
            reason="loop_iteration:1",
            priority=90,
            evidence_pointers=("envelope.status",),
            is_default=True,
        ),
    ),
    loop_state=LoopState(iteration=1, max_iterations=4),
    explanation=Explanation(
        conditions=(ConditionTrace(expression="true", target="x", value=True),),
        eliminated=(Elimination(candidate_id="advance:test", reason="not taken"),),
    ),
    seq=1,
    ts="2026-01-01T00:00:00.000Z",
    flow_key="build",
    from_step="critique_code",
    iteration=1,
    routing_mode=RoutingMode.ASSIST,
    supersedes=Supersedes(commit="0" * 40, seq=2),
)

TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(alphabet=' ab\n\t"\\\u2028\u0085\u00e9日', max_size=120),
    st.lists(st.sampled_from(["word", "", "a", "x" * 90, "日本語" * 20, "{", '"'])).map(" ".join),
)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    reason = draw(TEXTS)
    trace = ConditionTrace(expression=draw(TEXTS), target="done", value=draw(TEXTS), error=draw(TEXTS))
    gone = Elimination(candidate_id="terminate", reason=draw(TEXTS))
    return replace(
        DECISION,
        reason=reason,
        from_step=draw(st.sampled_from([None, "critique_code"])),
        to_step=draw(st.sampled_from([None, "implement", "a" * 64])),
        explanation=Explanation(conditions=(trace,), eliminated=(gone,)),
    )


def test_an_entry_is_a_readable_line_and_its_json_indented_below() -> None:
    assert render_entry(DECISION).decode() == (
        "1. critique_code -> implement: loop (deterministic): loop_iteration:1\n"
        '  {"decision": "loop", "to_step": "implement", "reason": "loop_iteration:1",\n'
        '  "routing_source": "deterministic", "candidate_id":\n'
        '  "loop:implement:iter_2", "candidates": [{"candidate_id":\n'
        '  "loop:implement:iter_2", "action": "loop", "target": "implement",\n'
        '  "reason": "loop_iteration:1", "priority": 90, "source": "graph_edge",\n'
        '  "evidence_pointers": ["envelope.status"], "is_default": true}],\n'
        '  "loop_state": {"iteration": 1, "max_iterations": 4}, "explanation":\n'
        '  {"conditions": [{"expression": "true", "target": "x", "value": true,\n'
        '  "error": null}], "eliminated": [{"candidate_id": "advance:test", "reason":\n'
        '  "not taken"}]}, "seq": 1, "ts": "2026-01-01T00:00:00.000Z", "flow_key":\n'
        '  "build", "from_step": "critique_code", "iteration": 1, "routing_mode":\n'
        '  "assist", "supersedes": {"commit":\n'
        '  "0000000000000000000000000000000000000000", "seq": 2}}\n'
    )


@table(
    ("from_step", "to_step", "line"),
    [
        (None, "implement", "1. start -> implement: loop (deterministic): loop_iteration:1"),
        ("finalize", None, "1. finalize -> end: loop (deterministic): loop_iteration:1"),
    ],
)
def test_the_readable_line_names_start_and_end(from_step: str | None, to_step: str | None, line: str) -> None:
    assert decision_line(replace(DECISION, from_step=from_step, to_step=to_step)) == line


@settings(deadline=None, max_examples=200, phases=PHASES)
@given(decisions())
@example(replace(DECISION, reason="two  spaces,   three, and a trailing one "))
@example(replace(DECISION, reason="x" * 200))
@example(replace(DECISION, reason="a line separator\u2028 and a next line\u0085 in the text"))
def test_what_is_written_is_read_again(decision: Decision) -> None:
    assert parse_note(render_entry(decision)) == [decision]


@settings(deadline=None, max_examples=60, phases=PHASES)
@given(st.lists(decisions(), max_size=4))
def test_a_note_of_many_decisions_is_read_in_their_order(taken: list[Decision]) -> None:
    assert parse_note(b"".join(render_entry(decision) for decision in taken)) == taken


@settings(deadline=None, max_examples=60, phases=PHASES)
@given(decisions(), decisions())
def test_a_newer_decision_leaves_what_stands_there_as_it_is(first: Decision, second: Decision) -> None:
    note = render_entry(first)
    assert (note + render_entry(second)).startswith(note)


@settings(deadline=None, max_examples=200, phases=PHASES)
@given(decisions())
@example(replace(DECISION, reason="0" * 37 + "\N{SINHALA SIGN AL-LAKUNA}"))
def test_no_line_is_wider_than_a_terminal_shows_in_git_log_but_for_long_words(decision: Decision) -> None:
    wide = [line for line in render_entry(decision).decode().split("\n") if min(len(line), columns(line)) > WIDTH]
    assert [line for line in wide if " " in line.removeprefix("  ")] == []


def test_the_note_reads_the_same_through_git_notes_show(project: Project) -> None:
    awkward = replace(DECISION, reason="two  spaces and 日本語 " + "x" * 100)
    note = render_entry(DECISION) + render_entry(awkward)
    blob = _stored(project, note)
    project.git("notes", "add", "-C", blob, "HEAD")
    assert project.git("notes", "show", "HEAD") == note.decode().rstrip("\n")


def _stored(project: Project, content: bytes) -> str:
    argv = ["git", "hash-object", "-w", "--stdin"]
    done = subprocess.run(
        argv, cwd=project.root, env=dict(project.env), input=content, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_an_empty_note_has_no_decisions() -> None:
    assert parse_note(b"") == []


@table("note", [b"1. a -> b: advance\n  {not json\n", b"1. a -> b\n  {}\n"])
def test_what_only_looks_like_an_entry_is_passed_over_and_told(note: bytes) -> None:
    whole = render_entry(DECISION)
    assert (parse_note(note), parse_note(note + whole), is_corrupt(note + whole), is_corrupt(whole)) == (
        [],
        [DECISION],
        True,
        False,
    )


def test_a_line_that_a_person_added_is_passed_over() -> None:
    assert parse_note(b"seen by Ann\n\n" + render_entry(DECISION) + b"\nok\n") == [DECISION]


STORED = """\
1. a -> sq-look-one: detour (navigator:detour): the map is old
  {"decision": "detour", "to_step": "sq-look-one", "reason": "the map is
  old", "routing_source": "navigator:detour", "candidate_id": "detour:look",
  "candidates": [{"candidate_id": "detour:look", "action": "detour",
  "target": "sq-look-one", "reason": "look: a is PARTIAL", "priority": 50,
  "source": "detour_catalog", "evidence_pointers": [], "is_default": false},
  {"candidate_id": "advance:g/x", "action": "advance", "target": "x",
  "flow": "g", "reason": "f is complete", "priority": 80, "source": "macro",
  "evidence_pointers": [], "is_default": true}], "loop_state": null,
  "explanation": {"conditions": [], "eliminated": [], "stall": {"passes": 3,
  "window": 3, "signature": "work:1", "same_failure": false}, "navigator":
  {"chosen": "detour:look", "reasoning": "the map is old", "problem": null,
  "tokens": 7, "cost_usd": null}}, "to_flow": "g", "stack": [{"kind":
  "sidequest", "id": "look", "opened": 1, "flow": "f", "step": "a", "back":
  {"decision": "fork", "flow": "f", "step": "x", "candidate_id": "fork:x+y",
  "reason": "side by side", "fork": {"commit": null, "targets": ["x", "y"],
  "pending": ["x", "y"], "join": "b", "void": []}, "failed": false},
  "nodes": []}], "resume_at": {"decision": "terminate", "flow": "f", "step":
  null, "candidate_id": "terminate", "reason": "a failed", "fork": null,
  "failed": true}, "why_now": {"trigger": "t", "relevance_to_charter": "r",
  "analysis": "", "alternatives_considered": [], "expected_outcome": ""},
  "skip_justification": {"skip_reason": "s", "why_not_needed_for_exit": "w",
  "replacement_assurance": "r"}, "fork": {"commit": "c", "targets": ["x",
  "y"], "pending": ["y"], "join": "b", "void": ["v"]}, "join": {"strategy":
  "all_complete", "is_met": true, "reason": "2 of 2 complete", "worst":
  "PARTIAL", "statuses": {"x": "VERIFIED", "y": "PARTIAL"}}, "proposal":
  {"id": "a-1", "flow_key": "f", "after_step": "a", "nodes": [{"id": "n",
  "station": "s", "objective": "o"}], "why_now": {"trigger": "t",
  "relevance_to_charter": "r", "analysis": "", "alternatives_considered":
  [], "expected_outcome": ""}, "reasoning": ""}, "failed": true, "events":
  [{"kind": "stack_push", "payload": {"frame": "sidequest:look@1", "depth":
  1}}], "seq": 1, "ts": "2026-01-01T00:00:00.000Z", "flow_key": "f",
  "from_step": "a", "iteration": 1, "routing_mode": "authoritative",
  "supersedes": null, "elapsed_us": 12}
"""
AUDIT_EVENT = (
    '{"from_step": "a", "to_step": "sq-look-one", "reason": "the map is old", "loop_state": null, '
    '"routing_source": "navigator:detour", "decision": "detour", "candidate_id": "detour:look", "to_flow": "g", '
    '"stack": [{"kind": "sidequest", "id": "look", "opened": 1, "flow": "f", "step": "a", "back": '
    '{"decision": "fork", "flow": "f", "step": "x", "candidate_id": "fork:x+y", "reason": "side by side", "fork": '
    '{"commit": null, "targets": ["x", "y"], "pending": ["x", "y"], "join": "b", "void": []}, "failed": false}, '
    '"nodes": []}], "fork": {"commit": "c", "targets": ["x", "y"], "pending": ["y"], "join": "b", "void": ["v"]}}'
)


def test_a_stored_entry_is_read_and_written_again_byte_for_byte() -> None:
    (decision,) = parse_note(STORED.encode())
    assert render_entry(decision).decode() == STORED


def test_the_audit_event_of_a_decision_has_the_part_that_says_where_it_leads() -> None:
    (decision,) = parse_note(STORED.encode())
    assert isinstance(decision, Decision)
    assert json.dumps(decision.audit_fields()) == AUDIT_EVENT
