"""Where a run lands, and where it does not: every state that a target branch can be in."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.conftest import Project
from tests.landing.common import WRITES, code_of, make_run, ready, refusal, tidy, with_flow
from tests.projects import ask
from tests.unseen import unseen_line

HOME = {"README.md": "# hello", "src/app.py": "print('changed')", "src/new.py": "print('new')"}


def test_a_target_that_stands_still_gets_one_commit(project: Project) -> None:
    run = ready(project)
    before = run.head()
    landed = run.landed()
    assert project.git("log", "-1", "--format=%P%n%an <%ae>%n%cn <%ce>%n%B", landed).rstrip().splitlines() == [
        before,
        "Test User <user@example.org>",
        "Test User <user@example.org>",
        "mini: ok",
        "",
        f"Swarm-Run: {run.id}",
        f"Swarm-Landed: {run.id} {run.approved}",
    ]
    assert code_of(project, "main") == HOME
    assert project.git("status", "--porcelain") == ""
    assert run.status()["landed"] == {"commit": landed, "target": "main"}
    assert run.steps() == [("make@1", "VERIFIED"), ("approve@1", "VERIFIED"), ("land@1", "VERIFIED")]
    assert run.trailers(f"shadow/{run.id}~1")["Swarm-Landing"] == f"{landed} refs/heads/main"
    tidy(run)


def test_the_task_is_the_subject(project: Project) -> None:
    run = make_run(with_flow(project), None, "-m", "Say it again\n\nand explain why")
    assert project.git("log", "-1", "--format=%s", run.landed()) == "Say it again"


def test_a_target_that_moved_elsewhere_gets_both(project: Project) -> None:
    run = ready(project)
    moved = project.commit({"other.txt": "other\n"}, "meanwhile")
    landed = run.landed()
    assert project.git("rev-parse", f"{landed}^") == moved
    assert code_of(project, "main") == {**HOME, "other.txt": "other"}
    assert run.evidence()["tests"] == {"passed": None, "exit_code": None, "reason": "no_tests", "command": None}
    assert run.steps()[-1] == ("land@1", "VERIFIED")
    tidy(run)


def test_merged_code_is_tested_before_the_target_moves(project: Project) -> None:
    run = ready(project, config="commands: {test: 'test -e other.txt && test -e src/new.py'}\n")
    project.commit({"other.txt": "other\n"}, "meanwhile")
    run.approve()
    said = run.land().stdout.splitlines()[0]
    assert said == f"{run.id} landed on main as {run.head()[:12]} (squash); merged with it the tests passed"
    assert run.evidence()["tests"]["passed"] is True
    tidy(run)


def test_tests_that_fail_on_merged_code_keep_it_from_landing(project: Project) -> None:
    run = ready(project, config="commands: {test: 'echo looked; test ! -e other.txt'}\n")
    moved = project.commit({"other.txt": "other\n"}, "meanwhile")
    run.approve()
    before = run.world()
    answer = run.land(code=1)
    command = "echo looked; test ! -e other.txt"
    assert answer.stderr.splitlines()[:2] == [
        f"git-swarm: the tests fail on the code merged with the target: failed (exit code 1): {command}",
        "  looked",
    ]
    assert (run.head(), run.world()) == (moved, before)
    assert run.evidence()["tests"] == {"passed": False, "exit_code": 1, "reason": None, "command": command}
    assert run.steps()[-1] == ("land@1", "BLOCKED")
    assert run.status()["approved"]["valid"]
    tidy(run)


def test_setup_prepares_the_place_of_the_tests(project: Project) -> None:
    config = "worktree: {setup: 'echo made > made.log'}\ncommands: {test: 'test -e made.log'}\n"
    project.commit({".gitignore": "made.log\n"})
    run = ready(project, config=config)
    project.commit({"other.txt": "other\n"}, "meanwhile")
    run.landed()
    assert run.evidence()["tests"]["passed"] is True


def test_a_conflict_in_a_file_whose_name_is_no_text_voids_the_approval(project: Project) -> None:
    odd = os.fsdecode(b"caf\xe9")
    write = project.root.parent / "write.sh"
    write.write_text("echo ours > $(printf 'caf\\351')\n", encoding="utf-8")
    run = ready(project, {"make": {"run": [f"sh {write}"]}})
    project.commit({odd: "theirs\n"}, "meanwhile")
    run.approve()
    reason, files, _hint = refusal(run.land(code=1))
    assert reason == f"main and {run.id} conflict in 1 file: the approval is void"
    assert files == run.status()["conflict"]["files"] == ["caf�"]


def test_a_conflict_voids_the_approval(project: Project) -> None:
    run = ready(project)
    moved = project.commit({"src/app.py": "print('theirs')\n"}, "meanwhile")
    run.approve()
    commit = project.git("rev-parse", f"refs/swarm/{run.id}/approval")
    before = run.world()
    reason, files, _hint = refusal(run.land(code=1))
    assert reason == f"main and {run.id} conflict in 1 file: the approval is void"
    assert files == ["src/app.py"]
    assert (run.head(), run.world()) == (moved, before)
    assert run.trailers(f"shadow/{run.id}~1")["Swarm-Voids"] == commit
    assert project.git("for-each-ref", f"refs/swarm/{run.id}/approval") == ""
    assert run.status()["approved"] is None
    again, _files, hint = refusal(run.land(code=1))
    assert again == f"{run.id} cannot land: it conflicts with main"
    assert hint == "git swarm start mini -m '…'"
    tidy(run)


@pytest.mark.parametrize(
    ("target", "there"),
    [("develop", "there are: main, side"), ("refs/heads/gone", "there are: main, side")],
)
def test_a_target_that_never_existed(project: Project, target: str, there: str) -> None:
    run = ready(project)
    project.git("branch", "side")
    run.approve()
    before = run.world()
    reason, _files, hint = refusal(run.land("--target", target, code=1))
    assert reason == f"there is no branch {target.removeprefix('refs/heads/')} ({there})"
    assert hint == f"git swarm land {run.id} --target main"
    assert run.world() == before


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_the_runs_own_branch_is_gone(project: Project, how: str) -> None:
    project.git("checkout", "-q", "-b", "topic")
    run = ready(project)
    run.approve()
    if how == "renamed":
        project.git("branch", "-m", "topic", "better")
        there = "better, main"
    else:
        project.git("checkout", "-q", "main")
        project.git("branch", "-q", "-D", "topic")
        there = "main"
    reason, _files, hint = refusal(run.land(code=1))
    assert reason == f"there is no branch topic (there are: {there})"
    first = there.partition(",")[0]
    assert hint == f"git swarm land {run.id} --target {first}"
    run.land("--target", first)
    assert len(run.landings(first)) == 1


def test_a_run_that_was_started_on_no_branch_needs_a_target(project: Project) -> None:
    with_flow(project)
    project.git("checkout", "-q", "--detach")
    run = make_run(project)
    run.approve()
    reason, _files, hint = refusal(run.land(code=1))
    assert reason == (f"{run.id} was started on a commit without a branch: it has no target branch (there are: main)")
    assert hint == f"git swarm land {run.id} --target main"
    detached = project.git("rev-parse", "HEAD")
    run.land("--target", "main")
    assert code_of(project, "main") == HOME
    assert (project.git("rev-parse", "HEAD"), project.git("status", "--porcelain")) == (detached, "")


def test_the_configured_target_counts_before_the_runs_own(project: Project) -> None:
    run = ready(project, config="deploy: {target: release}\n")
    before = run.head()
    project.git("branch", "release")
    run.landed()
    assert (run.head(), len(run.landings("release"))) == (before, 1)


def test_a_base_that_is_a_branch_is_the_target(project: Project) -> None:
    with_flow(project)
    project.git("branch", "trunk")
    project.commit({"only-main": "1\n"}, "main goes on")
    run = make_run(project, None, "--base", "trunk")
    before = run.head()
    run.landed()
    assert (run.head(), len(run.landings("trunk"))) == (before, 1)


def test_a_shadow_branch_is_no_target(project: Project) -> None:
    run = ready(project)
    run.approve()
    reason, _files, _hint = refusal(run.land("--target", f"shadow/{run.id}", code=1))
    assert reason == f"shadow/{run.id} is the branch of a run, and cannot be a target (there are: main)"


def test_unrelated_histories_are_not_merged(project: Project) -> None:
    run = ready(project)
    orphan = project.git("commit-tree", "-m", "alone", project.git("rev-parse", "HEAD^{tree}"))
    project.git("branch", "alone", orphan)
    run.approve()
    reason, _files, _hint = refusal(run.land("--target", "alone", code=1))
    assert reason == f"alone and {run.id} have no history in common"


def test_several_merge_bases_are_not_guessed_at(project: Project) -> None:
    with_flow(project)
    root = project.git("rev-parse", "HEAD")
    tree = project.git("rev-parse", "HEAD^{tree}")

    def commit(*parents: str, name: str) -> str:
        return project.git("commit-tree", *(w for p in parents for w in ("-p", p)), "-m", name, tree)

    one, two = commit(root, name="one"), commit(root, name="two")
    project.git("branch", "cross", commit(one, two, name="cross"))
    project.git("reset", "-q", "--hard", commit(two, one, name="criss"))
    run = make_run(project)
    run.approve()
    reason, _files, hint = refusal(run.land("--target", "cross", code=1))
    bases = ", ".join(base[:12] for base in sorted((one, two)))
    assert reason == f"cross and {run.id} have 2 merge bases ({bases}): git-swarm cannot choose one"
    assert hint == f"git merge shadow/{run.id}"


def test_a_run_without_code_has_nothing_to_land(project: Project) -> None:
    run = ready(project, {"make": {"summary": "looked around"}})
    run.approve()
    reason, _files, hint = refusal(run.land(code=1))
    assert (reason, hint) == (
        f"{run.id} changes nothing in the code of main",
        f"git swarm diff {run.id}",
    )


def test_a_target_that_got_the_same_code_otherwise_has_nothing_to_gain(project: Project) -> None:
    run = ready(project)
    project.commit(WRITES, "by hand")
    run.approve()
    reason, _files, _hint = refusal(run.land(code=1))
    assert reason == f"main has all the code of {run.id} already"


def test_without_an_approval_nothing_lands(project: Project) -> None:
    run = ready(project)
    before = run.world()
    reason, _files, hint = refusal(run.land(code=1))
    assert (reason, hint) == (f"{run.id} cannot land: it is not approved", f"git swarm approve {run.id}")
    assert run.world() == before


def test_a_played_run_never_lands_unless_that_was_allowed_at_its_start(project: Project) -> None:
    run = make_run(with_flow(project), allow=False)
    before = run.world()
    reason, _files, hint = refusal(run.land(code=1))
    assert reason.startswith(f"{run.id} is a rehearsal: a stub or a script did the work, not a model")
    assert hint == "git swarm start FLOW --mode cli"
    assert run.world() == before


def test_a_dry_run_only_says_what_would_happen(project: Project) -> None:
    run = ready(project)
    run.approve()
    before, tip = run.world(), run.tip
    assert run.land("--dry-run").stdout == (
        f"{run.id} would land on main (squash)\n"
        f"approved   {run.approved[:12]} by human\n"
        f"next       git swarm land {run.id}\n"
    )
    assert (run.world(), run.tip) == (before, tip)


def test_a_bare_repository(project: Project) -> None:
    with_flow(project)
    bare = project.root.parent / "bare.git"
    project.git("clone", "-q", "--bare", str(project.root), str(bare))
    run = make_run(Project(bare, project.env))
    before = run.head()
    landed = run.landed()
    assert (run.project.git("rev-parse", f"{landed}^"), code_of(run.project, "main")) == (before, HOME)


def test_a_locked_branch_is_said_to_be_locked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitswarm.git.refs._LOCK_WAIT_S", 0.1)
    run = ready(project)
    run.approve()
    project.git("checkout", "-q", "-b", "elsewhere")
    before = run.head()
    lock = project.root / ".git/refs/heads/main.lock"
    lock.touch()
    reason, _files, hint = refusal(run.land(code=1))
    assert reason.startswith(f"cannot move refs/heads/main: {lock} is in the way")
    assert hint == f"rm {lock}"
    assert run.head() == before
    lock.unlink()
    run.land()
    assert len(run.landings()) == 1


def test_a_target_that_moves_while_it_is_tested_is_merged_again(project: Project) -> None:
    """The tests themselves commit something to main, the first time."""
    once = "test -e ../../moved || { touch ../../moved; git -C ../../repo commit -q --allow-empty -m meanwhile; }"
    run = ready(project, config=f"commands: {{test: '{unseen_line(once)}'}}\n")
    project.commit({"other.txt": "other\n"}, "before")
    landed = run.landed()
    assert project.git("log", "-1", "--format=%s", f"{landed}^") == "meanwhile"
    assert run.steps()[-1] == ("land@1", "VERIFIED")


def test_a_target_that_never_rests_is_given_up(project: Project) -> None:
    always = "git -C ../../repo commit -q --allow-empty -m meanwhile"
    run = ready(project, config=f"commands: {{test: '{unseen_line(always)}'}}\n")
    project.commit({"other.txt": "other\n"}, "before")
    run.approve()
    reason, _files, hint = refusal(run.land(code=1))
    assert (reason, hint) == ("main kept moving: 5 attempts to land on it failed", f"git swarm land {run.id}")
    assert run.landings() == []


def test_two_runs_land_one_after_the_other(project: Project) -> None:
    one = ready(project, {"make": {"write": {"one.txt": "1\n"}}})
    two = make_run(project, {"make": {"write": {"two.txt": "2\n"}}})
    first, second = one.landed(), two.landed()
    assert project.git("rev-parse", f"{second}^") == first
    assert {"one.txt", "two.txt"} < set(code_of(project, "main"))


def test_two_runs_that_land_at_once_both_get_home(project: Project) -> None:
    runs = [ready(project, {"make": {"write": {"one.txt": "1\n"}}})]
    runs.append(make_run(project, {"make": {"write": {"two.txt": "2\n"}}}))
    project.git("checkout", "-q", "-b", "elsewhere")
    for run in runs:
        run.approve()
    started = [
        subprocess.Popen(
            project.argv("land", run.id), cwd=project.root, env=dict(project.env), stdout=subprocess.PIPE
        )
        for run in runs
    ]
    codes = [process.communicate() and process.returncode for process in started]
    assert codes == [0, 0]
    assert [len(run.landings()) for run in runs] == [1, 1]
    assert {"one.txt", "two.txt"} < set(code_of(project, "main"))


def test_the_worktree_of_the_run_is_no_worse_a_place_to_stand_in(project: Project) -> None:
    run = ready(project)
    run.approve()
    answer = ask(project, "land", cwd=project.worktree(run.id))
    assert (answer.code, len(run.landings())) == (0, 1)


def test_an_interrupted_run_does_not_land(project: Project) -> None:
    run = ready(project)
    project.git("update-ref", f"refs/heads/shadow/{run.id}", f"shadow/{run.id}~1")
    project.git("update-ref", "-d", f"refs/notes/swarm/{run.id}/events")
    reason, _files, hint = refusal(run.land(code=1))
    assert (reason, hint) == (f"{run.id} was interrupted: it is not complete", f"git swarm resume {run.id}")
