"""The scripted provider, and a stage for sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codex.stage import FETCHED, Stage
from tests.loopback.server import Loopback, serving


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    if not FETCHED.exists():
        pytest.skip("codex is not fetched (404 MB): make .venv/codex/.fetched")
    with serving() as running:
        yield running


@pytest.fixture
def stage(loopback: Loopback, tmp_path: Path) -> Stage:
    return Stage(loopback, tmp_path)
