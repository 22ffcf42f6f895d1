"""Real git in temporary folders, cut off from the machine's own configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

GIT_CONFIG = """\
[user]
    name = Test User
    email = user@example.org
[init]
    defaultBranch = main
[commit]
    gpgsign = false
"""


@dataclass(frozen=True)
class Project:
    """A git repository and the product in it, both as real processes.

    `root` is the user's checkout; `env` the whole environment of every process.
    """

    root: Path
    env: Mapping[str, str] = field(repr=False)

    def git(self, *arguments: str, cwd: Path | None = None, stdin: str | None = None) -> str:
        """Output of git, without its final newline."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.root,
            env=dict(self.env),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"git {arguments}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, str | bytes], message: str = "change") -> str:
        """Commits files in the user's checkout; the commit's id."""
        self.write(files)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def swarm(
        self, *arguments: str, code: int = 0, cwd: Path | None = None, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The product as a user calls it; asserts the exit code."""
        done = subprocess.run(
            self.argv(*arguments),
            cwd=cwd or self.root,
            env=dict(self.env),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "gitswarm", *arguments]

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a reading command says with --json."""
        return json.loads(self.swarm(*arguments, "--json", code=code).stdout)

    def script(self, text: str) -> str:
        """A stub script outside of the repository; its path."""
        path = self.root.parent / "script.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def start(self, script: str, *arguments: str, flow: str = "build", code: int = 0) -> str:
        """Executes a scripted run; its id."""
        self.swarm("start", flow, "--script", self.script(script), *arguments, code=code)
        return str(self.json("list")[0]["run_id"])

    def worktree(self, run: str) -> Path:
        return Path(self.swarm("path", run).stdout.strip())

    def tree(self, revision: str) -> dict[str, str]:
        """Path → `mode id` of every code file in a commit, `.swarm/runs` left out."""
        listed = self.git("ls-tree", "-r", "-z", revision).split("\0")
        entries = (line.split("\t", 1) for line in listed if line)
        return {name: about for about, name in entries if not name.startswith(".swarm/runs/")}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Environment of a user with an identity and nothing else."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    return {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "80",
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }


@pytest.fixture
def project(tmp_path: Path, env: dict[str, str]) -> Project:
    """A small repository with one commit."""
    root = tmp_path / "repo"
    root.mkdir()
    made = Project(root, env)
    made.git("init", "-q")
    made.commit({"README.md": "# hello\n", "src/app.py": "print('hello')\n"}, "first")
    return made
