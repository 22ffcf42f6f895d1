"""The scripted provider, and a stage for sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claude.stage import Stage
from tests.loopback.server import Loopback, serving


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with serving() as running:
        yield running


@pytest.fixture
def stage(loopback: Loopback, tmp_path: Path) -> Iterator[Stage]:
    """Nothing that was started on it lives longer."""
    made = Stage.make(loopback, tmp_path)
    yield made
    assert made.processes == []
