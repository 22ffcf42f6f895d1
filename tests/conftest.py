"""Real git in temporary folders, cut off from the machine's own configuration."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pygit2
import pytest
from hypothesis import HealthCheck, settings

from tests import in_process

pytest_plugins = ("tests.hygiene", "tests.selection", "tests.starts")

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

GIT_CONFIG = """\
[user]
    name = Test User
    email = user@example.org
[init]
    defaultBranch = main
[commit]
    gpgsign = false
[maintenance]
    auto = false
[swarm "policy"]
    sandbox = off
"""


@dataclass(frozen=True)
class Project:
    """A git repository and the product in it.

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

    def unpack(self) -> None:
        """Makes a file of each packed object, so that a test can damage one."""
        packs = self.root / self.git("rev-parse", "--git-common-dir") / "objects" / "pack"
        for index in sorted(packs.glob("*.idx")):
            index.unlink()
            with index.with_suffix(".pack").open("rb") as content:
                argv = ["git", "unpack-objects", "-q"]
                subprocess.run(argv, cwd=self.root, env=dict(self.env), stdin=content, check=True)
            index.with_suffix(".pack").unlink()

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
        return str(pygit2.Repository(str(self.root)).head.target)

    def swarm(self, *arguments: str, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The product as a user calls it, in the process of the test; asserts the exit code."""
        done = in_process.call(arguments, cwd or self.root, self.env)
        assert done.code == code, f"exit code {done.code}\n{done.stdout}\n{done.stderr}"
        return subprocess.CompletedProcess(arguments, done.code, done.stdout, done.stderr)

    def swarm_process(
        self, *arguments: str, code: int = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same in a process of its own: for what is about processes, signals and what outlives a command."""
        done = subprocess.run(
            self.argv(*arguments),
            cwd=cwd or self.root,
            env=dict(self.env),
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


def environment(home: Path) -> dict[str, str]:
    """Of a user with an identity and nothing else."""
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
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # of pytest in the projects of tests: it starts twice as fast
        "PYTHONPATH": str(Path(__file__).parent.parent),
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_PROCESS_")},
    }


@functools.cache
def _template() -> Path:
    """A repository with one commit, made once per process, to be copied."""
    folder = Path(tempfile.mkdtemp(prefix="template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Project(folder / "repo", environment(folder / "home"))
    made.root.mkdir()
    made.git("init", "-q")
    made.commit({"README.md": "# hello\n", "src/app.py": "print('hello')\n"}, "first")
    return made.root


def new_project(root: Path, env: Mapping[str, str]) -> Project:
    """A small repository with one commit."""
    shutil.copytree(_template(), root)
    return Project(root, env)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "home")


@pytest.fixture
def written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object is in the store as soon as it is made, not before a ref or one of our own processes needs it."""
    from gitswarm.git.packing import Packing  # noqa: PLC0415 - libgit2 is imported where it is needed

    add = Packing.add

    def added(packing: Packing, object_id: Any, content: bytes, kind: int) -> None:
        add(packing, object_id, content, kind)
        packing.flush()

    monkeypatch.setattr(Packing, "add", added)
    monkeypatch.setattr("gitswarm.git.packing._FAN_OUT", 1_000_000)


@pytest.fixture
def project(tmp_path: Path, env: dict[str, str]) -> Project:
    return new_project(tmp_path / "repo", env)
