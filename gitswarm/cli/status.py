"""How runs stand: status, list, path."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import to_builtins
from msgspec.structs import replace

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import (
    advise,
    command_lines,
    err,
    field,
    money,
    next_lines,
    out,
    out_bytes,
    out_json,
    out_lines,
    plural,
    table,
    with_short_ids,
)
from gitswarm.cli.runs import (
    SUCCESSORS,
    CountOption,
    JsonFlag,
    RunArgument,
    age,
    age_since,
    count_of,
    not_older,
    reader_here,
    severity,
    state_word,
    task_cell,
    task_title,
    tests_cell,
    tests_command,
    tests_word,
    uncommitted_edits,
)
from gitswarm.cli.terminal import terminal_width
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.remote import configured_hub, remote_of
from gitswarm.ledger.archive import archived_runs, discarded_runs, is_read_from_archive
from gitswarm.ledger.finding import ON_HUB, START, all_runs, find_run, names_hub
from gitswarm.ledger.kept_overviews import archived_overview, kept_overviews
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease, archived_on_hub, find_on_hub, look_at_hub, overviews_on_hub
from gitswarm.ledger.overview import ApprovalFields, OpenInterruption, RunOverview, overview
from gitswarm.ledger.rescue import runs_without_branch
from gitswarm.records.execution import RUNS_FOLDER, RunStatus
from gitswarm.records.text import columns as width
from gitswarm.worktree.disk_use import disk_bytes

if TYPE_CHECKING:
    from gitswarm.records.json_value import JsonValue

HubFlag = Annotated[bool, Option("--hub", help="As the hub has it: git config swarm.hub.")]

_NAMED = 5
"""Files that are listed in one line."""

_NARROW = 72
"""Fewer columns have no room for all of a list."""
_TASK = 8
"""A task that is cut to fewer columns says nothing."""

_STATES = (*(status.value for status in RunStatus), "starting", "not proven", *SUCCESSORS)


def status(run: RunArgument = None, hub: HubFlag = False, as_json: JsonFlag = False) -> None:
    """The state of a run, and the next command to type."""
    repository = reader_here()
    pushed, lease = _hub_overview(repository, run) if hub else (None, None)
    layout = RunLayout(pushed.run_id) if pushed else find_run(repository, run)
    found = pushed or overview(repository, layout)
    archived = lease is None and (hub or is_read_from_archive(repository, layout))
    edits = [] if hub or archived else uncommitted_edits(repository, found)
    if edits:
        hint = f"git swarm resume {found.run_id} --adopt   (makes the edits a step of yours)"
        found = replace(found, hint=hint)
    if as_json:
        out_json({**found.to_plain(), **(_plain_lease(lease) if lease or archived else {})})
        return
    out(f"{found.run_id}  {state_word(found)}")
    rows = [
        *_run_rows(found),
        ("edits", f"not committed: {', '.join(edits[:_NAMED])}{' …' * (len(edits) > _NAMED)}" if edits else ""),
        ("landed", f"on {found.landed.target} as {found.landed.commit[:12]}" if found.landed else ""),
        ("branch", "" if archived else found.branch),
        ("hub", _lease_words(lease) if lease else ""),
    ]
    for name, value in rows:
        out_lines(field(name, value) if value else ())
    if lease is not None:
        out_lines(next_lines(f"  {'hint':<9} ", _hub_hint(lease)))
        return
    if not archived:
        out(f"  worktree  {found.worktree or 'none (git swarm resume makes it again)'}")
    end = found.tip[:12] if archived else found.branch
    out_lines(command_lines("diff", f"git diff {found.base[:12]}...{end} -- ':(top,exclude){RUNS_FOLDER}'"))
    again = "pull" if hub else "discard --restore"
    hint = f"git swarm {again} {layout.run_id}   (it is archived)" if archived else found.hint
    for name, command in (("configure", "" if archived else tests_command(found)), ("hint", hint)):
        out_lines(next_lines(f"  {name:<9} ", command) if command else ())


def _run_rows(run: RunOverview) -> list[tuple[str, str]]:
    """What `status` says of a run wherever it is; an empty value is left out."""
    return [
        ("replay of", run.replay_of or ""),
        ("task", task_title(run)),
        ("flow", run.flow),
        ("now", run.current_step or ""),
        ("next", "" if run.next_step == run.current_step else run.next_step or ""),
        ("within", "; ".join(map(_within, run.stack))),
        ("steps", f"{plural(run.steps_executed, 'step')}, {run.tokens} tokens, {money(run.cost_usd)}"),
        ("budget", run.budget.told if run.budget else ""),
        ("tests", f"{tests_word(run)}{f' ({run.tests.step})' if run.tests else ''}"),
        ("sandbox", run.sandbox or ""),
        ("error", run.last_error or ""),
        ("question", open_question(run)),
        *((severity(each), f"{each.id}: {each.fact}") for each in run.open_concerns),
        ("approved", _approval(run.approved)),
        ("rejected", _approval(run.rejected)),
        ("conflict", f"{run.conflict.summary}: {', '.join(run.conflict.files)}" if run.conflict else ""),
    ]


def open_question(found: RunOverview) -> str:
    """What the run waits for; a concern is listed by itself."""
    question = found.question or ""
    return "" if any(question.startswith(f"{each.id}: ") for each in found.open_concerns) else question


def _approval(approval: ApprovalFields | None) -> str:
    if approval is None:
        return ""
    changed = "" if approval.valid else ", but the code has changed since"
    return f"by {approval.by} in {approval.commit[:12]}{changed}"


def _within(interruption: OpenInterruption) -> str:
    return f"{interruption.id} (back to {interruption.back_to or 'the end of its flow'})"


def list_runs(
    everything: Annotated[bool, Option("--all", help="Also archived and discarded ones.")] = False,
    count: CountOption = None,
    since: Annotated[
        str | None,
        Option("--since", metavar="TIME", help="Not older than this: 2h, 3d, or any date that git understands."),
    ] = None,
    state: Annotated[
        str | None, Option("--state", metavar="STATE", help="Only runs in this state, as the list names it.")
    ] = None,
    hub: HubFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """All runs of this repository, newest first."""
    repository = reader_here()
    if state is not None and state not in _STATES:
        raise _unknown_state(state)
    most = count_of(count)
    if hub:
        chosen = partial(not_older, repository, since=since)
        _list_hub(repository, chosen, state, most, everything=everything, as_json=as_json)
        return
    runs = not_older(repository, all_runs(repository), since)
    limit = None if state else most  # a run has to be read before its state is known
    listed = kept_overviews(repository, runs[:limit])
    archived = _archived(repository, since, limit) if everything else []
    found = sorted([*listed.runs, *archived], key=lambda run: run.run_id, reverse=True)
    found = [run for run in found if state in (None, run.state.value, state_word(run))][:most]
    lost = runs_without_branch(repository, seen={run.run_id for run in listed.runs})
    for error in listed.unreadable:
        err(f"unreadable: {error.message}")
        advise(error.hint)
    for layout in lost:
        err(f"lost: {layout.run_id} has no branch with its commits")
        advise(f"git swarm resume {layout.run_id}")
    archived_ids = {run.run_id for run in archived}
    gone = _discarded(repository) if everything and not as_json else []
    if as_json:
        out_json([_plain(run, {"archived": run.run_id in archived_ids} if everything else {}) for run in found])
    elif found or gone:
        if found:
            _show_list(found, archived_ids)
        out_lines(gone)
    elif lost or listed.unreadable:
        pass  # listed above
    elif runs or state or since:
        out("no such runs")
    else:
        out("no runs yet")
        has_archive = not everything and archived_runs(repository)
        elsewhere = ON_HUB if names_hub(repository) else START
        advise("git swarm list --all   (archived ones)" if has_archive else elsewhere)


def _unknown_state(state: str) -> UsageError:
    import difflib  # noqa: PLC0415 - for a word that is misspelt

    known = [each for each in _STATES if each != RunStatus.UNPROVEN.value]
    near = difflib.get_close_matches(state, known, n=1)
    hint = f"git swarm list --state {shlex.quote(near[0] if near else known[0])}   (or: {', '.join(known)})"
    return UsageError(f"--state {state}: there is no such state", hint=hint)


def _archived(repository: RepositoryReader, since: str | None, limit: int | None) -> list[RunOverview]:
    """Runs that are only in the archive, at most `limit`."""
    live = set(all_runs(repository))
    old = [layout for layout in not_older(repository, archived_runs(repository), since) if layout not in live]
    return [archived_overview(repository, layout) for layout in old[:limit]]


def _plain(run: RunOverview, more: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    size = disk_bytes(Path(run.worktree)) if run.worktree is not None else None
    return {**run.to_plain(), "disk_bytes": size, **more}


def _list_hub(
    repository: RepositoryReader,
    chosen: Callable[[list[RunLayout]], list[RunLayout]],
    state: str | None,
    most: int | None,
    *,
    everything: bool,
    as_json: bool,
) -> None:
    remote = remote_of(repository, configured_hub(repository), os.environ)
    stored = look_at_hub(repository, remote)
    for error in stored.unreadable:
        err(f"unreadable: {error.message}")
        advise(error.hint)
    leases = [stored.leases[layout.run_id] for layout in chosen([RunLayout(run) for run in stored.leases])]
    listed: list[tuple[RunOverview, Lease | None]] = [
        (run, lease) for lease in leases if (run := _leased_overview(lease)) is not None
    ]
    has_archive = ARCHIVE_REF in stored.refs
    if everything and has_archive:

        def only_archived(runs: list[RunLayout]) -> list[RunLayout]:
            old = [layout for layout in chosen(runs) if layout.run_id not in stored.leases]
            return old if state else old[:most]

        archived = overviews_on_hub(repository, remote, stored.refs[ARCHIVE_REF], only_archived)
        listed += [(run, None) for run in archived]
        listed.sort(key=lambda each: each[0].run_id, reverse=True)
    found = [(run, lease) for run, lease in listed if state in (None, run.state.value, state_word(run))][:most]
    if as_json:
        out_json([{**run.to_plain(), **_plain_lease(lease)} for run, lease in found])
        return
    if found:
        rows = [
            (
                run.run_id,
                f"{state_word(run)}{', archived' * (lease is None)}",
                lease.owner if lease is not None else "-",
                _written(lease) if lease is not None else "-",
                task_title(run) or "-",
            )
            for run, lease in found
        ]
        table(("run", "state", "owner", "pushed", "task"), rows)
    else:
        out("no such runs on the hub")
    if has_archive and not everything:
        advise("git swarm list --hub --all   (archived ones)")


def _leased_overview(lease: Lease) -> RunOverview | None:
    """The run as it stands on the hub; whoever has just taken it over has not written that yet."""
    run = lease.overview
    return replace(run, state=RunStatus.RUNNING) if run is not None and lease.executes else run


def _hub_overview(repository: RepositoryReader, run: str | None) -> tuple[RunOverview, Lease | None]:
    """A run as it stands on the hub; without a lease: as its archive has it.

    :raises SwarmError: it was pushed without git-swarm, or its lease cannot be read.
    """
    remote = remote_of(repository, configured_hub(repository), os.environ)
    layout = find_on_hub(repository, remote, run)
    stored = look_at_hub(repository, remote, layout)
    lease = stored.leases.get(layout.run_id)
    pushed = _leased_overview(lease) if lease is not None else None
    if pushed is not None:
        return pushed, lease
    if layout.branch not in stored.refs:
        with archived_on_hub(repository, remote, layout) as archive:
            if archive is not None:
                return archive.overview(layout), None
    unknown = NotFoundError(
        f"{remote.name} does not say how {layout.run_id} stands", hint=f"git swarm pull {layout.run_id}"
    )
    raise next(iter(stored.unreadable), unknown)


def _plain_lease(lease: Lease | None) -> dict[str, JsonValue]:
    if lease is None:
        return {"archived": True}
    plain = to_builtins(lease)
    return {"hub": {name: plain[name] for name in ("generation", "owner", "time", "executes", "held")}}


def _lease_words(lease: Lease) -> str:
    what = "held by" if lease.held else "executed by" if lease.executes else "left by"
    return f"{what} {lease.owner}, {_written(lease)}"


def _written(lease: Lease) -> str:
    """When the lease was written, by the clock over there."""
    ago = age_since(lease.time)
    return ago if ago == "now" else f"{ago} ago"


def _hub_hint(lease: Lease) -> str:
    run = lease.run_id
    return f"git swarm resume {run} --hub   (takes it over at once)" if lease.executes else f"git swarm pull {run}"


def _discarded(repository: RepositoryReader) -> list[str]:
    """Runs in the trash, as far as they can be listed without being brought back."""
    gone = [layout.run_id for layout in reversed(discarded_runs(repository))]
    hint = command_lines("restore", f"git swarm discard --restore {gone[0]}") if gone else []
    return [*(f"{run}  discarded  {age(run)}" for run in gone), *hint]


def _show_list(found: list[RunOverview], archived: Collection[str]) -> None:
    """One line each; without room for all, flow and cost are left out."""
    columns: list[tuple[str, bool, Callable[[RunOverview], str]]] = [
        ("run", True, lambda run: run.run_id),
        ("state", True, lambda run: f"{state_word(run)}{', archived' * (run.run_id in archived)}"),
        ("flow", False, lambda run: run.flow),
        ("age", True, lambda run: age(run.run_id)),
        ("tests", True, tests_cell),
        ("cost", False, lambda run: money(run.cost_usd)),
        ("task", True, task_cell),
    ]
    names = [name for name, _stays, _cell in columns]
    rows = [[cell(run) for _name, _stays, cell in columns] for run in found]
    texts = (with_short_ids("\0".join(column)).split("\0") for column in list(zip(names, *rows, strict=True))[:-1])
    taken = sum(max(map(width, column)) + 2 for column in texts)
    has_room = terminal_width() >= max(_NARROW, taken + _TASK)
    kept = [number for number, (_name, stays, _cell) in enumerate(columns) if stays or has_room]
    table([names[number] for number in kept], [[row[number] for number in kept] for row in rows])


def path(run: RunArgument = None) -> None:
    """The folder of the run's worktree: cd "$(git swarm path)"."""
    repository = reader_here()
    layout = find_run(repository, run)
    found = overview(repository, layout)
    if found.worktree is None:
        again = "discard --restore" if is_read_from_archive(repository, layout) else "resume"
        raise NotFoundError(
            f"{layout.run_id} no longer has a worktree here", hint=f"git swarm {again} {layout.run_id}"
        )
    out_bytes(os.fsencode(found.worktree) + b"\n")
