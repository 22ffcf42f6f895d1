"""What is going to be executed, decided before anything happens: step, iteration, engine, prompt, command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.base import StepRequest, StepResult
from gitswarm.evidence.declarations import CaseCounts
from gitswarm.evidence.suite_run import SuiteRuns
from gitswarm.git.object_reader import NewCommit
from gitswarm.ledger.journal import Journal
from gitswarm.ledger.state import RunState
from gitswarm.processes import project_environment
from gitswarm.records.budget import UNLIMITED, BudgetLimits
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import AcceptedConcern, BaseTests, Evidence
from gitswarm.records.execution import Execution, Result, Status
from gitswarm.records.routing import Decision, JoinOutcome
from gitswarm.records.run_spec import EngineChoice
from gitswarm.records.worklists import JudgedCriterion
from gitswarm.routing.loops import LoopVerdict
from gitswarm.runner.run_engines import choice_of
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.briefing import brief
from gitswarm.runner.step.test_steps import project_command
from gitswarm.runner.stored import outcome_at, station_at, step_at
from gitswarm.specs.compile import PromptPlan, Role, compile_prompt
from gitswarm.specs.flow import Flow, Step
from gitswarm.specs.fragments import template_id
from gitswarm.specs.model_policy import ModelRequest, choose_model
from gitswarm.specs.station import Station, declared_artifacts, writes_code


class Resumption(Struct, frozen=True):
    """A person had the run continue. `answer` is what they said to it, `partial` what an interrupted step left,
    `unfinished` where the conversation of a failed one lies that it continues (runner/step/unfinished.py)."""

    answer: str = ""
    partial: str = ""
    unfinished: Path | None = None


class Parallel(Struct, frozen=True):
    """Of a step that is executed at the same time as others. `branch_tip`: where the branch stands meanwhile;
    `shared_tree`: of the worktree that it shares with others, which only read the code; None: it has its own."""

    branch_tip: str
    shared_tree: str | None


class OutOfBand(Struct, frozen=True):
    """What is particular about a step that somebody typed after the run had ended. `make`: makes its commit, when
    that is signed; `accepted`: concerns that may stay."""

    make: Callable[[NewCommit], str] | None = None
    accepted: tuple[AcceptedConcern, ...] = ()


class StepPlan(Struct, frozen=True):
    """What is going to be executed, and why: decided before anything happens. `session` None: no model is asked.

    `commands`: shell lines of those of the project's commands that the station has to have run.
    `before`: the run as the step finds it; of a parallel step, at the fork. `joins`: the outcome of the branches that
    the step joins. `keeps_code`: nothing is executed in the worktree, so that no file there is part of the commit.
    `allowed`: what it may use at most. `unfinished`: the conversation that it continues.
    """

    flow: Flow
    step: Step
    execution: Execution
    choice: EngineChoice
    session: PromptPlan | None
    before: RunState
    decision: Decision
    resumption: Resumption | None = None
    station: Station | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    parallel: Parallel | None = None
    joins: JoinOutcome | None = None
    out_of_band: OutOfBand | None = None
    keeps_code: bool = False
    allowed: BudgetLimits = UNLIMITED
    unfinished: Path | None = None

    @property
    def repeat(self) -> int:
        """The how manieth time in a row a finding calls for the step; 0: something else does."""
        if not self.decision.findings:
            return 0
        earlier = self.before.tally.steps.get((self.flow.id, self.step.id))
        return earlier.newest.repeat + 1 if earlier is not None else 0

    @property
    def writes_code(self) -> bool:
        return writes_code(self.flow, self.step, self.station)

    @property
    def branch_tip(self) -> str:
        """Where the shadow branch stands while the step is executed."""
        return self.parallel.branch_tip if self.parallel else self.before.tip

    @property
    def mark(self) -> str:
        """The mark in the environment of every process of a parallel step, so that only those can be ended."""
        return f"{self.execution.run_id}/{self.execution.step}@{self.execution.iteration}"

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Files in RUN_BASE that the step or its station promises, relative to RUN_BASE."""
        return declared_artifacts(self.flow, self.step, self.station)


class OpenStep(Struct, frozen=True):
    """A step whose journal is open: its plan, where it works, and what its engine is given. `notes`: tips of the
    run's notes, by ref."""

    plan: StepPlan
    worktree: RunWorktree
    journal: Journal
    request: StepRequest
    notes: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.plan.step.id

    @property
    def declared(self) -> frozenset[str]:
        """The files in RUN_BASE that the step may write, relative to the worktree."""
        return declared_paths(self.worktree, self.plan)

    @property
    def shared_tree(self) -> str | None:
        return self.plan.parallel.shared_tree if self.plan.parallel else None


class StepOutcome(Struct, frozen=True):
    """What an execution resulted in: whoever asks how a step ended reads it here.

    `result`: what the engine returned, without secrets. `envelope`: the handoff, with the status as it was judged.
    `code_tree`: the staged code, with `.swarm/runs` as it was before. `artifacts`: the declared files of RUN_BASE
    that changed, path → content; `present`: all files there. `ignored`: files that the handoff lists, and that are in
    no commit because git ignores them. `is_index_stale`: the index has another tree. `cases`:
    declared test cases of the changed files. `reports`: files that a command left in the tree, and that may be test
    reports. `proof`: what the tests said here and on the run's base; `base_tests`: the latter, to be kept;
    `criteria`: what is proven of the run's. `loop`: what the loop of a critic makes of what it said.
    """

    result: StepResult
    envelope: Envelope
    evidence: Evidence
    code_tree: str
    artifacts: Mapping[str, bytes]
    present: frozenset[str]
    ignored: frozenset[str] = frozenset()
    is_index_stale: bool = False
    cases: CaseCounts = field(default_factory=CaseCounts)
    reports: Mapping[str, bytes] = field(default_factory=dict)
    proof: SuiteRuns | None = None
    base_tests: BaseTests | None = None
    criteria: tuple[JudgedCriterion, ...] = ()
    loop: LoopVerdict | None = None

    @property
    def status(self) -> Status:
        return self.envelope.status

    @property
    def is_failed(self) -> bool:
        return self.result.status is Result.FAILED


def declared_paths(worktree: RunWorktree, plan: StepPlan) -> frozenset[str]:
    """The files in RUN_BASE that a step may write, relative to the worktree."""
    return frozenset(f"{worktree.folder.base}/{path}" for path in plan.artifacts)


def plan_step(
    session: Session, worktree: RunWorktree, state: RunState, decision: Decision, resumption: Resumption | None
) -> StepPlan:
    flow = session.specs.flows[decision.next_flow]
    step = step_at(session, flow.id, decision.to_step or "", decision.stack)
    iteration = max(state.last_iteration(flow.id, step.id), worktree.interrupted.get((flow.id, step.id), 0)) + 1
    station = station_at(session, step, decision.stack)
    choice = choice_of(session.spec.settings, flow.id, step)
    prompts = None
    if station is not None:
        role = session_role(session, flow, step, station, choice.engine)
        answered = resumption or Resumption()
        briefing = brief(session, state, role, decision, (answered.answer, answered.partial))
        briefing = replace(
            briefing,
            names={**briefing.names, str(worktree.shadow.path): "{{worktree}}"},
            continues=answered.unfinished is not None,
        )
        prompts = compile_prompt(role, session.specs.fragments, briefing)
        choice = choice if choice.mode == "stub" else replace(choice, model=prompts.model.model)
    return StepPlan(
        flow=flow,
        step=step,
        execution=Execution(session.layout.run_id, flow.id, step.id, iteration, step.agent),
        choice=choice,
        session=prompts,
        before=state,
        decision=decision,
        resumption=resumption,
        station=station,
        commands=_commands(session, worktree, station) if station is not None else {},
        joins=outcome_at(state, flow, step),
        unfinished=resumption.unfinished if resumption is not None else None,
    )


def _commands(session: Session, worktree: RunWorktree, station: Station) -> dict[str, str]:
    env = project_environment(session.context.env)
    found = {
        name: project_command(session, name, worktree.shadow.path, env) for name in station.verification.commands
    }
    return {name: line for name, line in found.items() if line is not None}


def session_role(session: Session, flow: Flow, step: Step, station: Station, engine: str) -> Role:
    """Who executes a station's step, and with which model."""
    specs, settings = session.specs, session.spec.settings
    wanted = ModelRequest(settings.model, settings.economy)
    model = choose_model(specs.policy, engine, f"{flow.id}/{step.id}", station, wanted)
    return Role(flow, step, station, specs.templates[template_id(flow, step)], model)
