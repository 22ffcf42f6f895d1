"""Guarantee 10: the same script gives the same code trees, the same decisions and the same RUN_BASE."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.conftest import Project

FLOW = """\
id: proof
title: Prove it
steps:
  - {id: author, station: prover, teaching: {outputs: [claim.md, "tests/**"]}}
  - {id: implement, station: prover, teaching: {outputs: ["src/**"]}}
  - {id: critique, station: prover, routing: {kind: microloop, loop_target: implement, max_iterations: 3}}
  - id: verify
    engine: command
    command: COMMAND
    routing:
      kind: branch
      when: [{if: "evidence.tests.passed == true", next: close}]
      default: implement
      max_iterations: 3
  - {id: close, station: prover, teaching: {outputs: [receipt.json]}, routing: {kind: terminal}}
"""
STATION = """\
id: prover
title: Prover
category: implementation
identity: You prove it.
invariants: [Nothing is taken for granted.]
"""
SCRIPT = r"""
steps:
  author:
    - write:
        tests/test_answer.py: "from src.answer import ANSWER\n\n\ndef test_answer():\n    assert ANSWER == 42\n"
      delete: [README.md]
      tokens: {prompt: 1200, completion: 300}
      cost_usd: 0.01
    - {write: {RUN_BASE/proof/claim.md: "42\n"}}
  implement:
    - {write: {src/answer.py: "ANSWER = 1\n"}, run: ["ls -A", "chmod +x src/answer.py"]}
    - {write: {src/answer.py: "ANSWER = 41\n"}}
    - {write: {src/answer.py: "ANSWER = 42\n"}, run: ["ln -s answer.py src/same.py"]}
  critique:
    - {status: UNVERIFIED, can_further_iteration_help: "yes", concerns: [far off]}
    - {status: PARTIAL, can_further_iteration_help: "no", concerns: [close]}
    - {status: VERIFIED}
  close:
    - {write: {RUN_BASE/proof/receipt.json: "{\"proven\": true}\n"}}
"""
STEPS = [
    "author",
    "implement",
    "critique",
    "implement",
    "critique",
    "verify",
    "implement",
    "critique",
    "verify",
    "close",
]
TIMES = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r'"duration_ms": ?\d+', '"duration_ms": MS'),
    (r'"elapsed_us":\s+\d+', '"elapsed_us": US'),
    (r"\bin \d+\.\d\ds\b", "in SECONDS"),  # pytest's last line
)


@dataclass(frozen=True)
class Run:
    """A finished run, and what its stored words are once ids and times are replaced."""

    project: Project
    run: str

    @property
    def commits(self) -> list[str]:
        """Of the run, oldest first."""
        return self.project.git("rev-list", "--reverse", f"main..shadow/{self.run}").splitlines()

    def normalised(self, text: str) -> str:
        text = text.replace(self.run, "RUN")
        for number, commit in enumerate(self.commits):
            text = text.replace(commit, f"COMMIT-{number}")
        for pattern, word in TIMES:
            text = re.sub(pattern, word, text)
        return text

    def code(self) -> list[dict[str, str]]:
        return [self.project.tree(commit) for commit in self.commits]

    def decisions(self) -> list[dict[str, str | None]]:
        return [entry["routing"] for entry in self.project.json("log", self.run)]

    def files(self) -> Iterator[tuple[str, str]]:
        """RUN_BASE of every commit."""
        known: dict[str, str] = {}
        for number, commit in enumerate(self.commits):
            for line in self.project.git("ls-tree", "-r", f"{commit}:.swarm/runs/{self.run}").splitlines():
                about, name = line.split("\t", 1)
                mode, _kind, blob = about.split()
                if blob not in known:
                    known[blob] = self.normalised(self.project.git("cat-file", "blob", blob))
                yield f"{number} {name}", f"{mode} {known[blob]}"

    def messages(self) -> Iterator[str]:
        """Commit messages without Swarm-Prev-Notes, which has blob ids of what is compared as text."""
        for commit in self.commits:
            said = self.project.git("log", "-1", "--format=%an <%ae>%n%B", commit)
            yield self.normalised(re.sub(r"^Swarm-Prev-Notes: .*$", "", said, flags=re.MULTILINE))

    def notes(self, kind: str) -> Mapping[str, str]:
        found = {}
        for line in self.project.git("notes", f"--ref=swarm/{self.run}/{kind}", "list").splitlines():
            blob, commit = line.split()
            found[self.normalised(commit)] = self.normalised(self.project.git("cat-file", "blob", blob))
        return found


def played(project: Project, elsewhere: Path, command: str) -> tuple[Run, Run]:
    """The same script on two copies of a repository, at paths that have nothing in common."""
    project.commit(
        {
            ".swarm/flows/proof.yaml": FLOW.replace("COMMAND", command),
            ".swarm/flows/stations/prover.yaml": STATION,
            ".gitignore": "__pycache__/\n.pytest_cache/\n",
        },
        "the flow",
    )
    shutil.copytree(project.root, elsewhere, symlinks=True)
    copy = replace(project, root=elsewhere)
    arguments = ("-m", "prove that the answer is 42")
    first = project.start(SCRIPT, *arguments, flow="proof")
    second = copy.start(SCRIPT, *arguments, flow="proof")
    return Run(project, first), Run(copy, second)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path / "another" / "and longer" / "path to the copy"


def test_the_same_script_gives_the_same_run_once_ids_and_times_are_replaced(
    project: Project, elsewhere: Path
) -> None:
    one, other = played(project, elsewhere, '{run: "python -m pytest -q"}')
    assert [entry["step"] for entry in project.json("log")] == STEPS
    assert one.run != other.run
    assert one.code() == other.code()
    assert one.decisions() == other.decisions()
    assert dict(one.files()) == dict(other.files())
    assert list(one.messages()) == list(other.messages())
    assert one.notes("events") == other.notes("events")
    assert one.notes("routing") == other.notes("routing")


def test_no_path_of_a_machine_gets_into_the_evidence(project: Project, elsewhere: Path) -> None:
    """A command that prints where it runs: pytest does, as the detected test command of a project."""
    one, other = played(project, elsewhere, "test")
    assert dict(one.files()) == dict(other.files())


def test_normalising_replaces_ids_and_times_and_nothing_else(project: Project) -> None:
    project.commit({".swarm/flows/proof.yaml": FLOW.replace("COMMAND", '{run: "true"}')}, "the flow")
    project.commit({".swarm/flows/stations/prover.yaml": STATION}, "the station")
    run = Run(project, project.start(SCRIPT, flow="proof"))
    first = run.commits[0]
    text = f'{run.run} {first} 2026-11-20T19:57:49.123Z "duration_ms": 17 3 passed in 0.12s {first[:12]} in 5 steps'
    assert run.normalised(text) == f'RUN COMMIT-0 TIME "duration_ms": MS 3 passed in SECONDS {first[:12]} in 5 steps'
