"""Artifacts that programs read: criteria, worklists and verdicts, counted after each step, checked when written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from gitswarm.engines.stub import stub_matrix
from gitswarm.evidence.criteria import NamedCriterion
from gitswarm.ledger.next_command import is_played
from gitswarm.ledger.state import RunState
from gitswarm.records.gate_decision import (
    DeployDecision,
    GateFindings,
    MergeDecision,
    Traceability,
    current_findings,
    unanswered,
)
from gitswarm.records.guidance import Learnings, Proposals
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.record import Record
from gitswarm.records.text import listed
from gitswarm.records.worklists import (
    AC_MATRIX,
    AC_STATUS,
    AcMatrix,
    AcProgress,
    AcStatus,
    CriterionState,
    JudgedCriterion,
    PullRequestStatus,
    ReviewWorklist,
    WorklistCount,
    count_criteria,
    count_worklist,
    current_states,
)
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.test_steps import is_test_record
from gitswarm.runner.stored import evidence_of
from gitswarm.specs.station import promised_artifacts

_MOST_PROBLEMS = 20
WORKLIST = "review/review_worklist.json"
GATE_FINDINGS = "gate/gate_findings.json"
MERGE_DECISION = "gate/merge_decision.json"
SCHEMAS: Mapping[str, type[Record]] = {
    AC_MATRIX: AcMatrix,
    AC_STATUS: AcStatus,
    WORKLIST: ReviewWorklist,
    "review/pr_status.json": PullRequestStatus,
    GATE_FINDINGS: GateFindings,
    "gate/traceability.json": Traceability,
    MERGE_DECISION: MergeDecision,
    "deploy/deploy_decision.json": DeployDecision,
    "wisdom/learnings.json": Learnings,
    "wisdom/proposals.json": Proposals,
    "wisdom/traceability.json": Traceability,
}

RecordT = TypeVar("RecordT", bound=Record)


def read_matrix(session: Session, state: RunState) -> AcMatrix | None:
    """The acceptance matrix of the run; None when there is none, or one that does not match its schema."""
    return _read(AcMatrix, _stored(session, state, AC_MATRIX))


def named_criteria(session: Session, state: RunState) -> tuple[NamedCriterion, ...]:
    """What the run has to prove: requirements with the tests that stand for them; none of a stub's placeholder."""
    matrix = read_matrix(session, state)
    if matrix is None or (is_played(state) and matrix == stub_matrix()):
        return ()
    named = {each.id: each.test_cases for each in matrix.requirements}
    own = {each.id: each.test_cases for each in matrix.criteria()}
    return tuple(
        NamedCriterion(name, own.get(name) or named.get(name, ()))
        for name in dict.fromkeys(matrix.proven_by().values())
    )


def owes_criteria(session: Session, state: RunState) -> bool:
    """Whether the run says how far its criteria are, or has promised to: a matrix alone is a plan."""
    return _stored(session, state, AC_STATUS) is not None or any(
        AC_STATUS in promised_artifacts(flow, session.specs.stations.get(step.station or ""), step)
        for flow in (session.specs.flows[name] for name in session.spec.flows)
        for step in flow.steps
    )


def criteria_elsewhere(session: Session, state: RunState, command: str | None) -> Iterator[JudgedCriterion]:
    """What the newest runs of the other test commands show of the criteria."""
    seen = {command}
    for record in reversed(state.steps):
        evidence = evidence_of(session, record) if is_test_record(session, record) else None
        if evidence is not None and evidence.tests.command not in seen:
            seen.add(evidence.tests.command)
            yield from evidence.criteria


def current_criteria(session: Session, state: RunState) -> dict[str, CriterionState]:
    """How far the criteria are, as far as tests prove it; empty without a matrix."""
    matrix = read_matrix(session, state)
    status = _read(AcStatus, _stored(session, state, AC_STATUS)) or AcStatus()
    return current_states(matrix, status, _judged_last(session, state)) if matrix is not None else {}


class LeftCriteria(Struct, frozen=True):
    """What an execution leaves about criteria. `written`: artifacts by path from the top of the worktree; `judged`:
    what its tests prove."""

    written: Mapping[str, bytes]
    judged: tuple[JudgedCriterion, ...] = ()


def count_after(session: Session, before: RunState, step: tuple[str, str], left: LeftCriteria) -> AcProgress | None:
    """The criteria as an execution of `step` (flow, step) leaves them; progress since its last execution."""
    written = left.written
    matrix_path, status_path = (f"{session.layout.base}/{name}" for name in (AC_MATRIX, AC_STATUS))
    matrix = _read(AcMatrix, written.get(matrix_path) or _stored(session, before, AC_MATRIX))
    if matrix is None:
        return None
    status = _read(AcStatus, written.get(status_path) or _stored(session, before, AC_STATUS)) or AcStatus()
    judged = left.judged or _judged_last(session, before)
    return count_criteria(current_states(matrix, status, judged), _counted_last(session, before, step))


def _judged_last(session: Session, state: RunState) -> tuple[JudgedCriterion, ...]:
    """What the newest test run proves of the criteria."""
    newest = next((record for record in reversed(state.steps) if is_test_record(session, record)), None)
    evidence = evidence_of(session, newest) if newest is not None else None
    return evidence.criteria if evidence is not None else ()


def read_decision(session: Session, state: RunState) -> MergeDecision | None:
    """What the newest Gate decided; None when it left nothing that can be read."""
    return _read(MergeDecision, _stored(session, state, MERGE_DECISION))


def count_work_after(session: Session, before: RunState, written: Mapping[str, bytes]) -> WorklistCount | None:
    """The items of a review as an execution leaves them, with those that its list had when the review was entered or
    since; None without a list that keeps its schema."""
    path = f"{session.layout.base}/{WORKLIST}"
    content = written.get(path) or _stored(session, before, WORKLIST)
    worklist = _read(ReviewWorklist, content)
    if worklist is None:
        return None
    objects, entered = session.repository.objects, before.tally.entered.get("review", ())
    trees = dict.fromkeys((tree_at_entry(session, before, "review"), *(record.tree for record in entered)))
    earlier = (_read(ReviewWorklist, objects.file(tree, path)) for tree in trees)
    return count_worklist(worklist, (version for version in earlier if version is not None))


def tree_at_entry(session: Session, state: RunState, flow: str) -> str:
    """What there was when a flow was entered last; now where it was not."""
    entered = state.tally.entered.get(flow, ())
    return session.repository.objects.commit(entered[0].parent).tree if entered else state.tip_tree


def artifact_problems(session: Session, before: RunState, written: Mapping[str, bytes]) -> Iterator[str]:
    """Where artifacts with a schema of their own do not keep it, speak of criteria that the run has not, or pass over
    what a Gate found."""
    yield from _decision_problems(session, before, written)
    for name, schema in SCHEMAS.items():
        content = written.get(f"{session.layout.base}/{name}")
        if content is None:
            continue
        try:
            schema.from_json(content)
        except MistakesError as error:
            found = error.mistakes
            if len(found) > _MOST_PROBLEMS:
                yield f"{name}: {len(found)} problems, of which the first {_MOST_PROBLEMS} follow"
            yield from (f"{name}: {each.text}" for each in found[:_MOST_PROBLEMS])
    yield from _unknown_criteria(session, before, written)


def _unknown_criteria(session: Session, before: RunState, written: Mapping[str, bytes]) -> Iterator[str]:
    status_path, matrix_path = (f"{session.layout.base}/{name}" for name in (AC_STATUS, AC_MATRIX))
    status = _read(AcStatus, written.get(status_path))
    matrix = _read(AcMatrix, written.get(matrix_path) or _stored(session, before, AC_MATRIX))
    if status is None or matrix is None or status.stub:
        return
    known = {each.id for each in matrix.criteria()}
    unknown = [each.id for each in status.criteria if each.id not in known]
    if unknown:
        yield f"{AC_STATUS}: {AC_MATRIX} has no criterion {listed(unknown)}"


def dropped_criteria(session: Session, before: RunState, written: Mapping[str, bytes]) -> tuple[str, ...]:
    """Criteria of the run that a new matrix leaves out."""
    new = _read(AcMatrix, written.get(f"{session.layout.base}/{AC_MATRIX}"))
    old = read_matrix(session, before) if new is not None else None
    if new is None or old is None:
        return ()
    kept = {each.id for each in new.criteria()}
    return tuple(each.id for each in old.criteria() if each.id not in kept)


def _decision_problems(session: Session, before: RunState, written: Mapping[str, bytes]) -> Iterator[str]:
    decision = _read(MergeDecision, written.get(f"{session.layout.base}/{MERGE_DECISION}"))
    if decision is None:
        return
    objects, path = session.repository.objects, f"{session.layout.base}/{GATE_FINDINGS}"
    trees = dict.fromkeys((*(record.tree for record in before.tally.entered.get("gate", ())), before.tip_tree))
    versions = (_read(GateFindings, objects.file(tree, path)) for tree in trees)
    found = current_findings(version for version in versions if version is not None)
    for finding in unanswered(decision, found):
        yield f"{MERGE_DECISION}: {decision.verdict} passes over {finding.id}, which is open and blocking"


def _counted_last(session: Session, before: RunState, step: tuple[str, str]) -> AcProgress | None:
    earlier = before.tally.steps.get(step)
    evidence = evidence_of(session, earlier.newest) if earlier is not None else None
    return evidence.ac if evidence is not None else None


def _stored(session: Session, state: RunState, name: str) -> bytes | None:
    return session.repository.objects.file(state.tip_tree, f"{session.layout.base}/{name}")


def _read(schema: type[RecordT], content: bytes | None) -> RecordT | None:
    try:
        return schema.from_json(content) if content is not None else None
    except MistakesError:
        return None
