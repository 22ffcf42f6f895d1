"""What a step promised to leave in RUN_BASE, and did not: missing, invalid, or from before its flow was entered."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.evidence.claimed_files import any_means
from gitswarm.evidence.observed_command import EDITING_TOOLS
from gitswarm.ledger.state import RunState
from gitswarm.records.acceptance import AC_STATUS
from gitswarm.records.concern import Concern, concern_id
from gitswarm.records.text import listed
from gitswarm.runner.session import Session
from gitswarm.runner.step.acceptance import tree_at_entry
from gitswarm.runner.step.examined import StepOutcome
from gitswarm.runner.step.plan import StepPlan
from gitswarm.specs.promises import promised_artifacts

_JUDGING = frozenset({"critic", "verification"})
"""Categories of stations whose artifacts are judgements, of what there was when they were written.
What an author left (requirements, a plan, a design) may hold as it is when the flow is entered again."""


def artifact_findings(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    base = session.layout.base
    promised = [
        name
        for name in promised_artifacts(plan.flow, plan.station)
        if name != AC_STATUS or outcome.evidence.ac is not None
    ]
    missing = tuple(name for name in promised if not says_something(session, plan.before, outcome, f"{base}/{name}"))
    if missing:
        yield step_concern(plan, "artifact_missing", f"{listed(missing)} is promised, but missing or empty", missing)
    problems = outcome.evidence.artifact_problems
    if problems:
        names = tuple(dict.fromkeys(problem.partition(":")[0] for problem in problems))
        yield step_concern(plan, "artifact_invalid", f"an artifact does not match its schema: {problems[0]}", names)
    stale = tuple(name for name in promised if name not in missing and _is_stale(session, plan, outcome, name))
    if stale:
        how = "rewrite it, or name it in the handoff's artifacts if it is still valid"
        fact = f"{listed(stale)} is unchanged since before {plan.flow.id} was entered: {how}"
        yield step_concern(plan, "artifact_stale", fact, stale)


def _is_stale(session: Session, plan: StepPlan, outcome: StepOutcome, name: str) -> bool:
    """Whether a judgement is that of an earlier entry: one that the step neither wrote nor names."""
    stack = tuple(frame.token for frame in plan.decision.stack)
    is_aside = bool(stack) and not stack[-1].startswith("flow:")
    if plan.station is None or plan.station.category not in _JUDGING or is_aside:
        return False
    path, result = f"{session.layout.base}/{name}", outcome.result
    written = (str(call.input.get("file_path", "")) for call in result.tool_calls if call.tool_name in EDITING_TOOLS)
    own = (*written, *(result.handoff.artifacts if result.handoff is not None else ()))
    if name in result.placeholders or any(any_means(each, (path,)) for each in own):
        return False
    is_within = plan.before.tally.is_within(plan.flow.id, stack)
    tree = tree_at_entry(session, plan.before, plan.flow.id) if is_within else plan.before.tip_tree
    earlier = session.repository.objects.file(tree, path)
    return earlier is not None and earlier == content_after(session, plan.before, outcome, path)


def says_something(session: Session, before: RunState, outcome: StepOutcome, path: str) -> bool:
    content = content_after(session, before, outcome, path)
    return content is not None and bool(content.strip())


def content_after(session: Session, before: RunState, outcome: StepOutcome, path: str) -> bytes | None:
    """Of a file in RUN_BASE, as the step leaves it."""
    if path in outcome.artifacts or path not in outcome.present:
        return outcome.artifacts.get(path)
    return session.repository.objects.file(before.tip_tree, path)


def step_concern(
    plan: StepPlan, flag: str, fact: str, names: tuple[str, ...] = (), *, blocking: bool = True
) -> Concern:
    where = concern_id(flag, plan.execution.flow, plan.execution.step)
    return Concern(id=where, flag=flag, blocking=blocking, fact=fact, names=names)
