"""A repository with stored runs, and what the product says about them, without what differs from place to place."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Project
from tests.projects import ask

READING = ("log", "status", "events", "verify")
PARTS = ("--receipt", "--envelope", "--evidence", "--routing")
_ID = re.compile(r"\b[0-9a-f]{8,40}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@dataclass(frozen=True)
class Corpus:
    """A user's checkout at `root`, in which the product is called as a process."""

    root: Path

    @classmethod
    def unpacked(cls, packed: bytes, folder: Path) -> Corpus:
        """A copy of a packed repository, with its files checked out."""
        folder.mkdir()
        root = folder / "project"
        root.mkdir()
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(root, filter="data")
        corpus = cls(root)
        corpus.git("reset", "-q", "--hard")
        (folder / "again").touch()  # what make.WAITS waits for
        return corpus

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-m", "gitswarm"]

    @property
    def env(self) -> dict[str, str]:
        identity = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in _USER.items()}
        return {
            "HOME": str(self.root.parent),
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "80",
            "PYTHONPATH": str(Path(__file__).parent.parent.parent),
            **identity,
        }

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout.rstrip("\n")

    def swarm(self, *arguments: str, code: int | None = 0) -> str:
        """Standard output of a command, in this process; `code` None: however it ended."""
        done = ask(Project(self.root, self.env), *arguments)
        assert code in (None, done.code), f"{arguments}: {done.code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def script(self, text: str) -> str:
        path = self.root.parent / "script.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def start(self, flow: str, script: str, *arguments: str, code: int = 0) -> str:
        """Executes a scripted run; its id."""
        before = set(self.runs())
        self.swarm("start", flow, "--script", self.script(script), *arguments, code=code)
        (run,) = set(self.runs()) - before
        return run

    def runs(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow/").splitlines()


_USER = {"NAME": "User", "EMAIL": "user@example.org"}


def answers(corpus: Corpus, run: str) -> dict[str, Any]:
    """What the reading commands say about a run, and its steps, as it was stored."""
    found: dict[str, Any] = {name: _plain(corpus, corpus.swarm(name, run, "--json", code=None)) for name in READING}
    found["graph"] = _plain(corpus, corpus.swarm("log", run, "--graph")).splitlines()
    for row in json.loads(corpus.swarm("log", run, "--json")):
        step = f"{row['flow']}/{row['step']}@{row['iteration']}"
        found[step] = {part: _plain(corpus, corpus.swarm("show", step, "--run", run, part)) for part in PARTS}
    return found


def resumed(corpus: Corpus, run: str) -> dict[str, Any]:
    """What becomes of a run that is resumed: ids and times left out, the code's tree with its content."""
    out = corpus.swarm("resume", run, code=None)
    log = json.loads(corpus.swarm("log", run, "--json"))
    state = json.loads(corpus.swarm("status", run, "--json"))
    kept = ("flow", "step", "iteration", "result", "status", "summary", "engine", "agent")
    code = corpus.git("ls-tree", "-r", f"shadow/{run}").splitlines()
    return {
        "out": _SINCE.sub("<ms>", _ID.sub("<id>", _TIME.sub("<time>", _plain(corpus, out)))),
        "steps": [{name: row[name] for name in kept} for row in log],
        "routing": [_ID.sub("<id>", json.dumps(row["routing"])) for row in log],
        "state": {name: state[name] for name in ("state", "next_step", "steps_completed")},
        "code": [line for line in code if "\t.swarm/runs/" not in line],
        "verify": corpus.swarm("verify", run, "--json", code=None).count('"rule"'),
    }


_SINCE = re.compile(r"\b\d+(\.\d+)?m?s\b")


def _plain(corpus: Corpus, text: str) -> str:
    return text.replace(str(corpus.root.parent), "<folder>")
