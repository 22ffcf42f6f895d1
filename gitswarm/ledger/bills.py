"""What a run cost, item by item: per step, flow, station, engine, model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.spent import payments
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing, timing
from gitswarm.records.money import Spent


class Bill(Struct, frozen=True):
    """Of one execution, or of something beside the steps: then `step` says what, and only `used` is known."""

    flow: str
    step: str
    station: str
    engine: str
    model: str
    duration_ms: int
    used: Spent
    is_step: bool = True


class Sum(Struct, frozen=True):
    """Of the bills with one name."""

    name: str
    count: int
    duration_ms: int
    used: Spent


CUT_OFF = "cut off executions"
NAVIGATORS = "navigators"


def bills(repository: RepositoryReader, state: RunState) -> list[Bill]:
    """All that the run paid for, also what was taken back, in the order in which it was executed. Together they are
    what `status` says that it spent."""
    paid = payments(repository, state)
    found = []
    for record, _begun, took in sorted(_timed(repository, state, paid.committed), key=lambda each: each[1]):
        engine = f"{record.engine}/{record.mode}"
        used = Spent(record.tokens, record.cost_usd)
        station = record.execution.agent
        found.append(Bill(record.flow, record.step, station, engine, record.model, took, used))
    beside = [(CUT_OFF, used) for used in paid.cut_off.values()] + [(NAVIGATORS, used) for used in paid.navigators]
    return found + [Bill("", name, "-", "-", "-", 0, used, is_step=False) for name, used in beside]


def _timed(
    repository: RepositoryReader, state: RunState, records: Sequence[StepRecord]
) -> Iterator[tuple[StepRecord, str, int]]:
    """With the moment when each began, and its milliseconds."""
    receipts = repository.objects.files_of([(record.tree, record.execution.receipt) for record in records])
    for record, receipt in zip(records, receipts, strict=True):
        where = f"{record.commit[:12]}:{record.execution.receipt}"
        found = parsed(timing, receipt, state.layout, where) if receipt is not None else Timing("", 0)
        yield record, found.started_at, found.duration_ms


def worked_ms(repository: RepositoryReader, state: RunState) -> int:
    """How long a run has worked: the time of all its executions, as `cost` lists them. Waiting for people, and what
    git-swarm does between two steps, are no part of it."""
    return sum(bill.duration_ms for bill in bills(repository, state))


def summed(items: Iterable[Bill], name: Callable[[Bill], str]) -> list[Sum]:
    """By name, in the order of the first of each."""
    found: dict[str, list[Bill]] = {}
    for item in items:
        found.setdefault(name(item), []).append(item)
    return [total(of, each) for of, each in found.items()]


def total(name: str, items: Iterable[Bill]) -> Sum:
    """One line for all of them."""
    each = list(items)
    used = reduce(Spent.plus, (item.used for item in each), Spent())
    return Sum(name, len(each), sum(item.duration_ms for item in each), used)
