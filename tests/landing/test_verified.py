"""What approve and land leave behind is whole: `verify` recomputes it from git alone."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project
from tests.landing.common import TWO_STEPS, Run, make_run, ready, with_flow
from tests.projects import ask


def findings(run: Run) -> list[tuple[str, str]]:
    report = json.loads(ask(run.project, "verify", run.id, "--json").stdout)
    assert report["checks"]["approval"] > 0
    return [(found["severity"], found["message"]) for found in report["findings"]]


@pytest.mark.parametrize("strategy", ["squash", "merge", "evidence"])
def test_a_landing_is_what_merging_the_approved_code_makes(project: Project, strategy: str) -> None:
    run = ready(project)
    project.commit({"other.txt": "1\n"}, "meanwhile")
    run.landed("--strategy", strategy)
    assert findings(run) == []


@pytest.mark.parametrize("strategy", ["squash", "merge", "evidence"])
def test_so_is_one_of_a_run_that_went_on(project: Project, strategy: str) -> None:
    with_flow(project, TWO_STEPS)
    steps = {"make": {"write": {"src/app.py": "print('one')\n"}}, "more": {"write": {"src/app.py": "print('two')\n"}}}
    run = make_run(project, steps, "--until", "make")
    run.landed("--strategy", strategy)
    assert ask(project, "resume", run.id).code == 0
    project.commit({"other.txt": "1\n"}, "meanwhile")
    run.landed("--strategy", strategy)
    assert findings(run) == []


def test_so_is_one_after_a_revert(project: Project) -> None:
    run = ready(project)
    project.git("revert", "--no-edit", run.landed())
    run.approve("--reject", "-m", "it was wrong")
    run.landed()
    assert findings(run) == []


def test_so_is_a_run_that_was_rejected_and_one_whose_approval_became_void(project: Project) -> None:
    rejected = ready(project)
    rejected.approve("--reject", "-m", "no")
    void = make_run(project, {"make": {"write": {"README.md": "# mine\n"}}})
    void.approve()
    project.commit({"README.md": "# yours\n"}, "meanwhile")
    void.land(code=1)
    assert (findings(rejected), findings(void)) == ([], [])


def test_code_that_nobody_approved_is_found(project: Project) -> None:
    run = ready(project)
    landed = run.landed()
    (project.root / "more.txt").write_text("more\n", encoding="utf-8")
    project.git("add", "more.txt")
    project.git("commit", "-q", "--amend", "--no-edit")
    assert run.head() != landed
    message = f"its tree is not what merging {run.approved} into the branch makes"
    assert findings(run) == [("error", message)]


def shallow(project: Project) -> Project:
    clone = Project(project.root.parent / "shallow", project.env)
    project.git("clone", "-q", "--depth", "1", project.root.as_uri(), str(clone.root))
    return clone


def test_a_shallow_clone_lands_and_verifies(project: Project) -> None:
    project.commit({"older.txt": "1\n"}, "older")
    clone = shallow(project)
    run = ready(clone)
    run.landed()
    assert "verified, no changes found\n" in clone.swarm("verify", run.id).stdout


def test_what_a_shallow_clone_lacks_is_named_and_can_be_fetched(project: Project) -> None:
    run = ready(project)
    run.landed()
    clone = shallow(project)
    refs = [f"refs/heads/shadow/{run.id}", f"refs/swarm/{run.id}/*", f"refs/notes/swarm/{run.id}/*"]
    clone.git("fetch", "-q", "--depth", "9", "origin", *(f"{ref}:{ref}" for ref in refs))
    said = clone.swarm("verify", run.id)
    assert "its tree cannot be recomputed: the commit before it is not here" in said.stdout
    unshallow = said.stderr.partition("hint: ")[2].partition("   ")[0]
    assert unshallow == "git fetch --unshallow"
    clone.git(*unshallow.split()[1:])
    assert "verified, no changes found\n" in clone.swarm("verify", run.id).stdout
