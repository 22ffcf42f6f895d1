"""`watch`: runs while they are executed, drawn anew on a terminal, line by line elsewhere."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from gitswarm.cli.arguments import Argument
from gitswarm.cli.bisect import signals_that_end
from gitswarm.cli.console import INTERRUPTED, advise, err, harmless, out, out_lines
from gitswarm.cli.lines import hanging, told
from gitswarm.cli.opened import reader_here
from gitswarm.cli.run_words import about
from gitswarm.cli.short_ids import with_short_ids
from gitswarm.cli.terminal import painted, terminal_height, terminal_width
from gitswarm.cli.watch_run import WatchedRun
from gitswarm.git.owners import live_owners
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import all_runs, find_run
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.text import columns, shorten

POLL_S = 0.5
_CTRL_C = "\x03"
_QUIT = ("q", "Q", _CTRL_C)
_ALTERNATE, _NORMAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(
    runs: Annotated[
        list[str] | None, Argument(metavar="RUN", help="Runs; else all that are executed now, or the newest.")
    ] = None,
) -> None:
    """Watch runs live; q quits, the runs continue.

    Steps, tool calls, tokens, cost and time; it ends when all runs have ended.
    """
    repository = reader_here()
    watched = Watched(repository, [find_run(repository, run) for run in runs or ()])
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        pressed = _draw(watched)
        out_lines(line for run in watched.runs for line in run.head)
    else:
        pressed = ""
        _print_steps(watched)
    for run in watched.runs:
        _advise(run)
    if pressed == _CTRL_C:
        raise SystemExit(INTERRUPTED)


class Watched:
    """The runs that are named; without a name those that are executed, also those that begin later."""

    def __init__(self, repository: RepositoryReader, named: Sequence[RunLayout]) -> None:
        self._repository = repository
        self._waits = not named
        layouts = list(dict.fromkeys(named)) or self._executed() or [find_run(repository, None)]
        self.runs = [WatchedRun(repository, layout) for layout in layouts]

    def look(self) -> None:
        """Reads what has changed since the last look."""
        known = {run.layout for run in self.runs}
        new = [layout for layout in self._executed() if layout not in known] if self._waits else ()
        self.runs += [WatchedRun(self._repository, layout) for layout in new]
        for run in self.runs:
            run.look()

    @property
    def are_over(self) -> bool:
        return all(run.is_over for run in self.runs)

    def _executed(self) -> list[RunLayout]:
        """Newest first."""
        found = {run for run, _owner in live_owners(self._repository.common_dir)}
        return [layout for layout in all_runs(self._repository) if layout.run_id in found] if found else []


def _advise(run: WatchedRun) -> None:
    """What to type next."""
    if not run.is_over:
        err(f"{run.layout.run_id} is still running")
        advise(f"git swarm watch {run.layout.run_id}")
    elif not run.lost:
        advise(run.found.hint)


def _print_steps(watched: Watched) -> None:
    """Steps as they are begun and committed, until all runs have ended."""
    shown: dict[WatchedRun, int] = {}
    begun: set[tuple[str, str]] = set()
    while True:
        watched.look()
        for run in watched.runs:
            first = f"{run.layout.run_id}  " if len(watched.runs) > 1 else ""
            if run not in shown:
                out_lines([*told("", run.headline, sys.stdout), *hanging("", about(run.found))])
            if len(run.steps) > shown.get(run, 0):
                out_lines(f"{first}{line}" for line in run.committed(shown.get(run, 0)))
            shown[run] = len(run.steps)
            for step in () if run.is_over else run.executing:
                for line in (f"▸ {step.name}", *(f"▸ {step.name}: {each}" for each in step.extra_runs)):
                    if (run.layout.run_id, line) not in begun:
                        begun.add((run.layout.run_id, line))
                        out(f"{first}{line}")
        if watched.are_over:
            out_lines(line for run in watched.runs for line in told("", run.headline, sys.stdout))
            return
        sys.stdout.flush()
        time.sleep(POLL_S)


def _draw(watched: Watched) -> str:
    """Draws the runs until all have ended; the key that ended it before, "" for none."""
    drawn = ""
    with signals_that_end(), _screen(), _keys() as has_keys:
        while True:
            watched.look()
            if watched.are_over:
                return ""
            frame = _frame(screen_lines(watched.runs, terminal_height()))
            if frame != drawn:
                sys.stdout.write(frame)
                sys.stdout.flush()
                drawn = frame
            key = _key(POLL_S, has_keys=has_keys)
            if key in _QUIT:
                return key


def screen_lines(runs: Sequence[WatchedRun], height: int) -> list[str]:
    """Each run gets as many lines as the others, those that have ended one; the last line is about keys."""
    over = [run for run in runs if run.is_over]
    live = [run for run in runs if not run.is_over]
    room = height - 1 - len(over) - max(len(live) - 1, 0)
    lines = [run.headline for run in over]
    for index, run in enumerate(live):
        lines += ([""] if index else []) + run.lines(max(room // len(live), 2))
    width = terminal_width()
    return [
        _cut(with_short_ids(harmless(line)), width) for line in (*lines[: height - 1], "q quits; the runs continue")
    ]


def _frame(lines: Sequence[str]) -> str:
    """What draws a screen over the one before."""
    return _HOME + "\r\n".join(f"{painted(line, sys.stdout)}{_REST_OF_LINE}" for line in lines) + _BELOW


def _cut(line: str, width: int) -> str:
    """With its indentation."""
    if columns(line) <= width:
        return line
    indent = len(line) - len(line.lstrip())
    return " " * indent + shorten(line, width - indent)


@contextmanager
def _screen() -> Iterator[None]:
    """The terminal's other screen: what was on it comes back, whatever happens to its size meanwhile."""
    sys.stdout.write(_ALTERNATE)
    try:
        yield
    finally:
        sys.stdout.write(_NORMAL)
        sys.stdout.flush()


@contextmanager
def _keys() -> Iterator[bool]:
    """Single keys, Ctrl-C among them, instead of lines and signals; False: nobody types here."""
    if not sys.stdin.isatty():
        yield False
        return
    import termios  # noqa: PLC0415 - only on a terminal

    before = termios.tcgetattr(0)
    changed = termios.tcgetattr(0)
    changed[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(0, termios.TCSANOW, changed)
    try:
        yield True
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


def _key(seconds: float, *, has_keys: bool) -> str:
    """What is typed within that time; Ctrl-C for a terminal that is gone."""
    if not has_keys:
        time.sleep(seconds)
        return ""
    ready, _, _ = select.select([0], [], [], seconds)
    return (os.read(0, 1).decode(errors="replace") or _CTRL_C) if ready else ""
