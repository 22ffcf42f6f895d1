"""Answers "how does this run stand?" in the fields that `status --json` promises."""

from __future__ import annotations

from dataclasses import dataclass

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.reading import decisions, live_journals, run_spec, standing_decision
from gitswarm.ledger.state import RunState, replay
from gitswarm.records.base import Record
from gitswarm.records.outcome import Result, RunStatus
from gitswarm.worktree.shadow import find_shadow


class RunOverview(Record):
    """`status --json` (design section 8). `worktree` is None when it is gone."""

    run_id: str
    state: RunStatus
    flow: str
    current_step: str | None
    next_step: str | None
    steps_completed: int
    branch: str
    base: str
    tip: str
    worktree: str | None
    cost_usd: float | None
    tokens: int
    last_error: str | None
    hint: str


def overview(repository: Repository, layout: RunLayout) -> RunOverview:
    """
    :raises NotFoundError: no such run.
    """
    state = replay(repository, layout)
    live = Locks(repository.common_dir).owner(layout.run_id) is not None
    journals = live_journals(repository, layout) if live else []
    executing = live and (state.end is None or journals)
    status = RunStatus.RUNNING if executing else state.end or RunStatus.INTERRUPTED
    decided = standing_decision(repository, layout, state.tip)
    shadow = find_shadow(repository, layout.branch)
    return RunOverview(
        run_id=layout.run_id,
        state=status,
        flow=state.steps[-1].flow if state.steps else run_spec(repository, state).flows[0],
        current_step=journals[-1].step if journals else None,
        next_step=_next_step(repository, state, decided.to_step if decided else None),
        steps_completed=len({(r.flow, r.step) for r in state.steps if r.result is not Result.FAILED}),
        branch=layout.branch.removeprefix("refs/heads/"),
        base=state.base,
        tip=state.tip,
        worktree=str(shadow.path) if shadow else None,
        cost_usd=state.cost_usd,
        tokens=state.tokens,
        last_error=_last_error(state),
        hint=_hint(layout, status),
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """The runs that can be read, and why the others cannot."""

    runs: tuple[RunOverview, ...]
    unreadable: tuple[SwarmError, ...]


def overviews(repository: Repository, runs: list[RunLayout]) -> Listed:
    found: list[RunOverview] = []
    unreadable: list[SwarmError] = []
    for layout in runs:
        try:
            found.append(overview(repository, layout))
        except NotFoundError:
            continue  # deleted while we were reading
        except SwarmError as error:
            unreadable.append(error)
    return Listed(tuple(found), tuple(unreadable))


def _next_step(repository: Repository, state: RunState, decided: str | None) -> str | None:
    """What would be executed next; of a run that ended on the way or was rolled back, what `resume` would execute."""
    last = state.last_step
    if decided is not None or state.end is RunStatus.SUCCEEDED:
        return decided
    if state.end is None:
        taken_back = decisions(repository, state.layout, state.tip)
        return taken_back[-1].to_step if taken_back else None
    before = decisions(repository, state.layout, repository.objects.commit(state.tip).parents[0])
    pending = before[-1].to_step if before else None
    return pending or (last.step if last else None)


def _last_error(state: RunState) -> str | None:
    last = state.last_step
    return last.summary if last is not None and last.result is Result.FAILED else None


def _hint(layout: RunLayout, status: RunStatus) -> str:
    if status is RunStatus.RUNNING:
        return f"git swarm events {layout.run_id} --follow"
    if status is RunStatus.SUCCEEDED:
        return f"git swarm diff {layout.run_id}"
    return f"git swarm resume {layout.run_id}"
