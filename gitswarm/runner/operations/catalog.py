"""Operations of kernel steps: which there are, and those that a Gate and a Deploy ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.ledger.approval import ApprovalKind, current_approval, follow_approval, last_landing
from gitswarm.ledger.state import RunState
from gitswarm.ledger.verify.verifier import verify_run
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import HumanPolicy
from gitswarm.runner.landing.approve import concerns_at_end, subject_of
from gitswarm.runner.landing.land_run import LandingAttempt, landing_result, push_target, unsound
from gitswarm.runner.landing.landing_plan import (
    LandedBefore,
    LandingPlan,
    LandingRequest,
    Refused,
    facts_of,
    landing_decision,
    short,
)
from gitswarm.runner.operations.forge.feedback import harvest
from gitswarm.runner.operations.forge.publish import publish, secrets_in
from gitswarm.runner.operations.forge.watch_ci import MERGE_RESULT, watch_ci
from gitswarm.runner.operations.learning import write_trail
from gitswarm.runner.operations.reset import carry_over, fetch_upstream, rebase
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.judge import described
from gitswarm.runner.step.operation import KernelStep, execute_operation, reported
from gitswarm.runner.step.plan import StepPlan
from gitswarm.runner.step.read_artifacts import MERGE_DECISION, read_decision, tree_at_entry
from gitswarm.runner.stored import open_concerns
from gitswarm.runner.undo.rollback import move_to_new_base
from gitswarm.specs.flow import Operation

_MOST_FINDINGS = 50


def verify(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """What `git swarm verify` says of the run so far, and what is open in it."""
    session = step.session
    report = verify_run(session.repository, session.layout)
    errors = [finding for finding in report.findings if finding.severity == "error"]
    findings: list[JsonValue] = [finding.to_plain() for finding in report.findings[:_MOST_FINDINGS]]
    count = f"{len(errors)} error{'' if len(errors) == 1 else 's'}" if errors else "no error"
    summary = f"{count} in the ledger of {report.commits} commit{'' if report.commits == 1 else 's'}"
    handoff = Handoff(
        status=Status.UNVERIFIED if errors else Status.VERIFIED,
        summary=summary,
        concerns=tuple(f"{finding.check}: {finding.message}" for finding in errors[:5]),
    )
    found: dict[str, JsonValue] = {
        "sound": report.is_sound,
        "commits": report.commits,
        "errors": len(errors),
        "findings": findings,
        "open_concerns": [each.to_plain() for each in open_concerns(session, step.state)],
    }
    return reported(step, request, handoff, found)


def scan_secrets(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Looks through everything that would be published."""
    found = secrets_in(step.session, step.state)
    handoff = Handoff(
        status=Status.UNVERIFIED if found else Status.VERIFIED,
        summary=f"{len(found)} secrets bar publishing" if found else "nothing that looks like a secret",
        concerns=tuple(map(described, found[:5])),
    )
    findings: list[JsonValue] = [each.to_plain() for each in found[:_MOST_FINDINGS]]
    return reported(step, request, handoff, {"found": len(found), "secrets": findings})


def approve(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Approves commit and code for a verdict that merges and that nothing contradicts which git-swarm knows."""
    decision = read_decision(step.session, step.state)
    verdict = decision.verdict.value if decision is not None else None
    against = list(_against(step)) if decision is not None and decision.verdict.merges else []
    reasons: list[JsonValue] = [each.reason for each in against]
    report: dict[str, JsonValue] = {"verdict": verdict, "approved": False, "against": reasons}
    if decision is None or not decision.verdict.merges:
        summary = f"not approved: the verdict is {verdict or 'missing, or cannot be read'}"
        return reported(step, request, Handoff(status=Status.VERIFIED, summary=summary), report)
    if against:
        return reported(step, request, _refusal(step, against), report)
    approval = current_approval(step.session.repository, step.state)
    if approval is not None:  # a person's, perhaps signed, is worth more
        handoff = Handoff(status=Status.VERIFIED, summary=f"approved before, by {approval.by}")
        return reported(step, request, handoff, {**report, "approved": True, "code": approval.code})
    subject = subject_of(step.session, step.state)
    handoff = Handoff(status=Status.VERIFIED, summary=f"approved by the gate: {subject.size}; {subject.tests}")
    trailers = {ApprovalKind.APPROVES.value: f"{subject.tip} {subject.code}"}
    return reported(step, request, handoff, {**report, "approved": True, "code": subject.code}, trailers)


class _Objection(Struct, frozen=True):
    """What stands against an approval, and the command that removes it."""

    reason: str
    hint: str


def _against(step: KernelStep) -> Iterator[_Objection]:
    """What stands against a merge, whatever an agent decided."""
    session, state, run = step.session, step.state, step.run
    for concern in concerns_at_end(session, state):
        if concern.blocking:
            accept = f"git swarm resume {run} --accept '{concern.id}=WHY'"
            yield _Objection(f"{concern.id}: {concern.fact}", accept)
    if not _is_of_this_gate(step):
        yield _Objection("the verdict is that of an earlier gate, on other code", f"git swarm approve {run}")
    refused = unsound(session)
    if refused is not None:
        yield _Objection(refused.reason, refused.hint)
    if session.spec.settings.deploy.require_signature:
        facts = facts_of(session, state, LandingRequest())
        if facts.approval is None or facts.unsigned is not None:
            sign = f"git swarm approve {run}, then: git swarm resume {run}"
            yield _Objection("a person has to sign: deploy.require_signature", sign)


def _is_of_this_gate(step: KernelStep) -> bool:
    """Whether the verdict was written since the gate was entered; the run may have been in one before."""
    objects, path = step.session.repository.objects, f"{step.session.layout.base}/{MERGE_DECISION}"
    before, now = tree_at_entry(step.session, step.state, step.plan.flow.id), step.state.tip_tree
    return before == now or objects.entry(before, path) != objects.entry(now, path)


def _refusal(step: KernelStep, against: Sequence[_Objection]) -> Handoff:
    """A watched run waits for a person; nobody else's word changes it."""
    watched = step.session.spec.human is HumanPolicy.SUPERVISED
    reasons = tuple(each.reason for each in against)
    return Handoff(
        status=Status.BLOCKED if watched else Status.UNVERIFIED,
        summary=f"not approved, although the verdict is to merge: {reasons[0]}",
        blockers=(*reasons, against[0].hint) if watched else (),
        concerns=() if watched else reasons,
    )


def land(step: KernelStep, request: StepRequest, emit: Emit) -> StepResult:
    """What `git swarm land` does, in the middle of a run."""
    session, state = step.session, step.state
    decided = landing_decision(session, state, LandingRequest())
    if isinstance(decided, LandedBefore):
        return _landed(step, request, decided.landing.commit, decided.target, {})
    refused = unsound(session) if isinstance(decided, LandingPlan) else decided
    if refused is not None or isinstance(decided, Refused):
        return _refused(step, request, refused or Refused("nothing to land", ""))
    outcome = LandingAttempt(session, state, decided, request, emit).outcome()
    own, landed = landing_result(decided, outcome), outcome.landed
    if isinstance(landed, Refused):
        return replace(_refused(step, request, landed), trailers=own.trailers, check=own.check)
    result = _landed(step, request, landed.commit, landed.target, own.trailers)
    return replace(result, check=own.check, transcript=own.transcript, tool_calls=own.tool_calls)


def _landed(
    step: KernelStep, request: StepRequest, commit: str, target: str, trailers: Mapping[str, str]
) -> StepResult:
    pushed = _pushed(step, target)
    report: dict[str, JsonValue] = {"landed": True, "commit": commit, "target": short(target), "reason": pushed}
    summary = f"landed on {short(target)} as {commit[:12]}" + (f"; {pushed}" if pushed else "")
    return reported(step, request, Handoff(status=Status.VERIFIED, summary=summary), report, trailers)


def _pushed(step: KernelStep, target: str) -> str:
    """Where the team asked for it; a push that fails does not take the landing back."""
    if not step.session.spec.settings.deploy.push:
        return ""
    pushed = push_target(step.session, target)
    return pushed.reason if isinstance(pushed, Refused) else f"pushed to {pushed}"


def _refused(step: KernelStep, request: StepRequest, refused: Refused) -> StepResult:
    report: dict[str, JsonValue] = {"landed": False, "commit": None, "target": None, "reason": refused.reason}
    concerns = tuple(text for text in (*refused.paths, refused.output) if text)
    handoff = Handoff(status=Status.UNVERIFIED, summary=f"not landed: {refused.reason}", concerns=concerns)
    return reported(step, request, handoff, report)


def record_not_deployed(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Says that nothing landed, and why."""
    landed = last_landing(step.session.repository, step.state)
    if landed is not None:  # an earlier Deploy of this run did
        report: dict[str, JsonValue] = {
            "landed": True,
            "commit": landed.commit,
            "target": short(landed.target),
            "reason": "landed before",
        }
        return reported(step, request, Handoff(status=Status.VERIFIED, summary="landed before"), report)
    decision = read_decision(step.session, step.state)
    verdict = decision.verdict.value if decision is not None else "missing, or cannot be read"
    merge_reason = (
        step.earlier(MERGE_RESULT).get("reason") if decision is not None and decision.verdict.merges else None
    )
    reason = str(merge_reason) if merge_reason else f"the verdict is {verdict}"
    report = {"landed": False, "commit": None, "target": None, "reason": reason}
    return reported(step, request, Handoff(status=Status.VERIFIED, summary=f"not deployed: {reason}"), report)


OPERATIONS: Mapping[Operation, Callable[[KernelStep, StepRequest, Emit], StepResult]] = {
    "verify": verify,
    "scan_secrets": scan_secrets,
    "publish": publish,
    "harvest": harvest,
    "approve": approve,
    "land": land,
    "record_not_deployed": record_not_deployed,
    "watch_ci": watch_ci,
    "wisdom": write_trail,
    "fetch_upstream": fetch_upstream,
    "rebase": rebase,
    "carry_over": carry_over,
}


def execute_kernel_step(session: Session, worktree: RunWorktree, plan: StepPlan) -> RunState:
    """Carries out and commits a step with an operation; the state after it."""
    if plan.step.operation is None:
        raise ValueError(f"{plan.step.id} has no operation")
    operation = partial(OPERATIONS[plan.step.operation], KernelStep(session, worktree, plan))
    after = execute_operation(session, worktree, plan, operation)
    follow_approval(session.repository, after)
    return move_to_new_base(session, after)
