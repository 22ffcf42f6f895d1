"""`events`: the history of a run, also while it is made."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer
from pydantic import JsonValue

from gitswarm.cli.console import err, out
from gitswarm.cli.opened import Opened, RunArgument, open_run
from gitswarm.ledger.events import current
from gitswarm.ledger.reading import live_journals, stored_events
from gitswarm.ledger.state import replay
from gitswarm.records.base import shorten
from gitswarm.records.event import TERMINAL_KINDS, LoggedEvent
from gitswarm.records.outcome import RunStatus
from gitswarm.runner.overview import overview

POLL_S = 0.1


def events(
    run: RunArgument = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document per line.")] = False,
) -> None:
    """Everything that happened in a run, in order."""
    opened = open_run(run)
    if follow:
        _follow(opened, as_json=as_json)
        return
    for event in current(_so_far(opened, None)):
        _print_event(event, as_json=as_json)


def _so_far(opened: Opened, after: str | None) -> list[LoggedEvent]:
    """Events of the chain, from behind the commit `after`, and of the step that executes now.

    Journals are read first: whatever is gone from them a moment later is in the chain by then.
    """
    journals = [(journal, journal.read()) for journal in live_journals(opened.repository, opened.layout)]
    state = replay(opened.repository, opened.layout)
    found = stored_events(opened.repository, state, after=after)
    done = {(record.flow, record.step, record.execution.iteration) for record in state.steps}
    for journal, lines in journals:
        if (journal.flow, journal.step, journal.iteration) not in done:
            found.extend(lines)
    return found


def _follow(opened: Opened, *, as_json: bool) -> None:
    """Prints what is there and what comes, each event once, until the stream ends or nobody executes the run."""
    shown: set[tuple[str | None, str | None, int | None, int, str]] = set()
    after: str | None = None
    while True:
        live = overview(opened.repository, opened.layout).state is RunStatus.RUNNING
        tip = opened.repository.refs.read(opened.layout.branch)
        fresh = []
        for event in current(_so_far(opened, after)):
            key = (event.flow_key, event.step_id, event.iteration, event.seq, event.ts)
            if key not in shown:
                shown.add(key)
                fresh.append(event)
        for event in fresh:
            _print_event(event, as_json=as_json)
        sys.stdout.flush()
        if fresh and fresh[-1].kind in TERMINAL_KINDS:
            return
        if not live and not fresh:
            err(f"hint: nobody executes this run now: git swarm resume {opened.layout.run_id}")
            return
        after = tip
        time.sleep(POLL_S)


def _print_event(event: LoggedEvent, *, as_json: bool) -> None:
    if as_json:
        out(event.to_line().decode().rstrip("\n"))
        return
    where = f"{event.flow_key}/{event.step_id}@{event.iteration}" if event.step_id else event.flow_key or "run"
    about = ", ".join(f"{key}={_short(value)}" for key, value in event.payload.items() if value not in (None, ""))
    out(f"{event.ts[11:23]} {event.kind:<15} {where}  {about}")


def _short(value: JsonValue) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)
