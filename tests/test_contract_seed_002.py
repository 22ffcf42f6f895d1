"""`record-event` as seed 002 has it: what a program outside tells becomes part of the run, in its own words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project, only_run
from tests.tables import table

FLOW = "id: two\nsteps: [{id: one, station: code-implementer}, {id: two, station: code-implementer}]\n"
CRITIC = {"status": "UNVERIFIED", "can_further_iteration_help": True, "score": None}
ABOUT = {"flow_key": "build", "step_id": "author_tests"}

RECORDED: list[tuple[Sequence[str], dict[str, Any]]] = [
    (
        ("--flow-key", "build", "--step-id", "author_tests", "--kind", "step_start"),
        {"source": "user", "message": "", "kind": "step_start", **ABOUT},
    ),
    (
        (
            *("--flow-key", "build", "--step-id", "author_tests", "--agent-key", "test-critic"),
            *("--kind", "critic_result", "--payload-file", "CRITIC"),
        ),
        {
            "source": "user",
            "message": "",
            "kind": "critic_result",
            **ABOUT,
            "agent_key": "test-critic",
            "payload": CRITIC,
        },
    ),
    (
        ("--flow", "build", "--step", "author_tests", "--agent", "a", "--kind", "k", "--payload", '{"n": [1, {}]}'),
        {"source": "user", "message": "", "kind": "k", **ABOUT, "agent_key": "a", "payload": {"n": [1, {}]}},
    ),
    (("CI is green", "--source", "ci"), {"source": "ci", "message": "CI is green"}),
    (
        ("half", "--kind", "note", "--payload", "{}"),
        {"source": "user", "message": "half", "kind": "note", "payload": {}},
    ),
]
"""The seed's own examples (`--run-id` is given to all), the short spellings, and what there was before."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run that waits before its second step."""
    project = new_project(tmp_path_factory.mktemp("told"))
    project.commit({".swarm/flows/two.yaml": FLOW})
    project.start("steps: {}\n", "--until", "one", flow="two")
    return project


def external(project: Project) -> list[dict[str, Any]]:
    said = project.swarm("events", "--json").stdout.splitlines()
    return [event for line in said if (event := json.loads(line))["kind"] == "external"]


def test_what_is_told_is_part_of_the_next_step(stopped: Project, tmp_path: Path) -> None:
    run = only_run(stopped)
    file = tmp_path / "critic.json"
    file.write_text(json.dumps(CRITIC), encoding="utf-8")
    for words, payload in RECORDED:
        given = [str(file) if word == "CRITIC" else word for word in words]
        said = stopped.swarm("record-event", *given, "--run-id", run)
        assert said.stdout == f"Recorded event: {payload.get('kind', 'external')} for {run}\n"
        assert f"{run} has ended: `events` shows it as soon as another step is committed" in said.stderr
        assert said.stderr.endswith(f"\nhint: git swarm resume {run}\n")
    stopped.swarm("resume", run)
    events = external(stopped)
    assert [event["payload"] for event in events] == [payload for _words, payload in RECORDED]
    assert {(event["step_id"], event["iteration"]) for event in events} == {("two", 1)}
    assert stopped.json("log")[-1]["step"] == "two"
    stopped.swarm("verify")


NESTED = '{"a":' * 500 + "1" + "}" * 500
REFUSED = [
    ((), "say what happened: a message, or --kind"),
    (("x", "--payload", "{}", "--payload-file", "f"), "--payload and --payload-file both give the payload"),
    (("x", "--payload", "[1]"), "--payload: no JSON object: Expected `object`, got `array`"),
    (("x", "--payload", "{"), "--payload: no JSON object: Input data was truncated"),
    (
        ("x", "--payload", '{"a": "\\ud800"}'),
        "--payload: no JSON object: ",
    ),
    (("x", "--payload", NESTED), "--payload: nested more than 200 levels deep"),
    (("x", "--payload", '{"a": "' + "x" * 65_536 + '"}'), "--payload: 65,545 characters, 65,536 at most"),
    (("--kind", "two words"), "--kind two words: a letter, then letters, digits, _ . : -, 64 at most"),
    (("--kind", "k", "--agent", "\udcff"), "agent is not UTF-8 text"),
    (("\udcff",), "message is not UTF-8 text"),
]


@table(("words", "problem"), REFUSED)
def test_what_cannot_be_recorded_is_refused_with_the_reason(
    stopped: Project, words: Sequence[str], problem: str
) -> None:
    told = ask(stopped, "record-event", *words)
    assert (told.code, told.stdout) == (2, "")
    assert told.stderr.startswith(f"git-swarm: {problem}")
    assert "\nhint: " in told.stderr


def test_a_file_that_is_not_there_is_named(stopped: Project) -> None:
    told = ask(stopped, "record-event", "--kind", "k", "--payload-file", "nowhere.json")
    assert (told.code, told.stderr.splitlines()[-1]) == (1, "hint: ls .")


def test_no_secret_of_a_payload_is_kept(stopped: Project) -> None:
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    stopped.swarm("record-event", "--kind", "k", "--payload", json.dumps({"deep": [{"header": token}]}))
    (waiting,) = (stopped.root / ".git/swarm/inbox").glob("*/*.json")
    assert json.loads(waiting.read_text(encoding="utf-8"))["payload"] == {
        "deep": [{"header": "[REDACTED:github-token]"}]
    }
