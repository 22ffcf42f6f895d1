"""What the project's tests said on one tree, kept for whoever asks again: `<git>/swarm/reports/<key>.json`."""

from __future__ import annotations

from gitswarm.records.base import Record
from gitswarm.records.case_results import CaseResults
from gitswarm.records.evidence import CheckOutcome, TestReport


class SuiteReport(Record):
    """A file of the repository's own, not of a run. `masked_output`: a hash of what was printed, without what changes
    from run to run."""

    tests: CheckOutcome
    report: TestReport | None = None
    results: CaseResults | None = None
    masked_output: str = ""
