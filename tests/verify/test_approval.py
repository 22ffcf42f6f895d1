"""What was approved and what was landed, made by hand as docs/decisions/0006-safety.md says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projects import ask, new_project, only_run
from tests.verify.conftest import FLOW, SCRIPT
from tests.verify.forging import Edit, Run, only

DONE = "small/done@1"


@pytest.fixture(scope="module")
def skipped(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose last step is a person's: what they say about the code can be put into its message."""
    project = new_project(tmp_path_factory.mktemp("approved"))
    project.commit({".swarm/flows/small.yaml": FLOW})
    for words in (["start", "small", "--script", project.script(SCRIPT), "--until", "check"], ["skip", "done"]):
        answer = ask(project, *words)
        assert answer.code == 0, answer.stderr
    return Run(project, only_run(project))


@pytest.fixture
def run(skipped: Run, tmp_path: Path, written_at_once: None) -> Run:  # noqa: ARG001 - forgers ask git
    return skipped.copy(tmp_path)


def about(run: Run) -> str:
    """The commit that the person's step stands on."""
    return run.project.git("rev-parse", f"{run.named()[DONE]}^")


def code_tree(run: Run, commit: str) -> str:
    """A tree without `.swarm/runs`, which the base does not have."""
    folder = run.project.git("ls-tree", commit, ".swarm")
    inner = run.project.git("ls-tree", folder.split()[2]).splitlines()
    without = run.project.git(
        "mktree", stdin="".join(f"{entry}\n" for entry in inner if not entry.endswith("\truns"))
    )
    entries = run.project.git("ls-tree", commit).replace(folder, folder.replace(folder.split()[2], without))
    return run.project.git("mktree", stdin=f"{entries}\n")


def saying(*trailers: str) -> Edit:
    return only(
        DONE, lambda forged: forged.say("\nSwarm-Seq:", "".join(f"\n{text}" for text in trailers) + "\nSwarm-Seq:")
    )


def approve(run: Run, word: str = "Swarm-Approves", *, ref: bool = True) -> str:
    """The commit that is spoken about."""
    commit = about(run)
    run.rewrite(saying(f"{word}: {commit} {code_tree(run, commit)}"), whole=True)
    if ref:
        run.project.git("update-ref", run.layout.approval_ref, run.named()[DONE])
    return commit


def test_an_approval_of_the_code_that_is_there_is_fine(run: Run) -> None:
    commit = approve(run)
    report = run.verified()
    assert (report.findings, report.trusted) == ((), commit)


def test_an_approval_without_its_ref_is_a_warning(run: Run) -> None:
    approve(run, ref=False)
    assert run.found() == ["- approval (warning) refs/swarm/RUN/approval is missing; the chain has the approval"]
    assert run.verified().is_sound


SAID: dict[str, tuple[Callable[[Run], list[str]], list[str]]] = {
    "another commit": (
        lambda run: [f"Swarm-Approves: {run.named()['small/write@1']} {code_tree(run, about(run))}"],
        ["Swarm-Approves names ID, it stands on ID", "Swarm-Approves names the code ID, that commit has ID"],
    ),
    "other code": (
        lambda run: [f"Swarm-Approves: {about(run)} {code_tree(run, run.named()['small/write@1'])}"],
        ["Swarm-Approves names the code ID, that commit has ID"],
    ),
    "the whole tree": (
        lambda run: [f"Swarm-Approves: {about(run)} {run.project.git('rev-parse', about(run) + '^{tree}')}"],
        ["Swarm-Approves names the code ID, that commit has ID"],
    ),
    "no commit at all": (
        lambda run: [f"Swarm-Approves: yes {code_tree(run, about(run))}"],
        ["Swarm-Approves names yes, it stands on ID"],
    ),
    "a void of no approval": (
        lambda run: [f"Swarm-Voids: {about(run)}"],
        ["Swarm-Voids names ID, which approves nothing here"],
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_a_word_about_something_else_is_found(run: Run, name: str) -> None:
    said, expected = SAID[name]
    run.rewrite(saying(*said(run)), whole=True)
    if "Approves" in said(run)[0]:
        run.project.git("update-ref", run.layout.approval_ref, run.named()[DONE])
    assert run.found() == [f"small/done@1 approval {text}" for text in expected]


def test_a_rejection_that_is_not_blocked_is_found(run: Run) -> None:
    approve(run, "Swarm-Rejects", ref=False)
    assert run.found() == ["small/done@1 approval it rejects, and its status is not BLOCKED"]


def test_an_approval_by_an_agent_is_found(run: Run) -> None:
    critique = run.named()["small/critique@2"]
    commit = run.project.git("rev-parse", f"{critique}^")
    text = f"\nSwarm-Approves: {commit} {code_tree(run, commit)}\nSwarm-Seq:"
    run.rewrite(only("small/critique@2", lambda forged: forged.say("\nSwarm-Seq:", text)), whole=True)
    run.project.git("update-ref", run.layout.approval_ref, run.named()["small/critique@2"])
    assert run.found() == ["small/critique@2 approval Swarm-Approves is said by code-critic"]


@pytest.mark.parametrize("word", ["Swarm-Rejects", None])
def test_a_ref_without_an_approval_is_found(run: Run, word: str | None) -> None:
    if word is not None:
        approve(run, word)
    run.project.git("update-ref", run.layout.approval_ref, run.named()[DONE])
    assert "- approval refs/swarm/RUN/approval points here, but no approval stands" in run.found()


# --- landed -----------------------------------------------------------------------------------------------------


def merged(run: Run, commit: str) -> str:
    """The tree of main with the run's code."""
    git = run.project.git
    code = git("commit-tree", code_tree(run, commit), "-p", git("rev-parse", run.layout.base_ref), "-m", "code")
    return git("merge-tree", "--write-tree", "main", code)


def with_evidence(run: Run, tree: str, commit: str) -> str:
    objects = run.repository.objects
    return objects.with_subtree(tree, run.layout.base, objects.entry(objects.commit(commit).tree, run.layout.base))


def landed(run: Run, tree: str, commit: str, *more: str, branch: str = "main", by: str = "user@example.org") -> str:
    """A commit on a branch that says that it landed the run; `more`: other parents."""
    project = type(run.project)(run.project.root, {**run.project.env, "GIT_COMMITTER_EMAIL": by})
    parents = [word for parent in ("main", *more) for word in ("-p", parent)]
    message = f"It is done (#12)\n\nSwarm-Run: {run.run}\nSwarm-Landed: {run.run} {commit}"
    made = project.git("commit-tree", tree, *parents, "-m", message)
    project.git("update-ref", f"refs/heads/{branch}", made)
    return made


def moved_on(run: Run, files: dict[str, str]) -> str:
    """Somebody else commits to main."""
    return run.project.commit(files, "elsewhere")


@pytest.mark.parametrize("strategy", ["squash", "merge", "evidence"])
@pytest.mark.parametrize("moved", [False, True])
def test_what_was_landed_as_it_was_approved_is_fine(run: Run, strategy: str, moved: bool) -> None:  # noqa: FBT001
    commit = approve(run)
    if moved:
        moved_on(run, {"elsewhere.txt": "1"})
    tree = merged(run, commit)
    tree = with_evidence(run, tree, commit) if strategy == "evidence" else tree
    landed(run, tree, commit, *([commit] if strategy == "merge" else []))
    report = run.verified()
    assert (report.findings, report.trusted) == ((), commit)


LANDED: dict[str, tuple[Callable[[Run, str], object], list[str]]] = {
    "another tree": (
        lambda run, commit: landed(run, code_tree(run, run.named()["small/write@1"]), commit),
        ["approval its tree is not what merging ID into the branch makes"],
    ),
    "evidence that nobody approved": (
        lambda run, commit: landed(run, with_evidence(run, merged(run, commit), run.tip), commit),
        ["approval its tree is not what merging ID into the branch makes"],
    ),
    "another tree, by GitHub": (
        lambda run, commit: landed(
            run, code_tree(run, run.named()["small/write@1"]), commit, by="noreply@github.com"
        ),
        ["approval (warning) its tree cannot be recomputed: it was merged on GitHub"],
    ),
    "what was not approved": (
        lambda run, commit: landed(run, merged(run, commit), run.named()["small/check@1"]),
        ["approval Swarm-Landed names ID, which nobody approved"],
    ),
    "what the run does not have": (
        lambda run, commit: landed(run, merged(run, commit), run.project.git("rev-parse", "main")),
        ["approval Swarm-Landed names ID, which is not on the run's branch"],
    ),
    "a conflict that somebody resolved": (
        lambda run, commit: (moved_on(run, {"a.txt": "theirs"}), landed(run, code_tree(run, commit), commit)),
        ["approval (warning) its tree cannot be recomputed: its code and the branch conflict"],
    ),
    "on a branch that is not the target": (
        lambda run, commit: landed(run, code_tree(run, run.named()["small/write@1"]), commit, branch="other"),
        [],
    ),
}


@pytest.mark.parametrize("name", LANDED)
def test_what_was_landed_otherwise_is_found(run: Run, name: str) -> None:
    land, expected = LANDED[name]
    land(run, approve(run))
    assert run.found() == [f"- {text}" for text in expected]


def test_without_the_target_every_branch_is_looked_at(run: Run) -> None:
    commit = approve(run)
    made = landed(run, code_tree(run, run.named()["small/write@1"]), commit, branch="other")
    run.project.git("checkout", "-q", "--detach")
    run.project.git("branch", "-q", "-D", "main")
    assert [(finding.commit, finding.check) for finding in run.verified().findings] == [(made, "approval")]


def test_prose_about_a_landing_is_none(run: Run) -> None:
    commit = approve(run)
    text = f"about\n\nSwarm-Landed: {run.run} {commit}\n\nand so on"
    run.project.git("commit", "-q", "--allow-empty", "-m", text)
    assert run.found() == []
