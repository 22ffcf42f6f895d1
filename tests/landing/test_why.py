"""`why`: each line of a run is told to be of the step that wrote it, wherever and however it has landed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.landing.common import STATION, Run
from tests.projects import ask, new_project

STEPS = 12
EACH = 5
FILE = "src/new.py"


def texts(until: int) -> list[str]:
    """The file after a step: each step's lines name it, new ones come before and between the old ones."""
    lines: list[str] = []
    for step in range(1, until + 1):
        for number in range(EACH):
            lines.insert((step * 7 + number * 3) % (len(lines) + 1), f"s{step} = {number}")
    return lines


@dataclass(frozen=True)
class Tale:
    run: Run

    @property
    def project(self) -> Project:
        return self.run.project

    def why(self, *words: str, cwd: Path | None = None) -> Any:
        answer = ask(self.project, "why", *words, "--json", cwd=cwd)
        assert answer.code == 0, answer.stderr
        return json.loads(answer.stdout)

    def is_right(self, cwd: Path | None = None, file: str = FILE) -> bool:
        """Whether all lines of the run's steps are told to be of them."""
        told = [each for each in self.why(file, cwd=cwd) if each["text"].startswith("s")]
        right = [each for each in told if each["step"] and each["text"].startswith(f"{each['step']['step']} =")]
        return len(told) == STEPS * EACH and len(right) == len(told)


@pytest.fixture
def tale(tmp_path: Path) -> Tale:
    project = new_project(tmp_path)
    steps = "".join(f"  - {{id: s{number}, station: maker}}\n" for number in range(1, STEPS + 1))
    flow = f"id: mini\ntitle: Mini\nsteps:\n{steps}"
    project.commit({".swarm/flows/mini.yaml": flow, ".swarm/flows/stations/maker.yaml": STATION}, "the flow")
    writes = {
        f"s{number}": {"write": {FILE: "\n".join(texts(number)) + "\n"}, "summary": f"made s{number}"}
        for number in range(1, STEPS + 1)
    }
    script = project.script(json.dumps({"steps": writes}))
    ask(project, "start", "mini", "-m", "Make it", "--allow-stub", "--script", script)
    return Tale(Run(project, str(project.json("list")[0]["run_id"])))


def test_in_the_run_s_own_worktree(tale: Tale) -> None:
    worktree = tale.project.root.parent / "repo.swarm" / tale.run.id
    assert tale.is_right(cwd=worktree)
    assert tale.why("new.py:1", cwd=worktree / "src")[0]["line"] == 1
    assert tale.why(f"{FILE}:1", "--run", tale.run.id)[0]["run_id"] == tale.run.id


@pytest.mark.parametrize("strategy", ["squash", "merge", "evidence"])
def test_after_it_landed(tale: Tale, strategy: str) -> None:
    landed = tale.run.landed("--strategy", strategy)
    assert tale.is_right()
    found = tale.why(f"{FILE}:1")[0]
    assert (found["run_id"], found["landing"]) == (tale.run.id, None if strategy == "merge" else landed)


def test_where_the_target_had_other_lines_by_then(tale: Tale) -> None:
    """Of the same file, before and after it landed; then it is renamed, rebased and picked elsewhere."""
    project = tale.project
    tale.run.approve()
    tale.run.land()
    text = (project.root / FILE).read_text(encoding="utf-8")
    project.commit({FILE: f"mine = 1\n{text}mine = 2\n"}, "mine")
    assert tale.is_right()
    project.git("checkout", "-q", "-b", "side", "HEAD~2")
    project.commit({"other.txt": "other\n"}, "other")
    project.git("cherry-pick", "main~1")
    assert tale.is_right()
    project.git("checkout", "-q", "-b", "onto", "HEAD~1")
    project.commit({"more.txt": "more\n"}, "more")
    project.git("checkout", "-q", "main")
    project.git("rebase", "-q", "onto")
    assert tale.is_right()
    project.git("mv", FILE, "src/renamed.py")
    project.git("commit", "-qm", "renamed")
    assert tale.is_right(file="src/renamed.py")
    assert tale.why("src/renamed.py:1")[0]["run_id"] is None


def test_another_clone_knows_the_run_and_says_what_to_fetch(tale: Tale, tmp_path: Path) -> None:
    landed = tale.run.landed()
    clone = tmp_path / "clone"
    tale.project.git("clone", "-q", "--no-local", "--single-branch", "-b", "main", str(tale.project.root), str(clone))
    found = tale.why(f"{FILE}:1", cwd=clone)[0]
    assert (found["run_id"], found["landing"], found["step"]) == (tale.run.id, landed, None)
    said = ask(tale.project, "why", f"{FILE}:1", cwd=clone).stdout
    specs = [line.strip().strip("'\\ ").rstrip("'") for line in said.splitlines() if "refs/" in line]
    assert len(specs) == 3
    tale.project.git("fetch", "-q", "origin", *specs, cwd=clone)
    assert tale.is_right(cwd=clone)
    assert tale.why(f"{FILE}:1", cwd=clone)[0]["step"]["n"] is not None


def test_what_no_run_wrote_and_what_is_not_there(tale: Tale) -> None:
    found = tale.why("src/app.py:1")[0]
    assert (found["run_id"], found["step"], found["landing"]) == (None, None, None)
    assert "no run wrote it" in ask(tale.project, "why", "src/app.py:1").stdout
    for words in (["nowhere.py"], ["src/app.py:99"]):
        answer = ask(tale.project, "why", *words)
        assert (answer.code, answer.stdout) == (1, "")
        assert "hint: " in answer.stderr
    assert ask(tale.project, "why", "src/app.py:0").code == 2


def test_a_forged_trailer_brings_nobody_s_step(tale: Tale) -> None:
    project = tale.project
    project.commit({"forged.txt": "x\n"}, f"forged\n\nSwarm-Landed: {tale.run.id} {'0' * 40}")
    project.commit({"odd.txt": "x\n"}, "odd\n\nSwarm-Landed: run-x y\nSwarm-Kind: step\nSwarm-Format: 2")
    assert tale.why("forged.txt")[0]["step"] is None
    assert tale.why("odd.txt")[0]["run_id"] is None


def test_a_line_names_the_critique_that_it_answers(project: Project) -> None:
    flow = """\
id: loop
steps:
  - {id: write, station: code-implementer}
  - {id: critique, station: code-critic, routing: {kind: microloop, loop_target: write, max_iterations: 3}}
  - {id: test, engine: command, command: test}
"""
    script = {
        "default": {"status": "VERIFIED"},
        "steps": {
            "write": [
                {"write": {FILE: "first\n"}, "summary": "a draft"},
                {
                    "write": {FILE: "first\nsecond\n"},
                    "summary": "the whole",
                    "cost_usd": 0.5,
                    "tokens": {"prompt": 7},
                },
            ],
            "critique": [
                {
                    "status": "UNVERIFIED",
                    "can_further_iteration_help": "yes",
                    "summary": "half of it is missing",
                    "concerns": ["CC-1: no second line"],
                },
                {"status": "VERIFIED", "summary": "no findings"},
            ],
        },
    }
    project.commit({".swarm/flows/loop.yaml": flow, ".swarm/config.yaml": "commands: {test: echo 1 passed}\n"})
    ask(project, "start", "loop", "-m", "Write", "--allow-stub", "--script", project.script(json.dumps(script)))
    run = Run(project, str(project.json("list")[0]["run_id"]))
    run.landed()
    first, second = json.loads(ask(project, "why", FILE, "--json").stdout)
    assert (first["step"]["iteration"], first["step"]["answers"]) == (1, None)
    assert (second["step"]["iteration"], second["step"]["cost_usd"]) == (2, 0.5)
    answers = {"step": "loop/critique", "found": ["half of it is missing", "CC-1: no second line"]}
    assert second["step"]["answers"] == answers
    assert second["step"]["tests"]["step"] == "loop/test"
    said = ask(project, "why", f"{FILE}:2").stdout
    assert f"{FILE}:2  second\n" in said
    assert "answers   loop/critique: half of it is missing" in said
    assert f"landed    {run.id} as " in said
