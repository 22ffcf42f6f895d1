"""What an execution resulted in, as it is examined and judged, and files that are kept aside for a secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from gitswarm.engines.base import StepResult
from gitswarm.evidence.declarations import CaseCounts
from gitswarm.evidence.suite_run import SuiteRuns
from gitswarm.ledger.journal import Journal
from gitswarm.records.acceptance import JudgedCriterion
from gitswarm.records.base import readable
from gitswarm.records.case_results import BaseTests
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import Event, EventKind
from gitswarm.records.evidence import Evidence
from gitswarm.records.outcome import Result, Status
from gitswarm.records.secrets import SecretFound
from gitswarm.runner.session import Session
from gitswarm.runner.step.plan import StepPlan
from gitswarm.worktree.search import Flagged, Search, Staged, keep_copy, put_former_back
from gitswarm.worktree.shadow import Shadow


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


def search_since(session: Session, tree: str) -> Search:
    """What to look for in code that was `tree` before. What the run began with is not new either."""
    repository = session.repository
    base = repository.refs.read(session.layout.base_ref)
    known = (repository.objects.commit(base).tree,) if base is not None else ()
    return Search(session.redactor.find_in_code, tree, known, session.around.observer.notice)


def take_out(session: Session, shadow: Shadow, staged: Staged, journal: Journal) -> tuple[SecretFound, ...]:
    """Moves files that hold a secret out of the worktree; what was found in them goes into the journal."""
    for item, kept_as in keep(session, shadow, staged.flagged):
        for found in item.found:
            payload = found.model_dump(mode="json")
            journal.append(Event(EventKind.SECRET_FOUND, {**payload, "kept_as": kept_as}))
    put_former_back(shadow, staged.flagged)
    return tuple(found for item in staged.flagged for found in item.found)


def keep(session: Session, shadow: Shadow, flagged: Sequence[Flagged]) -> list[tuple[Flagged, str]]:
    """Copies files that hold a secret, which stay where they are; each with the name of its copy."""
    store = session.repository.swarm_dir / "quarantine" / session.layout.run_id
    kept = []
    for item in flagged:
        if not item.found:
            session.around.observer.notice(
                f"{readable(item.path)} stays: the file that was to replace it was left out"
            )
            continue
        kept_as = keep_copy(shadow, item, store, session.redactor.scrub)
        first = item.found[0]
        session.around.observer.notice(f"{described(first)}: the file is kept as {store / kept_as}")
        kept.append((item, kept_as))
    return kept


def described(found: SecretFound) -> str:
    """One finding for a person, without the secret."""
    if found.line == 0:
        return f"{found.path}: a secret in its name ({found.kind})"
    return f"{found.path}:{found.line}: a secret ({found.kind})"
