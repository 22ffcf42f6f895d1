"""A run as `watch` sees it: what is committed, what executes now, and which of it is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import dropwhile

from msgspec import Struct, field

from gitswarm.cli.console import duration
from gitswarm.cli.folded import Folding, line_of
from gitswarm.cli.lines import hanging
from gitswarm.cli.live_events import Stamp, place, stamp
from gitswarm.cli.log import step_lines
from gitswarm.cli.opened import Opened
from gitswarm.cli.run_words import about, headline
from gitswarm.cli.short_ids import with_short_ids
from gitswarm.cli.terminal import text_width
from gitswarm.errors import NotFoundError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.events import read_lines
from gitswarm.ledger.finding import journal_folder
from gitswarm.ledger.journal_files import JournalFile, journal_files, whole_lines
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing, timings
from gitswarm.ledger.work import worked_ms
from gitswarm.records.event import EventKind
from gitswarm.records.evidence import extra_run_words
from gitswarm.records.outcome import RunStatus

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
        return place(self.journal.flow, self.journal.step, self.journal.iteration)

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

    def look(self) -> None:
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
        committed = {(each.flow, each.step, each.execution.iteration) for each in self.state.steps}
        known = {step.journal: step for step in self.executing}
        open_ones = [each for each in journals if (each.flow, each.step, each.iteration) not in committed]
        self.executing = [known.get(each) or ExecutingStep(each) for each in open_ones]
        for step in self.executing:
            step.catch_up()

    @property
    def is_over(self) -> bool:
        """Whether nobody executes it."""
        return self.lost or self.found.state is not RunStatus.RUNNING

    @property
    def headline(self) -> str:
        """As `log` has it, and how long steps were executed."""
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
