"""Shows a run while it executes: a live line on a terminal, plain lines elsewhere, JSONL when asked."""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import Struct, field

from gitswarm.cli.console import (
    duration,
    err,
    hanging,
    harmless,
    money,
    out_stored,
    plural,
    readable,
    tail,
    with_short_ids,
)
from gitswarm.cli.decisions import OFF_THE_GRAPH, gave_up, short_reason, target_text, turn_of, where_to
from gitswarm.cli.runs import mark, step_outcome
from gitswarm.cli.terminal import is_narrow, painted, text_width
from gitswarm.cli.transcript import retry_in_words
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import RUNS_COMMANDS, command_summary, evidence_of_command
from gitswarm.ledger.work import worked_ms
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.evidence import extra_run_words
from gitswarm.records.routing import Action, Decision
from gitswarm.records.text import columns, shorten
from gitswarm.runner.run_context import Observer

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_UNDER = " " * 5
_NAME = 16
_SHOWN_MS = 100
"""Shorter steps have no time in their line."""

DOING_COLUMNS = 30
"""Room for what the agent says or does, in the line that moves."""


class NoticeObserver(Observer):
    def notice(self, text: str) -> None:
        err(text)


class JsonProgress(NoticeObserver):
    """Every event as one line on stdout, as soon as it is on disk."""

    def event(self, event: LoggedEvent) -> None:
        out_stored(event.to_line())


class PlainProgress(Observer):
    """A line per step on stderr; below it why it ended so, where that is no agent's word.

    :param repository: where the evidence of steps is read; None: the lines say what the steps say.
    """

    def __init__(self, repository: RepositoryReader | None = None) -> None:
        self._repository = repository
        self._below: dict[tuple[str | None, str | None, int | None], Below] = {}
        self._flow = ""
        self._executed: set[tuple[str, str]] = set()
        self._last: StepRecord | None = None

    def opened(self, state: RunState, worktree: str) -> None:
        self._executed = {(record.flow, record.step) for record in state.steps}
        self.say(f"{state.layout.run_id} on {state.layout.branch.removeprefix('refs/heads/')}")
        self.say(f"worktree {worktree}")

    def event(self, event: LoggedEvent) -> None:
        if event.payload.get("blocked"):
            self.tell(f"{_UNDER}denied {event.payload['tool']}: ", str(event.payload["blocked_reason"]))
        elif event.kind is EventKind.ENGINE_RETRY:
            self.tell(f"{_UNDER}retry ", retry_in_words(event.payload))
        if event.step_id is not None:
            key = (event.flow_key, event.step_id, event.iteration)
            self._below.setdefault(key, Below()).take(event)

    def committed(self, state: RunState) -> None:
        record = self._last = state.steps[-1]
        if record.flow != self._flow:
            self._flow = record.flow
            self.say(f"── {record.flow} ──")
        name = record.name.partition("/")[2]
        below = self._below.pop((record.flow, record.step, record.execution.iteration), Below())
        evidence = evidence_of_command(self._repository, state, record) if self._repository else None
        first = f"{mark(step_outcome(record))} {record.number:>2} {name:<{_NAME}}  "
        took = f"  {duration(below.took_ms)}" if below.took_ms is not None and below.took_ms >= _SHOWN_MS else ""
        self.tell(first, command_summary(record, evidence), took)
        for text in below.lines(record.summary):
            self.say(text)
        self._executed.add((record.flow, record.step))

    def decided(self, decision: Decision) -> None:
        turn = notable_decision(decision, is_back=(decision.next_flow, decision.to_step) in self._executed)
        if turn is not None:
            self.tell(_UNDER, f"{turn}{self._why_back() if turn.startswith('↺') and ': ' not in turn else ''}")

    def _why_back(self) -> str:
        """What sends a loop back: the concerns of its critic."""
        last = self._last
        if last is None or self._repository is None:
            return ""
        content = self._repository.objects.file(last.tree, last.execution.envelope) or b"{}"
        found = json.loads(content).get("concerns")
        return f": {plural(len(found), 'concern')}" if found else ""

    def notice(self, text: str) -> None:
        for line in readable("", text, sys.stderr):
            self.say(line)

    def tell(self, first: str, text: str, last: str = "") -> None:
        """A line, wrapped for a terminal.

        :param last: stands at its end.
        """
        *lines, end = readable(first, text.strip().partition("\n")[0], sys.stderr)
        if is_narrow(sys.stderr) and columns(end + last) > text_width():
            lines, end = [*lines, end], " " * (columns(first) - len("  "))
        for line in (*lines, end + last):
            self.say(line)

    def say(self, text: str) -> None:
        err(text)


class Below(Struct):
    """What the events of a step say that belongs below its line.

    `output`: of the last command, if it failed; `concerns`: findings, which the decision after the step tells.
    """

    output: str = ""
    reason: str = ""
    concerns: set[str] = field(default_factory=set)
    is_command: bool = False
    took_ms: int | None = None

    def take(self, event: LoggedEvent) -> None:
        payload = event.payload
        if event.kind is EventKind.STEP_START:
            self.is_command = payload.get("engine") in RUNS_COMMANDS
        elif event.kind is EventKind.TOOL_END:
            self.output = "" if payload["success"] or payload.get("blocked") else str(payload["output"])
        elif event.kind is EventKind.CONCERN_OPENED:
            self.concerns.add(f"{payload['id']}: {payload['fact']}")
        elif event.kind is EventKind.STEP_END:
            self.reason = str(payload.get("status_reason") or "")
            took = payload.get("duration_ms")
            self.took_ms = took if isinstance(took, int) else None

    def lines(self, summary: str) -> list[str]:
        """
        :param summary: stands in the line of the step.
        """
        why = self.reason if self.reason not in (summary, *self.concerns) else ""
        because = hanging(f"{_UNDER}because ", why) if why else []
        return [*because, *(f"{_UNDER}  {line}" for line in tail(self.output) if self.is_command)]


class LiveProgress(PlainProgress):
    """The plain lines, and below them one line that moves: step, iteration, elapsed, tokens, cost, what happens."""

    def __init__(self, repository: RepositoryReader | None = None) -> None:
        super().__init__(repository)
        from rich.console import Console  # noqa: PLC0415 - only on a terminal
        from rich.live import Live  # noqa: PLC0415

        self._console = Console(stderr=True, highlight=False)
        self._step = ""
        self._tool = self._message = ""
        self._since = time.monotonic()
        self._worked_ms = self._shown_ms = 0
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

    def opened(self, state: RunState, worktree: str) -> None:
        super().opened(state, worktree)
        self._worked_ms = worked_ms(self._repository, state) if self._repository is not None else 0

    def event(self, event: LoggedEvent) -> None:
        super().event(event)
        took = event.payload.get("duration_ms")
        if event.kind is EventKind.STEP_END and isinstance(took, int):
            self._worked_ms += took
        if event.kind is EventKind.STEP_START:
            self._step = f"{event.flow_key}/{event.step_id}@{event.iteration}"
            self._since = time.monotonic()
            self._tool = self._message = ""
        elif event.kind is EventKind.MESSAGE:
            self._message = shorten(str(event.payload["text"]), DOING_COLUMNS)
        elif event.kind is EventKind.TOOL_START:
            given = event.payload.get("input")
            about = next(iter(given.values()), "") if isinstance(given, dict) else ""
            self._tool = shorten(f"{event.payload['tool']} {about}", DOING_COLUMNS)
        elif event.kind is EventKind.TOOL_END:
            self._tool = ""
        elif event.kind is EventKind.EXTRA_RUN:
            self._tool = extra_run_words(str(event.payload["of"]))
        elif event.kind in (EventKind.STEP_END, EventKind.STEP_ERROR):
            self._step = self._tool = self._message = ""

    def committed(self, state: RunState) -> None:
        self._totals = f"{state.tokens} tokens, {money(state.cost_usd)}"
        super().committed(state)

    def say(self, text: str) -> None:
        from rich.text import Text  # noqa: PLC0415

        line = Text.from_ansi(painted(with_short_ids(harmless(text)), sys.stderr))
        self._console.print(line, no_wrap=True, overflow="ignore", crop=False)

    def _line(self) -> Text:
        from rich.text import Text  # noqa: PLC0415

        now = time.monotonic()
        running_ms = int((now - self._since) * 1000) if self._step else 0
        self._shown_ms = max(self._shown_ms, self._worked_ms + running_ms)
        here = f"{self._step} {duration(running_ms)}" if self._step else "…"
        parts = [
            part
            for part in (here, f"run {duration(self._shown_ms)}", self._totals, self._tool or self._message)
            if part
        ]
        return Text(harmless(" · ".join(parts)), style="dim", no_wrap=True, overflow="ellipsis")


def notable_decision(decision: Decision, *, is_back: bool = False) -> str | None:
    """`↺ back to write (1 of 3)` for a decision that a person who watches wants to know; None for the next step.

    :param is_back: the run has been at the target before.
    """
    kind = decision.decision
    if kind is Action.FORK and decision.fork is not None and decision.fork.pending != decision.fork.targets:
        return None  # told when it began
    reason = short_reason(decision)
    because = f": {reason}" if reason else ""
    if kind in (Action.PAUSE, Action.ESCALATE):
        return f"{kind}{because}"
    if decision.to_flow is not None and kind not in OFF_THE_GRAPH:
        return f"→ {where_to(decision)}{because}"
    if kind in (Action.LOOP, Action.REPEAT) or (kind is Action.BRANCH and is_back):
        turn = turn_of(decision, is_behind=True)
        return f"↺ back to {turn.text}" if turn else None
    if kind in (Action.ADVANCE, Action.TERMINATE, Action.BRANCH):
        return reason if gave_up(decision) else None
    return f"→ {target_text(decision)}{because}"
