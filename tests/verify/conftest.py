"""One finished run that every test here takes a copy of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import ask, new_project, only_run
from tests.verify.forging import Run

FLOW = """\
id: small
steps:
  - {id: write, station: code-implementer, teaching: {outputs: [notes.md]}}
  - id: critique
    station: code-critic
    routing: {kind: microloop, loop_target: write, max_iterations: 3}
  - {id: check, engine: command, command: {run: "echo fine"}}
  - {id: done, station: build-cleanup}
"""
SCRIPT = """\
steps:
  write:
    - {write: {a.txt: "1", RUN_BASE/small/notes.md: "one"}, summary: first, tokens: {prompt: 10, completion: 2}}
    - {write: {a.txt: "2", RUN_BASE/small/notes.md: "two"}, summary: second, cost_usd: 0.5}
  critique:
    - {status: UNVERIFIED, can_further_iteration_help: "yes", concerns: [thin], summary: not yet}
    - {status: VERIFIED, summary: good}
  done: {summary: tidy}
"""


@pytest.fixture(scope="package")
def original(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Stopped behind its second step, and resumed: six steps, two ends."""
    project = new_project(tmp_path_factory.mktemp("verified"))
    project.commit({".swarm/flows/small.yaml": FLOW})
    started = ask(project, "start", "small", "--script", project.script(SCRIPT), "--until", "critique")
    assert started.code == 0, started.stderr
    assert ask(project, "resume").code == 0
    project.unpack()
    return Run(project, only_run(project))


@pytest.fixture
def run(original: Run, tmp_path: Path, written_at_once: None) -> Run:  # noqa: ARG001 - forgers ask git
    return original.copy(tmp_path)
