"""What an approval is about, and how it is said."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.engines.kernel import Operation
from gitswarm.evidence.diff_scan import scan
from gitswarm.ledger.approval import ApprovalKind, code_tree
from gitswarm.ledger.overview import is_played
from gitswarm.ledger.state import RunState
from gitswarm.records.concern import Concern
from gitswarm.records.envelope import Handoff
from gitswarm.records.evidence import DiffSummary
from gitswarm.records.outcome import Result
from gitswarm.runner.landing.cautions import Caution, cautions_of, tests_of
from gitswarm.runner.landing.open_at_end import concerns_at_end
from gitswarm.runner.session import Session

APPROVE = "approve"


class Subject(Struct, frozen=True):
    """What is judged: the code from `base` to `tip`. `tests`: what the last test run on exactly this code said;
    `played`: engines were in stub mode, or a script was played; `cautions`: what speaks against a quick yes;
    `concerns`: what is open; `never`: why this run lands in no case."""

    base: str
    tip: str
    code: str
    diff: DiffSummary
    tests: str
    played: bool
    cautions: tuple[Caution, ...] = ()
    concerns: tuple[Concern, ...] = ()
    never: str = ""

    @property
    def size(self) -> str:
        files = len(self.diff.files)
        count = f"{files} file{'' if files == 1 else 's'}"
        return f"{count}, +{self.diff.insertions} -{self.diff.deletions}"


def subject_of(session: Session, state: RunState) -> Subject:
    repository = session.repository
    code = code_tree(repository, state)
    base = repository.objects.commit(state.base).tree
    return Subject(
        base=state.base,
        tip=state.tip,
        code=code,
        diff=scan(repository.diffs, base, code),
        tests=tests_of(session, state),
        played=was_played(session, state),
        cautions=cautions_of(session, state),
        concerns=concerns_at_end(session, state),
        never=_never(session, state),
    )


def _never(session: Session, state: RunState) -> str:
    if was_played(session, state) and not session.spec.allow_stub:
        return "it was a rehearsal, not started with --allow-stub"
    return ""


def was_played(session: Session, state: RunState) -> bool:
    """Whether something in the run is not what a model or the project itself did."""
    return session.spec.scripted or is_played(state)


def speaking(word: ApprovalKind, subject: Subject, handoff: Handoff) -> Operation:
    """The operation of a step that says this word about the code; its commit stands on `subject.tip`."""

    def operation(_request: StepRequest, _emit: Emit) -> StepResult:
        said = {word.value: f"{subject.tip} {subject.code}"}
        return StepResult(APPROVE, Result.SUCCEEDED, handoff.summary, handoff=handoff, trailers=said)

    return operation
