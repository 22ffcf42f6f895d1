"""How runs stand: status, list, path."""

from __future__ import annotations

import os
from pathlib import Path

from gitswarm.cli.console import err, money, out, out_bytes, out_json, size, table
from gitswarm.cli.opened import JsonFlag, RunArgument, reader_here
from gitswarm.errors import NotFoundError
from gitswarm.ledger.finding import all_runs, find_run
from gitswarm.ledger.overview import OpenInterruption, RunOverview, SpokenAs, overview, overviews
from gitswarm.ledger.rescue import runs_without_branch
from gitswarm.ledger.stored_json import ConcernFields
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.worktree.disk_use import disk_bytes


def status(run: RunArgument = None, as_json: JsonFlag = False) -> None:
    """How a run stands, and the next command to type."""
    repository = reader_here()
    found = overview(repository, find_run(repository, run))
    if as_json:
        out_json(found.to_plain())
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
        ("question", _question(found)),
        *((_severity(each), f"{each.id}: {each.fact}") for each in found.open_concerns),
        ("approved", _spoken(found.approved)),
        ("rejected", _spoken(found.rejected)),
        ("landed", f"on {found.landed.target} as {found.landed.commit[:12]}" if found.landed else ""),
        ("review", f"git diff {found.base[:12]}...{found.branch} -- ':(top,exclude){RUNS_FOLDER}'"),
        ("try", found.hint),
    ]
    for name, value in rows:
        if value:
            out(f"  {name:<9} {value}")


def _question(found: RunOverview) -> str:
    """What the run waits for; a concern is told by itself."""
    said = found.question or ""
    return "" if any(said.startswith(f"{each.id}: ") for each in found.open_concerns) else said


def _severity(concern: ConcernFields) -> str:
    return "blocking" if concern.blocking else "warning"


def _spoken(word: SpokenAs | None) -> str:
    if word is None:
        return ""
    changed = "" if word.valid else ", but the code has changed since"
    return f"by {word.by} in {word.commit[:12]}{changed}"


def _within(interruption: OpenInterruption) -> str:
    return f"{interruption.id} (back to {interruption.back_to or 'the end of its flow'})"


def list_runs(as_json: JsonFlag = False) -> None:
    """All runs of this repository, newest first."""
    repository = reader_here()
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
        out_json([{**item.to_plain(), "disk_bytes": _disk_bytes(item)} for item in found])
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
    repository = reader_here()
    layout = find_run(repository, run)
    found = overview(repository, layout)
    if found.worktree is None:
        raise NotFoundError(
            f"{layout.run_id} has no worktree here any more", hint=f"git swarm resume {layout.run_id}"
        )
    out_bytes(os.fsencode(found.worktree) + b"\n")


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
