"""A project whose runs are confined, on a machine where that works."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gitswarm.safety.sandbox.backends import find_sandbox
from tests.conftest import Project, environment, new_project

FETCHED = Path(__file__).parents[3] / ".venv" / "bubblewrap" / "bin"


FOUND = find_sandbox({"PATH": f"{FETCHED}{os.pathsep}{os.environ['PATH']}"}, None, isolated=True)
needs_bwrap = pytest.mark.skipif(
    sys.platform != "linux" or not FOUND.isolates, reason=FOUND.reason or "no network of its own in the sandbox here"
)


def confined_environment(home: Path) -> dict[str, str]:
    env = environment(home)
    config = home / ".gitconfig"
    config.write_text(config.read_text(encoding="utf-8").replace("sandbox = off", "sandbox = require"), "utf-8")
    return env | {"PATH": f"{FETCHED}{os.pathsep}{env['PATH']}"}


@pytest.fixture
def confined(tmp_path: Path) -> Project:
    """Everything of the user lies in `tmp_path/world`."""
    world = tmp_path / "world"
    world.mkdir()
    return new_project(world / "repo", confined_environment(world / "home"))
