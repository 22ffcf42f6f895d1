"""A run that stopped behind its first step, for tests that do something to it and then do what the hint says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import Project
from tests.in_process import Answer
from tests.projects import ask

FLOW = """\
id: three
steps:
  - {id: one, station: code-implementer}
  - {id: two, station: code-implementer}
  - {id: three, station: code-implementer}
"""
SCRIPT = """\
steps:
  one: {write: {a.txt: "1"}, summary: first}
  two: {write: {b.txt: "2"}, summary: second}
  three: {write: {c.txt: "3"}, summary: third}
"""
CODE = [".gitignore", ".swarm/flows/three.yaml", "README.md", "a.txt", "b.txt", "c.txt", "src/app.py"]
"""Every code file of the finished run."""

_SHELL = 'git() { if [ "$1" = swarm ]; then shift; "$PYTHON" -m gitswarm "$@"; else command git "$@"; fi; }\n'


@dataclass(frozen=True)
class Stopped:
    """The run, its project, and its worktree as it was made."""

    project: Project
    run: str
    worktree: Path

    @property
    def branch(self) -> str:
        return f"shadow/{self.run}"

    @property
    def git_dir(self) -> Path:
        return self.project.root / ".git"

    @property
    def admin(self) -> Path:
        """What git keeps about the worktree."""
        return self.git_dir / "worktrees" / self.run

    @property
    def base(self) -> str:
        return f".swarm/runs/{self.run}"

    def ask(self, *arguments: str, cwd: Path | None = None) -> Answer:
        return ask(self.project, *arguments, cwd=cwd)

    def refused(self, *arguments: str, cwd: Path | None = None) -> Answer:
        """A command that ends with exit code 1, a message and a hint."""
        answer = self.ask(*arguments, cwd=cwd)
        lines = answer.stderr.splitlines()
        assert (answer.code, lines[-1][:6]) == (1, "hint: "), answer
        assert any(line.startswith("git-swarm: ") for line in lines), answer
        return answer

    def obey(self, answer: Answer, cwd: Path | None = None) -> Answer:
        """Types the command of a hint, as a person would copy it."""
        command = re.sub(r"   \(.*\)$", "", answer.stderr.splitlines()[-1].removeprefix("hint: "))
        words = shlex.split(command)
        if words[:2] == ["git", "swarm"] and not {"&&", ";", "|"} & set(words):
            return self.ask(*words[2:], cwd=cwd)
        env = {**self.project.env, "PYTHON": sys.executable}
        done = subprocess.run(
            ["sh", "-c", _SHELL + command],
            cwd=cwd or self.project.root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def assert_whole(self, steps: tuple[str, ...] = ("one", "two", "three"), project: Project | None = None) -> None:
        """The run went on to its end: every step once, all code there, the store sound, nothing left behind."""
        project = project or self.project
        log = ask(project, "log", "--oneline", self.run)
        assert log.code == 0, log
        assert [line.split()[1].partition("@")[0] for line in log.stdout.splitlines()] == [
            f"three/{s}" for s in steps
        ]
        assert [name for name in project.tree(self.branch) if name in CODE] == CODE
        assert '"state": "succeeded"' in ask(project, "status", self.run, "--json").stdout
        project.git("fsck", "--strict", "--no-dangling")
        pending = project.git("for-each-ref", f"refs/swarm/{self.run}/next")
        locks = [path for path in (project.root / ".git").rglob("*.lock") if "swarm/locks" not in path.as_posix()]
        assert (pending, locks) == ("", [])

    def kept(self, number: int = 1) -> str:
        """Name of the ref that holds what was set aside."""
        return f"refs/swarm/{self.run}/rollback/{number}"


def stopped_run(project: Project) -> Stopped:
    project.commit({".swarm/flows/three.yaml": FLOW, ".gitignore": "*.ign\n"})
    answer = ask(project, "start", "three", "--script", project.script(SCRIPT), "--until", "one")
    assert answer.code == 0, answer
    run = answer.stdout.split()[0]
    return Stopped(project, run, project.root.parent / f"{project.root.name}.swarm" / run)
