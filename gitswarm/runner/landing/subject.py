"""What an approval is about, what is open then, and what a person has to know before a yes."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.engines.kernel import Operation
from gitswarm.errors import SwarmError
from gitswarm.ledger.approval import ApprovalKind, code_tree
from gitswarm.ledger.last_tests import last_tests
from gitswarm.ledger.overview import is_played
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.evidence import AcceptedConcern, Concern, DiffSummary, concern_id
from gitswarm.records.outcome import Result, RunStatus, Status
from gitswarm.records.secrets import SecretFound
from gitswarm.runner.session import Session
from gitswarm.runner.step.concerns import open_concerns
from gitswarm.runner.step.findings import accepted_so_far, not_waived
from gitswarm.runner.step.test_steps import is_test_step, untested
from gitswarm.runner.stored import evidence_of
from gitswarm.specs.flow import Flow


def concerns_at_end(session: Session, state: RunState) -> tuple[Concern, ...]:
    """Concerns open at an approval, with what the run would find at its end: nothing is approved untested."""
    known = open_concerns(session, state)
    if state.end is RunStatus.SUCCEEDED:
        return known
    flows = (
        session.specs.flows.get(name) for name in dict.fromkeys(state.tally.journey)
    )  # a fork's may be another's
    missing = ((flow.id, step) for flow in flows if flow and (step := untested(session, state, flow)) is not None)
    names = {concern.id for concern in known}
    end = f"the run is {state.end}, and " if state.end is not None else ""
    skipped = (
        Concern(
            id=concern_id("tests_not_run", flow, step),
            flag="tests_not_run",
            blocking=True,
            fact=f"{end}no test of {flow} ran on its code",
        )
        for flow, step in missing
    )
    accepted = accepted_so_far(session, state)
    more = (concern for concern in skipped if concern.id not in names and not_waived(concern, accepted) is not None)
    return (*known, *more)


def accepted_concerns(session: Session, state: RunState, accept: Mapping[str, str]) -> tuple[AcceptedConcern, ...]:
    """
    :param accept: id, or a glob of ids, → why.
    :raises SwarmError: nothing that is open has such an id.
    """
    known = concerns_at_end(session, state)
    found: dict[str, AcceptedConcern] = {}
    for wanted, why in accept.items():
        fitting = [concern for concern in known if fnmatchcase(concern.id, wanted)]
        if not fitting:
            raise SwarmError(f"no open concern {wanted}", hint=_hint(state, known))
        for concern in fitting:
            found.setdefault(concern.id, AcceptedConcern(id=concern.id, why=why, names=concern.names))
    return tuple(found.values())


def _hint(state: RunState, known: tuple[Concern, ...]) -> str:
    run = state.layout.run_id
    return f"open: {', '.join(concern.id for concern in known)}" if known else f"git swarm status {run}"


_OUTCOMES = {True: "passed", False: "failed", None: "had nothing to run"}


class Caution(Struct, frozen=True):
    """`name`: one or two words, `text`: one line."""

    name: str
    text: str


def cautions_of(session: Session, state: RunState) -> tuple[Caution, ...]:
    """
    :param state: a run that has ended.
    """
    found: list[Caution] = []
    if state.end is not None and state.end is not RunStatus.SUCCEEDED:
        found.append(Caution("state", f"the run is {state.end}: it is not complete"))
    last = state.last_step
    if last is not None and last.status is Status.BLOCKED:
        found.append(Caution("blocked", f"{last.flow}/{last.step}: {(last.summary.splitlines() or [''])[0]}"))
    found += (Caution("left out", f"{one.path}: a secret ({one.kind})") for one in _left_out(session, state))
    return tuple(found)


def tests_of(session: Session, state: RunState) -> str:
    """What the newest test run said, and whether it was about this code."""
    if found := last_tests(session.repository, state):
        outcome = "fail as they did before the run" if found.red_before else _OUTCOMES[found.passed]
        return f"tests {outcome}{'' if found.current else ' on earlier code'} ({found.step})"
    missing = next(
        (
            f"{flow.id}/{step.id}"
            for flow in _own_flows(session)
            for step in flow.steps
            if is_test_step(session.spec.settings, step)
        ),
        None,
    )
    return "no tests have run on this code" + (f": {missing} was not executed" if missing else "")


def _left_out(session: Session, state: RunState) -> list[SecretFound]:
    """The files that secrets kept out, but for those that a later step brought; one secret of each."""
    found: dict[str, SecretFound] = {}
    for record in state.steps:
        evidence = evidence_of(session, record)
        if evidence is None:
            continue
        for file in evidence.diff.files:
            found.pop(file.path, None)
        found |= {one.path: one for one in reversed(evidence.secrets)}
    return list(found.values())


def _own_flows(session: Session) -> list[Flow]:
    return [session.specs.flows[name] for name in session.spec.flows]


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
        diff=repository.diffs.summary(base, code),
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
        trailers = {word.value: f"{subject.tip} {subject.code}"}
        return StepResult(APPROVE, Result.SUCCEEDED, handoff.summary, handoff=handoff, trailers=trailers)

    return operation
