"""`worktree.paths`: a run's worktree holds some folders of a large repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gitswarm.worktree.sparse import cone_patterns
from tests.conftest import Project
from tests.projects import ask, evidence, only_run

FLOW = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: test}
  - {id: close, station: code-implementer}
"""
FORK = """\
id: fork
steps:
  - {id: write, station: code-implementer, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: code-implementer}
  - {id: right, station: code-implementer}
  - {id: join, station: self-reviewer, routing: {kind: join, join_from: [left, right]}}
"""
ALONE = "test ! -e lib/other && test -e README.md"
CONFIG = f"worktree: {{paths: [lib/own, 'with blank/']}}\ncommands: {{test: '{ALONE}'}}\n"
FILES = {
    ".swarm/flows/work.yaml": FLOW,
    ".swarm/flows/fork.yaml": FORK,
    ".swarm/config.yaml": CONFIG,
    "README.md": "# Many\n",
    "lib/top.py": "top = 1\n",
    "lib/own/a.py": "a = 1\n",
    "lib/other/b.py": "b = 1\n",
    "with blank/c.py": "c = 1\n",
    "docs/d.md": "d\n",
}
HELD = ["README.md", "lib/own/a.py", "lib/top.py", "with blank/c.py"]


@pytest.fixture
def many(project: Project) -> Project:
    project.commit(FILES)
    return project


def play(project: Project, steps: dict[str, object], *options: str, flow: str = "work") -> None:
    script = project.script(json.dumps({"steps": steps}))
    project.swarm("start", flow, "--script", script, "--allow-stub", "--autopilot", *options)


def worktree(project: Project) -> Path:
    return Path(project.swarm("path").stdout.strip())


def held(folder: Path) -> list[str]:
    """Files of the project in a worktree."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith(".") and name != ".git")


@pytest.mark.parametrize(
    "paths",
    [["a"], ["a/b", "c"], ["a/b/c", "a/d"], ["a", "a/b"], ["we ird", "st*r", "br[ck]t", "qu?stion"], ["deep/er/est"]],
)
def test_patterns_are_those_that_git_writes(project: Project, paths: Sequence[str]) -> None:
    project.git("sparse-checkout", "set", "--cone", "--skip-checks", ".swarm", *paths)
    written = (project.root / ".git" / "info" / "sparse-checkout").read_text(encoding="utf-8").splitlines()
    assert sorted(cone_patterns(paths)) == sorted(written)


def test_a_run_has_these_folders_and_commits_whatever_it_writes(many: Project) -> None:
    config = (many.root / ".git" / "config").read_bytes()
    write = {"write": {"lib/own/a.py": "a = 2\n", "new/e.py": "e = 1\n", "docs/d.md": "changed\n"}}
    play(many, {"write": write}, "--until", "write")
    folder = worktree(many)
    assert held(folder) == sorted([*HELD, "docs/d.md", "new/e.py"])
    assert many.git("status", "--porcelain", cwd=folder) == ""
    assert (many.root / ".git" / "config").read_bytes() == config
    (folder / "docs" / "d.md").unlink()
    many.swarm("resume")
    changed = many.git("diff", "--name-status", "main", f"shadow/{only_run(many)}", "--", ":!.swarm/runs")
    assert changed.split("\n") == ["M\tdocs/d.md", "M\tlib/own/a.py", "A\tnew/e.py"]
    many.swarm("verify")


def test_the_tests_of_base_and_commit_run_in_such_a_checkout(many: Project) -> None:
    play(many, {"write": {"write": {"lib/own/a.py": "a = 2\n"}}})
    shown = many.json("show", "test")
    assert (shown["status"], shown["evidence"]["tests"]["passed"]) == ("VERIFIED", True)
    assert list(shown["evidence"]["extra_runs_ms"]) == ["base"]
    assert many.json("status")["state"] == "succeeded"


def test_steps_side_by_side_have_these_folders_too(many: Project) -> None:
    look = "find . -name .git -prune -o -type f -not -path './.swarm/*' -print | sort >lib/own/{}.txt"
    steps: dict[str, object] = {side: {"run": [look.format(side)]} for side in ("left", "right")}
    play(many, steps, flow="fork")
    seen = many.git("show", f"shadow/{only_run(many)}:lib/own/left.txt").splitlines()
    assert [name.removeprefix("./") for name in seen if not name.endswith(".txt")] == HELD


def test_rollback_and_resume_bring_back_no_more(many: Project) -> None:
    play(many, {"write": {"write": {"docs/d.md": "changed\n"}}})
    assert "docs/d.md" in held(worktree(many))
    many.swarm("rollback", "0")
    assert held(worktree(many)) == HELD
    many.swarm("resume")
    assert many.json("status")["state"] == "succeeded"


def test_a_worktree_made_again_has_no_more(many: Project) -> None:
    play(many, {"write": {"write": {"docs/d.md": "changed\n"}}}, "--until", "write")
    many.swarm("discard", only_run(many), "--keep-evidence")
    many.swarm("resume", "--until", "test")
    assert held(worktree(many)) == sorted([*HELD, "docs/d.md"])


def test_what_was_discarded_comes_back_with_nothing_deleted(many: Project) -> None:
    play(many, {"write": {"write": {"lib/own/a.py": "a = 2\n"}}}, "--until", "write")
    run = only_run(many)
    (worktree(many) / "lib" / "top.py").write_text("edited\n", encoding="utf-8")
    many.swarm("discard", run, "--force")
    many.swarm("discard", "--restore", run)
    assert many.git("status", "--porcelain", cwd=worktree(many)) == " M lib/top.py"
    many.swarm("resume", "--adopt")
    assert many.git("show", f"shadow/{run}:lib/other/b.py") == "b = 1"


def test_an_agent_is_told_that_it_sees_a_part(many: Project) -> None:
    look = [f"git {words}" for words in ("ls-tree -r --name-only HEAD", "grep 'b = 1' HEAD -- lib/other")]
    change = "git show HEAD:lib/other/b.py >b.py && echo 'c = 2' >>b.py && mkdir lib/other && mv b.py lib/other"
    play(many, {"write": {"run": [*look, change]}}, "--until", "write")
    prompt = many.swarm("show", "write", "--prompt").stdout
    assert "## A part of the repository\n" in prompt
    assert "\n- lib/own\n- with blank/\n" in prompt
    assert [call["success"] for call in many.json("show", "write")["receipt"]["tool_calls"]] == [True, True, True]
    assert many.git("show", f"shadow/{only_run(many)}:lib/other/b.py") == "b = 1\nc = 2"


@pytest.mark.parametrize("name", ["swarm-paths", "info/sparse-checkout"])
def test_an_agent_that_has_git_hold_everything_deletes_nothing(many: Project, name: str) -> None:
    play(many, {"write": {"run": [f"rm $(git rev-parse --git-dir)/{name}"]}}, "--until", "write")
    (tampered,) = evidence(many, "work/write")["tampered"]
    assert tampered.endswith(f"/{name}")
    many.swarm("resume")
    assert many.git("diff", "--name-only", "main", f"shadow/{only_run(many)}", "--", ":!.swarm/runs") == ""
    assert held(worktree(many)) == HELD


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../b", "", "a/./b"])
def test_what_is_no_folder_below_the_top_is_refused(project: Project, path: str) -> None:
    project.commit({".swarm/config.yaml": f"worktree: {{paths: ['{path}']}}\n"})
    refused = ask(project, "start", "check")
    assert (refused.code, f"worktree.paths.0: '{path}' is no folder of the repository" in refused.stderr) == (1, True)
