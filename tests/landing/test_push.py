"""The push after a landing, where a team asked for it."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Project
from tests.landing.common import Run, hook, ready, refusal, tidy

PUSHED = "deploy: {push: true}\n"


def with_remote(project: Project) -> Path:
    """A bare repository as `origin`; main follows it."""
    path = project.root.parent / "origin.git"
    project.git("init", "-q", "--bare", str(path))
    project.git("remote", "add", "origin", str(path))
    project.git("push", "-q", "--set-upstream", "origin", "main")
    return path


def at_remote(project: Project, path: Path) -> dict[str, str]:
    listed = project.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=path).splitlines()
    return dict(line.split(" ", 1) for line in listed)


def pushing(project: Project) -> tuple[Run, Path]:
    path = with_remote(project)
    run = ready(project, config=PUSHED)
    project.git("push", "-q")
    return run, path


def test_the_target_is_pushed_and_nothing_else(project: Project) -> None:
    run, path = pushing(project)
    run.approve()
    said = run.land()
    assert said.stdout.splitlines()[-2] == "pushed     main to origin main"
    assert at_remote(project, path) == {"refs/heads/main": run.head()}
    tidy(run)


def test_without_the_key_nothing_is_pushed(project: Project) -> None:
    path = with_remote(project)
    run = ready(project)
    before = at_remote(project, path)
    run.landed()
    assert at_remote(project, path) == before


def test_an_upstream_of_another_name_is_respected(project: Project) -> None:
    run, path = pushing(project)
    project.git("push", "-q", "--set-upstream", "origin", "main:trunk")
    run.landed()
    assert at_remote(project, path)["refs/heads/trunk"] == run.head()
    assert at_remote(project, path)["refs/heads/main"] != run.head()


def test_a_protected_branch_refuses_and_the_landing_stays(project: Project) -> None:
    """As a hosting service does it: the remote's own hook says no."""
    run, path = pushing(project)
    rule = path / "hooks/pre-receive"
    rule.write_text("#!/bin/sh\necho 'GH006: protected branch update failed'\nexit 1\n", encoding="utf-8")
    rule.chmod(0o755)
    before = at_remote(project, path)
    run.approve()
    answer = run.land(code=1)
    landed = run.head()
    lines = answer.stderr.splitlines()
    assert lines[0] == "git-swarm: main is not pushed: origin or a hook refused"
    assert any("GH006: protected branch update failed" in line for line in lines)
    assert lines[-1] == f"hint: git swarm land {run.id}   (pushes again, once that is fixed)"
    assert (at_remote(project, path), run.landings()) == (before, [landed])
    assert run.status()["landed"] == {"commit": landed, "target": "main"}
    rule.unlink()
    again = run.land()
    assert again.stdout.splitlines() == [
        f"{run.id} has landed on main already, as {landed[:12]}",
        "pushed     main to origin main",
    ]
    assert at_remote(project, path) == {"refs/heads/main": landed}


def test_the_users_own_pre_push_hook_decides_too(project: Project) -> None:
    run, path = pushing(project)
    hook(project, "pre-push", ["echo 'not on fridays' >&2", "exit 1"])
    before = at_remote(project, path)
    run.approve()
    answer = run.land(code=1)
    assert "  not on fridays" in answer.stderr.splitlines()
    assert at_remote(project, path) == before


def test_a_target_without_an_upstream_is_not_pushed_anywhere(project: Project) -> None:
    run = ready(project, config=PUSHED)
    run.approve()
    reason, _lines, hint = refusal(run.land(code=1))
    assert (reason, hint) == ("main is not pushed: it has no upstream", "git push --set-upstream REMOTE main")
    assert len(run.landings()) == 1


def test_what_was_reverted_is_not_pushed_for_the_user(project: Project) -> None:
    run, path = pushing(project)
    landed = run.landed()
    project.git("revert", "--no-edit", landed)
    run.land()
    assert at_remote(project, path) == {"refs/heads/main": landed}


def test_a_remote_that_looks_like_an_option_is_none(project: Project) -> None:
    run, path = pushing(project)
    before = at_remote(project, path)
    called = project.root.parent / "called"
    project.git("config", "branch.main.remote", f"--receive-pack=touch {called};")
    run.approve()
    project.swarm("land", run.id, code=1)
    assert (at_remote(project, path), called.exists()) == (before, False)
