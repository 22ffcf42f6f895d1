"""`watch`: runs while they are executed, what is committed and what executes now; drawn anew on a terminal, line by
line elsewhere."""

from __future__ import annotations

import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import dropwhile
from typing import Annotated

from msgspec import Struct, field

from gitswarm.cli.arguments import Argument
from gitswarm.cli.bisect import signals_that_end
from gitswarm.cli.console import (
    INTERRUPTED,
    advise,
    duration,
    err,
    hanging,
    harmless,
    out_lines,
    readable,
    with_short_ids,
)
from gitswarm.cli.live_events import Stamp, is_committed, stamp, step_label
from gitswarm.cli.log import step_lines
from gitswarm.cli.runs import Opened, about, headline, reader_here
from gitswarm.cli.terminal import painted, terminal_height, terminal_width, text_width
from gitswarm.cli.transcript import Folding, cut_line, line_of
from gitswarm.errors import NotFoundError
from gitswarm.git.owners import live_owners
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import JournalFile, all_runs, find_run, journal_files, journal_folder, whole_lines
from gitswarm.ledger.journal import read_lines
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing, timings
from gitswarm.ledger.work import worked_ms
from gitswarm.records.event import EventKind
from gitswarm.records.evidence import extra_run_words
from gitswarm.records.execution import RunStatus

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

    def refresh(self) -> None:
        """Reads what has changed since the last look."""
        known = {run.layout for run in self.runs}
        new = [layout for layout in self._executed() if layout not in known] if self._waits else ()
        self.runs += [WatchedRun(self._repository, layout) for layout in new]
        for run in self.runs:
            run.refresh()

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
    printed: dict[WatchedRun, _Printed] = {}
    while True:
        watched.refresh()
        for run in watched.runs:
            if run not in printed:
                out_lines([*readable("", run.headline, sys.stdout), *hanging("", about(run.found))])
                printed[run] = _Printed()
            first = f"{run.layout.run_id}  " if len(watched.runs) > 1 else ""
            out_lines(f"{first}{line}" for line in printed[run].new_lines(run))
        if watched.are_over:
            out_lines(line for run in watched.runs for line in readable("", run.headline, sys.stdout))
            return
        sys.stdout.flush()
        time.sleep(POLL_S)


class _Printed(Struct):
    """What was printed of a run: the number of its committed steps, and lines about steps that were begun."""

    committed: int = 0
    begun: set[str] = field(default_factory=set)

    def new_lines(self, run: WatchedRun) -> Iterator[str]:
        if len(run.steps) > self.committed:
            yield from run.committed(self.committed)
        self.committed = len(run.steps)
        for step in () if run.is_over else run.executing:
            for line in (f"▸ {step.name}", *(f"▸ {step.name}: {each}" for each in step.extra_runs)):
                if line not in self.begun:
                    self.begun.add(line)
                    yield line


def _draw(watched: Watched) -> str:
    """Draws the runs until all have ended; the key that ended it before, "" for none."""
    drawn = ""
    with signals_that_end(), _screen(), _keys() as has_keys:
        while True:
            watched.refresh()
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
        cut_line(with_short_ids(harmless(line)), width)
        for line in (*lines[: height - 1], "q quits; the runs continue")
    ]


def _frame(lines: Sequence[str]) -> str:
    """What draws a screen over the one before."""
    return _HOME + "\r\n".join(f"{painted(line, sys.stdout)}{_REST_OF_LINE}" for line in lines) + _BELOW


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


_RECENT = 100
"""Steps, and lines of an executing one, that a screen is made of."""

_MOST_RECENT = 8

BETWEEN_STEPS = "between two steps: setup, or choosing the next one"


class ExecutingStep(Struct):
    """A step that is in no commit. `read`: bytes of its journal that are known. `extra_runs`: `testing the base`."""

    journal: JournalFile
    since: datetime | None = None
    read: int = 0
    folding: Folding = field(default_factory=Folding)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_RECENT))
    extra_runs: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return step_label(self.journal.flow, self.journal.step, self.journal.iteration)

    def catch_up(self) -> bool:
        """Reads what its journal has more; whether its usage is in that."""
        more = whole_lines(self.journal.path, self.read)
        self.read += len(more)
        has_usage = False
        for event in read_lines(more):
            self.since = self.since or datetime.fromisoformat(event.ts)
            has_usage = has_usage or event.kind is EventKind.USAGE
            if event.kind is EventKind.EXTRA_RUN:
                self.extra_runs.append(extra_run_words(str(event.payload["of"])))
            line = line_of(event)
            self.recent.extend(self.folding.take(line) if line is not None else ())
        return has_usage

    def elapsed_ms(self) -> int:
        return max(int((datetime.now(UTC) - self.since).total_seconds() * 1000), 0) if self.since else 0


class WatchedRun:
    """One run. `lost`: it was discarded while we looked."""

    def __init__(self, repository: RepositoryReader, layout: RunLayout) -> None:
        self.layout = layout
        self.executing: list[ExecutingStep] = []
        self.lost = False
        self._repository = repository
        self._stamp: Stamp | None = None
        self._clock_ms = 0
        self._drawn: tuple[object, list[str]] | None = None
        self._read()

    def refresh(self) -> None:
        """Reads what has changed since the last look."""
        now = stamp(self._repository, self.layout)
        if now == self._stamp:
            return
        is_same = self._stamp is not None and _without_growth(now) == _without_growth(self._stamp)
        self._stamp = now
        used = [step.catch_up() for step in self.executing]
        if not is_same or any(used):
            self._read()

    def _read(self) -> None:
        repository, layout = self._repository, self.layout
        journals = journal_files(journal_folder(repository, layout))
        try:
            self.state: RunState = replay(repository, layout)
            self.found: RunOverview = overview(repository, layout, self.state)
            self.took: list[Timing] = timings(repository, self.state)
            self.worked_ms: int = worked_ms(repository, self.state)
        except NotFoundError:
            self.lost = True
            if not hasattr(self, "found"):
                raise
            return
        known = {step.journal: step for step in self.executing}
        open_journals = [each for each in journals if not is_committed(self.state, each)]
        self.executing = [known.get(each) or ExecutingStep(each) for each in open_journals]
        for step in self.executing:
            step.catch_up()

    @property
    def is_over(self) -> bool:
        """Whether nobody executes it."""
        return self.lost or self.found.state is not RunStatus.RUNNING

    @property
    def headline(self) -> str:
        """The headline that `log` has, and how long steps were executed."""
        if self.lost:
            return f"{self.layout.run_id}  discarded"
        worked = self.worked_ms
        if not self.is_over:  # what a step was begun with may not count when it ends: the clock does not go back
            running = max((step.elapsed_ms() for step in self.executing), default=0)
            worked = self._clock_ms = max(self._clock_ms, worked + running)
        return f"{headline(self.found)}, {duration(worked)}"

    @property
    def head(self) -> list[str]:
        """The headline, wrapped for a terminal."""
        name, gap, stands = with_short_ids(self.headline).partition("  ")
        return hanging(f"{name}{gap}", stands)

    def committed(self, first: int = 0) -> list[str]:
        """Steps behind the first ones, as `log` has them."""
        opened = Opened(self._repository, self.layout, self.state)
        return step_lines(opened, self.steps[first:], self.took[first:])

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        return self.state.steps

    def lines(self, height: int) -> list[str]:
        """At most so many: how the run stands, the newest steps, and what the executing ones do."""
        head = [*self.head, *hanging("", about(self.found))[:1]]
        executing = [] if self.is_over else self.executing
        rooms = max(height - len(head) - len(executing), 0)
        each = min(_MOST_RECENT, rooms // (2 * len(executing))) if executing else 0
        live = [line for step in executing for line in _live(step, each)]
        if not self.is_over and not executing:
            live = [f"▸ {BETWEEN_STEPS}"]
        return [*head, *_last(self._all_committed(), max(height - len(head) - len(live), 0)), *live][:height]

    def _all_committed(self) -> list[str]:
        """Made anew when there is another commit, or another width."""
        key = (self.state.tip, text_width())
        if self._drawn is None or self._drawn[0] != key:
            self._drawn = key, self.committed(max(len(self.steps) - _RECENT, 0))
        return self._drawn[1]


def _without_growth(found: Stamp) -> object:
    """Who executes it, its refs, and which journals there are, without what is added to them."""
    owner, files = found
    return owner, [each[:1] if each[0].endswith(".jsonl") else each for each in files]


def _live(step: ExecutingStep, most: int) -> Iterator[str]:
    yield f"▸ {step.name}  {duration(step.elapsed_ms())}"
    shown: list[str] = []
    for entry in reversed(_entries(step.recent)):
        if shown and len(shown) + len(entry) > most:
            break
        shown = [*entry[:most], *shown]
    yield from (f"    {line}" for line in shown)


def _entries(lines: Iterable[str]) -> list[list[str]]:
    """Each begins with its time; below a call is its output."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("+") or not found:
            found.append([])
        found[-1].append(line)
    return found


def _last(lines: list[str], room: int) -> list[str]:
    """The newest steps, whole."""
    if len(lines) <= room:
        return lines
    kept = lines[len(lines) - room + 1 :] if room > 1 else []
    return ["…", *dropwhile(lambda line: line.startswith(" "), kept)] if room else []
