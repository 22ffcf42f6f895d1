"""The scripted provider, and a stage for sessions."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claude.stage import TRANSPORTS, Stage
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs by both transports runs by one of them, test by test, and by the other in the soak."""
    found: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if "mode" in params and item.get_closest_marker("soak") is None:
            mode = str(params["mode"])
            found.setdefault(item.nodeid.replace(mode, "MODE"), {})[mode] = item
    for name, by_mode in found.items():
        if len(by_mode) == len(TRANSPORTS):
            others = sorted(by_mode)
            others.pop(zlib.crc32(name.encode()) % len(others))
            for mode in others:
                by_mode[mode].add_marker(pytest.mark.soak)
