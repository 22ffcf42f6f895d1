"""What is seen of a fleet while it works: a table that moves, lines, or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from gitswarm.cli.console import err, harmless, money, out_json_line, with_short_ids
from gitswarm.cli.fleet.standing import NOT_BEGUN, QUEUED, Standing, counts
from gitswarm.cli.terminal import terminal_height
from gitswarm.records.text import usd

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.live import Live
    from rich.table import Table

_AROUND = 6
"""Lines of a terminal that are not rows of the table."""


class Board(Protocol):
    def event(self, name: str, run: str | None, said: str, more: Mapping[str, JsonValue]) -> None:
        """Something happened. `said`: in words."""

    def notice(self, text: str) -> None: ...

    def stand(self, found: Callable[[], Sequence[Standing]]) -> None:
        """It is time to show how all runs of the fleet stand. `found` asks the hub."""


class JsonBoard:
    """An object per line on stdout."""

    def event(self, name: str, run: str | None, said: str, more: Mapping[str, JsonValue]) -> None:  # noqa: ARG002
        out_json_line({"event": name, "run_id": run, **more})
        sys.stdout.flush()

    def notice(self, text: str) -> None:
        err(text)

    def stand(self, found: Callable[[], Sequence[Standing]]) -> None:
        pass


class PlainBoard:
    """A line per event on stderr."""

    def event(self, name: str, run: str | None, said: str, more: Mapping[str, JsonValue]) -> None:  # noqa: ARG002
        err(f"{run or 'fleet'} {said}")

    def notice(self, text: str) -> None:
        err(text)

    def stand(self, found: Callable[[], Sequence[Standing]]) -> None:
        pass


class LiveBoard:
    """A table on a terminal: what is executed first, then what ended last."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def event(self, name: str, run: str | None, said: str, more: Mapping[str, JsonValue]) -> None:
        if name in ("retried", "refused"):
            self._live.console.print(f"{run or 'fleet'} {said}", markup=False, highlight=False)
        del more

    def notice(self, text: str) -> None:
        self._live.console.print(harmless(text), markup=False, highlight=False)

    def stand(self, found: Callable[[], Sequence[Standing]]) -> None:
        self._live.update(_table(found()))


def _table(found: Sequence[Standing]) -> Table:
    from rich.table import Table  # noqa: PLC0415 - only on a terminal
    from rich.text import Text  # noqa: PLC0415

    states = ", ".join(f"{count} {state}" for state, count in counts(found).items())
    title = f"{states}; {money(usd(*(each.cost_usd for each in found)))}"
    shown = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    for heading in ("run", "state", "steps", "cost", "owner", "task"):
        shown.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1 if heading == "task" else None)
    ordered = sorted(found, key=lambda each: (each.state != "running", each.state in (QUEUED, NOT_BEGUN)))
    for each in ordered[: max(terminal_height() - _AROUND, 1)]:
        cells = (
            with_short_ids(each.run_id or "-"),
            each.state,
            str(each.steps),
            money(each.cost_usd),
            each.owner,
            harmless(each.title),
        )
        shown.add_row(*map(Text, cells))
    return shown


@contextmanager
def board(*, as_json: bool) -> Iterator[Board]:
    if as_json:
        yield JsonBoard()
    elif sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield LiveBoard(live)
    else:
        yield PlainBoard()
