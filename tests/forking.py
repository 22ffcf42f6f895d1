"""Flows with forks, and what tests ask about the runs of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pygit2

from tests.conftest import Project

AUDITS = """\
id: fan
title: Fan out
steps:
  - {id: begin, station: maker, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: reader, teaching: {outputs: [left.md]}}
  - {id: right, station: reader, teaching: {outputs: [right.md]}}
  - {id: both, station: maker, routing: {kind: join, join_from: [left, right]}}
  - {id: close, station: maker}
"""
WRITERS = AUDITS.replace("station: reader", "station: maker")
STATIONS = {
    "maker": "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n",
    "reader": "id: reader\ntitle: Reader\ncategory: critic\nidentity: You read.\ninvariants: [Be fair.]\n",
}


def with_flow(project: Project, flow: str, *changes: tuple[str, str], name: str = "fan") -> Project:
    """Commits a flow with the stations that it needs; `changes` are texts in it that are replaced."""
    for old, new in changes:
        assert old in flow, old
        flow = flow.replace(old, new)
    stations = {f".swarm/flows/stations/{key}.yaml": text for key, text in STATIONS.items()}
    project.commit({f".swarm/flows/{name}.yaml": flow, **stations}, "the flow")
    return project


def steps(project: Project) -> list[str]:
    """`step@iteration` of every commit of the newest run."""
    return [f"{entry['step']}@{entry['iteration']}" for entry in project.json("log")]


def statuses(project: Project) -> dict[str, str]:
    return {
        entry["step"]: entry["status"] if entry["result"] == "succeeded" else entry["result"]
        for entry in project.json("log")
    }


def envelope(project: Project, run: str, step: str, flow: str = "fan") -> dict[str, Any]:
    text = project.git("show", f"shadow/{run}:.swarm/runs/{run}/{flow}/handoff/{step}.json")
    found: dict[str, Any] = json.loads(text)
    return found


def events(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in project.swarm("events", "--json").stdout.splitlines()]


def span(project: Project, step: str) -> tuple[str, str]:
    """When a step started and when it ended."""
    own = [event for event in events(project) if event.get("step_id") == step]
    start = next(event["ts"] for event in own if event["kind"] == "step_start")
    end = next(event["ts"] for event in own if event["kind"] in ("step_end", "step_error"))
    return start, end


def trailers(project: Project, revision: str) -> Mapping[str, str]:
    commit = pygit2.Repository(str(project.root)).revparse_single(revision).peel(pygit2.Commit)
    return dict(commit.message_trailers)


def sibling_refs(project: Project, run: str) -> dict[str, str]:
    """Step → commit of every ref below `fork/`."""
    listed = project.git("for-each-ref", "--format=%(refname) %(objectname)", f"refs/swarm/{run}/fork/")
    return {name.split("/", 5)[5]: commit for name, commit in (line.split() for line in listed.splitlines())}


def check_tidy(project: Project, run: str) -> None:
    """Nothing is left of a fork but refs."""
    worktrees = [line.split()[0] for line in project.git("worktree", "list").splitlines()]
    assert worktrees == [str(project.root), str(project.root.parent / "repo.swarm" / run)]
    assert [path.name for path in (project.root.parent / "repo.swarm").glob("run-*")] == [run]
    assert project.git("status", "--porcelain", cwd=project.worktree(run)) == ""
    assert list((project.root / ".git/swarm/journal").rglob("*.jsonl")) == []
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""
