"""The rows of one run, out of git."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct, field

from gitswarm.errors import CorruptError
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.ledger.approval import newest_landing
from gitswarm.ledger.archive import archived_runs, read_archived
from gitswarm.ledger.finding import all_runs, parsed
from gitswarm.ledger.journal import read_lines
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.next_command import never_lands
from gitswarm.ledger.reading import effective_decision, event_files, parse_note
from gitswarm.ledger.spent import InterruptedExecution, Payments, interrupted_events, payments
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import spec_fields
from gitswarm.projection.schema import FORMAT, fitting
from gitswarm.records.event import LoggedEvent
from gitswarm.records.evidence import Evidence
from gitswarm.records.execution import created_at
from gitswarm.records.receipt import Receipt
from gitswarm.records.record import timestamp
from gitswarm.records.routing import Decision
from gitswarm.records.text import Spent

KindT = TypeVar("KindT")
Row = dict[str, Any]

Known = Mapping[str, int | None]
"""The commits of a run whose rows are there, with their numbers on the branch."""


class RunSource(Struct, frozen=True):
    """A run, and what its rows are made from: the name and the id of each ref, sorted."""

    layout: RunLayout
    refs: tuple[tuple[str, str | None], ...]
    archived: bool = False

    def rows(self) -> Iterator[Row]:
        for ref, tip in self.refs:
            yield {"run_id": self.layout.run_id, "ref": ref, "tip": tip, "format": FORMAT}


def sources(repository: RepositoryReader) -> dict[str, RunSource]:
    """Every run that is here, archived ones too, by its id."""
    found = {layout.run_id: RunSource(layout, _refs(repository, layout)) for layout in all_runs(repository)}
    tip = repository.refs.read(ARCHIVE_REF)
    tree = repository.objects.commit(tip).tree if tip is not None else ""
    for layout in archived_runs(repository):
        stored = repository.objects.entry(tree, layout.base)
        found.setdefault(layout.run_id, RunSource(layout, ((ARCHIVE_REF, stored),), archived=True))
    return found


def _refs(repository: RepositoryReader, layout: RunLayout) -> tuple[tuple[str, str | None], ...]:
    prefixes = (f"refs/swarm/{layout.run_id}/", f"refs/notes/swarm/{layout.run_id}/")
    names = [layout.branch, *(name for prefix in prefixes for name in repository.refs.list(prefix))]
    return tuple((name, repository.refs.read(name)) for name in sorted(names))


class RunRows(Struct):
    """JSON lines by table. `is_whole`: all of the run, else only what commits add that were not known."""

    is_whole: bool
    lines: dict[str, list[bytes]] = field(default_factory=dict)

    def add(self, table: str, rows: Iterator[Row] | Sequence[Row]) -> None:
        """What is not UTF-8, as a ref that somebody made, loses what it cannot show."""
        texts = (json.dumps(fitting(table, row), separators=(",", ":"), ensure_ascii=False) for row in rows)
        self.lines.setdefault(table, []).extend(text.encode(errors="replace") for text in texts)


def run_rows(repository: RepositoryReader, source: RunSource, known: Known) -> RunRows:
    """
    :param known: what does not belong to the run as it is now, as after a rollback, has all of it read again.
    :raises NotFoundError: the run is gone.
    :raises CorruptError: it stored something that is not what git-swarm writes.
    """
    with _readable(repository, source):
        run = _Run(repository, source)
        rows = RunRows(is_whole=not known.items() <= run.numbers.items())
        run.add_to(rows, set() if rows.is_whole else set(known))
        return rows


def first_fault(repository: RepositoryReader, source: RunSource) -> CorruptError | None:
    """The first thing that the run stored and that is not what git-swarm writes."""
    with _readable(repository, source):
        return next(_Run(repository, source).faults(), None)


@contextmanager
def _readable(repository: RepositoryReader, source: RunSource) -> Iterator[None]:
    """An archived run is read as if its refs were there, for so long."""
    refs = repository.refs
    try:
        if source.archived:
            read_archived(repository, source.layout)
        yield
    finally:
        repository.refs = refs


class _Run:
    def __init__(self, repository: RepositoryReader, source: RunSource) -> None:
        self._repository, self._source, self._layout = repository, source, source.layout
        self._state: RunState = replay(repository, source.layout)
        self._paid: Payments = payments(repository, self._state)
        each = (*self._paid.committed, *self._state.own_steps)
        steps = {record.executed_as: record for record in each}
        self._steps: dict[str, StepRecord] = {record.commit: record for record in steps.values()}
        on_branch = {record.commit: record.number for record in self._state.own_steps}
        self._events = {commit.id: (commit.tree, path) for commit, path in event_files(repository, self._state)}
        self._events |= {commit: (record.tree, record.execution.events) for commit, record in self._steps.items()}
        self.numbers: Known = {commit: on_branch.get(commit) for commit in self._events}

    def add_to(self, rows: RunRows, known: set[str]) -> None:
        new = [commit for commit in self._events if commit not in known]
        steps = [self._steps[commit] for commit in new if commit in self._steps]
        receipts = self._stored(steps, lambda record: record.execution.receipt, _receipt)
        evidence = self._stored(steps, lambda record: record.execution.evidence, _evidence)
        contents = self._repository.objects.files_of([self._events[commit] for commit in new])
        rows.add("source", [*self._source.rows()])
        rows.add("runs", [self._run()])
        rows.add("steps", map(self._step, steps, receipts))
        rows.add("tool_calls", (call for each in zip(steps, receipts, strict=True) for call in self._calls(*each)))
        rows.add("evidence", map(self._evidence, steps, evidence))
        rows.add("decisions", self._decisions())
        rows.add("extra_costs", (self._own(row) for row in _extra_costs(self._repository, self._layout, self._paid)))
        events = rows.lines.setdefault("events", [])
        for commit, content in zip(new, contents, strict=True):
            events += event_lines(content or b"", self._layout.run_id, commit)

    def faults(self) -> Iterator[CorruptError]:
        for commit, (tree, path) in self._events.items():
            content = self._repository.objects.file(tree, path) or b""
            for number, line in enumerate(_lines(content), 1):
                yield from self._fault(LoggedEvent.from_json, line, f"{commit[:12]}:{path}", number)
        for record in self._steps.values():
            for path, read in (
                (record.execution.receipt, Receipt.from_json),
                (record.execution.evidence, Evidence.from_json),
            ):
                stored = self._repository.objects.file(record.tree, path)
                if stored is not None:
                    yield from self._fault(read, stored, f"{record.commit[:12]}:{path}")

    def _fault(
        self, read: Callable[[bytes], object], content: bytes, where: str, line: int | None = None
    ) -> Iterator[CorruptError]:
        try:
            read(content)
        except ValueError:
            at = f"line {line} of {where}" if line else where
            hint = f"git swarm verify {self._layout.run_id}   (the file: git show {where})"
            yield CorruptError(f"{self._layout.run_id}: {at} is not what git-swarm wrote there", hint=hint)

    def _own(self, row: Row) -> Row:
        return {"run_id": self._layout.run_id, **row}

    def _stored(
        self, records: list[StepRecord], path: Callable[[StepRecord], str], read: Callable[[bytes], Row]
    ) -> list[Row]:
        """A JSON file of each of them; {} where there is none."""
        contents = self._repository.objects.files_of([(record.tree, path(record)) for record in records])
        pairs = zip(records, contents, strict=True)
        return [
            parsed(read, content or b"{}", self._layout, f"{record.commit[:12]}:{path(record)}")
            for record, content in pairs
        ]

    def _run(self) -> Row:
        state, spec = self._state, spec_fields(self._repository, self._state)
        landed = newest_landing(self._repository, state)
        return self._own(
            {
                "created_at": timestamp(created_at(self._layout.run_id)),
                "flows": spec.flows,
                "task": spec.task,
                "state": state.end.value if state.end else "open",
                "rehearsal": never_lands(spec, state),
                "archived": self._source.archived,
                "landed_as": landed.commit if landed else None,
                "forked": state.shared > 0,
                "base": state.base,
                "tip": state.tip,
            }
        )

    def _step(self, record: StepRecord, receipt: Row) -> Row:
        number = self.numbers[record.commit]
        return self._own(
            {
                **_fields(record, "commit", "executed_as", "flow", "step", "engine", "mode", "model", "status"),
                **_fields(record, "result", "summary", "tokens", "cost_usd", "by_command"),
                **{name: receipt.get(name) for name in ("provider", "started_at", "duration_ms")},
                "number": number,
                "on_branch": number is not None,
                "iteration": record.execution.iteration,
                "station": record.execution.agent,
                "interruptions": record.stack,
                "parallel": record.fork is not None,
            }
        )

    def _calls(self, record: StepRecord, receipt: Row) -> Iterator[Row]:
        names = ("input", "source", "agent", "success", "blocked", "blocked_reason", "duration_ms")
        for number, call in enumerate(receipt.get("tool_calls", ()), 1):
            row = {"commit": record.commit, "number": number, "tool": call.get("tool_name", call.get("tool"))}
            yield self._own(
                {**row, **{name: call.get(name) for name in names}, "output_chars": len(call.get("output", ""))}
            )

    def _evidence(self, record: StepRecord, evidence: Row) -> Row:
        verdict, tests, report, diff = (evidence.get(name) or {} for name in _PARTS)
        return self._own(
            {
                "commit": record.commit,
                "recommendation": verdict.get("recommendation"),
                "score": verdict.get("score"),
                "findings": verdict.get("findings", []),
                "about": verdict.get("about", []),
                **{name: tests.get(name) for name in ("passed", "exit_code", "command")},
                "tests_total": report.get("total"),
                "tests_failed": report.get("failed"),
                "coverage_percent": report.get("coverage_percent"),
                "files_changed": len(diff.get("files", ())),
                "insertions": diff.get("insertions"),
                "deletions": diff.get("deletions"),
                "concerns_opened": record.opened,
                "concerns_closed": record.closed,
            }
        )

    def _decisions(self) -> Iterator[Row]:
        for commit, note in self._repository.notes(self._layout.routing_notes).by_commit().items():
            entries = parse_note(note)
            holding = effective_decision(entries)
            for entry in entries:
                if isinstance(entry, Decision):
                    yield self._own(_decision(commit, entry, holds=entry is holding))


def _fields(record: object, *names: str) -> Row:
    """Columns that are called as what they hold."""
    return {name: getattr(record, name) for name in names}


def _decision(commit: str, decision: Decision, *, holds: bool) -> Row:
    taken = [each for each in decision.candidates if each.candidate_id == decision.candidate_id]
    stall = decision.explanation.stall
    return {
        "after_commit": commit,
        "holds": holds,
        "flow": decision.flow_key,
        **_fields(decision, "seq", "ts", "from_step", "iteration", "candidate_id", "decision", "to_flow", "to_step"),
        **_fields(decision, "reason", "elapsed_us", "routing_source", "routing_mode"),
        "why_now": decision.why_now.trigger if decision.why_now else None,
        "candidates": [each.candidate_id for each in decision.candidates],
        "evidence": [pointer for each in taken for pointer in each.evidence_pointers],
        "stall_passes": stall.passes if stall else None,
        "is_stalled": stall is not None and stall.is_stalled,
    }


def _extra_costs(repository: RepositoryReader, layout: RunLayout, paid: Payments) -> Iterator[Row]:
    """The cost of what has no commit of its own; open journals are left out."""
    for each in paid.interrupted:
        if each.kept_in is not None:
            yield {**_extra("cut_off", each, each.used), "kept": bool(interrupted_events(repository, layout, each))}
    yield from (_extra("navigator", None, used) for used in paid.navigators)


def _extra(kind: str, execution: InterruptedExecution | None, used: Spent, *, committed: bool = True) -> Row:
    row: Row = {"kind": kind, "committed": committed, "tokens": used.tokens, "cost_usd": used.cost_usd}
    if execution is None:
        return row
    begun = {"iteration": execution.iteration, "started_at": execution.start or None}
    return {**row, "flow": execution.flow, "step": execution.step, **begun}


def live_rows(repository: RepositoryReader, layout: RunLayout) -> RunRows:
    """The rows of open journals: whole events, and what their executions used so far.

    :raises NotFoundError: the run is gone.
    """
    paid = payments(repository, replay(repository, layout)).interrupted
    journals = [execution for execution in paid if execution.kept_in is None]
    rows = RunRows(is_whole=False)
    events = (event.to_line() for execution in journals for event in read_lines(execution.events))
    rows.lines["events"] = [*event_lines(b"".join(events), layout.run_id, None)]
    costs = (_extra("open", journal, journal.used, committed=False) for journal in journals)
    rows.add("extra_costs", ({"run_id": layout.run_id, **row} for row in costs))
    return rows


def event_lines(content: bytes, run_id: str, commit: str | None) -> Iterator[bytes]:
    """Events as they are stored, with the commit that stores them in front."""
    where = json.dumps({"of_run": run_id, "commit": commit, "committed": commit is not None}).encode()[:-1]
    for line in _lines(content):
        yield where + b"," + line[1:] if line.startswith(b"{") else line


def _lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n") if line]


def _object(content: bytes) -> Row:
    try:
        found = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return _has(found, dict)


def _has(value: object, kind: type[KindT]) -> KindT:
    """
    :raises ValueError: as everything that is not what we wrote.
    """
    if not isinstance(value, kind):
        raise ValueError(f"no {kind.__name__}")  # noqa: TRY004
    return value


def _receipt(content: bytes) -> Row:
    found = _object(content)
    for call in _has(found.get("tool_calls", []), list):
        _has(_has(call, dict).get("output", ""), str)
    return found


_PARTS = ("verdict", "tests", "report", "diff")


def _evidence(content: bytes) -> Row:
    found = _object(content)
    parts = [_has(found.get(name) or {}, dict) for name in _PARTS]
    _has(parts[-1].get("files", []), list)
    return found
