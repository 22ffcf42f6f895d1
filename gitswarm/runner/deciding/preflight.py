"""What is looked at before a step: what the run needs and does not find, its budget, and whether its target has
moved.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping

from gitswarm.git.repository import Repository
from gitswarm.ledger.merging import is_in, merged_onto
from gitswarm.ledger.reading import decisions
from gitswarm.ledger.spent import changed_limits, uses
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.store import DecisionOrigin
from gitswarm.ledger.stored_json import ReceiptFields
from gitswarm.records.budget import UNLIMITED, BudgetLimits, Reached, Total, left, reached, total
from gitswarm.records.execution import Result
from gitswarm.records.routing import Action, Choice, Continuation, Decision, RoutingSource, Supersedes
from gitswarm.records.text import listed
from gitswarm.routing import driver
from gitswarm.routing.choices import only, pause, retry
from gitswarm.routing.macro import RESET
from gitswarm.runner.landing.landing_plan import LandingRequest, short, target_of
from gitswarm.runner.run_session import Session
from gitswarm.runner.stored import incoming_decision, step_at


def preflight(session: Session) -> str | None:
    """The first thing that the run's own commands lack; None when nothing is known to be missing.

    Only plain commands are looked at: what a shell would make of the others is the shell's to say.
    """
    path = session.context.env.get("PATH")
    used = [step.command for flow in session.spec.flows for step in session.specs.flows[flow].steps]
    for name, command in session.spec.settings.commands.items():
        if command is None or name not in used:
            continue
        program = _program(command)
        if program is not None and shutil.which(program, path=path) is None:
            return f"the command {name} needs '{program}', which is not installed"
    return None


def _program(command: str) -> str | None:
    """The program that a plain command starts; None for a path, an assignment, or what only a shell understands."""
    try:
        first = shlex.split(command)[0]
    except (ValueError, IndexError):
        return None
    plain = first.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return first if plain and first not in _BUILTINS else None


_BUILTINS = frozenset(
    {"cd", "exit", "true", "false", "test", "echo", "export", "set", "source", "eval", "exec", "if"}
)


def within_budget(session: Session, state: RunState, decision: Decision) -> Decision:
    """The decision, where the budget allows it; in its place a recorded pause where a limit is reached; and the
    decision again when a person has raised that limit."""
    instead_of = paused_decision(decision, decisions(session.repository, session.layout, state.tip), state.tip)
    flow = decision.resume_at.flow if instead_of is not None and decision.resume_at else decision.next_flow
    if instead_of is None and decision.to_step is None and not _ends_at_cut(session, state, decision):
        return decision
    why = limit_reached(session, state, flow)
    if (why is None) == (instead_of is None):
        return decision
    choice = instead_of or _pause(session, state, decision, why)
    origin = DecisionOrigin(
        flow=decision.flow_key,
        from_step=decision.from_step,
        iteration=decision.iteration,
        mode=decision.routing_mode,
        supersedes=Supersedes(commit=state.tip, seq=decision.seq),
    )
    return session.store.decide(state.tip, choice, origin)


def paused_decision(decision: Decision, taken: list[Decision], commit: str) -> Choice | None:
    """What a pause of ours stands in place of; None: the decision is no such pause.

    :param taken: what was decided after `commit`, where `decision` was.
    """
    replaced, resume_at = decision.supersedes, decision.resume_at
    if decision.decision is not Action.PAUSE or replaced is None or resume_at is None or replaced.commit != commit:
        return None
    earlier = next((each for each in taken if each.seq == replaced.seq), None)
    if earlier is not None and earlier.candidate_id == resume_at.candidate_id:
        return earlier.choice
    return driver.continue_at(resume_at, decision.stack, "resumed with another budget")


def limit_reached(session: Session, state: RunState, flow: str) -> Reached | None:
    """The first limit of the run, or of the flow, that leaves nothing for another step of the flow."""
    of_run, of_flow = _limits(session, flow)
    if not of_run and not of_flow:
        return None
    whole, own = _totals(session, state, flow, of_run.within(of_flow))
    return reached(of_run, whole, "the run") or reached(of_flow, own, f"the flow {flow}", whole=whole)


def allowance(session: Session, state: RunState, flow: str, steps: Mapping[str, Decision]) -> dict[str, BudgetLimits]:
    """What each of these steps may use, that are executed at the same time: its own limits, and its part of what run
    and flow have left."""
    of_run, of_flow = _limits(session, flow)
    rest = UNLIMITED
    if of_run or of_flow:
        whole, own = _totals(session, state, flow, of_run.within(of_flow))
        rest = left(of_run, whole).within(left(of_flow, own)).shared_by(len(steps))
    return {
        name: step_at(session, flow, name, decision.stack).budget.limits.within(rest)
        for name, decision in steps.items()
    }


def _limits(session: Session, flow: str) -> tuple[BudgetLimits, BudgetLimits]:
    """Of the run and of the flow. What a person said on `resume` is about the run, and there is no other limit of
    that kind then."""
    limits = changed_limits(session.repository, session.layout)
    of_flow = session.specs.flows[flow].budget.limits.without(limits)
    return session.spec.settings.budget.limits.over(limits), of_flow


def _totals(session: Session, state: RunState, flow: str, limits: BudgetLimits) -> tuple[Total, Total]:
    found = uses(session.repository, state, timed=limits.time_s is not None, known=session.known_uses)
    return total(found), total(use for use in found if use.flow == flow)


def _pause(session: Session, state: RunState, decision: Decision, why: Reached | None) -> Choice:
    """A pause in front of the step that would be next; or of the last one, which the limit cut short."""
    record, stack = state.last_step, decision.stack
    cut_short = record is not None and record.fork is None and _is_cut_short(session, record, decision)
    resume_at = Continuation(
        decision=decision.decision,
        flow=decision.next_flow,
        step=decision.to_step,
        candidate_id=decision.candidate_id,
        reason=decision.reason,
        fork=decision.fork,
    )
    if cut_short and record is not None:
        resume_at, stack = retry(record.flow, record.step), incoming_decision(session, record).stack
    reason = why.reason if why is not None else ""
    return only(pause(reason, stack, "budget", resume_at=resume_at), RoutingSource.DETERMINISTIC)


def _ends_at_cut(session: Session, state: RunState, decision: Decision) -> bool:
    """Whether the run would be over with a step that was not."""
    over = decision.failed or decision.decision is Action.TERMINATE
    return over and state.last_step is not None and _is_cut_short(session, state.last_step, decision)


def _is_cut_short(session: Session, record: StepRecord, decision: Decision) -> bool:
    """Whether the step ended because nothing was left: its session, or its command, which has failed then."""
    if decision.failed and record.result is Result.FAILED:
        return True
    content = session.repository.objects.file(record.tree, record.execution.receipt) or b"{}"
    return bool(ReceiptFields.from_json(content).outcome.get("kind") == "budget")


_MOST_RESETS = 3
"""Resets that one run is interrupted for."""


def diverged(session: Session, state: RunState) -> str | None:
    """What a reset is called for by; None: nothing, or the run has no such flow. Nothing is fetched."""
    if RESET not in session.specs.flows or state.shared or state.bases.before is not None:
        return None
    if state.tally.uses("flow", RESET) >= _MOST_RESETS:
        return None
    repository, target = session.repository, target_of(session, LandingRequest())
    local = repository.refs.read(target) if target is not None else None
    if target is None or local is None:
        return None
    tip = newer(repository, state.base, local, upstream_tip(repository, target))
    looked_at = repository.refs.read(session.layout.upstream_ref)
    if tip in (None, state.base, looked_at) or is_in(repository, tip or "", state.base):
        return None
    found = merged_onto(repository, state.base, tip or "", state.tip_tree)
    if not found.conflicts:
        return None
    return f"{short(target)} moved to {(tip or '')[:12]}, which conflicts with the run in {listed(found.paths)}"


def upstream_tip(repository: Repository, branch: str) -> str | None:
    """Where the remote-tracking branch of a local one was when the user fetched."""
    name = repository.git.output("for-each-ref", "--format=%(upstream)", branch).decode(errors="replace").strip()
    return repository.refs.read(name) if name else None


def newer(repository: Repository, base: str, local: str | None, upstream: str | None) -> str | None:
    """Of a target and what it follows the one that is ahead. Where they have gone apart: the one that moved since
    the base, else the target, which is what a run lands on."""
    if local is None or upstream is None or local == upstream:
        return local or upstream
    if is_in(repository, local, upstream) or is_in(repository, local, base):
        return local if is_in(repository, upstream, local) else upstream
    return local
