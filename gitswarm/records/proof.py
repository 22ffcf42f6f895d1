from __future__ import annotations

from typing import Literal

from gitswarm.records.base import Record

ProofFlag = Literal[
    "tests_deleted",
    "tests_weakened",
    "tests_reshaped",
    "expectation_changed",
    "harness_changed",
    "new_tests_not_run",
    "tests_red",
    "red_before",
    "flaky",
    "tests_not_run",
    "tests_cannot_run",
    "no_tests",
    "not_compared",
    "removed_on_purpose",
    "suspicious_code",
]


class ProofFinding(Record):
    """What the texts of a change, or two test reports, show. `names` are tests (`tests/test_a.py::test_b`) or paths;
    `fact` is one line. docs/evidence.md explains the flags."""

    flag: ProofFlag
    blocking: bool
    names: tuple[str, ...] = ()
    fact: str


class RemovedTest(Record):
    """A test that a handoff says was removed on purpose. `name`: of a test, or the path of a test file."""

    name: str
    why: str = ""
