"""Shows a run while it executes: a live line on a terminal, plain lines elsewhere, JSONL when asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gitswarm.cli.console import duration, err, harmless, money, out_stored
from gitswarm.cli.lines import hanging, tail
from gitswarm.cli.spoken import retry_in_words
from gitswarm.cli.turns import OFF_THE_GRAPH, short_reason, target_text, where_to
from gitswarm.ledger.state import RunState
from gitswarm.ledger.stored_json import RUNS_COMMANDS
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.routing import Action, Decision
from gitswarm.records.text import shorten
from gitswarm.runner.observer import SilentObserver

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

DOING_COLUMNS = 30
"""Room for what the agent says or does, in the line that moves."""


class JsonProgress(SilentObserver):
    """Every event as one line on stdout, as soon as it is on disk."""

    def event(self, event: LoggedEvent) -> None:
        out_stored(event.to_line())

    def notice(self, text: str) -> None:
        err(text)


class PlainProgress(SilentObserver):
    """One line per step on stderr; below it why it ended so, where that is no agent's word."""

    def __init__(self) -> None:
        self._below: dict[tuple[str | None, str | None, int | None], Below] = {}

    def opened(self, state: RunState, worktree: str) -> None:
        err(f"{state.layout.run_id} on {state.layout.branch.removeprefix('refs/heads/')}")
        err(f"worktree {worktree}")

    def event(self, event: LoggedEvent) -> None:
        if event.payload.get("blocked"):
            self.say(shorten_line(f"    denied {event.payload['tool']}: {event.payload['blocked_reason']}"))
        elif event.kind is EventKind.ENGINE_RETRY:
            self.say(shorten_line(f"    retry {retry_in_words(event.payload)}"))
        if event.step_id is not None:
            place = (event.flow_key, event.step_id, event.iteration)
            self._below.setdefault(place, Below()).take(event)

    def committed(self, state: RunState) -> None:
        record = state.steps[-1]
        name = f"{record.flow}/{record.step}@{record.execution.iteration}"
        outcome = record.status.value if record.result == "succeeded" else record.result.value
        line = f"{record.number:>3} {name:<26} {outcome:<10} {record.commit[:8]}  {record.summary}"
        self.say(shorten_line(line))
        below = self._below.pop((record.flow, record.step, record.execution.iteration), Below())
        for text in below.lines(record.summary):
            self.say(shorten_line(text))

    def decided(self, decision: Decision) -> None:
        told = told_on_the_way(decision)
        if told is not None:
            self.say(shorten_line(f"    {told}"))

    def notice(self, text: str) -> None:
        self.say(text)

    def say(self, text: str) -> None:
        err(text)


@dataclass(slots=True)
class Below:
    """What the events of a step say that belongs below its line.

    `output`: of the last command, if it failed; `told`: findings, which the decision after the step tells.
    """

    output: str = ""
    reason: str = ""
    told: set[str] = field(default_factory=set)
    is_command: bool = False

    def take(self, event: LoggedEvent) -> None:
        said = event.payload
        if event.kind is EventKind.STEP_START:
            self.is_command = said.get("engine") in RUNS_COMMANDS
        elif event.kind is EventKind.TOOL_END:
            self.output = "" if said["success"] or said.get("blocked") else str(said["output"])
        elif event.kind is EventKind.CONCERN_OPENED:
            self.told.add(f"{said['id']}: {said['fact']}")
        elif event.kind is EventKind.STEP_END:
            self.reason = str(said.get("status_reason") or "")

    def lines(self, summary: str) -> list[str]:
        """
        :param summary: stands in the line of the step.
        """
        why = self.reason if self.reason not in (summary, *self.told) else ""
        because = hanging("    because ", why) if why else []
        return [*because, *(f"      {line}" for line in tail(self.output) if self.is_command)]


class LiveProgress(PlainProgress):
    """The plain lines, and below them one line that moves: step, iteration, elapsed, tokens, cost, what goes on."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console  # noqa: PLC0415 - only on a terminal
        from rich.live import Live  # noqa: PLC0415

        self._console = Console(stderr=True, highlight=False)
        self._step = ""
        self._tool = self._said = ""
        self._since = time.monotonic()
        self._begun = time.monotonic()
        self._totals = f"0 tokens, {money(0.0)}"
        # Live asks for its first line while it is made: everything above has to be there.
        self._live: Live = Live(
            console=self._console, refresh_per_second=8, transient=True, get_renderable=self._line
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def event(self, event: LoggedEvent) -> None:
        super().event(event)
        if event.kind is EventKind.STEP_START:
            self._step = f"{event.flow_key}/{event.step_id}@{event.iteration}"
            self._since = time.monotonic()
            self._tool = self._said = ""
        elif event.kind is EventKind.MESSAGE:
            self._said = shorten(str(event.payload["text"]), DOING_COLUMNS)
        elif event.kind is EventKind.TOOL_START:
            given = event.payload.get("input")
            about = next(iter(given.values()), "") if isinstance(given, dict) else ""
            self._tool = shorten(f"{event.payload['tool']} {about}", DOING_COLUMNS)
        elif event.kind is EventKind.TOOL_END:
            self._tool = ""
        elif event.kind in (EventKind.STEP_END, EventKind.STEP_ERROR):
            self._step = self._tool = self._said = ""

    def committed(self, state: RunState) -> None:
        self._totals = f"{state.tokens} tokens, {money(state.cost_usd)}"
        super().committed(state)

    def say(self, text: str) -> None:
        self._console.print(harmless(text), markup=False, no_wrap=True, overflow="ellipsis", crop=True)

    def _line(self) -> Text:
        from rich.text import Text  # noqa: PLC0415

        now = time.monotonic()
        total = duration(int((now - self._begun) * 1000))
        here = f"{self._step} {duration(int((now - self._since) * 1000))}" if self._step else "…"
        parts = [part for part in (here, f"run {total}", self._totals, self._tool or self._said) if part]
        return Text(harmless(" · ".join(parts)), style="dim", no_wrap=True, overflow="ellipsis")


def told_on_the_way(decision: Decision) -> str | None:
    """`loop -> write: reason` for a decision that a person who watches wants to know; None for the next step."""
    kind = decision.decision
    if kind is Action.FORK and decision.fork is not None and decision.fork.pending != decision.fork.targets:
        return None  # told when it began
    if kind in (Action.PAUSE, Action.ESCALATE):
        return f"{kind}: {short_reason(decision)}"
    if decision.to_flow is not None and kind not in OFF_THE_GRAPH:
        return f"flow -> {where_to(decision)}: {short_reason(decision)}"
    if kind in (Action.ADVANCE, Action.TERMINATE):
        return None
    return f"{kind} -> {target_text(decision)}: {short_reason(decision)}"


def shorten_line(line: str) -> str:
    """The first line in at most 80 columns, indentation kept."""
    first = line.splitlines()[0]
    text = first.lstrip()
    indent = len(first) - len(text)
    return first[:indent] + shorten(text, 80 - indent)
