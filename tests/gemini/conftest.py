"""The real Gemini CLI, and the scripted provider that it asks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.loopback.server import Loopback, serving

FETCHED = Path(sys.prefix) / "gemini" / "node_modules" / ".bin" / "gemini"
KEY = "AIzaSyPlanted0123456789abcdefghijklmnop"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not FETCHED.exists() or shutil.which("node") is None:
        why = f"there is no {FETCHED}: make {FETCHED.parents[2]}/.fetched (needs node and npm)"
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(why))


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with serving() as running:
        yield running


def access(url: str) -> Mapping[str, str]:
    """Environment by which sessions reach the scripted provider."""
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}
