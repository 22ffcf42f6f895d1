"""Real pytest runs in these tests' projects, many of them: without the plugins that this suite itself has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import conftest


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**conftest.environment(tmp_path / "home"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
