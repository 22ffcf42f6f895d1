"""How the runs of a fleet stand, as the hub says it: `fleet status`, what is shown while `fleet run` works, and the
page at its end."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import (
    err,
    harmless,
    money,
    next_lines,
    out,
    out_json,
    out_json_line,
    out_lines,
    plural,
    table,
    with_short_ids,
)
from gitswarm.cli.fleet.entry_file import StartOptions, read_entries
from gitswarm.cli.invocation import repository_here
from gitswarm.cli.runs import JsonFlag, age_since, state_word, task_title
from gitswarm.cli.terminal import terminal_height
from gitswarm.errors import NotFoundError
from gitswarm.git.remote import configured_hub
from gitswarm.git.repository import Repository
from gitswarm.ledger.kept_overviews import kept_overviews
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease
from gitswarm.ledger.overview import RunOverview
from gitswarm.records.execution import OVER, RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import usd
from gitswarm.runner.hub.queue import MOST_ATTEMPTS, is_given_up, read_queue
from gitswarm.runner.hub.transfer import hub_for_runs

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

QUEUED, NOT_BEGUN, GIVEN_UP = "queued", "not begun", "given up"
DEFAULT_FLOW = "build"
_HINTS = 3
"""Runs of a state of which it is said what to type."""
_ANYWHERE = ("git swarm resume ", "git swarm fleet run ", "git swarm release ")
"""Commands that need nothing of the run here."""

_CELLS: Mapping[str, Callable[[FleetRun], str]] = {
    "run": lambda each: each.run_id or "-",
    "state": lambda each: each.state,
    "steps": lambda each: str(each.steps),
    "cost": lambda each: money(each.cost_usd),
    "owner": lambda each: each.owner,
    "pushed": lambda each: each.pushed,
    "task": lambda each: each.title,
}

IssuesOption = Annotated[
    str | None, Option(metavar="FILE", help="A task per line, or JSON lines; `#` begins a comment.")
]
FlowOption = Annotated[str | None, Option(metavar="FLOW", help="Of entries that name none; build unless given.")]


class FleetRun(Struct, frozen=True):
    """A run of a fleet. `state`: as people are told it. `run_id` None: it is an entry of which no run exists yet."""

    run_id: str | None
    state: str
    title: str
    steps: int = 0
    cost_usd: float | None = 0.0
    owner: str = ""
    generation: int = 0
    attempts: int = 0
    pushed: str = ""
    hint: str = ""

    def to_plain(self) -> dict[str, JsonValue]:
        names = ("run_id", "state", "title", "steps", "cost_usd", "owner", "generation", "attempts", "hint")
        return {name: getattr(self, name) for name in names}


def fleet_run_of(lease: Lease) -> FleetRun:
    overview = lease.overview
    run = lease.run_id
    state, hint = ("interrupted", "") if overview is None else (state_word(overview), overview.hint)
    if is_given_up(lease):
        state, hint = GIVEN_UP, f"git swarm release {run}   (begun {MOST_ATTEMPTS} times without a new step)"
    elif lease.executes:
        state, hint = "running", ""
    elif overview is None or _has_not_begun(lease, overview):
        state, hint = QUEUED, f"git swarm fleet run {run}"
    elif overview.state in (RunStatus.INTERRUPTED, RunStatus.STOPPED):
        hint = f"git swarm fleet run {run}"
    return FleetRun(
        run_id=run,
        state=state,
        title=(task_title(overview) if overview else "") or "-",
        steps=overview.steps_executed if overview else 0,
        cost_usd=overview.cost_usd if overview else 0.0,
        owner=lease.owner,
        generation=lease.generation,
        attempts=lease.attempts,
        pushed=age_since(lease.time),
        hint=hint,
    )


def _has_not_begun(lease: Lease, overview: RunOverview) -> bool:
    return overview.state is RunStatus.INTERRUPTED and lease.generation == 1 and not overview.steps_executed


def status(issues: IssuesOption = None, flow: FlowOption = None, as_json: JsonFlag = False) -> None:
    """How the runs on the hub stand; no scheduler is asked, and none needs to live."""
    repository = repository_here()
    try:
        configured_hub(repository)
    except NotFoundError as unset:
        what = "no fleet has run here, and no hub is configured"
        raise NotFoundError(what, hint="git swarm fleet run --issues FILE   (keeps its runs here)") from unset
    remote = hub_for_runs(repository, os.environ)
    entries = read_entries(issues, StartOptions(flow=flow or DEFAULT_FLOW)) if issues is not None else []
    queue = read_queue(repository, remote, [entry.name for entry in entries])
    for error in queue.unreadable:
        err(f"unreadable: {error.message}")
    if issues is None:
        found = [fleet_run_of(lease) for lease in queue.leases.values()]
    else:
        found = [
            fleet_run_of(queue.leases[queue.runs[entry.name]])
            if entry.name in queue.runs
            else FleetRun(None, NOT_BEGUN, entry.title)
            for entry in entries
        ]
    if as_json:
        out_json({"hub": remote.name, "states": counts(found), "runs": [each.to_plain() for each in found]})
    elif found:
        show(repository, found)
    else:
        out("no runs on the hub")


def counts(found: Iterable[FleetRun]) -> dict[str, JsonValue]:
    return dict(Counter(each.state for each in found).most_common())


def show(repository: Repository, found: list[FleetRun]) -> None:
    """One page: how many runs are in each state, each run on a line, and below those what to type."""
    states = ", ".join(f"{count} {state}" for state, count in counts(found).items())
    steps = plural(sum(each.steps for each in found), "step")
    out(f"{plural(len(found), 'run')}: {states}; {steps}, {money(usd(*(each.cost_usd for each in found)))}")
    several = len({each.owner for each in found if each.owner}) > 1
    names = [name for name in _CELLS if several or name != "owner"]
    table(names, [[_CELLS[name](each) for name in names] for each in found])
    for state, hints in _hints(repository, found).items():
        for hint in hints[:_HINTS]:
            out_lines(next_lines(f"{'next':<11}", hint))
        if len(hints) > _HINTS:
            out(f"{'':<11}and {len(hints) - _HINTS} more that are {state}")


def _hints(repository: Repository, found: Iterable[FleetRun]) -> dict[str, list[str]]:
    """What to type about the runs in each state: as a run stands here, where all of it is here."""
    wanted = [each for each in found if each.hint and each.run_id and each.state not in ("running", QUEUED)]
    layouts = [layout for each in wanted if repository.refs.read((layout := RunLayout(each.run_id or "")).branch)]
    here = {run.run_id: run for run in kept_overviews(repository, layouts).runs}
    hints: dict[str, list[str]] = {}
    for each in wanted:
        overview, hint = here.get(each.run_id or ""), each.hint
        if overview is not None and overview.steps_executed >= each.steps and overview.state in OVER:
            hint = overview.hint
        elif not hint.startswith(_ANYWHERE):
            hint = f"git swarm pull {each.run_id}   (then: {hint})"
        if hint:
            hints.setdefault(each.state, []).append(hint)
    return hints


_AROUND = 6
"""Lines of a terminal that are not rows of the table."""


class Display:
    """A line per event on stderr."""

    def event(self, name: str, run: str | None, text: str, more: Mapping[str, JsonValue]) -> None:  # noqa: ARG002
        """Something happened. `text`: in words."""
        err(f"{run or 'fleet'} {text}")

    def notice(self, text: str) -> None:
        err(text)

    def update(self, found: Callable[[], Sequence[FleetRun]]) -> None:
        """It is time to show how all runs of the fleet stand. `found` asks the hub."""


class JsonDisplay(Display):
    """An object per line on stdout."""

    def event(self, name: str, run: str | None, text: str, more: Mapping[str, JsonValue]) -> None:  # noqa: ARG002
        out_json_line({"event": name, "run_id": run, **more})
        sys.stdout.flush()


class LiveDisplay(Display):
    """A table on a terminal: what is executed first, then what ended last."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def event(self, name: str, run: str | None, text: str, more: Mapping[str, JsonValue]) -> None:  # noqa: ARG002
        if name == "retried":
            self.notice(f"{run or 'fleet'} {text}")

    def notice(self, text: str) -> None:
        self._live.console.print(harmless(text), markup=False, highlight=False)

    def update(self, found: Callable[[], Sequence[FleetRun]]) -> None:
        self._live.update(_table(found()))


def _table(found: Sequence[FleetRun]) -> Table:
    from rich.table import Table  # noqa: PLC0415 - only on a terminal
    from rich.text import Text  # noqa: PLC0415

    states = ", ".join(f"{count} {state}" for state, count in counts(found).items())
    title = f"{states}; {money(usd(*(each.cost_usd for each in found)))}"
    shown = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    names = [name for name in _CELLS if name != "pushed"]
    for name in names:
        shown.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1 if name == "task" else None)
    ordered = sorted(found, key=lambda each: (each.state != "running", each.state in (QUEUED, NOT_BEGUN)))
    for each in ordered[: max(terminal_height() - _AROUND, 1)]:
        shown.add_row(*(Text(with_short_ids(harmless(_CELLS[name](each)))) for name in names))
    return shown


@contextmanager
def display(*, as_json: bool) -> Iterator[Display]:
    if as_json:
        yield JsonDisplay()
    elif sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield LiveDisplay(live)
    else:
        yield Display()
