"""Which steps tell what the code of a run is about, and why: for whoever reads the change without its history."""

from __future__ import annotations

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import is_code
from gitswarm.ledger.layout import HUMAN, KERNEL
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.outcome import Result

_AUTHORS = ("code-implementer", "fixer")
_REVIEWS_ITSELF = "self-reviewer"


def telling_steps(repository: RepositoryReader, state: RunState) -> list[StepRecord]:
    """The newest execution that changed code, of each step whose station writes the product, and the newest review of
    its own work; in a run without such stations, of each step of an agent that changed code."""
    agents = _by_agents(state)
    own = [record for record in agents if record.execution.agent in _AUTHORS and _changed(repository, record)]
    reviews = [record for record in agents if record.execution.agent == _REVIEWS_ITSELF]
    told = [*own, *reviews] if own else [record for record in agents if _changed(repository, record)]
    return _newest(told)


def changing_steps(repository: RepositoryReader, state: RunState) -> list[StepRecord]:
    """The newest execution that changed code, of each step of an agent."""
    return _newest([record for record in _by_agents(state) if _changed(repository, record)])


def _by_agents(state: RunState) -> list[StepRecord]:
    return [
        record
        for record in state.steps
        if record.result is Result.SUCCEEDED and record.engine not in (KERNEL, HUMAN, "command")
    ]


def _newest(records: list[StepRecord]) -> list[StepRecord]:
    newest = {(record.flow, record.step): record for record in records}
    return sorted(newest.values(), key=lambda record: record.number)


def _changed(repository: RepositoryReader, record: StepRecord) -> bool:
    return not is_code(repository, repository.objects.commit(record.parent).tree, record.tree)
