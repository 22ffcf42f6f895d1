"""Runs that loop for long: what lies in a tree stays bounded, and nothing of what happened is lost."""

from __future__ import annotations

import json

import pytest

from gitswarm.ledger import layout
from tests.conftest import Project
from tests.projects import ask

FLOW = """\
id: long
steps:
  - {id: write, station: code-implementer}
  - id: critique
    station: code-critic
    routing: {kind: microloop, loop_target: write, max_iterations: 5}
"""
SCRIPT = """\
steps:
  write: [{write: {x: "1"}}, {write: {x: "2"}}, {write: {x: "3"}}, {write: {x: "4"}}, {write: {x: "5"}}]
  critique: {status: UNVERIFIED, can_further_iteration_help: "yes"}
"""


def test_a_tree_keeps_the_events_of_the_newest_executions(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "EVENTS_KEPT", 2)
    project.commit({".swarm/flows/long.yaml": FLOW})
    started = ask(project, "start", "long", "--script", project.script(SCRIPT))
    assert started.code == 0, started.stderr
    run = str(project.json("list")[0]["run_id"])
    folder = f".swarm/runs/{run}/long/events"
    listed = project.git("ls-tree", "--name-only", f"shadow/{run}", f"{folder}/").splitlines()
    kept = ["critique@4.jsonl", "critique@5.jsonl", "write@4.jsonl", "write@5.jsonl"]
    assert listed == [f"{folder}/{name}" for name in kept]
    worktree = project.worktree(run)
    assert sorted(path.name for path in (worktree / folder).iterdir()) == kept
    assert project.git("status", "--porcelain", cwd=worktree) == ""

    log = project.json("log", run)
    for entry in log:
        path = f"{folder}/{entry['step']}@{entry['iteration']}.jsonl"
        assert project.git("show", f"{entry['commit']}:{path}") == project.git(
            "notes", f"--ref=swarm/{run}/events", "show", entry["commit"]
        )
    events = [json.loads(line) for line in project.swarm("events", run, "--json").stdout.splitlines()]
    assert [event["iteration"] for event in events if event["kind"] == "step_start"] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_rollback_brings_the_events_of_that_time_back(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "EVENTS_KEPT", 2)
    project.commit({".swarm/flows/long.yaml": FLOW})
    assert ask(project, "start", "long", "--script", project.script(SCRIPT)).code == 0
    run = str(project.json("list")[0]["run_id"])
    project.swarm("rollback", "write@2")
    folder = project.worktree(run) / f".swarm/runs/{run}/long/events"
    assert sorted(path.name for path in folder.iterdir()) == ["critique@1.jsonl", "write@1.jsonl", "write@2.jsonl"]
