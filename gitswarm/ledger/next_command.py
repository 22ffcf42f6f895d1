"""What to type next for a run, by how it stands, after a conflict too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from gitswarm.git.object_reader import Commit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import (
    ApprovalKind,
    current_approval,
    is_code,
    latest_approval,
    newest_landing,
)
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import (
    DecisionFields,
    EnvelopeFields,
    SpecFields,
    decisions_after,
    spec_fields,
    step_fields,
)
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
        return command_to_land(repository, state)
    more = option_in(question or "")
    command = f"git swarm resume {run} {more}" if more else _command_to_continue(state, status)
    if status is RunStatus.PAUSED and command == f"git swarm resume {run}":
        command += _landing_of(repository, state)
    return command


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
    if current_approval(repository, state) is None:
        met = current_conflict(repository, state)
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
    """The decision before the commit that ends a run. That commit's events have it too, for whoever has the branch
    without its notes."""
    end = repository.objects.commit(state.tip)
    return newest_decision(repository, state, end.parents[0]) or _decision_in_end(repository, end)


def _decision_in_end(repository: RepositoryReader, end: Commit) -> DecisionFields | None:
    """The decision that a run ended with, read from the events of its `end` commit; None where they have none."""
    message = parse_message(end.message)
    trailers = message.trailers if message is not None else {}
    run, number = trailers.get("Swarm-Run"), trailers.get("Swarm-Iteration", "")
    if run is None or not number.isdecimal():
        return None
    content = repository.objects.file(end.tree, RunLayout(run).end_events(int(number))) or b""
    with suppress(ValueError, TypeError, RecursionError):
        event = json.loads(content.partition(b"\n")[0])
        if event["kind"] == "route_decision":
            absent = dict.fromkeys(("candidates", "seq", "routing_mode"))
            fields = {**absent, "ts": event["ts"], "flow_key": event["flow_key"], **event["payload"]}
            return msgspec.convert(fields, DecisionFields)
    return None


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
        return f"git swarm resume {run}   (or: {accepting(run, (each.id for each in state.blocking))})"
    return f"git swarm resume {run}"


def accepting(run: str, blocking: Iterable[str]) -> str:
    """How a person takes on all that blocks, by ids: fewer are refused."""
    return " ".join(["git swarm approve", run, *(f"--accept '{each}=WHY'" for each in blocking)])


LAND = "land"
RESET = "reset"
_AT_THE_END = (RESET, "gate", "deploy")
"""Flows that come after the work; no reset begins within the last two."""


class LandingConflict(Struct, frozen=True):
    """What `land` reported, and the files in which target and run change the same places."""

    summary: str
    files: tuple[str, ...]


def current_conflict(repository: RepositoryReader, state: RunState) -> LandingConflict | None:
    """The conflict that the code which the run has now met when it was to land; None: it met none, or was approved
    again since."""
    latest = latest_approval(repository, state)
    if latest is None or latest.kind is not ApprovalKind.VOIDS:
        return None
    record = next((each for each in state.steps if each.commit == latest.commit), None)
    if record is None or record.step != LAND or not is_code(repository, record.tree, state.tip_tree):
        return None
    envelope = step_fields(repository, state, record, record.execution.envelope, EnvelopeFields)
    return LandingConflict(record.summary, envelope.blockers)


def command_after_conflict(state: RunState, flows: Sequence[str], target: str) -> str:
    """The command that leads out of a conflict: back to before the landing, where the run has the flow that merges
    what its target got; else the same task again, on the commit that the target has now."""
    run = state.layout.run_id
    steps = [
        each for each in state.steps if not each.by_command and each.flow in flows and each.flow not in _AT_THE_END
    ]
    if RESET in flows and steps and not state.shared:
        return f"git swarm rollback {steps[-1].number} --run {run}   (then git swarm resume {run}: reset merges)"
    return f"git swarm start {' '.join(flows)} -m '…'   (on the current {target})"
