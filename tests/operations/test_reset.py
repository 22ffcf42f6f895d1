"""A run whose upstream moved: on repositories that have really gone apart, a second clone pushes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project
from tests.projects import ask, new_project, only_run

BUILD = """\
id: mini
title: Mini
steps:
  - {id: make, station: maker}
  - {id: more, station: maker}
"""
STATION = "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
MADE = {"make": {"write": {"src/new.py": "new = 1\n"}}, "more": {"write": {"src/app.py": "print('run')\n"}}}


@dataclass(frozen=True)
class Diverged:
    """The user's repository follows a bare one, to which a second clone pushes."""

    project: Project
    other: Path

    def push(self, files: Mapping[str, str], *, forced: bool = False) -> str:
        """Upstream gets a commit with these files; its id. `forced`: in place of its newest one."""
        for name, content in files.items():
            path = self.other / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        git = self.project.git
        git("add", "-A", cwd=self.other)
        git("commit", "-q", "-m", f"upstream: {', '.join(files)}", *(["--amend"] if forced else []), cwd=self.other)
        git("push", "-q", *(["--force"] if forced else []), "origin", "main", cwd=self.other)
        return git("rev-parse", "HEAD", cwd=self.other)

    def start(self, script: Mapping[str, Any] | None = None, *words: str, code: int = 0) -> str:
        steps = {"steps": {**MADE, **(script or {})}}
        answer = ask(
            self.project, "start", "mini", "reset", "-m", "x", "--allow-stub", "--script",
            self.project.script(yaml.safe_dump(steps)), *words,
        )  # fmt: skip
        assert answer.code == code, answer.stderr
        return only_run(self.project)

    def report(self, run: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.project.git("show", f"shadow/{run}:.swarm/runs/{run}/reset/{name}.json")
        )
        return found

    def show(self, run: str, path: str) -> str:
        return self.project.git("show", f"shadow/{run}:{path}")

    def ref(self, name: str) -> str:
        return self.project.git("rev-parse", name)

    def executed(self) -> list[str]:
        return [f"{step['flow']}/{step['step']}" for step in self.project.json("log")]


@pytest.fixture
def diverged(tmp_path: Path) -> Diverged:
    project = new_project(tmp_path)
    project.commit({".swarm/flows/mini.yaml": BUILD, ".swarm/flows/stations/maker.yaml": STATION})
    bare = tmp_path / "upstream.git"
    project.git("clone", "-q", "--bare", str(project.root), str(bare))
    project.git("remote", "add", "origin", str(bare))
    project.git("fetch", "-q", "origin")
    project.git("branch", "-q", "--set-upstream-to=origin/main", "main")
    project.git("clone", "-q", str(bare), str(tmp_path / "other"))
    return Diverged(project, tmp_path / "other")


def test_a_clean_one_moves_chain_base_and_notes_and_touches_nothing_of_the_users(diverged: Diverged) -> None:
    project = diverged.project
    onto = diverged.push({"src/theirs.py": "theirs = 1\n"})
    before = project.git("for-each-ref", "refs/heads/main", "refs/remotes", "refs/tags")
    run = diverged.start()
    assert project.git("merge-base", "main", f"shadow/{run}") != onto
    assert diverged.ref(f"refs/swarm/{run}/base") == onto
    assert project.git("merge-base", onto, f"shadow/{run}") == onto
    assert diverged.show(run, "src/theirs.py") == "theirs = 1"
    assert diverged.show(run, "src/new.py") == "new = 1"
    project.swarm("verify")
    assert project.git("for-each-ref", "refs/heads/main", "refs/remotes", "refs/tags") == before
    assert not (project.root / ".git" / "FETCH_HEAD").exists()
