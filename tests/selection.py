"""Which tests are unit tests, and which modules are begun first. A pytest plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

_UNIT = ("engines", "evidence", "ledger", "routing", "safety/policy", "safety/redact", "specs")
"""Folders of tests about values; what wants a repository there is none of them."""

_LONG = (
    "test_model",
    "claude/test_faults",
    "claude/test_policy_gate",
    "test_guarantee_1_kill",
    "test_guarantee_9_crowd",
    "test_forks_kill",
    "landing/test_killed",
    "claude/test_parity",
    "test_random_routes",
    "claude/test_processes",
    "days/test_bad_day",
)
"""Modules of more than 20 seconds, the longest first: one that is begun last leaves the other workers idle."""

_REPOSITORIES = frozenset({"project", "env", "processes"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        folder = item.path.parent.relative_to(here).as_posix()
        if folder in _UNIT and not _starts_processes(item):
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: _turn(item.path.relative_to(here).with_suffix("").as_posix()))


def _turn(module: str) -> int:
    return _LONG.index(module) if module in _LONG else len(_LONG)


def _starts_processes(item: pytest.Item) -> bool:
    return item.get_closest_marker("processes") is not None or not _REPOSITORIES.isdisjoint(_fixtures(item))


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []
