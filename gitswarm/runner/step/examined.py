"""What an execution resulted in, as it is examined and judged."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from gitswarm.engines.base import StepResult
from gitswarm.evidence.suite_run import SuiteRuns
from gitswarm.evidence.test_count import CaseCounts
from gitswarm.records.acceptance import JudgedCriterion
from gitswarm.records.base_tests import BaseTests
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence
from gitswarm.records.outcome import Result, Status
from gitswarm.runner.step.plan import StepPlan


class StepOutcome(Struct, frozen=True):
    """What an execution resulted in: whoever asks how a step ended reads it here.

    `result`: what the engine returned, without secrets. `envelope`: the handoff, with the status as it was judged.
    `code_tree`: the staged code, with `.swarm/runs` as it was before. `artifacts`: the declared files of RUN_BASE
    that changed, path → content; `present`: all files there. `is_index_stale`: the index has another tree. `cases`:
    declared test cases of the changed files. `reports`: files that a command left in the tree, and that may be test
    reports. `proof`: what the tests said here and on the run's base; `base_tests`: the latter, to be kept;
    `criteria`: what is proven of the run's.
    """

    result: StepResult
    envelope: Envelope
    evidence: Evidence
    code_tree: str
    artifacts: Mapping[str, bytes]
    present: frozenset[str]
    is_index_stale: bool = False
    cases: CaseCounts = field(default_factory=CaseCounts)
    reports: Mapping[str, bytes] = field(default_factory=dict)
    proof: SuiteRuns | None = None
    base_tests: BaseTests | None = None
    criteria: tuple[JudgedCriterion, ...] = ()

    @property
    def status(self) -> Status:
        return self.envelope.status

    @property
    def is_failed(self) -> bool:
        return self.result.status is Result.FAILED


def claimed_envelope(plan: StepPlan, result: StepResult, artifacts: Mapping[str, bytes]) -> Envelope:
    """The handoff as the agent gave it; UNVERIFIED where it gave none."""
    keys, handoff = plan.execution.keys, result.handoff
    if handoff is None:
        reason = result.error or result.handoff_problem or "the engine returned without a handoff"
        return Envelope(status=Status.UNVERIFIED, summary=reason, status_reason=reason, **keys)
    fields = {name: getattr(handoff, name) for name in type(handoff).model_fields}
    return Envelope(**fields | {"artifacts": handoff.artifacts or tuple(sorted(artifacts))}, **keys)
