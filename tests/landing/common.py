"""A run of one step, ready to be approved and landed, and what tests ask about where it went."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.in_process import Answer
from tests.projects import ask

FLOW = """\
id: mini
title: Mini
steps:
  - {id: make, station: maker}
"""
TWO_STEPS = FLOW + "  - {id: more, station: maker}\n"
STATION = "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
WRITES = {"src/new.py": "print('new')\n", "src/app.py": "print('changed')\n"}
"""What the step does unless a test says otherwise: a new file, and a change of one."""


@dataclass(frozen=True)
class Run:
    """A run that has ended, and the project that it is in."""

    project: Project
    id: str

    def approve(self, *arguments: str, code: int = 0) -> Answer:
        return self._asked("approve", self.id, *arguments, code=code)

    def land(self, *arguments: str, code: int = 0, cwd: Path | None = None) -> Answer:
        return self._asked("land", self.id, *arguments, code=code, cwd=cwd)

    def landed(self, *arguments: str) -> str:
        """Approves and lands; the landed commit on main."""
        self.approve()
        self.land(*arguments)
        return self.head()

    def head(self, branch: str = "main") -> str:
        return self.project.git("rev-parse", f"refs/heads/{branch}")

    @property
    def tip(self) -> str:
        return self.head(f"shadow/{self.id}")

    @property
    def approved(self) -> str:
        """The commit that the newest approval is about."""
        return self.project.git("rev-parse", f"refs/swarm/{self.id}/approval^")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._asked("status", self.id, "--json", code=0).stdout)
        return found

    def steps(self) -> list[tuple[str, str]]:
        """Step and status of every step on the chain."""
        log = json.loads(self._asked("log", self.id, "--json", code=0).stdout)
        return [(f"{entry['step']}@{entry['iteration']}", entry["status"]) for entry in log]

    def landings(self, branch: str = "main") -> list[str]:
        """Commits on a branch that say that they are a landing of this run, newest first."""
        return self.project.git(
            "log", "--format=%H", f"--grep=^Swarm-Landed: {self.id} ", f"refs/heads/{branch}"
        ).split()

    def evidence(self, step: str = "land") -> dict[str, Any]:
        """What the newest execution of a step left."""
        path = f".swarm/runs/{self.id}/mini/evidence/{step}.json"
        found: dict[str, Any] = json.loads(self.project.git("show", f"{self.tip}:{path}"))
        return found

    def trailers(self, revision: str) -> dict[str, str]:
        lines = self.project.git("log", "-1", "--format=%(trailers:unfold)", revision).splitlines()
        return dict(line.split(": ", 1) for line in lines if line)

    def world(self) -> Mapping[str, str]:
        """Everything of the user's, but that git may have learned objects."""
        return fingerprint(self.project.root.parent).entries

    def _asked(self, *arguments: str, code: int, cwd: Path | None = None) -> Answer:
        answer = ask(self.project, *arguments, cwd=cwd)
        assert answer.code == code, f"exit code {answer.code}\n{answer.stdout}\n{answer.stderr}"
        return answer


def with_flow(project: Project, flow: str = FLOW, config: str = "") -> Project:
    """Commits the flow, and a configuration if there is one."""
    files = {".swarm/flows/mini.yaml": flow, ".swarm/flows/stations/maker.yaml": STATION}
    project.commit(files | ({".swarm/config.yaml": config} if config else {}), "the flow")
    return project


def make_run(
    project: Project,
    steps: Mapping[str, Any] | None = None,
    *options: str,
    code: int = 0,
    allow: bool = True,
) -> Run:
    """Executes the flow; `steps`: what the script has for each of them.

    :param allow: whether the run may land although it is scripted.
    """
    script = json.dumps({"steps": dict(steps or {"make": {"write": WRITES}})})
    allowed = ("--allow-stub",) if allow else ()
    answer = ask(project, "start", "mini", "--script", project.script(script), *allowed, *options)
    assert answer.code == code, f"{answer.stdout}\n{answer.stderr}"
    newest = json.loads(ask(project, "list", "--json").stdout)[0]
    return Run(project, str(newest["run_id"]))


def ready(project: Project, steps: Mapping[str, Any] | None = None, *, config: str = "") -> Run:
    """A run of the mini flow that has succeeded."""
    return make_run(with_flow(project, config=config), steps)


def code_of(project: Project, revision: str) -> dict[str, str]:
    """Path → content of every code file, but those of the flow."""
    return {
        name: project.git("show", f"{revision}:{name}")
        for name in project.tree(revision)
        if not name.startswith(".swarm/")
    }


def refusal(answer: Answer) -> tuple[str, list[str], str]:
    """Reason, files and hint of a refused command; without the hint's remark behind it."""
    lines = answer.stderr.splitlines()
    reason = next(line.removeprefix("git-swarm: ") for line in lines if line.startswith("git-swarm: "))
    hint = next(line.removeprefix("hint: ") for line in lines if line.startswith("hint: "))
    return reason, [line.strip() for line in answer.stdout.splitlines()], hint.partition("   (")[0]


def hook(project: Project, name: str, lines: Sequence[str], folder: str = ".git/hooks") -> Path:
    """An executable hook in sh."""
    path = project.root / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path


def tidy(run: Run) -> None:
    """Nothing is left of a landing but commits and refs."""
    folder = run.project.root.parent / "repo.swarm"
    assert sorted(path.name for path in folder.iterdir()) == [run.id]
    assert not [path for path in (run.project.root / ".git/worktrees").iterdir() if path.name != run.id]
    assert list((run.project.root / ".git/swarm/journal").rglob("*.jsonl")) == []
    assert run.project.git("status", "--porcelain", cwd=folder / run.id) == ""
    assert run.project.git("fsck", "--full", "--strict", "--no-dangling") == ""
