"""Goes on from the tip of a run, whatever ended it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.spent import record_limits
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import RunStatus
from gitswarm.records.receipt import PartialHandoff
from gitswarm.runner.containing import mention_sandbox
from gitswarm.runner.deciding.decision_facts import mention_navigator
from gitswarm.runner.deciding.route import pending_decision, waits_for_approval
from gitswarm.runner.human_steps import ResumeOptions, adopt_out_of_band, commit_human_step, settled
from gitswarm.runner.landing.approve import accept_concerns, allow_secrets
from gitswarm.runner.open_run import OpenRun, open_run
from gitswarm.runner.operations.forge.feedback import hand_in
from gitswarm.runner.run import carry_on, push_to_hub
from gitswarm.runner.run_context import RunContext
from gitswarm.runner.run_end import end_run, ending_at
from gitswarm.runner.run_engines import engines_of, refuse_impossible
from gitswarm.runner.run_processes import Request
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree, prepare_worktree
from gitswarm.runner.step.plan import Resumption
from gitswarm.runner.step.unfinished import drop_conversations, find_unfinished
from gitswarm.runner.undo.recovery import (
    current_partial,
    drop_journals,
    look,
    restore_partial,
    restore_worktree,
    tidy_index,
)


class Resumed(Struct, frozen=True):
    """Where the run stands afterwards. `was_complete`: no step was left to execute; `made`: the worktree, where that
    was gone and is there again."""

    state: RunState
    was_complete: bool
    made: Path | None = None


def resume_run(
    repository: Repository, layout: RunLayout, context: RunContext, asked: ResumeOptions | None = None
) -> Resumed:
    """
    :raises RunHeldError: a live process owns the run.
    :raises NotFoundError: no such run.
    """
    options = asked or ResumeOptions()
    with open_run(repository, layout, context, adopt=options.adopt) as opened:
        resumed = _resume(opened, options)
        push_to_hub(opened.session, resumed.state, executes=False)
        return resumed


def _resume(opened: OpenRun, options: ResumeOptions) -> Resumed:
    session, state = opened.session, opened.state
    run, context = session.layout.run_id, session.context
    session.requests.clear(session.locks.owned_since_ns(run))  # what was asked of this process counts
    if state.last_step is not None:
        drop_conversations(session, state.last_step.execution)
    if state.end is RunStatus.SUCCEEDED and options.feedback is not None:
        raise SwarmError(
            f"{run} succeeded: none of its steps will read feedback",
            hint="git swarm start review -m '…' --feedback FILE   (on its code, once that has landed)",
        )
    if state.end is RunStatus.SUCCEEDED:
        return _complete(session, state, adopt=options.adopt)
    settings, specs = session.spec.settings, session.specs
    asked_of = engines_of(settings, specs.flows.values(), specs.sidequests.values())
    refuse_impossible(settings, asked_of, session.engines, context)
    if options.approve and not waits_for_approval(session, state):
        raise SwarmError(f"{run} has no proposal that waits for approval", hint=f"git swarm resume {run}")
    if options.adopt and opened.settled and not look(session, state, prepare_worktree(session)).is_dirty:
        options = replace(options, adopt=False)
    state = _apply_options(session, state, options)
    if state.end is RunStatus.SUCCEEDED:
        return Resumed(state, was_complete=False)
    if options.adopt or options.skip:
        worktree, state, decision = commit_human_step(session, state, options)
        resumption = Resumption(options.answer)
    else:
        worktree, partial = _worktree_to_continue(session, state)
        decision = pending_decision(session, state, approve=options.approve)
        unfinished = None if partial else find_unfinished(session, state, worktree, decision)
        resumption = Resumption(options.answer, partial.summary if partial else "", unfinished)
    fresh = not state.own_steps and state.end is None
    mention_sandbox(session)
    mention_navigator(session)
    context.observer.opened(state, str(worktree.shadow.path))
    after = carry_on(session, worktree, state, decision, None if fresh else resumption)
    return Resumed(after, was_complete=False)


def _apply_options(session: Session, state: RunState, options: ResumeOptions) -> RunState:
    """The run with what a person says to it beside an answer."""
    if options.budget:
        record_limits(session.repository, state, options.budget, session.context.clock())
    if options.feedback is not None or options.accept or options.allow:
        state = _at_an_end(session, state, adopt=options.adopt)
    if options.feedback is not None:
        state = hand_in(session, state, options.feedback)
    if options.accept:
        state = accept_concerns(session, settled(session, state), options.accept)
    if options.allow:
        state = allow_secrets(session, settled(session, state), options.allow)
    return state


def _at_an_end(session: Session, state: RunState, *, adopt: bool) -> RunState:
    """What a person says stands behind an end: a run that was cut off or rolled back stops first.

    :raises SwarmError: it was, and its worktree holds edits that are to be adopted.
    """
    newest = state.steps[-1] if state.steps else None
    is_said = newest is not None and newest.by_command and newest.commit == state.tip  # and its end is missing
    if adopt or state.end is not None or is_said:
        return settled(session, state)
    request = Request(kind="stop", reason="asked by hand")
    return end_run(session, restore_worktree(session, state), state, ending_at(session, state, request))


def _complete(session: Session, state: RunState, *, adopt: bool) -> Resumed:
    """A run that succeeded executes nothing more; a person's edits may still become a step of it, and a worktree that
    is gone is made again."""
    is_gone = session.repository.worktree_made_for(session.layout.branch) is None
    adopted = adopt_out_of_band(session, state) if adopt else None
    if adopted is not None:
        return Resumed(adopted, was_complete=False)
    drop_journals(session, state)
    tidy_index(session, state)
    made = prepare_worktree(session).path if is_gone else None
    return Resumed(state, was_complete=True, made=made)


def _worktree_to_continue(session: Session, state: RunState) -> tuple[RunWorktree, PartialHandoff | None]:
    """The worktree as the tip says; or, where a step was interrupted on purpose, with what that step left."""
    partial = current_partial(session, state)
    if partial is None:
        return restore_worktree(session, state), None
    shadow = prepare_worktree(session)
    worktree = RunWorktree.of(session, shadow)
    if not look(session, state, shadow).is_dirty:
        restore_partial(session, worktree, state, partial)
    return worktree, partial
