"""Steps that were executed beside others: their own commits against those on the branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.forking import WRITERS, sibling_refs, trailers, with_flow
from tests.projects import ask, new_project, only_run
from tests.verify.forging import Forged, Run, only

LEFT = "fan/left@1"
TRANSCRIPT = "fan/llm/left-maker-claude.jsonl"


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project: Project = with_flow(new_project(tmp_path_factory.mktemp("forked")), WRITERS)
    script = 'steps:\n  left: {write: {l.txt: "1"}}\n  right: {write: {r.txt: "2"}}\n'
    answer = ask(project, "start", "fan", "--script", project.script(script))
    assert answer.code == 0, answer.stderr
    return Run(project, only_run(project))


@pytest.fixture
def run(forked: Run, tmp_path: Path) -> Run:
    return forked.copy(tmp_path)


def on_branch(edit: Callable[[Forged], None]) -> Callable[[Run], None]:
    """Only the commit on the branch is rewritten."""

    def tamper(run: Run) -> None:
        run.rewrite(only(LEFT, edit), whole=True)

    return tamper


def beside(run: Run, old: str, new: str) -> None:
    """Only the step's own commit gets another message."""
    commit = sibling_refs(run.project, run.run)["left"]
    raw = run.project.git("cat-file", "commit", commit) + "\n"
    assert old in raw
    made = run.project.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.replace(old, new))
    run.project.git("update-ref", f"{run.layout.fork_prefix}{parent_of(run)[:12]}/left", made)


def parent_of(run: Run) -> str:
    """The commit of the fork."""
    return trailers(run.project, run.named()[LEFT])["Swarm-Fork"]


FORGED: dict[str, tuple[Callable[[Run], None], list[str]]] = {
    "nothing": (lambda _run: None, []),
    "another transcript": (
        on_branch(lambda forged: forged.files.__setitem__(TRANSCRIPT, b"")),
        [f"{LEFT} forks {TRANSCRIPT}: is not as in its own commit ID"],
    ),
    "another envelope": (
        on_branch(lambda forged: forged.change("fan/handoff/left.json", b'"artifacts": []', b'"artifacts": ["x"]')),
        [f"{LEFT} forks fan/handoff/left.json: is not as in its own commit ID"],
    ),
    "a trailer more": (
        on_branch(lambda forged: forged.say("\nSwarm-Seq:", "\nSwarm-Mood: good\nSwarm-Seq:")),
        [f"{LEFT} forks Swarm-Mood is not as in its own commit ID"],
    ),
    "another fork": (
        on_branch(lambda forged: forged.say("\nSwarm-Fork: ", "\nSwarm-Fork: 0")),
        [
            f"{LEFT} trailers fan/receipts/left-maker.json: commit_before is ID, the step started from ID",
            f"{LEFT} events fan/events/left@1.jsonl: Swarm-Fork says ID, the decision that led there ID",
            f"{LEFT} events fan/events/left@1.jsonl: the decision that led there is not the one in the routing note",
            f"{LEFT} forks Swarm-Fork names ID, which is not an earlier commit of the run",
            f"{LEFT} forks Swarm-Fork is not as in its own commit ID",
        ],
    ),
    "its own commit says something else": (
        lambda run: beside(run, "Swarm-Tokens: 0", "Swarm-Tokens: 9"),
        [f"{LEFT} trailers fan/receipts/left-maker.json: Swarm-Tokens says 9, the file says 0"],
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_branch_of_a_fork_that_is_not_as_it_was_is_found(run: Run, name: str) -> None:
    tamper, expected = FORGED[name]
    tamper(run)
    assert run.found() == expected


def test_a_branch_whose_own_commit_is_not_here_is_a_warning(run: Run) -> None:
    run.project.unpack()
    for step, commit in sibling_refs(run.project, run.run).items():
        run.project.git("update-ref", "-d", f"{run.layout.fork_prefix}{parent_of(run)[:12]}/{step}")
        (run.project.root / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    assert run.found() == [
        f"fan/{step}@1 forks (warning) its own commit ID is not here, and cannot be compared"
        for step in ("left", "right")
    ]


def test_a_ref_of_a_person_s_own_beside_ours_is_left_alone(run: Run) -> None:
    run.project.git("update-ref", f"{run.layout.fork_prefix}mine", "main")
    assert run.found() == []
