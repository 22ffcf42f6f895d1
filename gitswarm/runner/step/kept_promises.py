"""What a station promised and did not keep: artifacts in RUN_BASE, and commands that it has to run. What critics and
joins leave open.

Nothing is run for it. A command that was not seen is a warning, until a command step on the same code shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitswarm.evidence.observed_command import EDITING_TOOLS, observe_command
from gitswarm.evidence.verdict import any_means
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.evidence import Concern, Evidence, concern_id
from gitswarm.records.execution import TEST, Status
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.records.text import listed, shorten
from gitswarm.records.worklists import AC_STATUS
from gitswarm.routing.conditions import evaluate
from gitswarm.routing.forks import unmet
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.plan import StepOutcome, StepPlan
from gitswarm.runner.step.read_artifacts import tree_at_entry
from gitswarm.runner.step.test_steps import is_test_step
from gitswarm.runner.stored import branch_of, evidence_of, joined
from gitswarm.specs.flow import Join, ShellCommand, Step
from gitswarm.specs.station import CommandCheck, promised_artifacts

_JUDGING = frozenset({"critic", "verification"})
"""Categories of stations whose artifacts are judgements, of what there was when they were written.
What an author left (requirements, a plan, a design) may hold as it is when the flow is entered again."""


def artifact_findings(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    base = session.layout.base

    def holds(when: str) -> bool:
        context = {"envelope": outcome.envelope.to_plain(), "evidence": outcome.evidence.to_plain()}
        return evaluate(when, plan.step.id, context).value is True

    promised = [
        name
        for name in promised_artifacts(plan.flow, plan.station, plan.step, holds)
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
    is_detour = bool(stack) and not stack[-1].startswith("flow:")
    if plan.station is None or plan.station.category not in _JUDGING or is_detour:
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
    """Content of a file in RUN_BASE, as the step leaves it."""
    if path in outcome.artifacts or path not in outcome.present:
        return outcome.artifacts.get(path)
    return session.repository.objects.file(before.tip_tree, path)


def step_concern(
    plan: StepPlan, flag: str, fact: str, names: tuple[str, ...] = (), *, blocking: bool = True
) -> Concern:
    where = concern_id(flag, plan.execution.flow, plan.execution.step)
    return Concern(id=where, flag=flag, blocking=blocking, fact=fact, names=names)


_FLAGS: Mapping[CommandCheck, str] = {"ran": "command_not_run", "green": "command_not_green"}


def unmet_commands(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """The commands that the step's station promises, that the project has, and that nothing shows on the code as it
    was left.

    A rehearsal that runs nothing at all keeps its promises, as it does with artifacts; who is blocked could not.
    """
    station, calls = plan.station, outcome.result.tool_calls
    if station is None or outcome.status is Status.BLOCKED:
        return
    if plan.choice.mode == "stub" and not any("command" in call.input for call in calls):
        return
    for name, how in station.verification.commands.items():
        line = plan.commands.get(name)
        if line is None or _shown_before(session, plan, outcome, name, how):
            continue
        seen = observe_command(calls, line)
        if not (seen.ran if how == "ran" else seen.green):
            what = "did not end well as a whole" if seen.ran else "was not run"
            fact = f"{name} (`{line}`) {what} after the last change of the code"
            where = concern_id(f"{_FLAGS[how]}:{name}", plan.execution.flow, plan.execution.step)
            yield Concern(id=where, flag=f"{_FLAGS[how]}:{name}", blocking=False, fact=fact, names=(name,))


def met_commands(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[str]:
    """Ids of the open concerns of this kind that this command step settles: it ran the command on that very code."""
    if not plan.step.is_command:
        return
    code = session.store.code(plan.before.tip_tree)
    for concern in plan.before.concerns:
        flag, _at, name = concern.id.partition("@")[0].partition(":")
        for how, known in _FLAGS.items():
            if (
                flag == known
                and _shows(session, plan.step, outcome.evidence, name, how)
                and session.store.code(concern.opened_by.tree) == code
            ):
                yield concern.id


def _shown_before(session: Session, plan: StepPlan, outcome: StepOutcome, name: str, how: CommandCheck) -> bool:
    """Whether a command step showed it already, and the code is still as it was then."""
    code = session.store.code(outcome.code_tree)
    for record in reversed(plan.before.steps):
        if session.store.code(record.tree) != code:
            return False
        step, evidence = _command_step(session, record), evidence_of(session, record)
        if step is not None and evidence is not None and _shows(session, step, evidence, name, how):
            return True
    return False


def _command_step(session: Session, record: StepRecord) -> Step | None:
    flow = session.specs.flows.get(record.flow)
    return flow.step(record.step) if flow is not None and flow.has_step(record.step) else None


def _shows(session: Session, step: Step, evidence: Evidence, name: str, how: CommandCheck) -> bool:
    tests = evidence.tests
    ran = _calls(session.spec.settings, step, name) and tests.command is not None
    return ran and (how == "ran" or tests.passed is True)


def _calls(settings: FrozenSettings, step: Step, name: str) -> bool:
    if name == TEST:
        return is_test_step(settings, step)
    if isinstance(step.command, ShellCommand):
        return step.command.run == settings.commands.get(name)
    return step.command == name


_COLUMNS = 200


def left_open(plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """A person who stands in for the step leaves nothing. A BLOCKED critic waits for its answer."""
    if plan.execution.agent == HUMAN:
        return
    loop, envelope, routing, joins = outcome.loop, outcome.envelope, plan.step.routing, plan.joins
    if loop is not None and not loop.again and not loop.content and envelope.status is not Status.BLOCKED:
        remarks = "; ".join(envelope.concerns) or envelope.summary
        fact = f"{envelope.status} ({loop.reason}): {shorten(remarks, _COLUMNS)}"
        yield step_concern(plan, "critic_open", fact, envelope.concerns, blocking=False)
    if isinstance(routing, Join) and joins is not None and not joins.is_met:
        branches = joined(plan.before, plan.flow, plan.step)
        names = unmet(routing, {name: branch_of(record) for name, record in branches.items()})
        what = ", ".join(f"{name} {joins.statuses[name]}" for name in names)
        yield step_concern(plan, "join_open", f"{joins.reason} ({what})", names, blocking=False)
