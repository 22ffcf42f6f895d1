"""`log`: the steps of a run and the decisions between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import duration, hanging, out, out_json, out_lines, padded
from gitswarm.cli.runs import (
    CountOption,
    JsonFlag,
    Opened,
    RunArgument,
    about,
    count_of,
    headline,
    log_entry,
    mark,
    open_run,
    step_outcome,
)
from gitswarm.cli.terminal import terminal_width
from gitswarm.errors import UsageError
from gitswarm.ledger.overview import overview
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing, command_summary, evidence_of_command, status_reasons, timings
from gitswarm.records.text import columns, shorten


def log(
    run: RunArgument = None,
    count: CountOption = None,
    as_json: JsonFlag = False,
    oneline: Annotated[bool, Option("--oneline", help="One short line per step.")] = False,
    graph: Annotated[bool, Option("--graph", help="Where the run went, drawn, and why.")] = False,
) -> None:
    """The steps of a run, oldest first."""
    if graph and count is not None:
        raise UsageError("--graph draws the whole run: it takes no -n", hint="git swarm log --graph")
    opened = open_run(run)
    most = count_of(count)
    first = max(len(opened.state.steps) - most, 0) if most is not None else 0
    steps = opened.state.steps[first:]
    found = overview(opened.repository, opened.layout, opened.state)
    took = timings(opened.repository, opened.state)[first:]
    if as_json:
        out_json([log_entry(opened, record, each) for record, each in zip(steps, took, strict=True)])
    elif graph:
        from gitswarm.cli.graph_view import lines_of

        out_lines([headline(found), *lines_of(opened)])
    elif oneline:
        for record in steps:
            line = f"{record.commit[:9]} {record.name} {step_outcome(record)} {_summary(opened, record)}"
            out(shorten(line, terminal_width()))
    else:
        out(headline(found))
        out_lines(hanging("", about(found)))
        out_lines(step_lines(opened, steps, took))


def _summary(opened: Opened, record: StepRecord) -> str:
    return command_summary(record, evidence_of_command(opened.repository, opened.state, record))


def step_lines(opened: Opened, steps: Sequence[StepRecord], took: Sequence[Timing]) -> list[str]:
    """`✓ 9  run_tests  2.7s  e8e381b3  31 passed`, and below a step that is not VERIFIED why, where git-swarm says so
    and not the agent."""
    reasons = status_reasons(opened.repository, opened.state)
    several = len({record.flow for record in steps}) > 1
    names = [record.name if several else record.name.partition("/")[2] for record in steps]
    number = max((len(str(record.number)) for record in steps), default=1)
    name_room = max(map(columns, names), default=0)
    outcome_room = max((len(step_outcome(record)) for record in steps), default=0)
    times = [duration(each.duration_ms) for each in took]
    time_room = max(map(len, times), default=0)
    lines = []
    for record, name, elapsed in zip(steps, names, times, strict=True):
        outcome = step_outcome(record)
        first = f"{mark(outcome)} {record.number:>{number}}  {padded(name, name_room)}  {outcome:<{outcome_room}}  "
        first += f"{elapsed:>{time_room}}  {record.commit[:8]}  "
        lines += hanging(first, _summary(opened, record))
        if record.number in reasons:
            lines += hanging("      because ", reasons[record.number])
    return lines
