"""Notes, refs and objects of a run that somebody changed, without touching the chain of its commits."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitswarm.ledger.verify.commit_reader import Report
from tests.verify.forging import Run, line

WRITE, CRITIQUE, DONE = "small/write@1", "small/critique@1", "small/done@1"


def swap_notes(kind: str) -> Callable[[Run], None]:
    def tamper(run: Run) -> None:
        one, other = run.named()[WRITE], run.named()[CRITIQUE]
        notes = run.note(kind, one), run.note(kind, other)
        run.put_note(kind, one, notes[1])
        run.put_note(kind, other, notes[0])

    return tamper


def edit_note(kind: str, name: str, edit: Callable[[bytes], bytes]) -> Callable[[Run], None]:
    def tamper(run: Run) -> None:
        commit = run.named()[name]
        run.put_note(kind, commit, edit(run.note(kind, commit)))

    return tamper


def drop_note(kind: str, name: str) -> Callable[[Run], None]:
    return lambda run: run.drop_note(kind, run.named()[name])


def prune_note(run: Run) -> None:
    """A sealed note, and every object that holds it."""
    commit = run.named()[WRITE]
    blob = run.repository.notes(run.layout.routing_notes).blob_of(commit)
    run.drop_note("routing", commit)
    loose(run, blob or "").unlink()


def loose(run: Run, object_id: str) -> Path:
    return run.project.root / ".git" / "objects" / object_id[:2] / object_id[2:]


CHANGED = "small/critique@1 notes the routing note of ID is not what it was when this was committed"
UNSEEN = "the events note is missing; the tree has what it said"
MISSING = "the routing note of ID is missing; git cat-file -p ID has it"

NOTES: dict[str, tuple[Callable[[Run], None], list[str]]] = {
    "a decision edited": (
        edit_note("routing", WRITE, lambda note: note.replace(b'"elapsed_us": ', b'"elapsed_us": 1')),
        [CHANGED],
    ),
    "a decision cut off": (
        edit_note("routing", WRITE, lambda note: note[:-20]),
        ["small/write@1 notes its routing note has a line that is not a decision", CHANGED],
    ),
    "a decision before the first": (
        edit_note("routing", WRITE, lambda note: note + note),
        ["small/write@1 notes the decisions in its routing note do not count from 1 without gaps"],
    ),
    "what is no decision": (
        edit_note("routing", WRITE, lambda note: note + b'2. x\n  {"seq": 2}\n'),
        ["small/write@1 notes its routing note has a line that is not a decision"],
    ),
    "a list nested too deeply": (
        edit_note("routing", WRITE, lambda note: note + b"2. x\n  " + b"[" * 100_000 + b"\n"),
        ["small/write@1 notes its routing note has a line that is not a decision"],
    ),
    "a remark below": (
        edit_note("routing", WRITE, lambda note: note + b"I was here\n"),
        ["small/write@1 notes (warning) its routing note has more than its decisions: somebody added to it"],
    ),
    "decisions of two steps swapped": (
        swap_notes("routing"),
        [CHANGED, CHANGED.replace("small/critique@1", "end@1")],
    ),
    "a decision removed": (
        drop_note("routing", WRITE),
        [f"small/critique@1 notes (warning) {MISSING}"],
    ),
    "a decision removed, and its object": (
        prune_note,
        ["small/critique@1 notes object ID is missing"],
    ),
    "an events note edited": (
        edit_note("events", WRITE, lambda note: note.replace(b"step_end", b"step_and")),
        ["small/write@1 notes small/events/write@1.jsonl: the events note is not the file in the tree"],
    ),
    "events notes of two steps swapped": (
        swap_notes("events"),
        [
            "small/write@1 notes small/events/write@1.jsonl: the events note is not the file in the tree",
            "small/critique@1 notes small/events/critique@1.jsonl: the events note is not the file in the tree",
        ],
    ),
    "an events note removed": (
        drop_note("events", DONE),
        [f"small/done@1 notes (warning) small/events/done@1.jsonl: {UNSEEN}"],
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_a_note_that_is_not_as_it_was_is_found(run: Run, name: str) -> None:
    tamper, expected = NOTES[name]
    tamper(run)
    assert without_repeated(run.found()) == expected


def without_repeated(found: list[str]) -> list[str]:
    """A blob that is gone is gone for the notes' own history too."""
    return [text for text in found if not text.startswith("- notes refs/")]


def test_views_that_are_missing_are_warnings(run: Run) -> None:
    for kind in ("events", "routing"):
        run.project.git("update-ref", "-d", f"refs/notes/swarm/{run.run}/{kind}")
    run.project.git("update-ref", "-d", run.layout.base_ref)
    report = run.verified()
    assert [line(run, finding) for finding in report.findings] == [
        "- chain (warning) refs/swarm/RUN/base is missing; the first commit knows it",
        "- notes (warning) refs/notes/swarm/RUN/events is missing: the run's notes cannot be compared",
        "- notes (warning) refs/notes/swarm/RUN/routing is missing: the run's notes cannot be compared",
    ]
    assert report.is_sound


# --- refs -------------------------------------------------------------------------------------------------------


def commit_on_top(run: Run, *parents: str) -> str:
    arguments = [word for parent in parents for word in ("-p", parent)]
    commit = run.project.git("commit-tree", *arguments, "-m", "mine", f"{run.tip}^{{tree}}")
    run.project.git("update-ref", run.branch, commit)
    return commit


def test_a_commit_that_no_step_made_is_found(run: Run) -> None:
    commit_on_top(run, run.tip)
    commit_on_top(run, run.tip)
    assert run.found() == ["- chain 2 commits, this one the newest, that git-swarm did not write for this run"]


def test_a_merge_on_the_branch_is_found(run: Run) -> None:
    tip, main = run.tip, run.project.git("rev-parse", "main")
    message = run.project.git("log", "-1", "--format=%B", tip)
    merge = run.project.git("commit-tree", "-p", f"{tip}^", "-p", main, "-m", message, f"{tip}^{{tree}}")
    run.project.git("update-ref", run.branch, merge)
    found = run.found()
    assert "end@2 chain it has 2 parents: a run is a straight line" in found
    assert "end@2 chain the author is Test User <user@example.org>, not kernel" in found


def test_a_branch_that_was_moved_back_by_hand_is_found(run: Run) -> None:
    run.project.git("update-ref", run.branch, f"{run.tip}~2")
    assert run.found() == ["- chain the run had this commit; the branch is at ID instead, and nothing was set aside"]


def test_a_branch_that_was_moved_to_another_history_is_found(run: Run) -> None:
    root = commit_on_top(run)
    run.project.git("update-ref", "-d", run.layout.base_ref)
    assert run.found()[:2] == [
        "- chain a commit that git-swarm did not write for this run",
        "- chain the way down from ID does not reach the first commit of RUN",
    ]
    assert run.verified().tip == root


def test_a_base_that_was_moved_is_found(run: Run) -> None:
    run.project.git("update-ref", run.layout.base_ref, run.project.git("rev-parse", "main~1"))
    assert run.found() == ["- chain refs/swarm/RUN/base points here, the run began on ID"]


def test_what_a_remote_had_and_the_branch_has_not_any_more_is_found(run: Run) -> None:
    run.project.git("update-ref", f"refs/remotes/hub/shadow/{run.run}", f"{run.tip}~1")
    assert (run.found(), run.verified().trusted) == ([], run.project.git("rev-parse", f"{run.tip}~1"))
    run.project.git("update-ref", f"refs/remotes/hub/shadow/{run.run}", "main")
    message = "a remote had the run's branch here; it is no longer on the branch, and nothing was set aside"
    assert run.found() == [f"- chain {message}"]


@pytest.mark.parametrize("ref", ["notes/swarm/{run}/events", "notes/swarm/{run}/routing", "swarm/{run}/approval"])
def test_a_damaged_ref_is_a_finding(run: Run, ref: str) -> None:
    path = run.project.root / ".git" / "refs" / ref.format(run=run.run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"garbage\n")
    report = run.verified()
    assert not report.is_sound
    assert any("is damaged" in finding.message for finding in report.findings)


# --- objects ----------------------------------------------------------------------------------------------------


def objects_of(run: Run) -> Iterator[tuple[str, str]]:
    """Name and id of every object that the run wrote: commits, trees, files, sealed notes."""
    git = run.project.git
    base = git("rev-parse", run.layout.base_ref)
    for entry in git("rev-list", "--objects", run.branch, f"^{base}").splitlines():
        object_id, _blank, path = entry.partition(" ")
        yield path or "a commit or a root", object_id
    for name, commit in run.named().items():
        blob = run.repository.notes(run.layout.routing_notes).blob_of(commit)
        if blob is not None and name != "end@2":
            yield f"the routing note of {name}", blob


def damaged(run: Run, object_id: str, chance: random.Random) -> None:
    """One byte of an object becomes another one, under the same id."""
    path = loose(run, object_id)
    content = bytearray(zlib.decompress(path.read_bytes()))
    at = chance.randrange(content.index(0) + 1, len(content))
    content[at] ^= 1 << chance.randrange(8)
    path.chmod(0o644)
    path.write_bytes(zlib.compress(bytes(content)))


def assert_damage_is_found(run: Run, seed: int) -> None:
    chance = random.Random(seed)
    name, object_id = chance.choice([item for item in objects_of(run) if size(run, item[1])])
    kept = loose(run, object_id).read_bytes()
    damaged(run, object_id, chance)
    report = run.verified()
    loose(run, object_id).write_bytes(kept)
    found = [finding.message for finding in report.findings if finding.severity == "error"]
    assert any(object_id in message for message in found), (seed, name, found)


def size(run: Run, object_id: str) -> bool:
    content = zlib.decompress(loose(run, object_id).read_bytes())
    return len(content) > content.index(0) + 1


def test_a_byte_that_was_changed_in_any_object_is_found(run: Run) -> None:
    for seed in range(40):
        assert_damage_is_found(run, seed)


@pytest.mark.soak
def test_a_byte_that_was_changed_in_any_object_is_found_every_time(run: Run) -> None:
    for seed in range(1000, 3000):
        assert_damage_is_found(run, seed)


@pytest.mark.parametrize("what", ["missing", "empty", "no zlib"])
def test_every_object_that_is_gone_or_garbled_is_a_finding(run: Run, what: str) -> None:
    for name, object_id in sorted(set(objects_of(run)))[::4]:
        path = loose(run, object_id)
        content = path.read_bytes()
        path.unlink()
        if what != "missing":
            path.write_bytes(b"" if what == "empty" else b"garbage")
        found = [finding.message for finding in run.verified().findings]
        assert any(object_id in message for message in found), name
        path.unlink(missing_ok=True)
        path.write_bytes(content)


def test_a_damaged_note_tree_is_a_finding(run: Run) -> None:
    tip = run.project.git("rev-parse", f"{run.layout.routing_notes}^{{tree}}")
    loose(run, tip).unlink()
    assert [line(run, finding) for finding in run.verified().findings if not finding.commit] == [
        f"- notes {run.layout.routing_notes.replace(run.run, 'RUN')}: object ID is missing"
    ]


def test_what_was_looked_through_is_counted(run: Run) -> None:
    report = run.verified()
    assert report == Report(
        run_id=run.run,
        tip=run.tip,
        trusted=None,
        commits=9,
        findings=(),
        checks={**report.checks, "chain": 9, "schemas": 9, "trailers": 9, "events": 9, "numbers": 9, "paths": 9},
    )
    assert report.checks["objects"] > 100


def test_a_note_that_git_wrote_flat_counts_as_well(run: Run) -> None:
    commit = run.named()[WRITE]
    blob = run.repository.notes(run.layout.routing_notes).blob_of(commit)
    run.project.git("notes", f"--ref={run.layout.routing_notes}", "add", "-f", "-C", blob or "", commit)
    assert run.found() == []
