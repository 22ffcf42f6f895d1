"""A run's own commits in order: its steps, and where it ended in between."""

from __future__ import annotations

from itertools import takewhile

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.reading import standing_decision
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.execution import RunStatus
from gitswarm.records.routing import Decision


class RunEnd(Struct, frozen=True):
    """An `end` commit; a run that was resumed goes on behind it."""

    commit: str
    status: RunStatus
    reason: str


class Passage(Struct, frozen=True):
    """One commit of a run and the decision that holds after it; None: there is none, or not any more."""

    what: StepRecord | RunEnd
    decision: Decision | None


def history(repository: RepositoryReader, state: RunState) -> list[Passage]:
    """Oldest first. The first `state.shared` are steps of the run that this one was forked from."""
    chain = _chain(repository, state)
    return [Passage(what, standing_decision(repository, state.layout, what.commit)) for what in chain]


def ends_after(repository: RepositoryReader, state: RunState, record: StepRecord) -> list[RunEnd]:
    """The ends directly behind a step, oldest first: what a person decides there is about the same step."""
    chain = _chain(repository, state)
    behind = chain[chain.index(record) + 1 :]
    return [what for what in takewhile(lambda what: isinstance(what, RunEnd), behind) if isinstance(what, RunEnd)]


def _chain(repository: RepositoryReader, state: RunState) -> list[StepRecord | RunEnd]:
    records = {record.commit: record for record in state.own_steps}
    found: list[StepRecord | RunEnd] = []
    cursor = state.tip
    while cursor != state.run_commit:
        found.append(records.get(cursor) or _end(repository, cursor))
        cursor = repository.objects.commit(cursor).parents[0]
    return [*state.steps[: state.shared], *reversed(found)]


def _end(repository: RepositoryReader, commit_id: str) -> RunEnd:
    message = parse_message(repository.objects.commit(commit_id).message)
    if message is None:
        raise ValueError(f"{commit_id} is not a commit of ours")
    reason = message.body or message.subject.partition(": ")[2]
    return RunEnd(commit_id, RunStatus(message.trailers["Swarm-Result"]), reason)
