"""`demo` as a stranger calls it: a process, a folder, and whatever git configuration is there."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitswarm.cli import rehearsals as demo
from tests.conftest import GIT_CONFIG, Project

NO_IDENTITY = ""
UNUSUAL = """\
[user]
    useConfigOnly = true
[init]
    defaultBranch = trunk
    templateDir = ~/template
    defaultObjectFormat = sha256
    defaultRefFormat = reftable
[commit]
    gpgsign = true
[core]
    hooksPath = ~/hooks
    excludesFile = ~/ignored
"""

STORY = [
    ("load_context", "VERIFIED"),
    ("clarify", "VERIFIED"),
    ("author_tests", "VERIFIED"),
    ("critique_tests", "VERIFIED"),
    ("implement", "VERIFIED"),
    ("critique_code", "UNVERIFIED"),
    ("implement@2", "VERIFIED"),
    ("critique_code@2", "VERIFIED"),
    ("run_tests", "VERIFIED"),
    ("mutate", "VERIFIED"),
    ("fix", "VERIFIED"),
    ("verify_tests", "VERIFIED"),
    ("write_docs", "VERIFIED"),
    ("self_review", "VERIFIED"),
    ("finalize", "VERIFIED"),
]


@dataclass(frozen=True)
class Shown:
    """A finished demo: its project, and what it printed."""

    project: Project
    stdout: list[str]
    stderr: str

    @property
    def commands(self) -> list[str]:
        return [line.strip() for line in self.stdout if line.startswith("  ")]


def show(env: dict[str, str], where: Path, *arguments: str) -> Shown:
    """Runs the demo; a temporary folder of its own choice lies below `where` too.

    Its dozen of test runs leave out the plugins that our own tests need: half of their time.
    """
    quick = {"TMPDIR": str(where), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = Project(where, env | quick).swarm("demo", *arguments)
    lines = done.stdout.splitlines()
    return Shown(Project(Path(lines[0].removeprefix("folder").strip()), env), lines, done.stderr)


def shell_lines(project: Project, step: str) -> list[tuple[bool, str]]:
    """Success and last line of output of each shell line of a step, from its receipt."""
    calls = project.json("show", step)["receipt"]["tool_calls"]
    return [(call["success"], last_line(call["output"])) for call in calls if call["tool_name"] == "Bash"]


def last_line(output: str) -> str:
    line = output.splitlines()[-1] if output else ""
    return re.sub(r" in [0-9.]+s", "", line)


def passed(project: Project, step: str) -> object:
    return project.json("show", step)["evidence"]["tests"]["passed"]


@pytest.mark.parametrize(
    "git_config",
    [
        pytest.param(GIT_CONFIG, id="with identity", marks=pytest.mark.soak),
        pytest.param(NO_IDENTITY, id="without identity", marks=pytest.mark.soak),
        pytest.param(UNUSUAL, id="with unusual settings"),
    ],
)
def test_the_first_implementation_is_sent_back_and_the_second_passes(
    git_config: str, tmp_path: Path, env: dict[str, str]
) -> None:
    home = Path(env["HOME"])
    (home / ".gitconfig").write_text(git_config, encoding="utf-8")
    (home / "ignored").write_text("ISSUE.md\n", encoding="utf-8")
    shown = show(env, tmp_path)
    project = shown.project

    assert [
        (entry["step"] + (f"@{entry['iteration']}" if entry["iteration"] > 1 else ""), entry["status"])
        for entry in project.json("log")
    ] == STORY
    assert shell_lines(project, "author_tests") == [(False, "7 failed, 2 passed")]
    assert shell_lines(project, "critique_code@1") == [(False, "3 failed, 6 passed")]
    assert shell_lines(project, "mutate") == [(True, "s/limit < 1/limit < 0/ survived")]
    assert shell_lines(project, "fix") == [(True, ""), (True, "MS-1 killed")]
    assert (passed(project, "run_tests"), passed(project, "verify_tests")) == (True, True)
    assert project.root.is_relative_to(tmp_path)
    assert project.git("status", "--porcelain", "--ignored") == ""


def test_it_shows_progress_says_where_things_are_and_its_five_commands_work(
    tmp_path: Path, env: dict[str, str]
) -> None:
    shown = show(env, tmp_path, "a new folder")
    run = shown.project.json("list")[0]["run_id"]
    assert shown.stdout == [
        f"folder     {tmp_path}/a new folder",
        f"branch     shadow/{run}",
        "look around:",
        f"  cd '{tmp_path}/a new folder'",
        "  git swarm log",
        "  git swarm show critique_code@1",
        "  git swarm diff",
        f"  git log --oneline --notes='swarm/*/routing' shadow/{run}",
    ]
    progress = shown.stderr.splitlines()
    assert progress[0] == f"demo project {tmp_path}/a new folder"
    assert progress[1].startswith("STUB MODE, a rehearsal")
    assert sum(1 for line in progress if re.match(r"[✓!] +\d+ ", line)) == len(STORY)
    looked = subprocess.run(
        ["sh", "-e"],
        input="\n".join(shown.commands),
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (looked.returncode, looked.stderr) == (0, "")
    for seen in (
        "implement@2",
        "CC-1 critical",
        "+def _cut(slug: str, limit: int) -> str:",
        "1. critique_code -> implement: loop (deterministic): loop_iteration:1",
    ):
        assert seen in looked.stdout


def test_a_folder_with_something_in_it_is_refused(project: Project) -> None:
    before = project.git("for-each-ref")
    refused = project.swarm("demo", ".", code=1)
    assert refused.stdout == ""
    assert refused.stderr == (
        f"git-swarm: {project.root} is not empty, and the demo makes a project of its own\n"
        "hint: git swarm demo   (in a temporary folder; or name a new one)\n"
    )
    assert (project.git("for-each-ref"), project.git("status", "--porcelain")) == (before, "")


def test_a_file_is_refused(project: Project) -> None:
    refused = project.swarm("demo", "README.md", code=1)
    assert refused.stderr == (
        f"git-swarm: no folder for the demo: [Errno 17] File exists: '{project.root}/README.md'\n"
        "hint: git swarm demo SOME_NEW_FOLDER\n"
    )


def test_without_pytest_it_says_what_to_install(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pytest'] = None\n", encoding="utf-8")
    bare = Project(tmp_path, env | {"PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"})
    refused = bare.swarm_process("demo", "new", code=1)
    assert refused.stderr == (
        f"git-swarm: the demo really runs tests, and {sys.executable} has no pytest\n"
        f"hint: {sys.executable} -m pip install pytest\n"
    )
    assert not (tmp_path / "new").exists()


def test_commands_name_the_program_when_git_would_not_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert demo._our_name() == f"{Path(sys.executable).parent}/git-swarm"
