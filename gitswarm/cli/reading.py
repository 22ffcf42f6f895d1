"""Commands that only read: log, diff, status, list, path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from gitswarm.cli.console import duration, err, money, out, out_bytes, out_json, out_lines, plural, size, table
from gitswarm.cli.graph_view import graph_lines
from gitswarm.cli.here import repository_here
from gitswarm.cli.opened import (
    JsonFlag,
    Opened,
    RunArgument,
    RunOption,
    log_entry,
    open_run,
    step_name,
    step_outcome,
)
from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.history import history
from gitswarm.ledger.layout import RUNS_FOLDER
from gitswarm.ledger.reading import all_runs, find_run, find_step, standing_decision
from gitswarm.ledger.rescue import runs_without_branch
from gitswarm.ledger.state import replay
from gitswarm.records.base import shorten
from gitswarm.runner.overview import OpenInterruption, RunOverview, SpokenAs, overview, overviews
from gitswarm.worktree.disk_use import disk_bytes


def log(
    run: RunArgument = None,
    as_json: JsonFlag = False,
    oneline: Annotated[bool, typer.Option("--oneline", help="One short line per step.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Where the run went, drawn, and why.")] = False,
) -> None:
    """The steps of a run, oldest first."""
    opened = open_run(run)
    rows = [log_entry(opened, record) for record in opened.state.steps]
    if as_json:
        out_json(rows)
        return
    if graph:
        _show_graph(opened)
        return
    if oneline:
        for record in opened.state.steps:
            out(f"{record.commit[:9]} {step_name(record)} {step_outcome(record)} {shorten(record.summary, 40)}")
        return
    out(f"{opened.layout.run_id}  {_state_line(opened)}")
    table(
        ("#", "step", "outcome", "time", "commit", "summary"),
        [
            (
                str(record.number),
                step_name(record),
                step_outcome(record),
                duration(int(str(row["duration_ms"]))),
                record.commit[:8],
                shorten(record.summary, 200),
            )
            for record, row in zip(opened.state.steps, rows, strict=True)
        ],
    )


def _show_graph(opened: Opened) -> None:
    out(f"{opened.layout.run_id}  {_state_line(opened)}")
    start = standing_decision(opened.repository, opened.layout, opened.state.run_commit)
    passages = history(opened.repository, opened.state)
    out_lines(graph_lines(passages, start, opened.state.shared))


def diff(
    what: Annotated[
        str | None, typer.Argument(metavar="RUN|STEP", help="A run, or a step of the current run.")
    ] = None,
    run: RunOption = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="The run's evidence files too.")] = False,
    stat: Annotated[bool, typer.Option("--stat", help="Only how much changed in which file.")] = False,
) -> None:
    """What a run, or one step of it, changed in the code; git shows it."""
    repository = repository_here()
    old, new = _diff_ends(repository, what, run)
    arguments = ["diff", *(["--stat"] if stat else []), old, new]
    if not evidence:
        arguments += ["--", f":(top,exclude){RUNS_FOLDER}"]
    git = repository.checkout_git if repository.checkout else repository.git
    sys.stdout.flush()
    pager = ["--paginate"] if sys.stdout.isatty() else ["--no-pager"]
    colour = ["-c", "color.ui=auto"]
    argv = git.argv()
    done = subprocess.run(
        [*argv, *colour, *pager, *arguments], env=dict(git.env), cwd=repository.checkout, check=False
    )
    if done.returncode != 0:
        raise SwarmError(f"git diff ended with {done.returncode}", hint=f"git diff {old[:12]} {new[:12]}")


def status(run: RunArgument = None, as_json: JsonFlag = False) -> None:
    """How a run stands, and the next command to type."""
    repository = repository_here()
    found = overview(repository, find_run(repository, run))
    if as_json:
        out_json(found.model_dump(mode="json"))
        return
    out(f"{found.run_id}  {found.state}")
    rows = [
        ("flow", found.flow),
        ("now", found.current_step or "-"),
        ("next", found.next_step or "-"),
        ("within", "; ".join(map(_within, found.stack))),
        ("steps", f"{found.steps_completed} completed, {found.tokens} tokens, {money(found.cost_usd)}"),
        ("branch", found.branch),
        ("worktree", found.worktree or "gone (resume makes it again)"),
        ("error", found.last_error or ""),
        ("approved", _spoken(found.approved)),
        ("rejected", _spoken(found.rejected)),
        ("landed", f"on {found.landed.target} as {found.landed.commit[:12]}" if found.landed else ""),
        ("review", f"git diff {found.base[:12]}...{found.branch} -- ':(top,exclude){RUNS_FOLDER}'"),
        ("try", found.hint),
    ]
    for name, value in rows:
        if value:
            out(f"  {name:<9} {value}")


def _spoken(word: SpokenAs | None) -> str:
    if word is None:
        return ""
    changed = "" if word.valid else ", but the code has changed since"
    return f"by {word.by} in {word.commit[:12]}{changed}"


def _within(interruption: OpenInterruption) -> str:
    return f"{interruption.id} (back to {interruption.back_to or 'the end of its flow'})"


def list_runs(as_json: JsonFlag = False) -> None:
    """All runs of this repository, newest first."""
    repository = repository_here()
    listed = overviews(repository, all_runs(repository))
    found = listed.runs
    lost = runs_without_branch(repository)
    for error in listed.unreadable:
        err(f"unreadable: {error.message}")
        err(f"hint: {error.hint}")
    for layout in lost:
        err(f"lost: {layout.run_id} has no branch with its commits")
        err(f"hint: git swarm resume {layout.run_id}")
    if as_json:
        out_json([{**item.model_dump(mode="json"), "disk_bytes": _disk_bytes(item)} for item in found])
        return
    if not found and (lost or listed.unreadable):
        return
    if not found:
        out("no runs yet")
        err("hint: git swarm start build -m 'the task'")
        return
    table(
        ("run", "state", "flow", "steps", "cost", "disk", "next"),
        [_list_row(item) for item in found],
    )


def path(run: RunArgument = None) -> None:
    """Where the run's worktree lies: cd "$(git swarm path)"."""
    repository = repository_here()
    layout = find_run(repository, run)
    found = overview(repository, layout)
    if found.worktree is None:
        raise NotFoundError(
            f"{layout.run_id} has no worktree here any more", hint=f"git swarm resume {layout.run_id}"
        )
    out_bytes(os.fsencode(found.worktree) + b"\n")


def _state_line(opened: Opened) -> str:
    found = overview(opened.repository, opened.layout)
    return f"{found.state}, {plural(len(opened.state.steps), 'step')}, {found.tokens} tokens, {money(found.cost_usd)}"


def _list_row(item: RunOverview) -> tuple[str, ...]:
    return (
        item.run_id,
        item.state.value,
        item.flow,
        str(item.steps_completed),
        money(item.cost_usd),
        size(_disk_bytes(item)),
        item.next_step or "-",
    )


def _disk_bytes(item: RunOverview) -> int | None:
    return None if item.worktree is None else disk_bytes(Path(item.worktree))


def _diff_ends(repository: Repository, what: str | None, run: str | None) -> tuple[str, str]:
    """The two commits to compare. A step name wins over a run's, as everywhere."""
    layout = find_run(repository, run) if run or what is None else None
    if layout is not None and what is None:
        state = replay(repository, layout)
        return state.base, state.tip
    try:
        state = replay(repository, layout or find_run(repository, None))
        record = find_step(repository, state, what)
    except NotFoundError:
        if layout is not None:
            raise
        state = replay(repository, find_run(repository, what))
        return state.base, state.tip
    return record.parent, record.commit
