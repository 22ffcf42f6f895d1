"""The routing note: what is written is read again, whatever stands in it, and it is fit for a terminal."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from gitswarm.ledger.routing_note import headline, is_garbled, parse, render
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
from tests.conftest import Project

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
    return DECISION.model_copy(
        update={
            "reason": reason,
            "from_step": draw(st.sampled_from([None, "critique_code"])),
            "to_step": draw(st.sampled_from([None, "implement", "a" * 64])),
            "explanation": Explanation(conditions=(trace,), eliminated=(gone,)),
        }
    )


def test_an_entry_is_a_readable_line_and_its_json_indented_below() -> None:
    assert render(DECISION).decode() == (
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


@pytest.mark.parametrize(
    ("from_step", "to_step", "line"),
    [
        (None, "implement", "1. start -> implement: loop (deterministic): loop_iteration:1"),
        ("finalize", None, "1. finalize -> end: loop (deterministic): loop_iteration:1"),
    ],
)
def test_the_readable_line_names_start_and_end(from_step: str | None, to_step: str | None, line: str) -> None:
    assert headline(DECISION.model_copy(update={"from_step": from_step, "to_step": to_step})) == line


@settings(deadline=None, max_examples=200, phases=PHASES)
@given(decisions())
@example(DECISION.model_copy(update={"reason": "two  spaces,   three, and a trailing one "}))
@example(DECISION.model_copy(update={"reason": "x" * 200}))
@example(DECISION.model_copy(update={"reason": "a line separator\u2028 and a next line\u0085 in the text"}))
def test_what_is_written_is_read_again(decision: Decision) -> None:
    assert parse(render(decision)) == [decision]


@settings(deadline=None, max_examples=60, phases=PHASES)
@given(st.lists(decisions(), max_size=4))
def test_a_note_of_many_decisions_is_read_in_their_order(taken: list[Decision]) -> None:
    assert parse(b"".join(render(decision) for decision in taken)) == taken


@settings(deadline=None, max_examples=60, phases=PHASES)
@given(decisions(), decisions())
def test_a_newer_decision_leaves_what_stands_there_as_it_is(first: Decision, second: Decision) -> None:
    note = render(first)
    assert (note + render(second)).startswith(note)


@settings(deadline=None, max_examples=200, phases=PHASES)
@given(decisions())
def test_no_line_is_wider_than_a_terminal_shows_in_git_log_but_for_long_words(decision: Decision) -> None:
    wide = [line for line in render(decision).decode().split("\n") if len(line) > WIDTH]
    assert [line for line in wide if " " in line.removeprefix("  ")] == []


def test_the_note_reads_the_same_through_git_notes_show(project: Project) -> None:
    awkward = DECISION.model_copy(update={"reason": "two  spaces and 日本語 " + "x" * 100})
    note = render(DECISION) + render(awkward)
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
    assert parse(b"") == []


@pytest.mark.parametrize("note", [b"1. a -> b: advance\n  {not json\n", b"1. a -> b\n  {}\n"])
def test_what_only_looks_like_an_entry_is_passed_over_and_told(note: bytes) -> None:
    whole = render(DECISION)
    assert (parse(note), parse(note + whole), is_garbled(note + whole), is_garbled(whole)) == (
        [],
        [DECISION],
        True,
        False,
    )


def test_a_line_that_a_person_added_is_passed_over() -> None:
    assert parse(b"seen by Ann\n\n" + render(DECISION) + b"\nok\n") == [DECISION]
