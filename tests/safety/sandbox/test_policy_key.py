"""`policy.sandbox`, `policy.sandbox_binds`: what they change, and where it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.safety.sandbox.conftest import FETCHED, needs_bwrap

PLAYED = "steps: {build/implement: [{run: [echo made > made.txt]}]}"


def _personal(project: Project, value: str) -> None:
    project.git("config", "--global", "swarm.policy.sandbox", value)


def _start(project: Project, code: int = 0) -> tuple[str, list[str]]:
    done = project.swarm(
        "start", "build", "--script", project.script(PLAYED), "--until", "implement", "--json", code=code
    )
    return done.stdout, done.stderr.splitlines()


def _receipt(project: Project) -> dict[str, object]:
    receipt: dict[str, object] = json.loads(project.swarm("show", "implement", "--receipt").stdout)
    return receipt


@needs_bwrap
def test_auto_uses_what_works_and_says_so(confined: Project) -> None:
    _personal(confined, "auto")
    told, notices = _start(confined)
    assert "sandbox: bubblewrap, network: the model's provider" in notices
    started = [json.loads(line) for line in told.splitlines()]
    agents = [each["payload"].get("sandbox") for each in started if each["kind"] == "step_start"]
    assert set(agents) == {"bubblewrap"}
    assert (_receipt(confined)["sandbox"], _receipt(confined)["network"]) == ("bubblewrap", [])
    assert "  sandbox   bubblewrap, network: none\n" in confined.swarm("show", "implement").stdout
    assert confined.json("status")["sandbox"] == "bubblewrap"
    assert "  sandbox   bubblewrap\n" in confined.swarm("status").stdout


def test_auto_continuesout_and_says_why(project: Project, tmp_path: Path) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n", encoding="utf-8")
    (broken / "bwrap").chmod(0o755)
    project = Project(project.root, {**project.env, "PATH": f"{broken}:{project.env['PATH']}"})
    _personal(project, "auto")
    _told, notices = _start(project)
    why = "bwrap does not work here (bwrap: No permissions); docs/sandbox.md says what it needs"
    said = f"no sandbox, network: open: {why}"
    assert said in notices
    assert (_receipt(project)["sandbox"], _receipt(project)["network"]) == ("none", ["*"])
    assert "  sandbox   none, network: open\n" in project.swarm("show", "implement").stdout
    assert project.json("status")["sandbox"] == "none"


def test_require_refuses_without_and_leaves_nothing(project: Project, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "bwrap").chmod(0o755)
    project = Project(project.root, {**project.env, "PATH": f"{tmp_path}:{project.env['PATH']}"})
    _personal(project, "require")
    _told, notices = _start(project, code=2)
    assert notices[-2].startswith("git-swarm: policy.sandbox is require, and there is no sandbox: bwrap does not")
    assert notices[-1].startswith("hint: apt-get install bubblewrap")
    assert project.json("list") == []


def test_off_says_nothing(project: Project) -> None:
    _told, notices = _start(project)
    assert not [line for line in notices if "sandbox" in line]
    assert "sandbox" not in _receipt(project)
    assert project.json("status")["sandbox"] is None


@pytest.mark.parametrize(
    ("team", "person", "frozen"),
    [
        (None, None, "auto"),
        (None, "off", "off"),
        ("auto", "off", "auto"),
        ("require", "auto", "require"),
        ("auto", "require", "require"),
        ("off", "require", "require"),
        ("off", None, "off"),
    ],
)
def test_a_person_only_tightens_what_the_team_wrote(
    project: Project, team: str | None, person: str | None, frozen: str
) -> None:
    project = Project(project.root, {**project.env, "PATH": f"{FETCHED}:{project.env['PATH']}"})
    project.git("config", "--global", "--unset", "swarm.policy.sandbox")
    if person is not None:
        _personal(project, person)
    if team is not None:
        project.commit({".swarm/config.yaml": f"policy:\n  sandbox: {team}\n"})
    project.swarm("start", "build", "--script", project.script("{}"), "--until", "load_context")
    run = project.json("list")[0]["run_id"]
    spec = json.loads(project.git("show", f"shadow/{run}:.swarm/runs/{run}/spec.json"))
    assert spec["settings"]["policy"]["sandbox"] == frozen


@needs_bwrap
def test_binds_are_read_and_not_written(confined: Project, tmp_path: Path) -> None:
    data, other = tmp_path / "data", Path(confined.env["HOME"]) / "other"
    for folder in (data, other):
        folder.mkdir()
        (folder / "in").write_text("in\n", encoding="utf-8")
    confined.commit({".swarm/config.yaml": f"policy:\n  sandbox_binds: [{data}, ~/other, /not/there]\n"})
    script = "steps: {build/implement: [{write: {x.sh: 'cat %s/in ~/other/in; touch %s/out || echo no\n'}, %s}]}"
    run = confined.start(script % (data, data, "run: [sh x.sh]"), "--until", "implement")
    call = json.loads(confined.swarm("show", "implement", "--receipt", "--run", run).stdout)["tool_calls"][1]
    assert call["output"].startswith("in\nin\n")
    assert call["output"].endswith("no\n")
    assert not (data / "out").exists()


def test_binds_are_absolute(project: Project) -> None:
    project.commit({".swarm/config.yaml": "policy:\n  sandbox_binds: [data]\n"})
    done = project.swarm("start", "build", "--script", project.script("{}"), code=1)
    assert ".swarm/config.yaml:2" in done.stderr
