"""The user's checkouts: what follows the target, and what must not be touched."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gitswarm.git.repository import open_repository
from gitswarm.worktree.target_checkouts import InTheWay, checkouts_of, in_the_way
from tests.conftest import Project, new_project
from tests.landing.common import TWO_STEPS, code_of, hook, make_run, ready, refusal, tidy, with_flow
from tests.projects import ask

HOME = {"README.md": "# hello", "src/app.py": "print('changed')", "src/new.py": "print('new')"}


def untouched(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Paths of the user's that are not what they were; folders left out: a new file changes their times."""
    files = {name for name in (*before, *after) if not before.get(name, "").startswith("40")}
    return sorted(name for name in files if before.get(name) != after.get(name))


def test_a_clean_checkout_follows(project: Project) -> None:
    run = ready(project)
    run.approve()
    before = run.world()
    run.land()
    assert untouched(before, run.world()) == [
        "repo/.git/ORIG_HEAD",
        "repo/.git/index",
        "repo/.git/logs/HEAD",
        "repo/.git/logs/refs/heads/main",
        "repo/.git/refs/heads/main",
        "repo/src/app.py",
        "repo/src/new.py",
    ]
    assert (project.root / "src/new.py").read_text(encoding="utf-8") == "print('new')\n"
    assert project.git("status", "--porcelain") == ""


def test_a_target_that_nobody_stands_on_moves_and_nothing_else(project: Project) -> None:
    run = ready(project)
    run.approve()
    project.git("checkout", "-q", "-b", "elsewhere")
    before = run.world()
    run.land()
    assert untouched(before, run.world()) == ["repo/.git/logs/refs/heads/main", "repo/.git/refs/heads/main"]
    assert project.git("reflog", "-1", "--format=%gs", "main") == f"git-swarm: land {run.id}"


def edit(path: str, text: str, *, stage: bool = False, back_to: str | None = None) -> Callable[[Project], None]:
    """Work of the user's: a file written, and maybe staged, and maybe written back."""

    def make(project: Project) -> None:
        project.write({path: text})
        if stage:
            project.git("add", path)
        if back_to is not None:
            project.write({path: back_to})

    return make


def ignore(pattern: str, path: str) -> Callable[[Project], None]:
    """A file that git ignores in this clone only."""
    return lambda project: project.write({path: "mine\n", ".git/info/exclude": f"{pattern}\n"})


DIRTY: dict[str, Callable[[Project], None]] = {
    "edited": edit("README.md", "mine\n"),
    "staged": edit("README.md", "mine\n", stage=True),
    "untracked": edit("notes.txt", "mine\n"),
    "deleted": lambda project: (project.root / "README.md").unlink(),
}


@pytest.mark.parametrize("how", DIRTY)
def test_work_elsewhere_stays_as_it_is(project: Project, how: str) -> None:
    run = ready(project)
    run.approve()
    DIRTY[how](project)
    status = project.git("status", "--porcelain")
    before = run.world()
    run.land()
    assert project.git("status", "--porcelain") == status
    assert [name for name in untouched(before, run.world()) if not name.startswith("repo/.git/")] == [
        "repo/src/app.py",
        "repo/src/new.py",
    ]
    assert code_of(project, "main") == HOME


IN_THE_WAY: dict[str, tuple[Callable[[Project], None], str]] = {
    "edited": (edit("src/app.py", "mine\n"), "src/app.py"),
    "staged": (edit("src/app.py", "mine\n", stage=True), "src/app.py"),
    "staged and put back": (
        edit("src/app.py", "mine\n", stage=True, back_to="print('hello')\n"),
        "src/app.py",
    ),
    "untracked": (edit("src/new.py", "mine\n"), "src/new.py"),
    "a folder of untracked files": (edit("src/new.py/mine.txt", "mine\n"), "src/new.py"),
    "ignored": (ignore("new.py", "src/new.py"), "src/new.py"),
    "in an ignored folder": (ignore("build/", "build/out.txt"), "build/out.txt"),
    "deleted": (lambda project: (project.root / "src/app.py").unlink(), "src/app.py"),
}
UNTRACKED = ("untracked", "a folder of untracked files", "ignored", "in an ignored folder")


@pytest.mark.parametrize("how", IN_THE_WAY)
def test_work_in_the_way_keeps_it_from_landing(project: Project, how: str) -> None:
    files = {"src/new.py": "print('new')\n", "src/app.py": "print('changed')\n", "build/out.txt": "built\n"}
    run = ready(project, {"make": {"write": files}})
    run.approve()
    make, path = IN_THE_WAY[how]
    make(project)
    before, tip = run.world(), run.tip
    reason, paths, hint = refusal(run.land(code=1))
    assert (reason, paths) == (f"{project.root} has uncommitted changes in files that the landing changes", [path])
    assert (run.world(), run.tip) == (before, tip)

    subprocess.run(["sh", "-c", hint], cwd="/", env=dict(project.env), check=True, stdout=subprocess.DEVNULL)
    run.land()

    assert {name: (project.root / name).read_text(encoding="utf-8") for name in files} == files
    moved = [file for file in project.root.rglob("*") if ".mine" in str(file) and file.is_file()]
    kept = [file.read_text(encoding="utf-8") for file in moved]
    stashed = project.git("stash", "list").splitlines()
    assert (kept, len(stashed)) == ((["mine\n"], 0) if how in UNTRACKED else ([], 1))


def test_a_file_that_is_moved_out_of_the_way_replaces_none(project: Project) -> None:
    run = ready(project)
    run.approve()
    project.write({"src/new.py": "mine\n", "src/new.py.mine": "older\n", "src/app.py": "edited\n"})
    file = project.root / "src/new.py"
    assert refusal(run.land(code=1))[2] == f"git -C {project.root} stash && mv {file} {file}.mine2"


def linked(project: Project, branch: str) -> Path:
    path = project.root.parent / "linked"
    project.git("worktree", "add", "-q", str(path), branch)
    return path


def test_a_linked_worktree_follows(project: Project) -> None:
    run = ready(project)
    run.approve()
    project.git("checkout", "-q", "-b", "elsewhere")
    path = linked(project, "main")
    before = run.world()
    run.land()
    assert untouched(before, run.world()) == [
        "linked/src/app.py",
        "linked/src/new.py",
        "repo/.git/logs/refs/heads/main",
        "repo/.git/refs/heads/main",
        "repo/.git/worktrees/linked/index",
        "repo/.git/worktrees/linked/logs/HEAD",
    ]
    assert project.git("status", "--porcelain", cwd=path) == ""


def test_work_in_a_linked_worktree_is_in_the_way_too(project: Project) -> None:
    run = ready(project)
    run.approve()
    project.git("checkout", "-q", "-b", "elsewhere")
    path = linked(project, "main")
    (path / "src/app.py").write_text("mine\n", encoding="utf-8")
    before = run.world()
    reason, paths, _hint = refusal(run.land(code=1))
    assert (reason, paths) == (f"{path} has uncommitted changes in files that the landing changes", ["src/app.py"])
    assert run.world() == before


def test_two_checkouts_of_the_target_cannot_both_follow(project: Project) -> None:
    run = ready(project)
    run.approve()
    path = project.root.parent / "linked"
    project.git("worktree", "add", "-q", "--force", str(path), "main")
    before = run.world()
    reason, paths, hint = refusal(run.land(code=1))
    assert (reason, paths) == (
        "main is checked out in 2 places: only one of them could follow",
        [str(project.root), str(path)],
    )
    assert hint == f"git -C {path} checkout --detach"
    assert run.world() == before


def merging(project: Project) -> None:
    project.git("checkout", "-q", "-b", "side", "main~1")
    project.commit({"side.txt": "1\n"}, "side")
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--no-ff", "--no-commit", "side")


def rebasing(project: Project) -> None:
    project.git("-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-q", "-i", "main~1")


def bisecting(project: Project) -> None:
    project.git("bisect", "start", "main", "main~2")


def picking(project: Project) -> None:
    project.git("checkout", "-q", "-b", "side", "main~1")
    project.commit({"side.txt": "1\n"}, "side")
    project.git("checkout", "-q", "main")
    project.git("cherry-pick", "--no-commit", "side")
    (project.root / ".git/CHERRY_PICK_HEAD").write_text(project.git("rev-parse", "side") + "\n", encoding="ascii")


BUSY = {"merge": merging, "rebase": rebasing, "bisect": bisecting, "cherry-pick": picking}


@pytest.mark.parametrize("what", BUSY)
def test_a_checkout_in_the_middle_of_something_is_left_alone(project: Project, what: str) -> None:
    run = ready(project)
    project.commit({"more.txt": "1\n"}, "so that there is something to do")
    run.approve()
    BUSY[what](project)
    before = run.world()
    reason, _paths, hint = refusal(run.land(code=1))
    assert reason == f"main is checked out in {project.root}, in the middle of a {what}"
    assert hint == f"git -C {project.root} status"
    assert run.world() == before


def test_hooks_of_a_merge_do_not_run(project: Project) -> None:
    hook(project, "post-merge", ["echo merged > $GIT_DIR/../merged.txt"])
    run = ready(project)
    run.landed()
    assert not (project.root / "merged.txt").exists()
    tidy(run)


@pytest.mark.parametrize("conflicting", [False, True])
def test_edits_in_the_runs_worktree_are_not_swept_away(project: Project, *, conflicting: bool) -> None:
    run = ready(project)
    run.approve()
    if conflicting:
        project.commit({"src/app.py": "theirs\n"}, "meanwhile")
    folder = project.worktree(run.id)
    (folder / "src/mine.py").write_text("mine\n", encoding="utf-8")
    before, tip = run.world(), run.tip
    reason, paths, _hint = refusal(run.land(code=1))
    assert (reason, paths) == (
        f"{folder} has uncommitted edits: they are not part of the run",
        ["src/mine.py"],
    )
    assert (run.world(), run.tip, (folder / "src/mine.py").exists()) == (before, tip, True)


def test_many_files_beside_many_that_land_are_looked_at_in_no_time(project: Project) -> None:
    project.write({f"mine/{number}.txt": "" for number in range(3_000)} | {"src/new/7.py": "mine\n"})
    repository = open_repository(project.root, project.env)
    (checkout,) = checkouts_of(repository, "refs/heads/main")
    began = time.process_time()
    found = in_the_way(repository, checkout, [f"src/new/{number}.py" for number in range(3_000)])
    assert time.process_time() - began < 2  # each with each: 6 s
    assert found == InTheWay(("src/new/7.py",), ("src/new/7.py",), is_edited=False)


def test_a_checkout_whose_git_directory_lies_elsewhere_follows(project: Project, tmp_path: Path) -> None:
    run = ready(project)
    run.approve()
    worktree = project.worktree(run.id)
    project.git("init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    project.git("worktree", "repair", str(worktree))
    before = run.head()
    answer = run.land(cwd=worktree, code=1)
    assert refusal(answer) == (
        f"main is checked out in a folder that {tmp_path}/apart does not name",
        [],
        f"cd to that folder, then git swarm land {run.id}",
    )
    assert (run.head(), project.git("status", "--short")) == (before, "")
    run.land()
    assert (run.head() != before, project.git("status", "--short")) == (True, "")


def test_a_submodule_follows_when_its_run_lands_from_the_worktree(project: Project, tmp_path: Path) -> None:
    above = new_project(tmp_path / "above", project.env)
    with_flow(project)
    above.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(project.root), "inner")
    inner = Project(above.root / "inner", project.env)
    run = ready(inner)
    run.approve()
    run.land(cwd=inner.worktree(run.id))
    assert inner.git("status", "--short") == ""
    assert (inner.root / "src/new.py").exists()


def test_a_runs_branch_that_is_checked_out_beside_a_git_directory_elsewhere_stays(
    project: Project, tmp_path: Path
) -> None:
    run = make_run(with_flow(project, TWO_STEPS), None, "--until", "make")
    project.git("init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    project.git("worktree", "repair", str(project.worktree(run.id)))
    project.git("checkout", "-q", "--ignore-other-worktrees", f"shadow/{run.id}")
    before = run.tip
    answer = ask(project, "resume", run.id)
    assert refusal(answer)[0] == f"shadow/{run.id} is checked out in {project.root}"
    assert (run.tip, project.git("status", "--short")) == (before, "")
