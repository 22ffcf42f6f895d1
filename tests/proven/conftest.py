"""Real test commands in these tests' projects, many of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import conftest


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Pytest without the plugins that this suite itself has; Cargo as it is installed, in the home folder."""
    rust = {name: os.environ.get(name, str(Path.home() / folder)) for name, folder in _RUST.items()}
    return {**conftest.environment(tmp_path / "home"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **rust}


_RUST = {"RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"}
