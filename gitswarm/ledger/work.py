"""What reports ask of a run: the code that it changed, the steps that explain it, and what it cost item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import is_code
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.layout import HUMAN, KERNEL
from gitswarm.ledger.spent import payments
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing
from gitswarm.records.execution import RUNS_FOLDER, Result
from gitswarm.records.text import Spent

_WORDS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "type changed"}
_COMMAND = ("diff-tree", "-r", "-z", "-M", "--no-ext-diff", "--no-textconv", "--raw", "--numstat")


class CountedFile(Struct, frozen=True):
    """Line counts are None for binary files."""

    path: str
    change: str
    insertions: int | None
    deletions: int | None


def changed_files(repository: RepositoryReader, old: str, new: str) -> list[CountedFile]:
    """What turns one commit into the other, in path order, `.swarm/runs` left out."""
    output = repository.git.output(*_COMMAND, old, new, "--", f":(top,exclude){RUNS_FOLDER}")
    words = iter(output.decode(errors="replace").split("\0"))
    changes: dict[str, str] = {}
    found: list[CountedFile] = []
    for word in words:
        if word.startswith(":"):
            letter = word.rpartition(" ")[2][:1]
            path = next(words)
            changes[next(words) if letter == "R" else path] = _WORDS.get(letter, "modified")
        elif word:
            added, deleted, path = word.split("\t", 2)
            if not path:  # a rename: both names follow
                next(words)
                path = next(words)
            found.append(CountedFile(path, changes.get(path, "modified"), _count(added), _count(deleted)))
    return sorted(found, key=lambda file: file.path)


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


_AUTHORS = ("code-implementer", "fixer")
_REVIEWS_ITSELF = "self-reviewer"


def telling_steps(repository: RepositoryReader, state: RunState) -> list[StepRecord]:
    """The newest execution that changed code, of each step whose station writes the product, and the newest review of
    its own work; in a run without such stations, of each step of an agent that changed code."""
    agents = _by_agents(state)
    own = [record for record in agents if record.execution.agent in _AUTHORS and _changed(repository, record)]
    reviews = [record for record in agents if record.execution.agent == _REVIEWS_ITSELF]
    steps = [*own, *reviews] if own else [record for record in agents if _changed(repository, record)]
    return _newest(steps)


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


class Bill(Struct, frozen=True):
    """What one execution cost, or something that is no step: then `step` says what, and only `used` is known."""

    flow: str
    step: str
    station: str
    engine: str
    model: str
    duration_ms: int
    used: Spent
    is_step: bool = True


class Sum(Struct, frozen=True):
    """The sum of the bills with one name."""

    name: str
    count: int
    duration_ms: int
    used: Spent


INTERRUPTED = "cut off executions"
NAVIGATORS = "navigators"


def bills(repository: RepositoryReader, state: RunState) -> list[Bill]:
    """All that the run paid for, also what was rolled back, in the order in which it was executed. Together they are
    what `status` says that it spent."""
    paid = payments(repository, state)
    found = []
    for record, _begun, took in sorted(_timed(repository, state, paid.committed), key=lambda each: each[1]):
        engine = f"{record.engine}/{record.mode}"
        used = Spent(record.tokens, record.cost_usd)
        station = record.execution.agent
        found.append(Bill(record.flow, record.step, station, engine, record.model, took, used))
    extra = [(INTERRUPTED, each.used) for each in paid.interrupted] + [(NAVIGATORS, used) for used in paid.navigators]
    return found + [Bill("", name, "-", "-", "-", 0, used, is_step=False) for name, used in extra]


def _timed(
    repository: RepositoryReader, state: RunState, records: Sequence[StepRecord]
) -> Iterator[tuple[StepRecord, str, int]]:
    """The steps with the moment when each began, and its milliseconds."""
    receipts = repository.objects.files_of([(record.tree, record.execution.receipt) for record in records])
    for record, receipt in zip(records, receipts, strict=True):
        where = f"{record.commit[:12]}:{record.execution.receipt}"
        found = parsed(Timing.from_json, receipt, state.layout, where) if receipt is not None else Timing("", 0)
        yield record, found.started_at, found.duration_ms


def worked_ms(repository: RepositoryReader, state: RunState) -> int:
    """How long a run has worked: the time of all its executions, as `cost` lists them. Waiting for people, and what
    git-swarm does between two steps, are no part of it."""
    return sum(bill.duration_ms for bill in bills(repository, state))


def summed(items: Iterable[Bill], name: Callable[[Bill], str]) -> list[Sum]:
    """The sums by name, in the order of the first bill of each."""
    found: dict[str, list[Bill]] = {}
    for item in items:
        found.setdefault(name(item), []).append(item)
    return [total(of, each) for of, each in found.items()]


def total(name: str, items: Iterable[Bill]) -> Sum:
    """The sum of all items, as one."""
    each = list(items)
    used = reduce(Spent.plus, (item.used for item in each), Spent())
    return Sum(name, len(each), sum(item.duration_ms for item in each), used)
