"""`discard` and `gc`: runs that nobody needs any more."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import complain, hanging, next_lines, out, out_json, out_lines, plural
from gitswarm.cli.invocation import config_here, now, repository_here
from gitswarm.cli.run_execution import apply_durability, quiet_context
from gitswarm.cli.runs import JsonFlag, about, age, state_word
from gitswarm.errors import NotFoundError, SwarmError, UsageError
from gitswarm.git.remote import own_hub, remote_of
from gitswarm.git.repository import Repository
from gitswarm.ledger.archive import archived_runs, discarded_runs
from gitswarm.ledger.finding import all_runs, find_run
from gitswarm.ledger.kept_overviews import forget_overviews
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.merging import landings
from gitswarm.ledger.overview import RunOverview, overviews
from gitswarm.ledger.state import RunState
from gitswarm.records.budget import seconds
from gitswarm.records.execution import OVER
from gitswarm.records.json_value import JsonValue
from gitswarm.runner.hub.transfer import hub_for_runs
from gitswarm.runner.open_run import open_run
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.runner.run_session import Session
from gitswarm.runner.undo.archiving import archive_run, find_archived, fold_on_hub, restore_archived, sweep_archived
from gitswarm.runner.undo.discard import discard_run, discard_worktree, purge, refuse_work, restore_run

_DAY_S = 86_400
_TRASH_DAYS = 14
_NAMED_RUNS = 6
"""So many are not named in the command that restores them."""
_Action = Callable[[Session, RunState], None]


def discard(
    runs: Annotated[list[str] | None, Argument(metavar="RUN", help="An id or a part of it; several.")] = None,
    landed: Annotated[bool, Option("--landed", help="All runs whose newest code has landed.")] = False,
    failed: Annotated[bool, Option("--failed", help="All runs that failed.")] = False,
    older: Annotated[
        str | None,
        Option(
            "--older-than",
            metavar="TIME",
            help="Only runs older than this, of --landed and --failed, else of all that ended: 30d, 12h.",
        ),
    ] = None,
    keep_evidence: Annotated[
        bool, Option("--keep-evidence", help="Remove only the worktree; keep branch, notes and log.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only list what would be removed.")] = False,
    force: Annotated[bool, Option("--force", help="Even with uncommitted work in the worktree.")] = False,
    restore: Annotated[
        bool, Option("--restore", help="Restore discarded or archived runs; without RUN list them.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove runs: branch, notes and worktree move to a trash; --restore brings them back."""
    chosen = landed or failed or older is not None
    if restore and not (runs or chosen or keep_evidence or dry_run):
        _list_restorable(repository_here(), as_json=as_json)
        return
    if bool(runs) == chosen or (restore and (chosen or keep_evidence or dry_run)):
        raise UsageError(
            "name runs, or say which: --landed, --failed, --older-than", hint="git swarm discard --landed --dry-run"
        )
    repository = repository_here()
    if restore:
        _restore(repository, runs or [], as_json=as_json)
        return
    if runs:
        named = dict.fromkeys(find_run(repository, run) for run in runs)
        found = [_named(repository, layout) for layout in named]
    else:
        before = time.time() - _seconds(older, "discard --older-than") if older is not None else None
        found = _matching(repository, landed=landed, failed=failed, before=before)
    action: _Action = partial(discard_worktree if keep_evidence else discard_run, force=force)
    if dry_run:
        action = _nothing if force else refuse_work
    removals = [_carried_out(repository, each, action) for each in found]
    if as_json:
        out_json({"dry_run": dry_run, "keep_evidence": keep_evidence, "runs": [each.to_json() for each in removals]})
    else:
        _show_removals(removals, dry_run=dry_run, keep_evidence=keep_evidence)
    if runs and any(each.kept_because for each in removals):
        raise SystemExit(1)


def gc(
    days: Annotated[
        int | None,
        Option("--older-than", metavar="DAYS", min=0, help="Delete runs that have been in the trash this long: 14."),
    ] = None,
    archive: Annotated[
        str | None,
        Option(
            "--archive",
            metavar="TIME",
            help="Archive runs that ended longer ago than this, whatever retention.days says: 30d.",
        ),
    ] = None,
    hub: Annotated[
        bool, Option("--hub", help="Archive runs that ended long ago on the hub; here nothing changes.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only list what would be removed.")] = False,
) -> None:
    """Archive old runs, empty the trash; sweep what killed processes left."""
    repository = repository_here()
    config = config_here()
    apply_durability(repository, config)
    days_kept = config.retention.days
    age_s: float | None = days_kept * _DAY_S if days_kept is not None else None
    if archive is not None:
        age_s = _seconds(archive, "gc --archive")
    if hub:
        again = "git swarm gc --hub --archive 30d --dry-run"
        if days is not None:
            raise UsageError("gc --hub: a hub has no trash", hint=again)
        if age_s is None:
            raise UsageError("gc --hub: nothing says how long runs stay", hint=again)
        _archive_on_hub(repository, age_s, dry_run=dry_run)
        return
    folded = _archive(repository, age_s, dry_run=dry_run) if age_s is not None else 0
    if not dry_run:
        forget_overviews(repository)
    swept = [] if dry_run else sweep_archived(repository, now)
    gone = [f"refs of {layout.run_id}, which is archived" for layout in swept]
    gone += purge(repository, now() - timedelta(days=_TRASH_DAYS if days is None else days), dry_run=dry_run)
    for line in gone:
        out(f"{'would remove' if dry_run else 'removed'}  {line}")
    left = _only_on_own_hub(repository)
    if not gone and not folded and not left:
        out("nothing to clean up")
    if left:
        out(f"kept       {plural(left, 'run')} of fleets in {own_hub(repository)}")
        out("next       git swarm gc --hub --archive 0d")


def _only_on_own_hub(repository: Repository) -> int:
    """How many runs a fleet's hub in this repository has that are nowhere else here."""
    if not own_hub(repository).is_dir() or repository.config("swarm.hub"):
        return 0
    prefix = RunLayout("").branch
    on_hub = remote_of(repository, str(own_hub(repository)), os.environ).refs(f"{prefix}*")
    return len({name.removeprefix(prefix) for name in on_hub} - {layout.run_id for layout in all_runs(repository)})


def _archive(repository: Repository, age_s: float, *, dry_run: bool) -> int:
    """Runs that have ended, and to which nothing was committed since; how many."""
    before = time.time() - age_s
    found = _matching(repository, landed=False, failed=False, before=before)
    removals = [_carried_out(repository, each, refuse_work if dry_run else archive_run) for each in found]
    folded = [each for each in removals if not each.kept_because]
    for each in folded:
        out_lines(hanging(f"{'would archive' if dry_run else 'archived'}  ", each.title))
    for each in removals:
        if each.kept_because:
            complain(each.kept_because, each.hint)
    if folded and not dry_run:
        out("next       git swarm list --all")
    return len(folded)


def _archive_on_hub(repository: Repository, age_s: float, *, dry_run: bool) -> None:
    """
    :raises GitFailedError: the hub cannot be reached, or takes no archive.
    """
    refuse_agent(os.environ, "gc --hub", repository.common_dir)
    remote = hub_for_runs(repository, os.environ)
    count = 0
    for each in fold_on_hub(repository, remote, now, now() - timedelta(seconds=age_s), dry_run=dry_run):
        if each.refused is not None:
            complain(each.refused.message, each.refused.hint)
            continue
        count += 1
        title = _Removal(each.run.run_id, each.run).title
        out_lines(hanging(f"{'would archive' if dry_run else 'archived'}  ", title))
    if not count:
        out(f"nothing to archive on {remote.name}")
    elif not dry_run:
        out("next       git swarm list --hub --all")


class _Removal(Struct, frozen=True):
    """A run that is to be removed. `run` None: it cannot be read. `kept_because`: why it was not, "": it was; `hint`:
    what to type about that."""

    run_id: str
    run: RunOverview | None
    kept_because: str = ""
    hint: str = ""

    @property
    def title(self) -> str:
        if self.run is None:
            return f"{self.run_id} (unreadable)"
        return f"{self.run_id} ({state_word(self.run)}, {age(self.run_id)}): {about(self.run)}"

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "run_id": self.run_id,
            "state": state_word(self.run) if self.run is not None else None,
            "task": self.run.task if self.run is not None else None,
            "discarded": not self.kept_because,
            "kept_because": self.kept_because or None,
        }


def _named(repository: Repository, layout: RunLayout) -> _Removal:
    return _Removal(layout.run_id, next(iter(overviews(repository, [layout]).runs), None))


def _matching(repository: Repository, *, landed: bool, failed: bool, before: float | None) -> list[_Removal]:
    """Never one that is executed, or waits for a person; by `landed` none with code that has not landed.

    :param before: a moment; None: however young.
    """
    every = [each for each in overviews(repository, all_runs(repository)).runs if each.state in OVER]
    if landed or failed:
        words = [word for word, asked in (("landed", landed), ("failed", failed)) if asked]
        every = [each for each in every if state_word(each) in words]
        every = [each for each in every if each.landed is None or _is_still_there(repository, each)]
    old = [each for each in every if before is None or repository.objects.when(each.tip) < before]
    return [_Removal(each.run_id, each) for each in old]


def _is_still_there(repository: Repository, run: RunOverview) -> bool:
    """Whether what landed is on its target, and was not reverted."""
    tip = repository.refs.read(f"refs/heads/{run.landed.target}") if run.landed is not None else None
    found = landings(repository, tip, run.run_id, run.base) if tip is not None else []
    return bool(found) and found[0].reverted_by is None


def _seconds(text: str, option: str) -> float:
    """
    :raises UsageError: it is not a duration with its unit.
    """
    with contextlib.suppress(ValueError):
        if not text[-1:].isdigit():
            return seconds(text)
    raise UsageError(
        f"{option.partition(' ')[2]} {text}: a time with its unit", hint=f"git swarm {option} 30d --dry-run"
    )


def _carried_out(repository: Repository, run: _Removal, action: _Action) -> _Removal:
    layout = RunLayout(run.run_id)
    try:
        with open_run(repository, layout, quiet_context(repository, layout), executes=False) as opened:
            action(opened.session, opened.state)
    except SwarmError as error:
        return replace(run, kept_because=error.message, hint=error.hint)
    return run


def _nothing(_session: Session, _state: RunState) -> None:
    """A dry run that takes whatever is there."""


def _show_removals(removals: Sequence[_Removal], *, dry_run: bool, keep_evidence: bool) -> None:
    gone = [each for each in removals if not each.kept_because]
    if len(removals) == 1 and gone and not dry_run:
        out(_removed_words(gone[0]) if keep_evidence else f"{gone[0].run_id} is in the trash")
    else:
        for each in gone:
            out_lines(hanging(f"{'would discard' if dry_run else 'discarded':<10} ", each.title))
        if len(removals) != 1 or dry_run:
            counted = plural(len(gone), "worktree" if keep_evidence else "run")
            out(f"{counted} {'would be discarded' if dry_run else 'discarded'}")
    for each in removals:
        if each.kept_because:
            complain(each.kept_because, each.hint)
    if gone and not dry_run:
        is_short = len(gone) == 1 or (len(gone) < _NAMED_RUNS and not keep_evidence)
        ids = " ".join(each.run_id for each in gone) if is_short else "RUN"
        again = "resume" if keep_evidence else "discard --restore"
        out_lines(next_lines("undo       ", f"git swarm {again} {ids}"))


def _removed_words(removal: _Removal) -> str:
    had_worktree = removal.run is None or removal.run.worktree is not None
    return f"{removal.run_id}: {'worktree removed' if had_worktree else 'it has no worktree here'}"


def _bring_back(repository: Repository, text: str) -> RunLayout:
    """From the trash, else from the archive; what is here stays as it is, for a killed command is typed again.

    :raises NotFoundError: it is nowhere, or there are several.
    """
    try:
        return restore_run(repository, text)
    except NotFoundError:
        layout = find_archived(repository, text)
        if layout is None:
            here = [each for each in all_runs(repository) if text in each.run_id]
            if len(here) != 1:
                raise
            return here[0]
    restore_archived(repository, layout, now)
    return layout


def _list_restorable(repository: Repository, *, as_json: bool) -> None:
    """Lists the runs that can be restored, for `--restore` without a name."""
    live = set(all_runs(repository))
    archived = [layout for layout in archived_runs(repository) if layout not in live]
    trash = discarded_runs(repository)
    if as_json:
        ids: list[JsonValue] = [layout.run_id for layout in trash]
        out_json({"discarded": ids, "archived": [layout.run_id for layout in archived]})
        return
    for word, layouts in (("discarded", trash), ("archived", archived)):
        for layout in layouts:
            out(f"{word:<10} {layout.run_id} ({age(layout.run_id)})")
    if trash or archived:
        out(f"next       git swarm discard --restore {(trash or archived)[0].run_id}")
    else:
        out("nothing to restore")


def _restore(repository: Repository, runs: Sequence[str], *, as_json: bool) -> None:
    back = [_bring_back(repository, run).run_id for run in runs]
    if as_json:
        out_json({"restored": list(back)})
        return
    for run in back:
        out(f"{run} is restored")
    if back:
        out(f"next       git swarm status {back[0]}" if len(back) == 1 else "next       git swarm list")
