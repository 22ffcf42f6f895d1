"""The scripted provider, and a stage for sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claude.stage import KEY, Stage
from tests.loopback.server import Loopback, serving


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with serving() as running:
        yield running


@pytest.fixture
def stage(loopback: Loopback, tmp_path: Path, env: dict[str, str]) -> Stage:
    """An engine with a key, in an environment of its own."""
    return Stage(loopback, tmp_path, {**env, "ANTHROPIC_API_KEY": KEY})
