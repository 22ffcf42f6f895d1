"""Somebody rewrites what a run stores: what contradicts the rest is found, and relative to
a trusted tip everything."""

from __future__ import annotations

import random

import pytest

from tests.verify.forging import Edit, Forged, Run, only

WRITE, CRITIQUE = "small/write@1", "small/critique@1"
RECEIPT = "small/receipts/write-code-implementer.json"
ENVELOPE = "small/handoff/write.json"
EVIDENCE = "small/evidence/write.json"
TRANSCRIPT = "small/llm/write-code-implementer-claude.jsonl"
EVENTS = "small/events/write@1.jsonl"


def changed(path: str, old: str, new: str, name: str = WRITE) -> Edit:
    return only(name, lambda forged: forged.change(path, old.encode(), new.encode()))


def said(old: str, new: str, name: str = WRITE) -> Edit:
    """Another message."""
    return only(name, lambda forged: forged.say(old, new))


def put(path: str, content: bytes | None, name: str = WRITE) -> Edit:
    return only(name, lambda forged: forged.files.__setitem__(path, content))


def drop(path: str, number: int, name: str = WRITE) -> Edit:
    """Without a line."""

    def edit(forged: Forged) -> None:
        lines = (forged.files[path] or b"").splitlines(keepends=True)
        del lines[number]
        forged.files[path] = b"".join(lines)

    return only(name, edit)


def swap(path: str, one: int, other: int, name: str = WRITE) -> Edit:
    """With two lines in each other's place."""

    def edit(forged: Forged) -> None:
        lines = (forged.files[path] or b"").splitlines(keepends=True)
        lines[one], lines[other] = lines[other], lines[one]
        forged.files[path] = b"".join(lines)

    return only(name, edit)


CONTRADICTIONS: dict[str, tuple[Edit, list[str]]] = {
    "receipt: a field": (
        changed(RECEIPT, '"total": 12', '"total": 13'),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Tokens says 12, the file says 13",
            f"small/write@1 events {EVENTS}: step_end says tokens 12, the files say 13",
        ],
    ),
    "receipt: engine": (
        changed(RECEIPT, '"mode": "stub"', '"mode": "cli"'),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Engine says claude-step/stub, the file says claude-step/cli",
            f"small/write@1 events {EVENTS}: step_start says mode stub, the files say cli",
        ],
    ),
    "receipt: status": (
        changed(RECEIPT, '"succeeded"', '"failed"'),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Result says succeeded, the file says failed",
        ],
    ),
    "receipt: another run": (
        changed(RECEIPT, '"run_id": "run-2', '"run_id": "run-3'),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Run says RUN, the file says OTHER",
        ],
    ),
    "receipt: commit_before": (
        changed(RECEIPT, '"commit_before": "', '"commit_before": "0'),
        [
            f"small/write@1 trailers {RECEIPT}: commit_before is ID, the step started from ID",
            f"small/write@1 events {EVENTS}: step_start says commit_before ID, the files say ID",
        ],
    ),
    "receipt: transcript": (
        changed(RECEIPT, "llm/write", "llm/wrote"),
        [
            f"small/write@1 trailers {RECEIPT}: transcript_path is llm/wrote-code-implementer-claude.jsonl",
        ],
    ),
    "receipt: station": (
        changed(RECEIPT, '"station": "code-implementer"', '"station": "code-critic"'),
        [
            f"small/write@1 trailers {RECEIPT}: the flow has code-implementer for this step, not code-critic",
        ],
    ),
    "receipt: a field more": (
        changed(RECEIPT, "{\n", '{\n  "note": 1,\n'),
        [
            f"small/write@1 schemas {RECEIPT}: note: Extra inputs are not permitted",
        ],
    ),
    "receipt: no JSON": (
        put(RECEIPT, b'{"engine": '),
        [
            f"small/write@1 schemas {RECEIPT}: it is no JSON",
        ],
    ),
    "receipt: not UTF-8": (
        put(RECEIPT, b'{"engine": "\xff"}'),
        [
            f"small/write@1 schemas {RECEIPT}: it is no JSON",
        ],
    ),
    "receipt: a list nested too deeply": (
        put(RECEIPT, b"[" * 100000),
        [
            f"small/write@1 schemas {RECEIPT}: it is no JSON",
        ],
    ),
    "receipt: removed": (
        put(RECEIPT, None),
        [
            f"small/write@1 schemas {RECEIPT}: is missing",
        ],
    ),
    "envelope: status": (
        changed(ENVELOPE, '"VERIFIED"', '"PARTIAL"'),
        [
            f"small/write@1 trailers {ENVELOPE}: Swarm-Status says VERIFIED, the file says PARTIAL",
            f"small/write@1 events {EVENTS}: step_end says handoff_status VERIFIED, the files say PARTIAL",
        ],
    ),
    "envelope: summary": (
        changed(ENVELOPE, "first", "thirst"),
        [
            f"small/write@1 trailers {ENVELOPE}: the message is not the summary of the envelope",
        ],
    ),
    "envelope: iteration": (
        changed(ENVELOPE, '"iteration": 1', '"iteration": 2'),
        [
            f"small/write@1 trailers {ENVELOPE}: Swarm-Iteration says 1, the file says 2",
        ],
    ),
    "envelope: removed": (
        put(ENVELOPE, None),
        [
            f"small/write@1 schemas {ENVELOPE}: is missing",
        ],
    ),
    "evidence: a file less": (
        changed(EVIDENCE, '"path": "a.txt"', '"path": "b.txt"'),
        [
            "small/write@1 paths a.txt: the evidence does not say that it changed",
            "small/write@1 paths b.txt: the evidence says that it changed",
        ],
    ),
    "evidence: a line more": (
        changed(EVIDENCE, '"insertions": 1,\n    "deletions": 0\n  }', '"insertions": 2,\n    "deletions": 0\n  }'),
        [
            f"small/write@1 events {EVENTS}: file_changes says insertions 1, the files say 2",
        ],
    ),
    "evidence: garbled": (
        changed(EVIDENCE, '"diff"', '"dif"'),
        [
            "small/write@1 schemas small/evidence/write.json: dif: unknown key (did you mean 'diff'?)",
        ],
    ),
    "transcript: no JSON": (
        put(TRANSCRIPT, b"hello\n"),
        [
            f"small/write@1 schemas {TRANSCRIPT}: line 1: it is no JSON",
        ],
    ),
    "transcript: torn": (
        put(TRANSCRIPT, b'{"timestamp": "x", "role": "user", "content": "x"}'),
        [
            f"small/write@1 schemas {TRANSCRIPT}: its last line is incomplete",
        ],
    ),
    "transcript: removed": (
        put(TRANSCRIPT, None),
        [
            f"small/write@1 schemas {TRANSCRIPT}: is missing",
        ],
    ),
    "events: the first line dropped": (
        drop(EVENTS, 0),
        [
            f"small/write@1 events {EVENTS}: Swarm-Seq says 10, the file has 9 lines",
            f"small/write@1 events {EVENTS}: seq does not count from 1 without gaps",
            f"small/write@1 events {EVENTS}: does not begin with the decision that led there",
        ],
    ),
    "events: the last line dropped": (
        drop(EVENTS, -1),
        [
            f"small/write@1 events {EVENTS}: Swarm-Seq says 10, the file has 9 lines",
            f"small/write@1 events {EVENTS}: the step starts 1 times and ends 0 times, last is file_changes",
        ],
    ),
    "events: two lines swapped": (
        swap(EVENTS, 1, 2),
        [
            f"small/write@1 events {EVENTS}: seq does not count from 1 without gaps",
        ],
    ),
    "events: a decision changed": (
        changed(EVENTS, '"reason":"', '"reason":"not '),
        [
            f"small/write@1 events {EVENTS}: the decision that led there is not the one in the routing note",
        ],
    ),
    "events: another step": (
        changed(EVENTS, '"step_id":"write"', '"step_id":"wrote"'),
        [
            f"small/write@1 events {EVENTS}: line 1 is of small/wrote@1 by code-implementer",
        ],
    ),
    "events: a payload key gone": (
        changed(EVENTS, '"insertions"', '"inserted"'),
        [
            f"small/write@1 schemas {EVENTS}: line 9: file_changes: 'insertions' is missing",
            f"small/write@1 events {EVENTS}: file_changes says insertions None, the files say 1",
        ],
    ),
    "events: a kind": (
        changed(EVENTS, '"kind":"step_end"', '"kind":"run_paused"'),
        [
            f"small/write@1 schemas {EVENTS}: line 10: run_paused: 'reason' is missing",
            f"small/write@1 events {EVENTS}: has an event of the run as a whole",
            f"small/write@1 events {EVENTS}: the step starts 1 times and ends 0 times, last is run_paused",
        ],
    ),
    "events: an end that is announced in a step": (
        changed(EVENTS, '"kind":"step_start"', '"kind":"run_pausing"'),
        [
            f"small/write@1 schemas {EVENTS}: line 2: run_pausing: 'reason' is missing",
            f"small/write@1 events {EVENTS}: has an event of the run as a whole",
            f"small/write@1 events {EVENTS}: the step starts 0 times and ends 1 times, last is step_end",
        ],
    ),
    "events: a reason for the status": (
        changed(EVENTS, '"handoff_status"', '"status_reason":"made up","handoff_status"'),
        [
            f"small/write@1 events {EVENTS}: step_end says status_reason made up, the files say None",
        ],
    ),
    "events: torn": (
        changed(EVENTS, "}\n", '}\n{"run_id"'),
        [
            f"small/write@1 schemas {EVENTS}: line 2: it is no JSON",
        ],
    ),
    "events: a duration": (
        changed(EVENTS, '"duration_ms":', '"duration_ms":1'),
        [
            f"small/write@1 events {EVENTS}: step_end says duration_ms",
        ],
    ),
    "events: emptied": (
        put(EVENTS, b""),
        [
            f"small/write@1 schemas {EVENTS}: is empty",
            f"small/write@1 events {EVENTS}: Swarm-Seq says 10, the file has 0 lines",
        ],
    ),
    "spec: base": (
        changed("spec.json", '"base": "', '"base": "0', "run"),
        [
            "run trailers spec.json: base is ID, the run branches off ID",
        ],
    ),
    "spec: another flow": (
        changed("spec.json", '"small"', '"smell"', "run"),
        [
            "run schemas specs: no frozen flow smell",
            "run events events/run.jsonl: run_created has other flows, or another initiator, than spec.json",
        ],
    ),
    "spec: garbled": (
        changed("spec.json", '"flows"', '"flaws"', "run"),
        [
            "run schemas spec.json: flaws: unknown key (did you mean 'flows'?)",
        ],
    ),
    "frozen flow: another station": (
        changed("specs/flows/small.json", '"station": "code-implementer"', '"station": "code-critic"', "run"),
        [
            "small/write@1 paths small/impl_changes_summary.md: is not a file of this step",
            f"small/write@1 trailers {RECEIPT}: the flow has code-critic for this step, not code-implementer",
            f"small/write@2 trailers {RECEIPT}: the flow has code-critic for this step, not code-implementer",
        ],
    ),
    "frozen station: a field less": (
        changed("specs/stations/code-critic.json", '"category"', '"kategory"', "run"),
        [
            "run schemas specs/stations/code-critic.json: kategory: unknown key (did you mean 'category'?)",
            "small/critique@1 paths small/code_critique.md: is not a file of this step",
        ],
    ),
    "attributes": (
        put(".gitattributes", b"* text\n", "run"),
        [
            "run schemas .gitattributes: has other rules than git-swarm writes",
        ],
    ),
    "run events: swapped": (
        swap("events/run.jsonl", 0, 1, "run"),
        [
            "run events events/run.jsonl: seq does not count from 1 without gaps",
            "run events events/run.jsonl: has run_started, run_created, not run_created and run_started",
        ],
    ),
    "end events: another result": (
        changed("events/end@1.jsonl", '"run_stopped"', '"run_paused"', "end@1"),
        [
            "end@1 events events/end@1.jsonl: ends with run_paused, Swarm-Result says stopped",
            "end@1 events events/end@1.jsonl: run_stopping is followed by run_paused",
        ],
    ),
    "end events: a count": (
        changed("events/end@1.jsonl", '"total_steps_executed":2', '"total_steps_executed":3', "end@1"),
        [
            "end@1 numbers events/end@1.jsonl: total_steps_executed is 3, the chain has 2",
        ],
    ),
    "trailer: twice": (
        said("\nSwarm-Seq:", "\nSwarm-Tokens: 12\nSwarm-Seq:"),
        [
            "small/write@1 chain its message has lines that git-swarm did not write",
        ],
    ),
    "message: the body": (
        said("\n\nfirst\n", "\n\nthirst\n"),
        [
            f"small/write@1 trailers {ENVELOPE}: the message is not the summary of the envelope",
        ],
    ),
    "message: the subject": (
        said("small/write: ", "small/wrote: "),
        [
            "small/write@1 trailers the subject does not begin with 'small/write: '",
        ],
    ),
    "end: Swarm-Result": (
        said("Swarm-Result: stopped", "Swarm-Result: paused", "end@1"),
        [
            "end@1 events events/end@1.jsonl: ends with run_stopped, Swarm-Result says paused",
        ],
    ),
    "end: its number": (
        said("Swarm-Iteration: 1", "Swarm-Iteration: 3", "end@1"),
        [
            "end@3 schemas events/end@3.jsonl: is missing",
            "end@3 events events/end@3.jsonl: Swarm-Seq says 3, the file has 0 lines",
            "end@3 notes events/end@3.jsonl: the events note is not the file in the tree",
            "end@3 paths events/end@1.jsonl: is not a file of this step",
            "end@3 numbers it is the end number 1 of the run",
        ],
    ),
    "author": (
        only(WRITE, lambda forged: setattr(forged, "author", "Forger <forger@example.org>")),
        [
            "small/write@1 chain the author is Forger <forger@example.org>, not code-implementer",
        ],
    ),
    "a file of another step": (
        put("small/receipts/critique-code-critic.json", b"{}"),
        [
            "small/write@1 paths small/receipts/critique-code-critic.json: is not a file of this step",
        ],
    ),
    "a file that nobody declared": (
        put("small/other.md", b"x"),
        [
            "small/write@1 paths small/other.md: is not a file of this step",
        ],
    ),
    "a report of the base's tests, of a step that ran none": (
        put("small/base/write.json", b"{}"),
        [
            "small/write@1 paths small/base/write.json: is not a file of this step",
        ],
    ),
    "a file of the run as a whole": (
        put("spec.json", b"{}"),
        [
            "small/write@1 paths spec.json: is not a file of this step",
            "small/critique@1 paths spec.json: is not a file of this step",
        ],
    ),
    "an old events file removed": (
        put("small/events/write@1.jsonl", None, "small/write@2"),
        [
            f"small/write@2 paths {EVENTS}: was removed",
            f"small/critique@2 paths {EVENTS}: is not a file of this step",
        ],
    ),
    "another run's file": (
        put("../run-20200101-000000-000000/spec.json", b"{}"),
        [
            "small/write@1 paths .swarm/runs/OTHER/spec.json: is in another run's folder",
        ],
    ),
    "a declared file, later": (
        put("small/notes.md", b"x", CRITIQUE),
        [
            "small/critique@1 paths small/notes.md: is not a file of this step",
            "end@1 paths small/notes.md: is not a file of this step",
        ],
    ),
    "trailer: Model": (
        said("\nSwarm-Model: claude-stub", "\nSwarm-Model: claude-opus"),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Model says claude-opus, the file says claude-stub",
        ],
    ),
    "trailer: Status": (
        said("\nSwarm-Status: VERIFIED", "\nSwarm-Status: BLOCKED"),
        [
            f"small/write@1 trailers {ENVELOPE}: Swarm-Status says BLOCKED, the file says VERIFIED",
        ],
    ),
    "trailer: Result": (
        said("\nSwarm-Result: succeeded", "\nSwarm-Result: skipped"),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Result says skipped, the file says succeeded",
            f"small/write@1 events {EVENTS}: step_end says status succeeded, the files say skipped",
        ],
    ),
    "trailer: Tokens": (
        said("\nSwarm-Tokens: 12", "\nSwarm-Tokens: 1"),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Tokens says 1, the file says 12",
        ],
    ),
    "trailer: Cost-USD": (
        said("\nSwarm-Cost-USD: 0.000000", "\nSwarm-Cost-USD: unknown"),
        [
            f"small/write@1 trailers {RECEIPT}: Swarm-Cost-USD says unknown, the file says 0.000000",
        ],
    ),
    "trailer: Seq": (
        said("\nSwarm-Seq: 10", "\nSwarm-Seq: 11"),
        [
            f"small/write@1 events {EVENTS}: Swarm-Seq says 11, the file has 10 lines",
        ],
    ),
}

SPREADING: dict[str, tuple[Edit, list[str]]] = {
    "frozen flow: garbled": (
        changed("specs/flows/small.json", '"steps"', '"stops"', "run"),
        [
            "run schemas",
            "small/check@1 trailers",
            "small/critique@1 paths",
            "small/critique@1 trailers",
            "small/critique@2 trailers",
            "small/done@1 paths",
            "small/done@1 trailers",
            "small/write@1 paths",
            "small/write@1 trailers",
            "small/write@2 paths",
            "small/write@2 trailers",
        ],
    ),
    "trailer: Swarm-Run": (
        said("\nSwarm-Run: run-2", "\nSwarm-Run: run-3"),
        [
            "- chain",
            "end@1 numbers",
            "end@2 numbers",
            "small/write@2 numbers",
        ],
    ),
    "trailer: Kind": (
        said("\nSwarm-Kind: step", "\nSwarm-Kind: end"),
        [
            "end@1 chain",
            "end@1 events",
            "end@1 notes",
            "end@1 numbers",
            "end@1 paths",
            "end@1 schemas",
            "end@2 numbers",
            "small/write@2 numbers",
        ],
    ),
    "trailer: Flow": (
        said("\nSwarm-Flow: small", "\nSwarm-Flow: smell"),
        [
            "end@2 numbers",
            "small/write@2 numbers",
            "smell/write@1 events",
            "smell/write@1 notes",
            "smell/write@1 paths",
            "smell/write@1 schemas",
            "smell/write@1 trailers",
        ],
    ),
    "trailer: Step": (
        said("\nSwarm-Step: write", "\nSwarm-Step: wrote"),
        [
            "end@2 numbers",
            "small/write@2 numbers",
            "small/wrote@1 events",
            "small/wrote@1 notes",
            "small/wrote@1 paths",
            "small/wrote@1 schemas",
            "small/wrote@1 trailers",
        ],
    ),
    "trailer: Iteration": (
        said("\nSwarm-Iteration: 1", "\nSwarm-Iteration: 2"),
        [
            "small/write@2 events",
            "small/write@2 notes",
            "small/write@2 numbers",
            "small/write@2 paths",
            "small/write@2 schemas",
            "small/write@2 trailers",
        ],
    ),
    "trailer: Agent": (
        said("\nSwarm-Agent: code-implementer", "\nSwarm-Agent: code-critic"),
        [
            "small/write@1 chain",
            "small/write@1 events",
            "small/write@1 paths",
            "small/write@1 schemas",
            "small/write@1 trailers",
        ],
    ),
    "trailer: Engine": (
        said("\nSwarm-Engine: claude-step", "\nSwarm-Engine: gemini-step"),
        [
            "small/write@1 paths",
            "small/write@1 schemas",
            "small/write@1 trailers",
        ],
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_contradicts_the_rest_of_the_run_is_found(run: Run, name: str) -> None:
    edit, expected = CONTRADICTIONS[name]
    run.rewrite(edit, whole=True)
    assert run.found() == expected


@pytest.mark.parametrize("name", SPREADING)
def test_what_makes_a_commit_another_one_is_found_by_every_check_that_looks_there(run: Run, name: str) -> None:
    edit, expected = SPREADING[name]
    run.rewrite(edit, whole=True)
    assert sorted({" ".join(line.split()[:2]) for line in run.found()}) == expected


AGREEING = {
    "a receipt": changed(RECEIPT, '"prompt": 10', '"prompt": 11'),
    "an envelope": changed(ENVELOPE, '"concerns": []', '"concerns": ["thin"]'),
    "a transcript": only(WRITE, lambda forged: forged.files.__setitem__(TRANSCRIPT, b"")),
}
"""Changes that nothing else speaks about."""


@pytest.mark.parametrize("name", AGREEING)
def test_a_run_that_was_rewritten_as_a_whole_agrees_with_itself_but_not_with_a_trusted_tip(
    run: Run, name: str
) -> None:
    tip = run.tip
    run.rewrite(AGREEING[name], whole=True)
    assert run.found() == []
    assert run.found(tip) == ["- chain the trusted tip is not on the branch"]


@pytest.mark.parametrize("name", AGREEING)
def test_a_commit_that_was_rewritten_without_its_notes_is_found(run: Run, name: str) -> None:
    run.rewrite(AGREEING[name])
    errors = [line for line in run.found() if "(warning)" not in line]
    assert errors[0].startswith("small/critique@1 trailers small/receipts/critique-code-critic.json: commit_before")
    assert errors[-1] == "- chain the run had this commit; the branch is at ID instead, and nothing was set aside"


def assert_flip_is_found(run: Run, seed: int) -> None:
    """One bit of one paper is turned, and everything else made to agree."""
    chance = random.Random(seed)
    tip, name = run.tip, chance.choice([WRITE, CRITIQUE, "small/write@2", "small/check@1", "small/done@1"])
    flipped: list[str] = []

    def edit(forged: Forged) -> None:
        path = chance.choice([path for path, content in sorted(forged.files.items()) if content])
        content = bytearray(forged.files[path] or b"")
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        forged.files[path] = bytes(content)
        flipped.append(path)

    run.rewrite(only(name, edit), whole=True)
    assert "- chain the trusted tip is not on the branch" in run.found(tip), (seed, flipped)
    run.project.git("update-ref", run.branch, tip)


def test_any_bit_of_any_paper_is_found_relative_to_a_trusted_tip(run: Run) -> None:
    for seed in range(5):
        assert_flip_is_found(run, seed)


@pytest.mark.soak
def test_any_bit_of_any_paper_is_found_relative_to_a_trusted_tip_every_time(run: Run) -> None:
    for seed in range(100, 400):
        assert_flip_is_found(run, seed)


def test_a_run_that_was_rewritten_into_itself_is_the_same(run: Run) -> None:
    tip = run.tip
    run.rewrite(lambda _forged: None, whole=True)
    assert (run.tip, run.found(tip)) == (tip, [])
