"""What was decided about a run's code: approved, rejected, landed, void because of a conflict. The newest decision on
the chain counts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import HUMAN, KERNEL, agent_identity
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.execution import RUNS_FOLDER

if TYPE_CHECKING:
    from gitswarm.git.repository import Repository


class ApprovalKind(StrEnum):
    """Trailers that speak about code; each is a commit's own."""

    APPROVES = "Swarm-Approves"
    REJECTS = "Swarm-Rejects"
    VOIDS = "Swarm-Voids"


LANDING = "Swarm-Landing"
"""Trailer of a `land` step that led to the target: the landed commit, and the full name of the branch."""


LANDED = "Swarm-Landed"
"""Trailer of the commit that brought a run to its target: the run, and its approved commit."""


class RecordedApproval(Struct, frozen=True):
    """What `commit` decides about the commit `about` and its code tree; of a VOIDS, `about` is the approval."""

    commit: str
    kind: ApprovalKind
    about: str
    code: str
    by: str


class LandedAs(Struct, frozen=True):
    """A landing: the commit on the target, the branch's full name; `step`: the commit of the run that records it."""

    commit: str
    target: str
    step: str = ""


def code_tree(repository: Repository, state: RunState, tree: str | None = None) -> str:
    """A tree of the run, else its tip's, with `.swarm/runs` of the run's base: what an approval is about."""
    objects = repository.objects
    runs = objects.entry(objects.commit(state.base).tree, RUNS_FOLDER)
    return objects.with_subtree(tree or state.tip_tree, RUNS_FOLDER, runs)


def latest_approval(repository: RepositoryReader, state: RunState) -> RecordedApproval | None:
    """The newest approval, rejection or voiding on the chain; those of a run that this one was forked from are not
    about it."""
    found = (_recorded(repository, record) for record in _kernel_steps(state))
    return next((approval for approval in found if approval is not None), None)


def current_approval(repository: RepositoryReader, state: RunState) -> RecordedApproval | None:
    """The approval of exactly the code that the run has now."""
    approval = latest_approval(repository, state)
    if approval is None or approval.kind is not ApprovalKind.APPROVES:
        return None
    return approval if is_code(repository, approval.code, state.tip_tree) else None


def is_code(repository: RepositoryReader, one: str, other: str) -> bool:
    """Whether two trees of a run hold the same code; unlike `code_tree` it writes nothing."""
    return repository.objects.same_but(one, other, RUNS_FOLDER)


def last_landing(repository: RepositoryReader, state: RunState) -> LandedAs | None:
    """The newest landing that the run has recorded."""
    for record in _kernel_steps(state):
        commit, _blank, target = _trailers(repository, record).get(LANDING, "").partition(" ")
        if target and _is_genuine(repository, record):
            return LandedAs(commit, target, record.commit)
    return None


def newest_landing(repository: RepositoryReader, state: RunState) -> LandedAs | None:
    """As `last_landing`; else one that a rollback took from the chain: what landed stays on its target."""
    found = last_landing(repository, state)
    if found is not None:
        return found
    prefix = state.layout.rollback_prefix
    numbers = [name.removeprefix(prefix) for name in repository.refs.list(prefix)]
    for number in sorted((int(each) for each in numbers if each.isdecimal()), reverse=True):
        kept = repository.refs.read(f"{prefix}{number}")
        before = repository.objects.commit(kept).parents[:1] if kept else ()
        found = last_landing(repository, replay(repository, state.layout, before[0])) if before else None
        if found is not None:
            return found
    return None


def follow_approval(repository: Repository, state: RunState) -> None:
    """Makes the ref what the chain says; it is a view, and whoever killed us or moved it does not count."""
    approval = latest_approval(repository, state)
    wanted = approval.commit if approval is not None and approval.kind is ApprovalKind.APPROVES else None
    name = state.layout.approval_ref
    found = repository.refs.read(name)
    if found != wanted:
        repository.refs.swap(name, found, wanted, why="as the chain says")


def _kernel_steps(state: RunState) -> list[StepRecord]:
    return [record for record in reversed(state.own_steps) if record.engine == KERNEL]


def _trailers(repository: RepositoryReader, record: StepRecord) -> dict[str, str]:
    message = parse_message(repository.objects.commit(record.commit).message)
    return dict(message.trailers) if message is not None else {}


def _recorded(repository: RepositoryReader, record: StepRecord) -> RecordedApproval | None:
    trailers = _trailers(repository, record)
    for kind in ApprovalKind:
        about, _blank, code = trailers.get(kind, "").partition(" ")
        if about and (kind is ApprovalKind.VOIDS or about == record.parent) and _is_genuine(repository, record):
            return RecordedApproval(record.commit, kind, about, code, record.execution.agent)
    return None


def _is_genuine(repository: RepositoryReader, record: StepRecord) -> bool:
    """Whether a commit is one that git-swarm makes for a person or itself: by that agent, with step records that came
    with it. Trailers alone can be typed; `verify` asks everything else."""
    execution, objects = record.execution, repository.objects
    if execution.agent not in (HUMAN, KERNEL) or objects.author(record.commit) != agent_identity(execution.agent):
        return False
    before = objects.commit(record.parent).tree
    records = (execution.receipt, execution.envelope, execution.events)
    written = [(objects.entry(record.tree, path), objects.entry(before, path)) for path in records]
    return all(found is not None and found != earlier for found, earlier in written)
