"""A run drawn downwards: a line per step, interruptions in columns of their own, and every turn with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from gitswarm.cli.console import hanging, padded
from gitswarm.cli.decisions import Turn, is_jump_back, turn_of, where_to
from gitswarm.cli.runs import Opened, step_outcome
from gitswarm.cli.terminal import text_width
from gitswarm.ledger.reading import HistoryEntry, RunEnd, current_decision, history
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.event import EventKind
from gitswarm.records.execution import Result, RunStatus
from gitswarm.records.routing import Action, Decision
from gitswarm.records.text import columns, shorten

_NAME_WIDTH = 32
_LEAD_WIDTH = 9
_LEGEND = {
    "○": "○ before the first step",
    "●": "● a step",
    "✗": "✗ a step that failed",
    "◌": "◌ a step skipped by hand",
    "◆": "◆ done by a person",
    "↺": "↺ back to an earlier step",
    "→": "→ not the next step of the flow",
    "(": "(name) who decided, if not the flow's rules",
    "├": "├─┐ ├─┘ an interruption begins, ends",
    "┌": "┌ └ in parallel",
    "■": "■ the run ends or waits",
    "▶": "▶ it was resumed",
    "◇": "◇ this run was forked here",
}


class _Row(Struct, frozen=True):
    """`lead` are the columns on the left; a row without a number is a mark between steps."""

    lead: str
    text: str
    number: str = ""
    name: str = ""
    outcome: str = ""
    bracket: str = " "
    is_heading: bool = False


class _Drawing(Struct):
    """What is drawn so far. `within`: the interruptions that are open; `flow`: the flow that they interrupt;
    `flows`: all that it was in; `executed`: steps since it was entered, as (flow, step)."""

    rows: list[_Row] = field(default_factory=list)
    signs: set[str] = field(default_factory=set)
    within: tuple[str, ...] = ()
    flow: str = ""
    flows: list[str] = field(default_factory=list)
    executed: list[tuple[str, str]] = field(default_factory=list)

    def mark(self, sign: str, text: str) -> None:
        self.signs.add(sign)
        self.rows.append(_Row("│ " * len(self.within) + sign, text))

    def enter(self, flow: str) -> None:
        """A heading, when the run gets into another flow."""
        if flow == self.flow:
            return
        self.flow = flow
        self.flows.append(flow)
        times = self.flows.count(flow)
        again = f", round {times}" if times > 1 else ""
        self.executed.clear()
        self.rows.append(_Row("", f"── {flow}{again} ──", is_heading=True))

    def interrupt(self, within: tuple[str, ...], incoming: Decision | None) -> None:
        """Closes and opens columns, until `within` are the ones that are open."""
        kept = 0
        while kept < len(within) and within[: kept + 1] == self.within[: kept + 1]:
            kept += 1
        for depth in range(len(self.within), kept, -1):
            following = f", next: {where_to(incoming)}" if depth == kept + 1 and incoming is not None else ""
            self._border(depth, "├─┘", f"{_interruption(self.within[depth - 1])} ended{following}")
        for depth in range(kept + 1, len(within) + 1):
            self._border(depth, "├─┐", _interruption(within[depth - 1]))
        self.within = within

    def _border(self, depth: int, sign: str, text: str) -> None:
        self.signs.add("├")
        self.rows.append(_Row("│ " * (depth - 1) + sign, text))


def graph_lines(entries: Sequence[HistoryEntry], start: Decision | None, shared: int = 0) -> list[str]:
    """
    :param start: the decision before the first step.
    :param shared: how many of the first entries belong to the run that this one was forked from.
    """
    drawing = _Drawing()
    incoming = start
    if start is not None:
        drawing.enter(start.flow_key)
        _draw_start(drawing, start)
    for index, entry in enumerate(entries):
        if index == shared > 0:
            drawing.mark("◇", "forked here: the steps above are those of the original run")
        record = entry.record
        if isinstance(record, RunEnd):
            _draw_end(drawing, record, incoming)
            incoming = entry.decision or incoming
            if entry.decision is not None or index + 1 < len(entries):
                drawing.mark("▶", f"resumed at {where_to(incoming)}" if incoming else "resumed")
        else:
            _draw_step(drawing, record, entries, index, incoming)
            incoming = entry.decision
    return [*_laid_out(drawing.rows), "", *_legend(drawing.signs)]


def _draw_start(drawing: _Drawing, start: Decision) -> None:
    by_hand = "by hand" in start.reason
    turn = Turn("→", f"{where_to(start)}: {start.reason}") if by_hand else turn_of(start)
    if turn is not None:
        drawing.signs |= _turn_signs(turn)
        drawing.mark("○", f"start {turn.sign} {turn.text}")


def _draw_step(
    drawing: _Drawing, record: StepRecord, entries: Sequence[HistoryEntry], index: int, incoming: Decision | None
) -> None:
    drawing.interrupt(record.stack, incoming)
    if not record.stack:
        drawing.enter(record.flow)
    drawing.executed.append((record.flow, record.step))
    sign = _sign(record)
    turn = _turn(drawing, record, entries[index].decision, is_last=index + 1 == len(entries))
    bracket = _bracket(entries, index)
    drawing.signs |= {sign, *_turn_signs(turn), *({"┌"} if bracket != " " else ())}
    iteration = record.execution.iteration
    drawing.rows.append(
        _Row(
            lead="│ " * len(record.stack) + sign,
            text=f"{turn.sign} {turn.text}" if turn else "",
            number=str(record.number),
            name=record.step + (f"@{iteration}" if iteration > 1 else ""),
            outcome=step_outcome(record),
            bracket=bracket,
        )
    )


def _turn_signs(turn: Turn | None) -> set[str]:
    return {turn.sign, *("(" if turn.who else "")} if turn else set()


def _turn(drawing: _Drawing, record: StepRecord, decision: Decision | None, *, is_last: bool) -> Turn | None:
    """What is told behind a step. Where the run ends, the end itself says why, but not what was proposed."""
    if decision is None or (decision.to_step is None and decision.proposal is None and not is_last):
        return None
    if record.fork is not None and decision.decision is Action.FORK:
        return None
    if decision.to_flow is not None:
        is_behind = is_jump_back(drawing.flows, decision.to_flow, drawing.flow)
    else:
        is_behind = is_jump_back(drawing.executed, (record.flow, decision.to_step), (record.flow, record.step))
    return turn_of(decision, is_behind=is_behind)


def _draw_end(drawing: _Drawing, end: RunEnd, incoming: Decision | None) -> None:
    if end.status is RunStatus.SUCCEEDED:
        drawing.interrupt((), None)
    elif incoming is not None and incoming.to_step is None and not incoming.failed:
        drawing.interrupt(tuple(frame.token for frame in incoming.stack), incoming)
    elif incoming is not None:
        over = {event.payload.get("frame") for event in incoming.events if event.kind is EventKind.STACK_POP}
        drawing.interrupt(tuple(token for token in drawing.within if token not in over), incoming)
    drawing.mark("■", f"{end.status}: {' '.join(end.reason.split())}")


def _sign(record: StepRecord) -> str:
    if record.result is Result.SKIPPED:
        return "◌"
    if record.result is Result.FAILED:
        return "✗"
    return "◆" if record.by_human else "●"


def _bracket(entries: Sequence[HistoryEntry], index: int) -> str:
    """Siblings of a fork are held together, whatever comes between them."""
    fork = _fork(entries[index])
    if fork is None:
        return " "
    others = [index for index, entry in enumerate(entries) if _fork(entry) == fork]
    if index == others[0]:
        return "┌"
    return "└" if index == others[-1] else "│"


def _fork(entry: HistoryEntry) -> str | None:
    return entry.record.fork if isinstance(entry.record, StepRecord) else None


def _interruption(token: str) -> str:
    """`sidequest clarifier` for `sidequest:clarifier@7`."""
    kind, _colon, name = token.partition(":")
    name = name.rpartition("@")[0]
    return f"injected {kind} {name}" if kind != "sidequest" else f"{kind} {name}"


def _laid_out(rows: Sequence[_Row]) -> list[str]:
    lead = min(_LEAD_WIDTH, max((columns(row.lead) for row in rows), default=0))
    steps = [row for row in rows if row.number]
    number = max((len(row.number) for row in steps), default=1)
    name = min(_NAME_WIDTH, max((columns(row.name) for row in steps), default=0))
    outcome = max((len(row.outcome) for row in steps), default=0)
    forked = any(row.bracket != " " for row in rows)
    lines = []
    for row in rows:
        left = padded(row.lead, lead) + (f" {row.bracket}" if forked else "")
        if row.is_heading:
            lines.append(row.text)
        elif row.number:
            first = f"{left} {row.number:>{number}}  {padded(shorten(row.name, name), name)}  "
            lines += hanging(f"{first}{row.outcome:<{outcome}}  ", row.text)
        else:
            lines += hanging(f"{left} {'':>{number}}  ", row.text)
    return lines


def _legend(signs: set[str]) -> list[str]:
    """The meaning of the signs that occur, as many in a line as fit."""
    lines: list[str] = []
    for sign, meaning in _LEGEND.items():
        if sign in signs and lines and columns(f"{lines[-1]}   {meaning}") <= text_width():
            lines[-1] += f"   {meaning}"
        elif sign in signs:
            lines.append(meaning)
    return [*lines, "a decision in full: git swarm show NUMBER --routing"]


def lines_of(opened: Opened) -> list[str]:
    """The whole run."""
    start = current_decision(opened.repository, opened.layout, opened.state.run_commit)
    return graph_lines(history(opened.repository, opened.state), start, opened.state.shared)
