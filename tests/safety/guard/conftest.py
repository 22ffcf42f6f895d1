from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.safety.guard.world import World, copy_of, environment, make_world


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Executed once by the product; nobody may change it."""
    folder = tmp_path_factory.mktemp("world")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return make_world(folder, environment(folder / "home", path))


@pytest.fixture
def world(original: World, tmp_path: Path, env: dict[str, str]) -> World:
    return copy_of(original, tmp_path, env)
