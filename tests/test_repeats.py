"""What depends on the moment, many times beside load.

REPEATS=500 BUSY=2 python -m pytest -m soak tests/test_repeats.py

`REPEATS`: how often each; `BUSY`: processes that do nothing but compute meanwhile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import test_forks_undo, test_guarantee_1_kill, test_hostile_beside
from tests.conftest import Project
from tests.projects import new_project
from tests.test_guarantee_1_kill import ALL_MOMENTS, STRAIGHT, each, kill_at_moment, named

REPEATS = int(os.environ.get("REPEATS", "20"))
BUSY = int(os.environ.get("BUSY", str(os.cpu_count())))

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("load")]


@pytest.fixture(scope="module")
def load() -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(BUSY):
            busy = stack.enter_context(subprocess.Popen(["sh", "-c", "while :; do :; done"]))
            stack.callback(busy.kill)
        yield


def repeat(folder: Path, scenario: Callable[[Project, Path], None]) -> None:
    """In a new project each time; fails with all that went wrong."""

    def attempt(number: int) -> None:
        place = folder / str(number)
        place.mkdir()
        with named(f"repeat {number}"):
            scenario(new_project(place), place)
        shutil.rmtree(place)

    each(range(REPEATS), attempt)


def test_a_process_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    with test_guarantee_1_kill.told_undisturbed(tmp_path, STRAIGHT) as undisturbed:
        moments = range(ALL_MOMENTS, ALL_MOMENTS + REPEATS)
        each(moments, lambda moment: kill_at_moment(undisturbed, moment, tmp_path / str(moment)))


@pytest.mark.parametrize("command", test_hostile_beside.LOOPS)
def test_a_run_does_not_mind_other_git_commands(tmp_path: Path, command: str) -> None:
    beside = test_hostile_beside.test_a_run_does_not_mind_other_git_commands
    repeat(tmp_path, lambda project, folder: beside(project, folder, command))


def test_a_second_interrupt_ends_the_branches_of_a_fork(tmp_path: Path) -> None:
    interrupt = test_forks_undo.test_a_second_interrupt_ends_the_branches_and_keeps_what_they_left
    repeat(tmp_path, lambda project, _folder: interrupt(project))
