"""The flows from the first to the last by real sessions: each station can do what it promises, and is told enough."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import yaml

from gitswarm.resources import bundled
from gitswarm.routing.macro import ALL
from gitswarm.specs.compile import TRAIL
from gitswarm.specs.flow import SDLC_FLOWS, Flow
from gitswarm.specs.library import Library, load_library
from gitswarm.specs.station import declared_artifacts
from tests.claude.artifacts import Known
from tests.claude.runs import asked, having, reaching
from tests.claude.stage import TRANSPORTS, by
from tests.claude.station_model import StationModel
from tests.claude.test_whole_build import PYTHON, SOURCE
from tests.conftest import Project
from tests.loopback.server import Loopback
from tests.projects import ask

SCRIPT: dict[str, Any] = yaml.safe_load((SOURCE / "script.yaml").read_text(encoding="utf-8"))["steps"]
PROJECT: dict[str, str] = yaml.safe_load((SOURCE / "project.yaml").read_text(encoding="utf-8"))
TESTS, CODE, README = "tests/test_max_length.py", "slugline/__init__.py", "README.md"
KNOWN = Known(tests=(f"{TESTS}::test_refuses_a_negative_limit",), code=(CODE,))
EDITS = {
    "build/author_tests": {TESTS: SCRIPT["build/author_tests"]["write"][TESTS]},
    "build/implement": {CODE: SCRIPT["build/implement"][1]["write"][CODE]},
    "review/worklist_loop": {README: f"{PROJECT[README]}\nA limit cuts between words.\n"},
}
FEEDBACK = [{"id": "C1", "author": "ada", "text": "The README does not say where a limit cuts.", "path": README}]
NOT_ON_THE_WAY = {"gate/fix_forward", "deploy/record_not_deployed"}
"""Steps for what goes wrong."""
SLICE = {
    "review": ("fetch_feedback", "cluster", "worklist_loop"),
    "gate": ("verify_ledger", "decide_merge", "approve"),
    "deploy": ("execute_merge", "decide_deploy"),
    "wisdom": ("synthesize_learnings", "apply_feedback", "write_trail"),
}
"""Of the newer flows: one behind the other, whatever they lead to in full; six of them are sessions."""


def worked(
    mode: str, flows: Sequence[str], files: dict[str, str], project: Project, loopback: Loopback
) -> tuple[Project, StationModel]:
    """What comes of these flows in the demo's project.

    :param files: of the project besides.
    """
    config = yaml.safe_dump({"commands": {"test": f"{PYTHON} -m pytest -q"}}, width=1000)
    project.commit({**PROJECT, ".swarm/config.yaml": config, **files}, "slugline")
    model = StationModel(load_library(bundled("flows"), files), KNOWN, EDITS)
    project = having(reaching(project, loopback, model), CLAUDE_CONFIG_DIR=str(project.root.parent / "claude"))
    said = project.root.parent / "feedback.json"
    said.write_text(json.dumps(FEEDBACK), encoding="utf-8")
    project.swarm("start", *flows, "--issue", "ISSUE.md", "--mode", mode, "--autopilot", "--feedback", str(said))
    return project, model


def check(project: Project, mode: str) -> list[str]:
    """Landed, sound, and by sessions only; the steps in the order of their execution."""
    log = asked(project, "log")
    sessions = [entry for entry in log if entry["engine"] == "claude-step"]
    assert [entry for entry in sessions if (entry["mode"], entry["status"]) != (mode, "VERIFIED")] == []
    status = asked(project, "status")
    assert (status["state"], status["open_concerns"]) == ("succeeded", [])
    assert status["landed"]["commit"] == project.git("rev-parse", "HEAD")
    assert project.git("status", "--porcelain") == ""
    project.swarm("verify")
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""
    assert asked(project, "wisdom", "list")["proposals"]
    return [f"{entry['flow']}/{entry['step']}" for entry in log]


def leaves(library: Library) -> Iterator[tuple[str, str]]:
    """Each file in RUN_BASE that a step of a flow can leave there, behind the step's name."""
    for flow in (library.flow(name).flow for name in SDLC_FLOWS):
        for step in flow.steps:
            station = library.station(step.station).station if step.station is not None else None
            yield f"{flow.id}/{step.id}", f"{flow.id}/evidence/{step.id}.json"
            yield from ((f"{flow.id}/{step.id}", path) for path in declared_artifacts(flow, step, station))


@pytest.mark.soak
@pytest.mark.parametrize("mode", TRANSPORTS)
def test_the_whole_way(mode: str, project: Project, loopback: Loopback) -> None:
    project, model = worked(mode, ["all"], {}, project, loopback)
    assert model.complaints == []
    executed = check(project, mode)
    flows: list[Flow] = [model.library.flow(name).flow for name in ALL]
    every = [f"{flow.id}/{step.id}" for flow in flows for step in flow.steps]
    assert executed == [name for name in every if name not in NOT_ON_THE_WAY]
    assert sorted(project.git("diff", "--name-only", "HEAD^").splitlines()) == sorted((README, CODE, TESTS))

    by_whom: dict[str, set[str]] = {}
    for step, path in leaves(model.library):
        by_whom.setdefault(path, set()).add(step)
    missed = [
        (step, path)
        for step, paths in model.unread.items()
        for path in paths - {TRAIL}
        if path not in by_whom or by_whom[path].intersection(executed[: executed.index(step)])
    ]
    assert missed == [], "inputs that an earlier step had to leave, or nobody leaves"


@pytest.mark.soak
@by("sdk")
def test_a_slice_of_the_newer_flows(mode: str, project: Project, loopback: Loopback) -> None:
    files = {}
    for name, wanted in SLICE.items():
        whole = yaml.safe_load((bundled("flows") / f"{name}.yaml").read_text(encoding="utf-8"))
        steps = [{**step, "routing": {"kind": "linear"}} for step in whole["steps"] if step["id"] in wanted]
        files[f".swarm/flows/{name}.yaml"] = yaml.safe_dump({**whole, "steps": steps})
    project, model = worked(mode, list(SLICE), files, project, loopback)
    assert model.complaints == []
    assert check(project, mode) == [f"{name}/{step}" for name, steps in SLICE.items() for step in steps]
    assert project.git("diff", "--name-only", "HEAD^") == README
    assert (
        f"began at the commit `{project.git('rev-parse', 'HEAD^')}`"
        in ask(project, "show", "cluster", "--prompt").stdout
    )


WORK = """\
id: work
steps:
  - {id: look, station: looker, teaching: {inputs: [plan.md]}}
"""
LOOKER = """\
id: looker
title: Looker
category: verification
tools: [Read]
identity: You look.
invariants: ["What is new is looked up with `git show`."]
verification: {artifacts: [report.md]}
"""


def test_a_station_that_cannot_keep_its_promise_is_noticed(project: Project, loopback: Loopback) -> None:
    files = {".swarm/flows/work.yaml": WORK, ".swarm/flows/stations/looker.yaml": LOOKER}
    project.commit(files)
    model = StationModel(load_library(bundled("flows"), files), KNOWN, {})
    reached = having(reaching(project, loopback, model), CLAUDE_CONFIG_DIR=str(project.root.parent / "claude"))
    assert ask(reached, "start", "work", "-m", "look", "--mode", "cli").code != 0
    assert {
        "work/look: its prompt does not name work/report.md",
        "work/look: there is no tool Write",
        "work/look: there is no tool Bash",
    } <= set(model.complaints)
    assert any("No such tool" in each for each in model.complaints)
    assert model.unread == {"work/look": {"work/plan.md"}}
