"""`events`: the history of a run, also while it is made."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from pydantic import JsonValue

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import escaped, out_lines, out_verbatim
from gitswarm.cli.lines import told
from gitswarm.cli.live_events import events_as_they_come, events_so_far, place
from gitswarm.cli.opened import RunArgument, open_run
from gitswarm.records.event import LoggedEvent
from gitswarm.records.text import shorten


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
    where = place(event.flow_key, event.step_id, event.iteration)
    about = ", ".join(f"{key}={_short(value)}" for key, value in event.payload.items() if value not in (None, ""))
    out_lines(told(f"{event.ts[11:23]} {event.kind:<15} ", f"{where}  {about}".rstrip(), sys.stdout))


def _short(value: JsonValue) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)
