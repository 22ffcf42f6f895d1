"""Every run of the tables of routes, played once more: detours, injections, forks, navigators, people."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from tests import routes
from tests.conftest import Project
from tests.projects import ask
from tests.routed import Case, drive

pytestmark = pytest.mark.soak


def _cases() -> Iterator[object]:
    for found in pkgutil.iter_modules(routes.__path__):
        module = importlib.import_module(f"tests.routes.{found.name}")
        for name, rows in vars(module).items():
            if name.isupper() and isinstance(rows, list) and rows and isinstance(rows[0], Case):
                yield from (pytest.param(each, id=f"{found.name}-{each.name}") for each in rows)


@pytest.mark.parametrize("case", list(_cases()))
def test_a_route_is_taken_once_more(project: Project, case: Case) -> None:
    run = drive(project, case)
    answer = ask(project, "replay", run)
    assert answer.code == 0, f"{answer.stdout}\n{answer.stderr}"
