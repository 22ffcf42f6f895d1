"""What the tests rest on: tables report every wrong row, unit tests start nothing, nothing is left changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection import SAMPLED

ROOT = Path(__file__).parent.parent
WRONG = """
import os, subprocess
import pytest
from tests.tables import table


@table(("number", "square"), [(1, 1), (2, 5), pytest.param(3, 7, id="three"), (4, 16)])
def test_table(number, square):
    assert number * number == square


@pytest.mark.unit
def test_unit():
    subprocess.run(["true"])


def test_processes():
    subprocess.run(["true"])


def test_environment(tmp_path):
    os.environ["LEFT"] = "behind"


def test_folder(tmp_path):
    os.chdir(tmp_path)
"""
NAMES = ["table", "unit", "processes", "environment", "folder"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Summary of a run of tests of which most are wrong, each in a way of its own."""
    file = tmp_path_factory.mktemp("wrong") / "test_wrong.py"
    file.write_text(WRONG, encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-p", "tests.hygiene", "-p", "tests.starts", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*argv, "-q", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_every_wrong_row_of_a_table_is_reported(told: list[str]) -> None:
    rows = [line.split(" ")[0] for line in told if line.startswith("SUBFAILED")]
    assert (len(rows), "SUBFAILED[three]" in rows) == (2, True)


def test_a_unit_test_starts_no_process(told: list[str]) -> None:
    failed = [line for line in told if line.startswith("FAILED") and "::test_unit" in line]
    assert ["a unit test starts a process" in line or "Failed" in line for line in failed] == [True]
    assert "1 processes started: true 1" in told


def test_what_a_test_leaves_changed_fails_it(told: list[str]) -> None:
    errors = {name for name in NAMES for line in told if line.startswith("ERROR") and f"::test_{name}" in line}
    assert errors == {"environment", "folder"}


def test_every_table_of_which_rows_are_left_to_the_soak_is_there() -> None:
    tables = [table.split("::") for table in SAMPLED]
    here = Path(__file__).parent
    missing = [
        f"{module}::{test}"
        for module, test in tables
        if f"\ndef {test}(" not in (here / f"{module}.py").read_text(encoding="utf-8")
    ]
    assert missing == []
