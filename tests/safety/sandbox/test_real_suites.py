"""The Build of released projects in the sandbox: setup, and their own test suites, as outside of it.

    python -m pytest -m soak tests/safety/sandbox/test_real_suites.py

Needs a network: the projects and what their tests need come from the package indexes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.fetch_sdists import fetch
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = [needs_bwrap, pytest.mark.soak]

FOLDER = Path(__file__).parents[3] / ".venv" / "suites"
VENV = "python3 -m venv .venv && .venv/bin/pip install -q -e . pytest"
PYTEST = ".venv/bin/python -m pytest -q -p no:cacheprovider tests"


@dataclass(frozen=True)
class Suite:
    """`archive`: project and file on the package index, with its SHA-256; or a package of npm.

    :param at_least: tests that pass.
    """

    name: str
    archive: tuple[str, str]
    setup: str
    test: str
    at_least: int


SUITES = (
    Suite(
        "click",
        ("click/click-8.1.7.tar.gz", "ca9853ad459e787e2192211578cc907e7594e294c7ccc834310722b41b9ca6de"),
        "python3 -m venv .venv && .venv/bin/pip install -q -e . 'pytest<8'",
        PYTEST,
        500,
    ),
    Suite(
        "jinja2",
        ("jinja2/jinja2-3.1.4.tar.gz", "4a3aee7acbbe7303aede8e9648d13b8bf88a429282aa6122a993f0ac800cb369"),
        f"{VENV} trio",
        PYTEST,
        800,
    ),
    Suite(
        "packaging",
        ("packaging/packaging-24.1.tar.gz", "026ed72c8ed3fcce5bf8950572258698927fd1dbda10a5e981cdf0ac37f4f002"),
        f"{VENV} pretend",
        PYTEST,
        25_000,
    ),
    Suite(
        "more-itertools",
        (
            "more-itertools/more-itertools-10.5.0.tar.gz",
            "5482bfef7849c25dc3c6dd53a6173ae4795da2a41a80faea6700d9f5846c5da6",
        ),
        VENV,
        PYTEST,
        600,
    ),
    Suite(
        "itsdangerous",
        (
            "itsdangerous/itsdangerous-2.2.0.tar.gz",
            "e0050c0b7da1eea53ffaf149c0cfbb5c6e2e2b69c4bef22c81fa6eb73e5f6173",
        ),
        f"{VENV} freezegun",
        PYTEST,
        250,
    ),
    Suite(
        "minimist",
        ("minimist@1.2.8", ""),
        "npm install --silent --no-save --ignore-scripts tape@5.9.0",
        "node_modules/.bin/tape 'test/**/*.js'",
        100,
    ),
)


def unpacked(suite: Suite, root: Path) -> None:
    name, digest = suite.archive
    FOLDER.mkdir(parents=True, exist_ok=True)
    if digest:
        fetch(name, digest, FOLDER)
        archive = FOLDER / name.rpartition("/")[2]
    else:
        archive = FOLDER / f"{name.replace('@', '-')}.tgz"
        if not archive.exists():
            subprocess.run(["npm", "pack", "--silent", name], cwd=FOLDER, check=True, capture_output=True)
    with tarfile.open(archive) as packed:
        packed.extractall(root.parent / "unpacked", filter="data")
    (top,) = (root.parent / "unpacked").iterdir()
    shutil.copytree(top, root, dirs_exist_ok=True)


def without_capabilities() -> Sequence[str]:
    """Root may read and write whatever a mode forbids: the sandbox's root may not."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


def built(project: Project, script: str, prefix: Sequence[str]) -> tuple[dict[str, Any], str]:
    """A Build until its tests: what they said, and by what they were confined."""
    argv = [*prefix, sys.executable, "-m", "gitswarm", "start", "build", "--script", script, "--until", "run_tests"]
    done = subprocess.run(argv, cwd=project.root, env=dict(project.env), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = project.json("list")[0]["run_id"]
    receipt = json.loads(project.swarm("show", "run_tests", "--receipt", "--run", run).stdout)
    evidence = project.json("show", "run_tests", "--evidence", "--run", run)
    counts = {name: evidence["report"][name] for name in ("passed", "failed", "skipped", "failing")}
    return evidence["tests"] | {"counts": counts}, receipt.get("sandbox", "none")


@pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])
def test_a_suite_says_the_same_in_the_sandbox(suite: Suite, confined: Project) -> None:
    unpacked(suite, confined.root)
    config = json.dumps({"worktree": {"setup": suite.setup}, "commands": {"test": suite.test}})
    ignored = ".venv/\nnode_modules/\n__pycache__/\n*.egg-info/\n"
    confined.commit({".swarm/config.yaml": config, ".gitignore": ignored}, "as released")
    written = [{"write": {"NEW.md": "new\n"}, "run": ["git status --short"]}]
    script = confined.script(json.dumps({"steps": {"build/implement": written}}))

    inside, confined_by = built(confined, script, ())
    confined.git("config", "swarm.policy.sandbox", "off")
    outside, confined_by_nothing = built(confined, script, without_capabilities())

    assert (confined_by, confined_by_nothing) == ("bubblewrap", "none")
    assert inside == outside
    assert inside["counts"]["passed"] >= suite.at_least
