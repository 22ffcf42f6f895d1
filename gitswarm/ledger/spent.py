"""What a run spent: every execution once, wherever it is kept, and the navigators that were asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from msgspec import Struct

from gitswarm.git.commits import Commit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import journal_folder
from gitswarm.ledger.journal_files import journal_files
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.state import RunState, step_record
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import folded
from gitswarm.records.execution import Execution
from gitswarm.records.money import Spent, read, written

if TYPE_CHECKING:
    from pydantic import JsonValue

USAGE = "Swarm-Usage"
"""Trailer of what was set aside: the executions that were cut off there, `flow/step@iteration start tokens cost`,
separated by commas. `start` is the time of its first event: a rollback gives a number of iterations away again."""

_EVENT = b'"usage"'
_ASKED = b'"navigator"'


@dataclass(frozen=True, slots=True)
class CutOff:
    """An execution that has no commit. `start`: ISO 8601, "" where no event of it is whole. `events`: JSON lines, as
    far as they are at hand; `kept_in`: the tree that has them, where it was set aside."""

    flow: str
    step: str
    iteration: int
    start: str
    events: bytes = field(default=b"", compare=False, repr=False)
    kept_in: str | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{self.flow}/{self.step}@{self.iteration} {self.start or '-'}"


def cut_off(flow: str, step: str, iteration: int, events: bytes) -> CutOff:
    """
    :param events: JSON lines of its journal.
    """
    try:
        match json.loads(events.partition(b"\n")[0]):
            case {"ts": str(start)}:
                return CutOff(flow, step, iteration, start, events)
    except ValueError:
        pass
    return CutOff(flow, step, iteration, "", events)


class Payments(Struct, frozen=True):
    """All that a run paid for, each once: executions with a commit, those that were cut off, navigators."""

    committed: tuple[StepRecord, ...]
    cut_off: Mapping[CutOff, Spent]
    navigators: tuple[Spent, ...]

    @property
    def spent(self) -> Spent:
        amounts = [Spent(record.tokens, record.cost_usd) for record in self.committed]
        return reduce(Spent.plus, [*amounts, *self.cut_off.values(), *self.navigators], Spent())


def payments(repository: RepositoryReader, state: RunState) -> Payments:
    """Over all commits of the run, set aside or not, and the journals that are open. A fork does not pay for the
    steps that it has from another run."""
    kept = _kept(repository, state.layout)
    committed = _committed(repository, state, kept)
    return Payments(
        committed=tuple(committed),
        cut_off=_cut_off(repository, state.layout, kept, committed),
        navigators=tuple(_navigators(repository, state.layout)),
    )


def usage_in(events: bytes) -> Spent:
    """What an execution that was cut off had used, as its events say: the last one counts, as each says all so far.

    :param events: JSON lines, the last one perhaps torn. None of them tells: nothing was used.
    """
    found = Spent()
    for line in events.splitlines():
        if _EVENT in line:
            found = _usage(line) or found
    return found


def _usage(line: bytes) -> Spent | None:
    try:
        match json.loads(line):
            case {"kind": "usage", "payload": {"tokens": {"total": int(tokens)}, "cost_usd": cost}}:
                return Spent(tokens, float(cost) if isinstance(cost, int | float) else None)
    except ValueError:
        pass
    return None


def usage_trailer(executions: Mapping[CutOff, Spent]) -> dict[str, str]:
    """Of a commit that sets executions aside; none where there are none."""
    said = [f"{execution.name} {_amounts(used)}" for execution, used in executions.items()]
    return {USAGE: ", ".join(said)} if said else {}


def _amounts(used: Spent) -> str:
    return f"{used.tokens} {written(used.cost_usd)}"


def _kept(repository: RepositoryReader, layout: RunLayout) -> list[Commit]:
    """Everything that was set aside."""
    found = (repository.refs.read(name) for name in repository.refs.list(layout.rollback_prefix))
    return [repository.objects.commit(commit_id) for commit_id in found if commit_id is not None]


def _cut_off(
    repository: RepositoryReader, layout: RunLayout, kept: Sequence[Commit], committed: Sequence[StepRecord]
) -> dict[CutOff, Spent]:
    """Each once: its journal may still be there when it is set aside, and when it is committed."""
    found: dict[CutOff, Spent] = {}
    for commit in kept:
        for line in commit.message.splitlines():
            for said in line.removeprefix(f"{USAGE}: ").split(", ") if line.startswith(f"{USAGE}: ") else ():
                with suppress(ValueError):  # a person's own
                    found |= _execution(said, commit.tree)
    for journal in journal_files(journal_folder(repository, layout)):
        with suppress(FileNotFoundError):  # its step was committed just now
            events = journal.path.read_bytes()
            found.setdefault(cut_off(journal.flow, journal.step, journal.iteration, events), usage_in(events))
    names = {(execution.flow, execution.step, execution.iteration) for execution in found}
    for record in committed:
        execution = record.execution
        if (execution.flow, execution.step, execution.iteration) in names:
            events = repository.objects.file(record.tree, execution.events) or b""
            found.pop(cut_off(execution.flow, execution.step, execution.iteration, events), None)
    return found


def cut_off_events(repository: RepositoryReader, layout: RunLayout, execution: CutOff) -> bytes:
    """Its journal; b"" where that is lost."""
    if execution.kept_in is None:
        return execution.events
    named = Execution(layout.run_id, execution.flow, execution.step, execution.iteration, "interrupted")
    return repository.objects.file(execution.kept_in, named.events) or b""


def _execution(said: str, tree: str) -> dict[CutOff, Spent]:
    """
    :raises ValueError: it is none.
    """
    name, start, tokens, cost = said.split(" ")
    place, _at, iteration = name.rpartition("@")
    flow, step = place.split("/")
    used = Spent(int(tokens), read(cost))
    return {CutOff(flow, step, int(iteration), start.removeprefix("-"), kept_in=tree): used}


def _committed(repository: RepositoryReader, state: RunState, kept: Sequence[Commit]) -> list[StepRecord]:
    """Executions that have a commit: on the branch, finished but not on it yet, parallel, or taken back.

    A parallel one that was replayed on the branch has two, a copy on another base too; each is there once.
    """
    layout = state.layout
    records = list(state.own_steps)
    known = {state.run_commit, *(record.commit for record in records)}
    others = (layout.next_ref, *repository.refs.list(layout.fork_prefix))
    starts = [commit_id for name in others if (commit_id := repository.refs.read(name))]
    starts += [parent for commit in kept for parent in commit.parents[:1]]
    for start in starts:
        records += _chain(repository, layout, start, known)
    return list({record.executed_as: record for record in records}.values())


def _chain(repository: RepositoryReader, layout: RunLayout, start: str, known: set[str]) -> Iterator[StepRecord]:
    """Steps of the run from `start` down to a commit that is `known`; they are known then."""
    cursor: str | None = start
    while cursor is not None and cursor not in known:
        known.add(cursor)
        commit = repository.objects.commit(cursor)
        message = parse_message(commit.message)
        if message is None or message.trailers.get("Swarm-Run") != layout.run_id:
            return
        if message.trailers.get("Swarm-Kind") == Kind.STEP:
            with suppress(KeyError, ValueError):  # a person's own
                yield step_record(layout, 0, commit, message)
        cursor = commit.parents[0] if commit.parents else None


def _navigators(repository: RepositoryReader, layout: RunLayout) -> Iterator[Spent]:
    """Of each decision for which a navigator was asked, also those that do not hold any more."""
    for note in repository.notes(layout.routing_notes).by_commit().values():
        for packed in folded(note) if _ASKED in note else ():
            with suppress(ValueError, RecursionError):  # what people or accidents put beside them
                yield from _asked(json.loads(packed))


def _asked(decision: JsonValue) -> Iterator[Spent]:
    """One that was not weighed (`elapsed_us`) repeats an earlier decision, and what that had cost."""
    match decision:
        case {"elapsed_us": int(), "explanation": {"navigator": {"tokens": int(tokens), "cost_usd": cost}}}:
            yield Spent(tokens, float(cost) if isinstance(cost, int | float) else None)
