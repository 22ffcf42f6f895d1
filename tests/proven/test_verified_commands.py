"""Commands that a station promises are seen in its session, or in the next command step on the same code."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.conftest import Project
from tests.projects import evidence

NOT_RUN = "command_not_run:lint@f/write"
NOT_GREEN = "command_not_green:lint@f/write"
LOOKS = {"run": ["ls"]}
"""A session that works, and does not run the command."""

CHANGES = {"write": {"src/app.py": "x = 2\n"}}


def play(
    project: Project,
    write: dict[str, Any],
    *then: dict[str, Any],
    before: tuple[dict[str, Any], ...] = (),
    commands: object = ("lint",),
    lint: str | None = "true",
    **entries: Any,
) -> list[str]:
    """Ids of what is open at the end of a run: `write`, and then other steps."""
    station = {
        "id": "writer",
        "title": "Writer",
        "category": "implementation",
        "identity": "You write.",
        "invariants": ["It works."],
        "verification": {"commands": list(commands) if isinstance(commands, tuple) else commands},
    }
    steps = [*before, {"id": "write", "station": "writer"}, *then, {"id": "close", "station": "context-loader"}]
    project.commit(
        {
            ".swarm/flows/stations/writer.yaml": yaml.safe_dump(station),
            ".swarm/flows/f.yaml": yaml.safe_dump({"id": "f", "steps": steps}),
            ".swarm/config.yaml": yaml.safe_dump({"commands": {"lint": lint}}),
        }
    )
    run = project.start(json.dumps({"steps": {"write": write, **entries}}), "--allow-stub", flow="f")
    found = project.json("status", run)
    assert found["state"] == "succeeded"
    return [concern["id"] for concern in found["open_concerns"]]


LINT = {"id": "check", "engine": "command", "command": "lint"}
SAME_LINE = {"id": "check", "engine": "command", "command": {"run": "true"}}
EDITS = {"id": "edit", "station": "code-implementer"}
OTHER = {"id": "check", "engine": "command", "command": {"run": "ls"}}


def test_what_nobody_ran_is_a_warning_that_names_the_command(project: Project) -> None:
    assert play(project, {**CHANGES, **LOOKS}) == [NOT_RUN]
    (concern,) = evidence(project, "f/write")["opened"]
    assert concern == {
        "id": NOT_RUN,
        "flag": "command_not_run:lint",
        "blocking": False,
        "fact": "lint (`true`) was not run after the last change of the code",
        "names": ["lint"],
    }


@pytest.mark.parametrize(
    ("write", "then", "more", "opened"),
    [
        pytest.param({"run": ["true"]}, (), {}, [], id="the session ran it"),
        pytest.param(LOOKS, (), {"lint": None}, [], id="the project has no such command"),
        pytest.param(CHANGES, (), {}, [], id="a rehearsal that runs nothing"),
        pytest.param(LOOKS, (LINT,), {}, [], id="the next command step on the same code"),
        pytest.param(LOOKS, (SAME_LINE,), {}, [], id="the same line under another name"),
        pytest.param(LOOKS, (OTHER,), {}, [NOT_RUN], id="another command shows nothing"),
        pytest.param(LOOKS, (EDITS, LINT), {"edit": CHANGES}, [NOT_RUN], id="it ran on other code"),
        pytest.param({"run": ["true", "ls"]}, (), {"commands": {"lint": "green"}}, [], id="green"),
        pytest.param({"run": ["true || ls"]}, (), {"commands": {"lint": "green"}}, [NOT_GREEN], id="not shown green"),
        pytest.param({"run": ["false"]}, (), {"lint": "false"}, [], id="it ran, and need not be green"),
    ],
)
def test_a_promised_command_is_seen_or_missed(
    project: Project,
    write: dict[str, Any],
    then: tuple[dict[str, Any], ...],
    more: dict[str, Any],
    opened: list[str],
) -> None:
    assert play(project, write, *then, **more) == opened


def test_code_that_was_tested_already_needs_no_second_look(project: Project) -> None:
    """A session that leaves the code as a command step found it."""
    first = {"id": "first", "engine": "command", "command": "lint"}
    assert play(project, LOOKS, before=(first,)) == []
