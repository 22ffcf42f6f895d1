"""A run lands once: repeated, reverted, gone on with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.landing.common import TWO_STEPS, WRITES, Run, code_of, make_run, ready, refusal, with_flow
from tests.projects import ask


def go_on(run: Run) -> Run:
    """A run that begins where the target is now."""
    return make_run(run.project, {"make": {"write": {"again.txt": "1\n"}}})


@pytest.mark.parametrize("strategy", ["squash", "merge", "evidence"])
def test_landing_twice_changes_nothing(project: Project, strategy: str) -> None:
    run = ready(project)
    landed = run.landed("--strategy", strategy)
    before, tip = run.world(), run.tip
    said = run.land("--strategy", strategy)
    assert said.stdout == f"{run.id} has landed on main already, as {landed[:12]}\n"
    assert (run.world(), run.tip) == (before, tip)


@pytest.mark.parametrize(
    "entry",
    [
        ("log.showSignature", "true"),
        ("i18n.logOutputEncoding", "UTF-16"),
        ("i18n.commitEncoding", "latin1"),
        ("core.commentChar", "S"),
        ("trailer.separators", "="),
    ],
    ids=lambda entry: entry[0],
)
def test_a_landing_is_known_again_however_the_user_has_git_print_commits(
    project: Project, tmp_path: Path, entry: tuple[str, str]
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    signing = {"gpg.format": "ssh", "user.signingkey": str(tmp_path / "key.pub"), "commit.gpgsign": "true"}
    for key, value in (*signing.items(), entry):
        project.git("config", key, value)
    project.commit({".git/hooks/pre-commit": "#!/bin/sh\n"})
    (project.root / ".git/hooks/pre-commit").chmod(0o755)
    run = ready(project, {"make": {"write": WRITES, "summary": "größer"}})
    landed = run.landed()
    project.git("config", "--unset", entry[0])
    assert "größer" in project.git("log", "-1", "--format=%B", landed)
    project.git("config", *entry)
    assert run.land().stdout == f"{run.id} has landed on main already, as {landed[:12]}\n"
    assert project.swarm("verify", run.id).stdout.splitlines()[-2].endswith("no changes found")


def test_landing_twice_with_commits_on_top_changes_nothing(project: Project) -> None:
    run = ready(project)
    landed = run.landed()
    project.commit({"later.txt": "1\n"}, "later")
    before = run.world()
    run.land()
    assert (run.world(), run.landings()) == (before, [landed])


def test_a_landing_that_nobody_recorded_is_recorded(project: Project) -> None:
    """As after a kill between the move of the target and the step."""
    run = ready(project)
    run.approve()
    message = f"by hand\n\nSwarm-Run: {run.id}\nSwarm-Landed: {run.id} {run.approved}\n"
    tree = project.git("rev-parse", f"{run.approved}^{{tree}}")
    commit = project.git("commit-tree", "-p", "main", "-F", "-", tree, stdin=message)
    project.git("merge", "-q", "--ff-only", commit)
    run.land()
    assert run.steps()[-1] == ("land@1", "VERIFIED")
    assert run.status()["landed"] == {"commit": commit, "target": "main"}
    run.land()
    assert run.steps()[-1] == ("land@1", "VERIFIED")


def test_prose_that_looks_like_the_trailer_is_no_landing(project: Project) -> None:
    run = ready(project)
    run.approve()
    project.git("commit", "-q", "--allow-empty", "-m", f"about\n\nSwarm-Landed: {run.id} {run.approved}\n\nthe end")
    run.land()
    assert code_of(project, "main")["src/new.py"] == "print('new')"


def test_what_was_reverted_does_not_land_again(project: Project) -> None:
    run = ready(project)
    landed = run.landed()
    project.git("revert", "--no-edit", landed)
    revert = run.head()
    before = run.world()
    assert run.land().stdout == (
        f"{run.id} has landed on main already, as {landed[:12]}\n"
        f"reverted   by {revert[:12]}: it is not landed again automatically\n"
        f"again      git revert {revert[:12]}   (on main)\n"
    )
    assert run.world() == before


def test_a_revert_of_the_revert_is_a_landing_like_before(project: Project) -> None:
    run = ready(project)
    landed = run.landed()
    project.git("revert", "--no-edit", landed)
    project.git("revert", "--no-edit", "HEAD")
    assert run.land().stdout == f"{run.id} has landed on main already, as {landed[:12]}\n"
    assert code_of(project, "main")["src/new.py"] == "print('new')"


@pytest.mark.parametrize("strategy", ["squash", "merge"])
def test_a_new_approval_lands_again_what_was_reverted(project: Project, strategy: str) -> None:
    run = ready(project)
    landed = run.landed("--strategy", strategy)
    project.git("revert", "--no-edit", *(["-m", "1"] if strategy == "merge" else []), landed)
    run.approve("--reject", "-m", "it was wrong")
    run.approve("-m", "it was right")
    run.land("--strategy", strategy)
    assert code_of(project, "main")["src/new.py"] == "print('new')"
    assert len(run.landings()) == 2


@pytest.mark.parametrize("strategy", ["squash", "merge", "evidence"])
def test_a_run_that_goes_on_lands_what_is_new(project: Project, strategy: str) -> None:
    """Both times it changes the same line: what landed before is common ground."""
    with_flow(project, TWO_STEPS)
    steps = {"make": {"write": {"src/app.py": "print('one')\n"}}, "more": {"write": {"src/app.py": "print('two')\n"}}}
    run = make_run(project, steps, "--until", "make")
    first = run.landed("--strategy", strategy)
    assert ask(project, "resume", run.id).code == 0
    project.commit({"other.txt": "1\n"}, "meanwhile")
    second = run.landed("--strategy", strategy)
    assert code_of(project, "main") == {"README.md": "# hello", "src/app.py": "print('two')", "other.txt": "1"}
    assert run.landings() == [second, first]
    assert [step for step, _status in run.steps()] == [
        "make@1",
        "approve@1",
        "land@1",
        "more@1",
        "approve@2",
        "land@2",
    ]


def test_a_landed_run_that_is_rolled_back_knows_that_it_landed(project: Project) -> None:
    run = ready(project)
    landed = run.landed()
    assert ask(project, "rollback", "approve", "--run", run.id).code == 0
    assert ask(project, "stop", run.id).code == 0
    run.land()
    assert run.landings() == [landed]
    assert run.status()["landed"] == {"commit": landed, "target": "main"}


def test_the_next_run_begins_on_what_landed(project: Project) -> None:
    run = ready(project)
    landed = run.landed("--strategy", "merge")
    after = go_on(run)
    assert after.status()["base"] == landed
    after.landed("--strategy", "merge")
    assert "again.txt" in code_of(project, "main")


def test_the_events_tell_what_was_intended(project: Project) -> None:
    run = ready(project)
    before = run.head()
    landed = run.landed()
    lines = ask(project, "events", run.id, "--json").stdout.splitlines()
    told = [json.loads(line)["payload"] for line in lines if json.loads(line)["kind"] == "intent"]
    key = f"land {run.id} {run.approved}"
    assert told == [{"key": key, "target": "refs/heads/main", "onto": before, "commit": landed}]


def test_a_rejected_run_stays_where_it_landed(project: Project) -> None:
    run = ready(project)
    landed = run.landed()
    run.approve("--reject", "-m", "too late")
    reason, _files, _hint = refusal(run.land(code=1))
    assert (reason, run.landings()) == (f"{run.id} cannot land: it was rejected", [landed])
