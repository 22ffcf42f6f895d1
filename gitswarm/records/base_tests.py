"""What the tests of a run's base said, as its ledger keeps it for later test steps and runs."""

from __future__ import annotations

from gitswarm.records.base import Record
from gitswarm.records.case_results import CaseResults
from gitswarm.records.evidence import TestReport


class BaseTests(Record):
    """`<flow>/base/<step>.json`: of the test step that had them run.

    `key`: of the code, the command and what it was run in. Only of green runs that name every test. `asked`: the
    report came where it was asked for.
    """

    key: str
    asked: bool
    report: TestReport
    results: CaseResults
