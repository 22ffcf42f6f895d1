"""What a run spent, every execution once, wherever it is kept, and what it may still spend."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.git.object_reader import Commit, NewCommit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import journal_files, journal_folder
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.message import CommitMessage, Kind
from gitswarm.ledger.state import RunState, first_parents, step_record
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import folded
from gitswarm.records.budget import OPTIONS, UNLIMITED, BudgetLimits, Use
from gitswarm.records.execution import Execution
from gitswarm.records.text import Spent, read, usd, written

if TYPE_CHECKING:
    from gitswarm.git.repository import Repository
    from gitswarm.records.json_value import JsonValue


USAGE = "Swarm-Usage"
"""Trailer of what was set aside: the executions that were interrupted there, `flow/step@iteration start tokens cost`,
separated by commas. `start` is the time of its first event: a rollback gives a number of iterations away again."""

_EVENT = b'"usage"'
_ASKED = b'"navigator"'


class InterruptedExecution(Struct, frozen=True):
    """An execution that has no commit; the same one has the same name. `start`: ISO 8601, "" where no event of it is
    whole. `events`: JSON lines, as far as they are at hand; `kept_in`: the tree with them, if they were set aside.
    """

    flow: str
    step: str
    iteration: int
    start: str
    used: Spent
    events: bytes = b""
    kept_in: str | None = None

    @classmethod
    def of(cls, flow: str, step: str, iteration: int, events: bytes) -> InterruptedExecution:
        """
        :param events: JSON lines of its journal.
        """
        start = _read(events.partition(b"\n")[0]).get("ts")
        return cls(flow, step, iteration, start if isinstance(start, str) else "", usage_in(events), events)

    @property
    def name(self) -> str:
        return f"{self.flow}/{self.step}@{self.iteration} {self.start or '-'}"


class KnownUses(Struct):
    """What was read already, of commits and notes, which do not change: uses by commit and whether its events were
    read for it; what navigators cost, by the id of the note."""

    executions: dict[tuple[str, bool], Use] = field(default_factory=dict)
    navigators: dict[str, tuple[Spent, ...]] = field(default_factory=dict)


class Payments(Struct, frozen=True):
    """All that a run paid for, each once: executions with a commit, interrupted ones, navigators."""

    committed: tuple[StepRecord, ...]
    interrupted: tuple[InterruptedExecution, ...]
    navigators: tuple[Spent, ...]

    @property
    def spent(self) -> Spent:
        amounts = [Spent(record.tokens, record.cost_usd) for record in self.committed]
        amounts += [execution.used for execution in self.interrupted]
        return reduce(Spent.plus, [*amounts, *self.navigators], Spent())


def payments(repository: RepositoryReader, state: RunState, known: KnownUses | None = None) -> Payments:
    """Over all commits of the run, set aside or not, and the journals that are open. A fork does not pay for the
    steps that it has from another run."""
    kept = _kept(repository, state.layout)
    committed = _committed(repository, state, kept)
    return Payments(
        committed=tuple(committed),
        interrupted=tuple(_interrupted(repository, state.layout, kept, committed).values()),
        navigators=tuple(_navigators(repository, state.layout, known or KnownUses())),
    )


def usage_in(events: bytes) -> Spent:
    """What an interrupted execution had used: its last event of usage counts, as each holds all so far.

    :param events: JSON lines, the last one perhaps truncated. Without an event of usage nothing was used.
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
                return _spent(tokens, cost)
    except (ValueError, RecursionError):
        pass
    return None


def usage_trailer(executions: Iterable[InterruptedExecution]) -> dict[str, str]:
    """The trailer of a commit that sets executions aside; none where there are none."""
    amounts = [f"{each.name} {each.used.tokens} {written(each.used.cost_usd)}" for each in executions]
    return {USAGE: ", ".join(amounts)} if amounts else {}


def _kept(repository: RepositoryReader, layout: RunLayout) -> list[Commit]:
    """Everything that was set aside."""
    found = (repository.refs.read(name) for name in repository.refs.list(layout.rollback_prefix))
    return [repository.objects.commit(commit_id) for commit_id in found if commit_id is not None]


def _interrupted(
    repository: RepositoryReader, layout: RunLayout, kept: Sequence[Commit], committed: Sequence[StepRecord]
) -> dict[str, InterruptedExecution]:
    """Each once, by name: its journal may still be there when it is set aside, and when it is committed."""
    found: dict[str, InterruptedExecution] = {}
    for commit in kept:
        for line in commit.message.splitlines():
            for item in line.removeprefix(f"{USAGE}: ").split(", ") if line.startswith(f"{USAGE}: ") else ():
                with suppress(ValueError):  # a person's own
                    each = _execution(item, commit.tree)
                    found[each.name] = replace(found.get(each.name, each), used=each.used)
    for journal in journal_files(journal_folder(repository, layout)):
        with suppress(FileNotFoundError):  # its step was committed just now
            events = journal.path.read_bytes()
            each = InterruptedExecution.of(journal.flow, journal.step, journal.iteration, events)
            found.setdefault(each.name, each)
    names = {(each.flow, each.step, each.iteration) for each in found.values()}
    for record in committed:
        own = (record.flow, record.step, record.execution.iteration)
        if own in names:
            events = repository.objects.file(record.tree, record.execution.events) or b""
            found.pop(InterruptedExecution.of(*own, events).name, None)
    return found


def interrupted_events(repository: RepositoryReader, layout: RunLayout, execution: InterruptedExecution) -> bytes:
    """Its journal; b"" where that is lost."""
    if execution.kept_in is None:
        return execution.events
    named = Execution(layout.run_id, execution.flow, execution.step, execution.iteration, "interrupted")
    return repository.objects.file(execution.kept_in, named.events) or b""


def _execution(text: str, tree: str) -> InterruptedExecution:
    """
    :raises ValueError: it is none.
    """
    name, start, tokens, cost = text.split(" ")
    step_key, _at, iteration = name.rpartition("@")
    flow, step = step_key.split("/")
    used = Spent(int(tokens), read(cost))
    return InterruptedExecution(flow, step, int(iteration), start.removeprefix("-"), used, kept_in=tree)


def _committed(repository: RepositoryReader, state: RunState, kept: Sequence[Commit]) -> list[StepRecord]:
    """Executions that have a commit: on the branch, finished but not on it yet, parallel, or rolled back.

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
    for commit, message in first_parents(repository, start if start not in known else None):
        known.add(commit.id)
        if message is None or message.trailers.get("Swarm-Run") != layout.run_id:
            return
        if message.trailers.get("Swarm-Kind") == Kind.STEP:
            with suppress(KeyError, ValueError):  # a person's own
                yield step_record(layout, 0, commit, message)
        if not known.isdisjoint(commit.parents[:1]):
            return


def _navigators(repository: RepositoryReader, layout: RunLayout, known: KnownUses) -> Iterator[Spent]:
    """What navigators cost: for each decision that one was asked about, also those that do not hold any more."""
    notes = repository.notes(layout.routing_notes)
    blobs = notes.blobs().values()
    new = dict.fromkeys(blob_id for blob_id in blobs if blob_id not in known.navigators)
    for blob_id, note in notes.contents({blob_id: blob_id for blob_id in new}).items():
        known.navigators[blob_id] = tuple(_asked_in(note))
    for blob_id in blobs:
        yield from known.navigators.get(blob_id, ())


def _asked_in(note: bytes) -> Iterator[Spent]:
    for packed in folded(note) if _ASKED in note else ():
        with suppress(ValueError, RecursionError):  # not an entry of ours
            yield from _asked(json.loads(packed))


def _asked(decision: JsonValue) -> Iterator[Spent]:
    """One that was not weighed (`elapsed_us`) repeats an earlier decision, and what that had cost."""
    match decision:
        case {"elapsed_us": int(), "explanation": {"navigator": {"tokens": int(tokens), "cost_usd": cost}}}:
            yield _spent(tokens, cost)


def _spent(tokens: int, cost: object) -> Spent:
    """What stored JSON says."""
    return Spent(tokens, usd(cost) if isinstance(cost, int | float) else None)


BUDGET = "Swarm-Budget"
"""Trailer of a person's changes of the limits: `cost_usd=8.0 time_s=none`, all changes so far."""

_NO_MODEL = ("command", KERNEL)
_ANNOUNCED = b'"step_start"'


def uses(
    repository: RepositoryReader,
    state: RunState,
    *,
    timed: bool,
    paid: Payments | None = None,
    known: KnownUses | None = None,
) -> list[Use]:
    """Everything that the run executed, each once.

    :param timed: whether times are asked for: they take reading the events of every step.
    :param known: what was read for the steps before.
    """
    known = known or KnownUses()
    paid = paid or payments(repository, state, known)
    keys = {(record.commit, timed or record.cost_usd is None): record for record in paid.committed}
    new = {key: record for key, record in keys.items() if key not in known.executions}
    wanted = [record for (_commit, is_read), record in new.items() if is_read]
    files = [(record.tree, record.execution.events) for record in wanted]
    contents = repository.objects.files_of(files) if files else []
    events = {record.commit: content or b"" for record, content in zip(wanted, contents, strict=True)}
    for key, each in new.items():
        used = Spent(each.tokens, each.cost_usd)
        known.executions[key] = _use(each.execution, used, events.get(each.commit, b""))
    found = [known.executions[key] for key in keys]
    found += [_use(each, each.used, interrupted_events(repository, state.layout, each)) for each in paid.interrupted]
    return [*found, *(Use("a navigator", "", used.tokens, used.cost_usd) for used in paid.navigators)]


def _use(execution: Execution | InterruptedExecution, used: Spent, events: bytes) -> Use:
    """
    :param events: JSON lines, the last one perhaps truncated.
    """
    lines = events.splitlines()
    start = next(filter(None, (_read(line) for line in lines if _ANNOUNCED in line)), {})
    payload = start.get("payload")
    fields = payload if isinstance(payload, dict) else {}
    allowed = fields.get("budget")
    may_go_on = isinstance(execution, InterruptedExecution) and fields.get("engine") not in _NO_MODEL
    times = [moment for line in (lines[:1] + lines[-2:]) if (moment := _moment(_read(line))) is not None]
    return Use(
        name=f"{execution.flow}/{execution.step}@{execution.iteration}",
        flow=execution.flow,
        tokens=used.tokens,
        cost_usd=used.cost_usd,
        allowed=BudgetLimits.of(allowed) if isinstance(allowed, dict) else UNLIMITED,
        in_flight=may_go_on and fields.get("mode") != "stub",
        begun=min(times, default=0.0),
        ended=max(times, default=0.0),
    )


def _read(line: bytes) -> Mapping[str, object]:
    try:
        fields = json.loads(line)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _moment(event: Mapping[str, object]) -> float | None:
    try:
        return datetime.fromisoformat(str(event.get("ts"))).timestamp()
    except ValueError:
        return None


def changed_limits(repository: RepositoryReader, layout: RunLayout) -> dict[str, float | None]:
    """Limits that people changed on `resume`, by name; None: there is no such limit any more."""
    commit_id = repository.refs.read(layout.budget_ref)
    text = repository.objects.commit(commit_id).message if commit_id is not None else ""
    lines = (line.removeprefix(f"{BUDGET}: ") for line in text.splitlines() if line.startswith(f"{BUDGET}: "))
    pairs = (word.partition("=") for word in next(lines, "").split())
    return {name: None if value == "none" else float(value) for name, _equals, value in pairs if name in OPTIONS}


def record_limits(
    repository: Repository, state: RunState, limits: Mapping[str, float | None], when: datetime
) -> None:
    """Records changes that a person makes: a commit of theirs under the run's refs, which no rollback takes back."""
    name = state.layout.budget_ref
    before = repository.refs.read(name)
    whole = changed_limits(repository, state.layout) | dict(limits)
    words = " ".join(f"{key}={'none' if value is None else value}" for key, value in whole.items())
    message = CommitMessage(f"budget: {words}", "", {"Swarm-Run": state.layout.run_id, BUDGET: words}).render()
    person = repository.committer()
    parents = (before,) if before is not None else ()
    new = NewCommit(state.tip_tree, parents, message, person, person, when)
    repository.refs.swap(name, before, repository.objects.write_commit(new), why="budget")
