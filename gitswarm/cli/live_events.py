"""`events`: the history of a run, those that there are and those that come while somebody executes it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import advise, escaped, out_lines, out_verbatim, readable
from gitswarm.cli.runs import Opened, RunArgument, open_run
from gitswarm.git.owners import Owner, owner_of, starting_of
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import JournalFile, journal_files, journal_folder
from gitswarm.ledger.journal import OpenJournal, current
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import overview
from gitswarm.ledger.reading import live_journals, stored_events
from gitswarm.ledger.state import RunState, replay
from gitswarm.records.event import TERMINAL_KINDS, LoggedEvent
from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import shorten

POLL_S = 0.1


def events_so_far(opened: Opened, after: str | None = None) -> list[LoggedEvent]:
    """Events of the chain, from behind the commit `after`, and of the steps that execute now.

    Journals are read first: whatever is gone from them a moment later is in the chain by then.
    """
    journals = [(journal, journal.read()) for journal in live_journals(opened.repository, opened.layout)]
    state = replay(opened.repository, opened.layout)
    found = stored_events(opened.repository, state, after=after)
    for journal, lines in journals:
        if not is_committed(state, journal):
            found.extend(lines)
    return current(found)


def events_as_they_come(opened: Opened, after: str | None = None) -> Iterator[LoggedEvent]:
    """What is there behind the commit `after` and what comes, each event once, until the stream ends or nobody
    executes the run; of a run that waits for somebody it says so on stderr.
    """
    shown: set[tuple[str | None, str | None, int | None, int, str]] = set()
    while True:
        before = stamp(opened.repository, opened.layout)
        status = overview(opened.repository, opened.layout).state
        tip = opened.repository.refs.read(opened.layout.branch)
        fresh = []
        for event in events_so_far(opened, after):
            key = (event.flow_key, event.step_id, event.iteration, event.seq, event.ts)
            if key not in shown:
                shown.add(key)
                fresh.append(event)
        yield from fresh
        sys.stdout.flush()
        if fresh and fresh[-1].kind in TERMINAL_KINDS:
            return
        if status is not RunStatus.RUNNING and not fresh:
            if status is RunStatus.INTERRUPTED or live_journals(opened.repository, opened.layout):
                hint_at_resume(opened)
            return
        after = tip
        time.sleep(POLL_S)
        while status is RunStatus.RUNNING and stamp(opened.repository, opened.layout) == before:
            time.sleep(POLL_S)


Stamp = tuple[Owner | None, tuple[tuple[str, int, int, int], ...]]


def stamp(repository: RepositoryReader, layout: RunLayout) -> Stamp:
    """Who executes a run, and of each file that changes then its inode, size and time: as long as this is the same,
    there is nothing new to read. It costs a few system calls.
    """
    names = (layout.branch, layout.routing_notes, "packed-refs")
    paths = [repository.common_dir / name for name in names]
    paths += [journal.path for journal in journal_files(journal_folder(repository, layout))]
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            file = path.stat()
            found.append((str(path), file.st_ino, file.st_size, file.st_mtime_ns))
    common, run = repository.common_dir, layout.run_id
    return owner_of(common, run) or starting_of(common, run), tuple(found)


def open_steps(opened: Opened) -> list[OpenJournal]:
    """Executions that are in no commit: those of now, or those that their owner left when it died."""
    journals = live_journals(opened.repository, opened.layout)
    return [journal for journal in journals if not is_committed(opened.state, journal)]


def hint_at_resume(opened: Opened) -> None:
    advise(f"git swarm resume {opened.layout.run_id}   (no process executes this run now)")


def step_label(flow: str | None, step: str | None, iteration: int | None) -> str:
    """Where an event happened, `flow/step@n`, or what the event has of it."""
    return f"{flow}/{step}@{iteration}" if step else flow or "run"


def is_committed(state: RunState, journal: OpenJournal | JournalFile) -> bool:
    return any(
        (record.flow, record.step, record.execution.iteration) == (journal.flow, journal.step, journal.iteration)
        for record in state.steps
    )


def events(
    run: RunArgument = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Keep printing new events until the run ends.")] = False,
    as_json: Annotated[bool, Option("--json", help="One JSON document per line.")] = False,
) -> None:
    """Everything that happened in a run, in order."""
    opened = open_run(run)
    for event in events_as_they_come(opened) if follow else events_so_far(opened):
        _print_event(event, as_json=as_json)


def _print_event(event: LoggedEvent, *, as_json: bool) -> None:
    if as_json:
        out_verbatim(escaped(event.to_line().decode().rstrip("\n")))
        return
    where = step_label(event.flow_key, event.step_id, event.iteration)
    about = ", ".join(f"{key}={_short(value)}" for key, value in event.payload.items() if value not in (None, ""))
    out_lines(readable(f"{event.ts[11:23]} {event.kind:<15} ", f"{where}  {about}".rstrip(), sys.stdout))


def _short(value: JsonValue) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)
