"""Notes, journals, commits, refs and local files that hold something else than we wrote there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from gitswarm.errors import CorruptError
from tests.conftest import Project
from tests.hostile import Stopped, stopped_run

GARBAGE = {
    "a remark": b"hello\n",
    "no text": b"caf\xe9 \xff\n",
    "NUL bytes": b"\0\0\0{}\n",
    "a torn entry": b'1. x\n  {"seq": \n',
    "another entry": b'1. x\n  {"a": 1}\n',
    "an open line": b"1. x\n  [1]",
}


@pytest.fixture
def stopped(project: Project) -> Stopped:
    return stopped_run(project)


def put_note(stopped: Stopped, kind: str, commit: str, content: bytes) -> None:
    path = stopped.project.root.parent / "note"
    path.write_bytes(content)
    blob = stopped.project.git("hash-object", "-w", str(path))
    stopped.project.git("notes", f"--ref=refs/notes/swarm/{stopped.run}/{kind}", "add", "-f", "-C", blob, commit)


def note(stopped: Stopped, kind: str, commit: str) -> bytes:
    argv = ["git", "notes", f"--ref=refs/notes/swarm/{stopped.run}/{kind}", "show", commit]
    return subprocess.run(
        argv, cwd=stopped.project.root, env=dict(stopped.project.env), capture_output=True, check=True
    ).stdout


# --- notes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", ["step", pytest.param("end", marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", GARBAGE)
def test_a_garbled_routing_note_stays_and_the_decision_is_taken_again(
    stopped: Stopped, name: str, commit: str
) -> None:
    noted = stopped.project.git("rev-parse", stopped.branch + ("^" if commit == "step" else ""))
    put_note(stopped, "routing", noted, GARBAGE[name])
    for command in ("status", "log", "list", "events", "show"):
        assert stopped.ask(command).code == 0, command

    answer = stopped.ask("resume")

    assert answer.code == 0, answer
    stopped.assert_whole()
    assert note(stopped, "routing", noted).startswith(GARBAGE[name])
    told = f"the routing note of {noted[:12]} has a line that is not a decision" in answer.stderr
    assert told == (name in ("a torn entry", "another entry", "an open line"))


@pytest.mark.parametrize("kind", ["routing", "events"])
def test_a_notes_ref_that_is_gone_is_made_again(stopped: Stopped, kind: str) -> None:
    before = stopped.project.git("notes", f"--ref=refs/notes/swarm/{stopped.run}/events", "list")
    stopped.project.git("update-ref", "-d", f"refs/notes/swarm/{stopped.run}/{kind}")
    assert stopped.ask("status").code == 0
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()
    after = stopped.project.git("notes", f"--ref=refs/notes/swarm/{stopped.run}/events", "list")
    assert set(before.splitlines()) <= set(after.splitlines())


def test_an_events_note_that_somebody_edited_is_made_again_from_the_tree(stopped: Stopped) -> None:
    noted = stopped.project.git("rev-parse", f"{stopped.branch}^")
    before = note(stopped, "events", noted)
    put_note(stopped, "events", noted, b"\xff\0")
    answer = stopped.ask("resume")
    assert "events notes that were missing or changed are made again: 1\n" in answer.stderr
    assert note(stopped, "events", noted) == before
    stopped.assert_whole()


# --- journals ---------------------------------------------------------------------------------------------------


def step_start(before: str) -> bytes:
    event = {"run_id": "x", "seq": 1, "ts": "x", "kind": "step_start", "payload": {"commit_before": before}}
    return json.dumps(event).encode() + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello", id="garbage"),
        pytest.param(b"\0" * 4096, id="NUL bytes"),
        pytest.param(b"\xff\xfe{}\n[1]\n", id="no text"),
        pytest.param(step_start("1" * 40) + b'{"run_id": "x", "seq"', id="a torn last line"),
        pytest.param(step_start("zzz"), id="no commit"),
    ],
)
def test_the_journal_of_a_killed_step_may_hold_anything(stopped: Stopped, content: bytes) -> None:
    journal = stopped.git_dir / "swarm" / "journal" / stopped.run / "three.two@1.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_bytes(content)
    (stopped.worktree / "b.txt").write_text("half", encoding="utf-8")
    for command in ("status", "events"):
        assert stopped.ask(command).code == 0

    assert stopped.ask("resume").code == 0

    stopped.assert_whole()
    kept = f"{stopped.base}/three/events/two@1.jsonl"
    shown = stopped.project.git("cat-file", "-s", f"{stopped.kept()}:{kept}")
    assert (int(shown), stopped.project.git("show", f"{stopped.kept()}:b.txt")) == (len(content), "half")


# --- commits ----------------------------------------------------------------------------------------------------


def amend(stopped: Stopped, name: str, *, back: int, content: bytes = b"{garbled \xff") -> str:
    """Garbles a file in a commit of the run, as `git commit --amend` does; the commit that it was."""
    git = stopped.project.git
    tip = git("rev-parse", stopped.branch)
    git("reset", "-q", "--hard", f"HEAD~{back}", cwd=stopped.worktree)
    (stopped.worktree / name.format(base=stopped.base)).write_bytes(content)
    git("add", "-A", "-f", cwd=stopped.worktree)
    git("commit", "-q", "--amend", "--no-edit", cwd=stopped.worktree)
    return tip


PAPERS = [
    ("{base}/three/receipts/one-code-implementer.json", 1, ("log", "show", "show --json")),
    ("{base}/three/evidence/one.json", 1, ("show", "show --json")),
    ("{base}/three/handoff/one.json", 1, ("show", "show --json")),
    ("{base}/three/llm/one-code-implementer-claude.jsonl", 1, ("transcript", "show --prompt")),
    ("{base}/spec.json", 2, ("status",)),
    ("{base}/specs/flows/three.json", 2, ()),
    ("{base}/specs/stations/code-implementer.json", 2, ()),
]


@pytest.mark.parametrize(("name", "back", "commands"), PAPERS, ids=[name.rpartition("/")[2] for name, *_ in PAPERS])
def test_a_paper_garbled_by_an_amended_commit_is_named_and_the_original_comes_back(
    stopped: Stopped, name: str, back: int, commands: tuple[str, ...]
) -> None:
    tip = amend(stopped, name, back=back)
    path = name.format(base=stopped.base)
    for command in commands:
        answer = stopped.refused(*command.split())
        assert f":{path} is not what git-swarm wrote there\n" in answer.stderr
    assert stopped.ask("list").code == 0

    answer = stopped.ask("resume")

    assert answer.code == 0, answer
    assert f"was rewritten by hand: {tip[:12]} is back for " in answer.stderr
    assert stopped.project.git("merge-base", tip, stopped.branch) == tip
    stopped.assert_whole()
    assert stopped.ask("resume").code == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evidence/one.json", b"[" * 100_000),
        ("evidence/one.json", b'{"tests": 1}'),
        ("evidence/one.json", b'{"diff": {"files": true}}'),
        ("evidence/one.json", b"[]"),
        ("receipts/one-code-implementer.json", b'{"tool_calls": [1]}'),
        ("receipts/one-code-implementer.json", b'{"tool_calls": 1}'),
        ("receipts/one-code-implementer.json", b'{"a":' * 100_000),
    ],
    ids=["deep", "no tests", "no files", "a list", "no call", "no calls", "deep object"],
)
def test_statistics_name_a_run_that_holds_something_else(stopped: Stopped, name: str, content: bytes) -> None:
    amend(stopped, f"{{base}}/three/{name}", back=1, content=content)
    told = f":{stopped.base}/three/{name} is not what git-swarm wrote there\n"
    for command in ("stats", "show --json"):
        answer = stopped.ask(*command.split())
        assert answer.code in (0, 1), answer
        assert told in answer.stderr or (command, answer.code) == ("show --json", 0), answer


def test_a_run_whose_specs_nobody_can_read_can_be_discarded(
    stopped: Stopped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of another version may be: nothing better can be found in the run's own commits."""

    def unreadable(*_arguments: object) -> NoReturn:
        raise CorruptError("specs/flows/three.json is not what git-swarm wrote there", hint="…")

    monkeypatch.setattr("gitswarm.runner.open_run.read_frozen", unreadable)
    assert stopped.refused("resume").code == 1

    assert stopped.ask("discard", stopped.run, "--force").code == 0
    assert stopped.run not in stopped.ask("list").stdout


def test_code_in_an_amended_commit_is_adopted_when_asked(stopped: Stopped) -> None:
    tip = amend(stopped, "mine.txt", back=0)
    answer = stopped.refused("resume")
    rewritten = stopped.project.git("rev-parse", "--short=12", stopped.branch)
    assert answer.stderr == (
        f"git-swarm: {stopped.branch} was rewritten by hand: {rewritten} replaced the run's own {tip[:12]}\n"
        f"hint: git swarm resume {stopped.run} --adopt   (makes your edits a step of yours)\n"
    )
    assert stopped.obey(answer).code == 0
    stopped.assert_whole(("one", "adopt", "two", "three"))
    assert stopped.project.git("merge-base", tip, stopped.branch) == tip
    assert "mine.txt" in stopped.project.tree(stopped.branch)


@pytest.mark.parametrize("trailers", ["Swarm-Kind: bogus", "Swarm-Kind: step", "Swarm-Kind: end\nSwarm-Result: x"])
def test_a_commit_with_half_of_our_trailers_is_somebody_else_s(stopped: Stopped, trailers: str) -> None:
    message = f"x\n\nSwarm-Format: 1\nSwarm-Run: {stopped.run}\n{trailers}"
    stopped.project.git("commit", "-q", "--amend", "-m", message, cwd=stopped.worktree)
    for command in ("status", "log", "list", "events"):
        assert stopped.ask(command).code == 0, command
    answer = stopped.refused("resume")
    assert f"{stopped.branch} has commits that no step made: " in answer.stderr
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


# --- refs -------------------------------------------------------------------------------------------------------


def test_a_branch_moved_back_by_hand_is_a_rollback_that_can_be_undone(stopped: Stopped) -> None:
    assert stopped.ask("resume", "--until", "two").code == 0
    log = stopped.ask("log", "--json").stdout
    stopped.project.git("reset", "-q", "--hard", f"{stopped.branch}~2", cwd=stopped.worktree)

    answer = stopped.ask("resume", "--until", "two")

    assert f"{stopped.branch} was moved back by hand: what followed is kept in {stopped.kept()}\n" in answer.stderr
    assert stopped.ask("rollback", "--undo").code == 0
    assert json.loads(stopped.ask("log", "--json").stdout)[0] == json.loads(log)[0]
    assert [e["commit"] for e in json.loads(stopped.ask("log", "--json").stdout)] == [
        e["commit"] for e in json.loads(log)
    ]
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


def test_a_branch_moved_to_another_commit_is_listed_as_lost_and_brought_back(stopped: Stopped) -> None:
    stopped.project.git("update-ref", f"refs/heads/{stopped.branch}", "main")
    listed = stopped.ask("list")
    assert (listed.code, listed.stdout, listed.stderr) == (
        0,
        "",
        f"lost: {stopped.run} has no branch with its commits\nhint: git swarm resume {stopped.run}\n",
    )
    answer = stopped.refused("status")
    assert answer.stderr.startswith(f"git-swarm: {stopped.branch} no longer holds a commit of the run\n")
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


@pytest.mark.parametrize("ref", ["refs/heads/shadow/{run}", "refs/notes/swarm/{run}/routing"])
@pytest.mark.parametrize("content", [b"", b"garbage\n", b"\0" * 41])
def test_a_damaged_ref_is_named_with_the_command_that_removes_it(stopped: Stopped, ref: str, content: bytes) -> None:
    name = ref.format(run=stopped.run)
    (stopped.git_dir / name).write_bytes(content)
    answer = stopped.refused("resume", stopped.run)
    assert answer.stderr.startswith(f"git-swarm: {name} is damaged: ")
    assert stopped.obey(answer).code == 0
    assert stopped.ask("resume", stopped.run).code == 0
    stopped.assert_whole()


def test_a_ref_of_a_person_s_own_beside_ours_is_left_alone(stopped: Stopped) -> None:
    git = stopped.project.git
    git("update-ref", f"refs/swarm/{stopped.run}/rollback/mine", "HEAD")
    git("update-ref", f"refs/swarm/{stopped.run}/next", git("rev-list", "--max-parents=0", "HEAD"))
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()
    assert git("rev-parse", f"refs/swarm/{stopped.run}/rollback/mine") == git("rev-parse", "HEAD")


def test_an_object_that_is_gone_is_named(stopped: Stopped) -> None:
    stopped.project.unpack()
    missing = stopped.project.git("rev-parse", f"{stopped.branch}^")
    path = stopped.git_dir / "objects" / missing[:2] / missing[2:]
    aside = path.rename(stopped.git_dir / "aside")
    for command in ("status", "log", "resume"):
        answer = stopped.refused(command)
        assert answer.stderr == (
            f"git-swarm: object {missing} is missing or damaged\nhint: git fsck --full   (says what else is)\n"
        )
    listed = stopped.ask("list")
    assert (listed.code, listed.stderr.splitlines()[0]) == (0, f"unreadable: object {missing} is missing or damaged")
    aside.rename(path)
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


# --- local files ------------------------------------------------------------------------------------------------

LOCAL = {
    "swarm/locks/{run}.owner": b"\xff\0",
    "swarm/locks/run-20200101-000000-000000.owner": b'{"pid": "x", "host": 1, "started": 2}',
    "swarm/locks/run-20200101-000000-000001.owner": b"[1]",
    "gc.pid": f"{'9' * 30} {os.uname().nodename}\n".encode(),
    "swarm/requests/{run}.json": b"\xff\0",
    "swarm/inbox/{run}/1.json": b"\xff",
    "swarm/inbox/{run}/2.json": b"[]",
    "worktrees/{run}/swarm-branch": b"\xff\xfe",
    "worktrees/{run}/swarm-set-up": b"/etc/passwd\0../../x\0\xff\0",
    "worktrees/{run}/HEAD": b"\xff\xfe",
    "worktrees/{run}/commondir": b"",
    "worktrees/{run}/index": b"\0",
}


@pytest.mark.parametrize("name", LOCAL)
def test_a_local_file_may_hold_anything(stopped: Stopped, name: str) -> None:
    path = stopped.git_dir / name.format(run=stopped.run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(LOCAL[name])
    for command in ("status", "list"):
        assert stopped.ask(command).code == 0
    answer = stopped.ask("resume")
    assert answer.code == 0, answer
    stopped.assert_whole()
    assert Path("/etc/passwd").exists()


@pytest.mark.parametrize(
    "record",
    [
        b"\xff",
        b'{"run_id": "x", "discarded_at": "yesterday", "worktree": "TMP/precious"}',
        b'{"run_id": "x", "discarded_at": "2020-01-01", "worktree": "file://TMP/precious"}',
    ],
)
def test_a_garbled_record_in_the_trash_deletes_nothing_else(stopped: Stopped, tmp_path: Path, record: bytes) -> None:
    assert stopped.ask("discard", stopped.run).code == 0
    precious = tmp_path / "precious"
    precious.mkdir()
    path = stopped.git_dir / "swarm" / "trash" / f"{stopped.run}.json"
    path.write_bytes(record.replace(b"TMP", os.fsencode(tmp_path)))
    old = b"2020" in record
    gone = stopped.ask("gc")
    assert (gone.code, stopped.run in gone.stdout) == (0, old)
    assert stopped.ask("gc", "--older-than", "0").code == 0
    assert precious.exists()
    assert stopped.project.git("for-each-ref", "refs/swarm", "refs/notes", "refs/heads/shadow") == ""
