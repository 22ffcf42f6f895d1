"""A scripted Build on unpacked releases of well-known projects: many files, links, programs, CRLF, binaries."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

from gitswarm.resources import bundled
from gitswarm.routing.macro import ALL
from gitswarm.specs.library import load_library
from gitswarm.specs.station import promised_artifacts
from tests.conftest import Project
from tests.fetch_sdists import SDISTS
from tests.projects import ask

SDIST_FOLDER = Path(sys.executable).parent.parent / "sdists"

LIBRARY = load_library(bundled("flows"), {})
BUILD = LIBRARY.flow("build").flow

SCRIPT = """
steps:
  author_tests:
    - {write: {zz_swarm/test_x.py: "def test_x():\\n    assert open('zz_swarm/x').read() == 'right'\\n"}}
  critique_tests:
    - {status: UNVERIFIED, can_further_iteration_help: "yes", concerns: [thin]}
    - {status: VERIFIED}
  implement:
    - {write: {zz_swarm/x: wrong, "zz_swarm/crlf.txt": "a\\r\\nb\\r\\n"}, run: ["ln -s x zz_swarm/link"]}
    - {write: {zz_swarm/x: right}, run: ["chmod +x zz_swarm/x"]}
  critique_code:
    - {status: UNVERIFIED, can_further_iteration_help: "yes", concerns: [wrong]}
    - {status: VERIFIED}
  run_tests:
    - {run: ["test \\"$(cat zz_swarm/x)\\" = right"]}
  verify_tests:
    - {run: ["true"]}
"""


@pytest.fixture
def real_project(request: pytest.FixtureRequest, tmp_path: Path, env: dict[str, str]) -> Project:
    """An sdist, unpacked and committed as it is."""
    archive = SDIST_FOLDER / str(request.param)
    assert archive.exists(), f"{archive} is missing: python tests/fetch_sdists.py {SDIST_FOLDER}"
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (root,) = [path for path in tmp_path.iterdir() if path.is_dir() and path.name != "home"]
    made = Project(root, env)
    made.git("init", "-q")
    made.git("add", "-A", "-f")
    made.git("commit", "-q", "-m", "as released")
    return made


def by(usual: str | None) -> pytest.MarkDecorator:
    """On each of the projects in the soak, and on this one always."""
    names = [name.partition("/")[2] for name in SDISTS]
    found = [pytest.param(name, marks=() if usual and name.startswith(usual) else pytest.mark.soak) for name in names]
    return pytest.mark.parametrize("real_project", found, indirect=True)


@by("docutils")
def test_a_build_with_two_microloops_runs_through(real_project: Project) -> None:
    before = real_project.tree("HEAD")

    run = real_project.start(SCRIPT, "-m", "make it right")

    steps = [(entry["step"], entry["status"]) for entry in real_project.json("log", run)]
    assert steps == [
        ("load_context", "VERIFIED"),
        ("clarify", "VERIFIED"),
        ("author_tests", "VERIFIED"),
        ("critique_tests", "UNVERIFIED"),
        ("author_tests", "VERIFIED"),
        ("critique_tests", "VERIFIED"),
        ("implement", "VERIFIED"),
        ("critique_code", "UNVERIFIED"),
        ("implement", "VERIFIED"),
        ("critique_code", "VERIFIED"),
        ("run_tests", "VERIFIED"),
        ("mutate", "VERIFIED"),
        ("fix", "VERIFIED"),
        ("verify_tests", "VERIFIED"),
        ("write_docs", "VERIFIED"),
        ("self_review", "VERIFIED"),
        ("finalize", "VERIFIED"),
    ]
    after = real_project.tree(f"shadow/{run}")
    added = {name: about.split()[0] for name, about in after.items() if name not in before}
    assert {name: about for name, about in after.items() if name in before} == before
    assert added == {
        "zz_swarm/crlf.txt": "100644",
        "zz_swarm/link": "120000",
        "zz_swarm/test_x.py": "100644",
        "zz_swarm/x": "100755",
    }
    worktree = real_project.worktree(run)
    assert real_project.git("status", "--porcelain", cwd=worktree) == ""
    assert real_project.git("status", "--porcelain") == ""
    assert (worktree / "zz_swarm/link").readlink() == Path("x")


@by("chardet")
def test_each_promised_artifact_that_is_missing_is_found(real_project: Project) -> None:
    stations = {step.id: step.station for step in BUILD.steps if step.station is not None}
    owed = {step: promised_artifacts(BUILD, LIBRARY.station(name).station) for step, name in stations.items()}
    steps = {step: [{"leaves_out": [name]}] for step, names in owed.items() for name in names[:1]}
    script = {"steps": {**steps, "run_tests": {"run": ["true"]}, "verify_tests": {"run": ["true"]}}}

    ask(real_project, "start", "build", "--script", real_project.script(json.dumps(script)), "-m", "x", "--autopilot")

    (run,) = real_project.json("list")
    found = {each["id"]: each["names"] for each in run["open_concerns"] if each["blocking"]}
    assert run["state"] == "unproven"
    missing = {f"artifact_missing@build/{step}": list(names[:1]) for step, names in owed.items() if names}
    del missing["artifact_missing@build/clarify"]  # the loops that stall go to the sidequest that writes it
    assert found == missing


@by(None)
def test_all_flows_run_through_without_a_script(real_project: Project) -> None:
    """Landed with --allow-stub, and not without; what the first run kept is there for the second."""
    project, base = real_project, real_project.git("rev-parse", "HEAD")

    project.swarm("start", "all", "-m", "tidy up", "--allow-stub", "--autopilot")

    (first,) = project.json("list")
    steps = project.json("log", first["run_id"])
    assert list(dict.fromkeys(step["flow"] for step in steps)) == list(ALL)
    assert len(steps) >= 60
    assert (project.git("rev-parse", "HEAD^"), project.git("status", "--porcelain")) == (base, "")
    assert project.git("diff", "--name-only", "HEAD^").splitlines() == ["swarm-stub.txt"]
    project.swarm("verify", first["run_id"])
    assert f"{first['run_id']}.json" in project.git("ls-tree", "--name-only", "refs/swarm/wisdom")

    landed = project.git("rev-parse", "HEAD")
    project.swarm("start", "all", "-m", "tidy up", "--autopilot")
    second = max(project.json("list"), key=lambda run: run["run_id"])
    text = project.git(
        "show", f"shadow/{second['run_id']}:.swarm/runs/{second['run_id']}/deploy/deploy_decision.json"
    )
    assert json.loads(text)["decision"] == "NOT_DEPLOYED"
    assert project.git("rev-parse", "HEAD") == landed
