"""What to type next for a run, by how it stands."""

from __future__ import annotations

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import (
    LAND,
    ApprovalKind,
    command_after_conflict,
    is_code,
    latest_approval,
    newest_landing,
    standing_approval,
    standing_conflict,
)
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.shared_runs import onward
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import DecisionFields, SpecFields, decisions_after, spec_fields
from gitswarm.records.budget import option_in
from gitswarm.records.execution import RunStatus, Status

_DEPLOY = "deploy"


def next_command(repository: RepositoryReader, state: RunState, status: RunStatus, question: str | None) -> str:
    """
    :param question: what a paused run waits for.
    :return: "": nothing is left to do.
    """
    run = state.layout.run_id
    if status is RunStatus.SUCCEEDED:
        return onward(repository, command_to_land(repository, state))
    more = option_in(question or "")
    command = f"git swarm resume {run} {more}" if more else _command_to_continue(state, status)
    if status is RunStatus.PAUSED and command == f"git swarm resume {run}":
        command += _landing_of(repository, state)
    return onward(repository, command)


def command_to_land(repository: RepositoryReader, state: RunState) -> str:
    """The next command for a run that succeeded: approve, land, then nothing, as for one that changed no code; only
    a look at one that never lands, or was rejected."""
    run = state.layout.run_id
    spec = spec_fields(repository, state)
    if never_lands(spec, state):
        return f"git swarm diff {run}"
    latest = latest_approval(repository, state)
    if (
        latest is not None
        and latest.kind is ApprovalKind.REJECTS
        and is_code(repository, latest.code, state.tip_tree)
    ):
        return f"git swarm diff {run}"
    if is_code(repository, repository.objects.commit(state.base).tree, state.tip_tree):
        return ""
    if _is_landed(repository, state):
        return ""
    if standing_approval(repository, state) is None:
        met = standing_conflict(repository, state)
        return command_after_conflict(state, spec.flows, "target") if met is not None else f"git swarm approve {run}"
    land = f"git swarm land {run}{_target_option(repository, spec)}"
    return f"git swarm show land --run {run}   (why it did not land; then: {land})" if failed_landing(state) else land


def failed_landing(state: RunState) -> StepRecord | None:
    """The step that a person typed last, where it is a `land` that was refused on the way, by tests or hooks."""
    last = state.steps[-1] if state.steps else None
    is_one = last is not None and last.by_command and last.step == LAND and last.status is not Status.VERIFIED
    return last if is_one else None


def _landing_of(repository: RepositoryReader, state: RunState) -> str:
    """What `resume` without a word more would do at the pause before the flow deploy; "" at every other pause."""
    spec, taken = spec_fields(repository, state), decision_at_end(repository, state)
    if taken is None or taken.resume_at is None or taken.resume_at.flow != _DEPLOY or never_lands(spec, state):
        return ""
    target = (spec.target or spec.base_ref or "its target").removeprefix("refs/heads/")
    return f"   (approves the code, and lands it on {target})"


def _target_option(repository: RepositoryReader, spec: SpecFields) -> str:
    """The option that `land` needs: none, unless the run was started on a commit without a branch."""
    base = spec.base_ref or ""
    heads = "refs/heads/"
    if spec.target or base.startswith(heads) or (base and repository.refs.read(heads + base) is not None):
        return ""
    main = (repository.main_branch() or "BRANCH").removeprefix(heads)
    return f" --target {main}   (or another branch: it was started on a commit)"


def never_lands(spec: SpecFields, state: RunState) -> bool:
    """Whether it is a rehearsal: a stub or a script did the work, and it was not started with --allow-stub."""
    return (spec.scripted or is_played(state)) and not spec.allow_stub


def is_played(state: RunState) -> bool:
    """Whether an engine was in mode stub, playing a script or its own defaults."""
    return any(record.mode == "stub" for record in state.steps)


def _is_landed(repository: RepositoryReader, state: RunState) -> bool:
    """Whether the newest landing is of the code that the run has now."""
    landed = newest_landing(repository, state)
    return landed is not None and is_code(repository, repository.objects.commit(landed.step).tree, state.tip_tree)


def decision_at_end(repository: RepositoryReader, state: RunState) -> DecisionFields | None:
    """The decision before the commit that ends a run."""
    return newest_decision(repository, state, repository.objects.commit(state.tip).parents[0])


def newest_decision(repository: RepositoryReader, state: RunState, commit_id: str) -> DecisionFields | None:
    """The last decision after a commit, also a superseded one."""
    taken = decisions_after(repository, state.layout, commit_id)
    return taken[-1] if taken else None


def _command_to_continue(state: RunState, status: RunStatus) -> str:
    """The next command for a run that did not succeed."""
    run = state.layout.run_id
    if status is RunStatus.RUNNING:
        return f"git swarm watch {run}"
    if status is RunStatus.PAUSED and state.last_step is not None:
        if state.last_step.status is Status.BLOCKED and state.last_step.engine != KERNEL:
            return f"git swarm resume {run} -m 'ANSWER'"
        if state.blocking:
            return f"git swarm resume {run} --accept '{state.blocking[0].id}=WHY'   (or -m 'what to do instead')"
    if status is RunStatus.UNPROVEN and state.blocking:
        return f"git swarm resume {run}   (or: {_accepting(state)})"
    return f"git swarm resume {run}"


def _accepting(state: RunState) -> str:
    """How a person takes on all that blocks: fewer are refused."""
    ids = " ".join(f"--accept '{concern.id}=WHY'" for concern in state.blocking)
    return f"git swarm approve {state.layout.run_id} {ids}"
