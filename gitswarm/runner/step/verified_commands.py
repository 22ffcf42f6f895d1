"""Commands of the project that a station has to have run: seen in its session, or in a command step on the same code.

Nothing is run for it. What was not seen is a warning, until a command step on the same code shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitswarm.evidence.observed_command import observe_command
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.command_names import TEST
from gitswarm.records.concern import Concern, concern_id
from gitswarm.records.evidence import Evidence
from gitswarm.records.outcome import Status
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.runner.session import Session
from gitswarm.runner.step.examined import StepOutcome
from gitswarm.runner.step.plan import StepPlan
from gitswarm.runner.step.test_steps import is_test_step
from gitswarm.runner.stored import evidence_of
from gitswarm.specs.flow import ShellCommand, Step
from gitswarm.specs.station import CommandCheck

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
