"""Which tests are unit tests. A pytest plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

_UNIT = ("engines", "evidence", "ledger", "routing", "safety/policy", "safety/redact", "specs")
"""Folders of tests about values; what wants a repository there is none of them."""

_REPOSITORIES = frozenset({"project", "env", "processes"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        folder = item.path.parent.relative_to(here).as_posix()
        if folder in _UNIT and not _starts_processes(item):
            item.add_marker(pytest.mark.unit)


def _starts_processes(item: pytest.Item) -> bool:
    return item.get_closest_marker("processes") is not None or not _REPOSITORIES.isdisjoint(_fixtures(item))


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []
