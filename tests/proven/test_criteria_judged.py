"""Criteria are judged by the tests of every suite, and wherever a matrix is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import evidence
from tests.proven.stories import WORK, Story, newest, write

SUITES = """\
id: work
steps:
  - {id: write, station: code-implementer, teaching: {outputs: [plan/ac_matrix.json, build/ac_status.json]}}
  - {id: api, engine: command, command: api}
  - {id: web, engine: command, command: web}
"""
BESIDE = """\
id: work
steps:
  - id: write
    station: code-implementer
    teaching: {outputs: [plan/ac_matrix.json, build/ac_status.json]}
    routing: {kind: fork, fork_targets: [api, web]}
  - {id: api, engine: command, command: api}
  - {id: web, engine: command, command: web}
  - {id: end, station: self-reviewer, routing: {kind: join, join_from: [api, web]}}
"""
LATER = f"{SUITES}  - {{id: polish, station: code-implementer, teaching: {{outputs: [plan/ac_matrix.json]}}}}\n"
ONE = "def test_old():\n    assert [1]\n"
BASE: Mapping[str, str] = {
    "api/test_api.py": ONE,
    "web/test_web.py": ONE,
    ".swarm/config.yaml": "commands: {tests: {api: {run: pytest -q api}, web: {run: pytest -q web}}}\n".replace(
        "pytest", "python -m pytest"
    ),
}


def matrix(*criteria: Sequence[str]) -> dict[str, str]:
    """Criteria `AC-1` … with the tests that they name."""
    each = [
        {"id": f"AC-{at}", "criterion": "It works.", "test_cases": list(names)}
        for at, names in enumerate(criteria, start=1)
    ]
    requirement = {"id": "REQ-1", "description": "a till", "acceptance_criteria": each}
    return {"RUN_BASE/plan/ac_matrix.json": json.dumps({"requirements": [requirement]})}


def done(count: int) -> dict[str, str]:
    said = [{"id": f"AC-{at}", "status": "done", "evidence": "tests"} for at in range(1, count + 1)]
    return {"RUN_BASE/build/ac_status.json": json.dumps({"criteria": said})}


def new(name: str) -> str:
    return f"{ONE}\n\ndef test_{name}():\n    assert str(1) == '1'\n"


BOTH = {"api/test_api.py": new("served"), "web/test_web.py": new("shown")}
EVERY = matrix(["test_served"], ["test_shown"], ["test_served", "test_shown"])
NONE_SHOWN = matrix(["test_served"], ["test_nowhere"])

STORIES: Mapping[str, Story] = {
    "criteria whose tests lie in two suites": Story([write({**BOTH, **EVERY, **done(3)})]),
    "in two suites that run beside each other": Story([write({**BOTH, **EVERY, **done(3)})], files={WORK: BESIDE}),
    "a test that no suite has": Story(
        [write({**BOTH, **NONE_SHOWN, **done(2)})], blocking=frozenset({"criterion:AC-2@work/web"})
    ),
    "a test that no suite has, beside each other": Story(
        [write({**BOTH, **NONE_SHOWN, **done(2)})],
        files={WORK: BESIDE},
        blocking=frozenset({"criterion:AC-2@work/tests"}),
    ),
    "a test that one of two suites skips": Story(
        [
            write(
                {
                    "api/test_api.py": new("served"),
                    "web/test_web.py": f"{ONE}\n\nimport pytest\n\n\n@pytest.mark.skip\n{new('served')}".replace(
                        "@pytest.mark.skip\ndef test_old():\n    assert [1]\n\n\n", "@pytest.mark.skip\n"
                    ),
                    **matrix(["test_served"]),
                    **done(1),
                }
            )
        ],
        blocking=frozenset({"criterion:AC-1@work/web"}),
    ),
    "a matrix that nobody says is done": Story(
        [write({**BOTH, **NONE_SHOWN})], warns=frozenset({"criterion:AC-2@work/web"})
    ),
    "a criterion that is named otherwise after the tests": Story(
        [write({**BOTH, **matrix(["test_shown"]), **done(1)})],
        others={"polish": [write(matrix(["test_nowhere"]))]},
        files={WORK: LATER},
        blocking=frozenset({"criterion:AC-1@work/tests-2"}),
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_story(project: Project, story: Story) -> None:
    project.commit({**BASE, WORK: story.files.get(WORK) or SUITES})
    said = story.start(project, "--autopilot")
    ended = newest(project)
    assert (ended.blocking, ended.state, said.code) == (
        story.blocking,
        "unproven" if story.blocking else "succeeded",
        4 if story.blocking else 0,
    ), said.stdout
    assert {each for each in ended.warnings if each.startswith("criterion:")} == story.warns
    project.swarm("verify", ended.run)


def test_what_a_suite_shows_stays_beside_what_all_show(project: Project) -> None:
    project.commit({**BASE, WORK: SUITES})
    STORIES["criteria whose tests lie in two suites"].start(project)
    judged: list[dict[str, Any]] = evidence(project, "work/web")["criteria"]
    assert [each["proof"] for each in judged] == ["proven"] * 3
    assert [[test["name"] for test in each["tests"]] for each in judged] == [[], ["test_shown"], ["test_shown"]]
    assert judged[2]["names"] == ["api/test_api.py::test_served", "web/test_web.py::test_shown"]
