"""`log`: the steps of a run, and the way that it took."""

from __future__ import annotations

from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import duration, money, out, out_json, out_lines, plural, table
from gitswarm.cli.lines import hanging
from gitswarm.cli.opened import JsonFlag, Opened, RunArgument, log_entry, open_run, step_name, step_outcome
from gitswarm.ledger.overview import overview
from gitswarm.ledger.stored_json import status_reasons, timings
from gitswarm.records.text import shorten


def log(
    run: RunArgument = None,
    as_json: JsonFlag = False,
    oneline: Annotated[bool, Option("--oneline", help="One short line per step.")] = False,
    graph: Annotated[bool, Option("--graph", help="Where the run went, drawn, and why.")] = False,
) -> None:
    """The steps of a run, oldest first."""
    opened = open_run(run)
    steps = opened.state.steps
    headline = _headline(opened)
    took = timings(opened.repository, opened.state)
    if as_json:
        out_json([log_entry(opened, record, each) for record, each in zip(steps, took, strict=True)])
        return
    if graph:
        from gitswarm.cli.graph_view import lines_of

        out_lines([headline, *lines_of(opened)])
        return
    if oneline:
        for record in steps:
            out(f"{record.commit[:9]} {step_name(record)} {step_outcome(record)} {shorten(record.summary, 40)}")
        return
    out(headline)
    table(
        ("#", "step", "outcome", "time", "commit", "summary"),
        [
            (
                str(record.number),
                step_name(record),
                step_outcome(record),
                duration(each.duration_ms),
                record.commit[:8],
                shorten(record.summary, 200),
            )
            for record, each in zip(steps, took, strict=True)
        ],
        below=_reasons(opened),
    )


def _reasons(opened: Opened) -> dict[int, list[str]]:
    """Below a step that is not VERIFIED: why, where git-swarm says so and not the agent."""
    found = status_reasons(opened.repository, opened.state)
    return {number - 1: hanging("     because ", reason) for number, reason in found.items()}


def _headline(opened: Opened) -> str:
    found = overview(opened.repository, opened.layout, opened.state)
    steps = plural(len(opened.state.steps), "step")
    return f"{opened.layout.run_id}  {found.state}, {steps}, {found.tokens} tokens, {money(found.cost_usd)}"
