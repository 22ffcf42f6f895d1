"""The bundled flow `build` from its start to its end by real sessions, with a rollback on the way."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitswarm.cli import rehearsals as demo
from tests.claude.runs import asked, having, reaching, scripted
from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.loopback.server import Loopback
from tests.projects import only_run

SOURCE = Path(demo.__file__).with_name("demo_project")
PYTHON = shlex.quote(sys.executable)
BEFORE = ["load_context", "clarify", "author_tests", "critique_tests", "author_tests", "critique_tests", "implement"]
AFTER = ["implement", "critique_code", "implement", "critique_code", "run_tests", "mutate", "fix", "verify_tests"]
WHOLE = [*BEFORE[:-1], *AFTER, "write_docs", "self_review", "finalize"]


def script() -> str:
    """The demo's, in which the critic of the tests sends them back too."""
    found: dict[str, Any] = yaml.safe_load(
        (SOURCE / "script.yaml").read_text(encoding="utf-8").replace("@PYTHON@", PYTHON)
    )
    steps = found["steps"]
    author, critic = steps["build/author_tests"], steps["build/critique_tests"]
    tests = author["write"]["tests/test_max_length.py"]
    fewer = {**author["write"], "tests/test_max_length.py": tests.partition("def test_refuses")[0].rstrip() + "\n"}
    again = {"status": "UNVERIFIED", "can_further_iteration_help": "yes", "concerns": ["TC-1: no negative limit"]}
    steps["build/author_tests"] = [{**author, "write": fewer}, author]
    steps["build/critique_tests"] = [{**critic, **again}, critic]
    return yaml.safe_dump(found)


@pytest.fixture
def slugline(project: Project, loopback: Loopback) -> Project:
    """The demo's project, and a provider that plays the script."""
    files: dict[str, str] = yaml.safe_load((SOURCE / "project.yaml").read_text(encoding="utf-8"))
    config = yaml.safe_dump({"commands": {"test": f"{PYTHON} -m pytest -q"}}, width=1000)
    project.commit({**files, ".swarm/config.yaml": config}, "slugline")
    reached = reaching(project, loopback, scripted(script(), reads_first=True))
    return having(reached, CLAUDE_CONFIG_DIR=str(project.root.parent / "claude"))


def steps(project: Project) -> list[str]:
    return [entry["step"] for entry in asked(project, "log")]


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["cli", "sdk"])
def test_a_whole_build(mode: str, slugline: Project) -> None:
    before = fingerprint(slugline.root)

    slugline.swarm("start", "build", "--issue", "ISSUE.md", "--mode", mode, "--until", "implement")
    assert steps(slugline) == BEFORE
    slugline.swarm("rollback", "critique_tests@2")
    slugline.swarm("resume")

    run = only_run(slugline)
    log = asked(slugline, "log")
    assert [entry["step"] for entry in log] == WHOLE
    assert {entry["mode"] for entry in log if entry["engine"] == "claude-step"} == {mode}
    assert [entry["status"] for entry in log if entry["step"] == "critique_tests"] == ["UNVERIFIED", "VERIFIED"]
    assert [entry["status"] for entry in log if entry["step"] == "critique_code"] == ["UNVERIFIED", "VERIFIED"]
    assert {entry["status"] for entry in log if entry["step"].endswith("_tests") and entry["mode"] == "local"} == {
        "VERIFIED"
    }
    tip = slugline.git("rev-parse", f"shadow/{run}")
    assert "already" in slugline.swarm("resume").stderr
    assert slugline.git("rev-parse", f"shadow/{run}") == tip
    slugline.swarm("verify")
    assert slugline.git("fsck", "--full", "--strict", "--no-dangling") == ""
    assert fingerprint(slugline.root).entries == before.entries
    receipt = slugline.git("show", f"shadow/{run}:.swarm/runs/{run}/build/build_receipt.json")
    assert yaml.safe_load(receipt)["artifacts_missing"] == []
    slugline.swarm("approve")
    slugline.swarm("land")
    shown = slugline.git("show", "HEAD:slugline/__init__.py")
    assert "_cut(slug, max_length)" in shown
