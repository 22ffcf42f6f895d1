"""The committed steps of a run, and what is asked about all of them without going through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.ledger.layout import HUMAN
from gitswarm.records.execution import Execution, Result, Status
from gitswarm.records.text import usd


class StepRecord(Struct, frozen=True):
    """One committed execution. `number` counts commits of kind `step` from 1; cost None is unknown.

    `executions`: of its step on the branch so far, itself included; 0 for one that is not on the branch. Rules count
    these: `execution.iteration` names an execution, and also counts those that were interrupted or rolled back.
    `opened`: ids of the concerns that it opened, a `!` before those that block; `closed`: of those that it settled.
    `repeat`: the how manieth execution in a row it is that a finding of its own step called for; 0: none.
    `stack`: tokens of the interruptions that it belongs to, the outermost first. `fork`: the commit that it started
    from, if it was a parallel step, and `sibling` its own commit there. `by_command`: an approval or a landing that
    somebody typed, out of band. `rebased_from`: the commit that executing it made, of a copy on another base.
    """

    number: int
    commit: str
    tree: str
    parent: str
    execution: Execution
    engine: str
    mode: str
    model: str
    status: Status
    result: Result
    summary: str
    tokens: int
    cost_usd: float | None
    executions: int = 0
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    repeat: int = 0
    stack: tuple[str, ...] = ()
    fork: str | None = None
    sibling: str | None = None
    by_command: bool = False
    rebased_from: str | None = None

    @property
    def executed_as(self) -> str:
        """The commit that executing it made: the same for its copies."""
        return self.sibling or self.rebased_from or self.commit

    @property
    def flow(self) -> str:
        return self.execution.flow

    @property
    def step(self) -> str:
        return self.execution.step

    @property
    def name(self) -> str:
        """`flow/step@2`; the first execution without a number."""
        return self.execution.name + (f"@{self.execution.iteration}" if self.execution.iteration > 1 else "")

    @property
    def is_detour(self) -> bool:
        """Whether it is a step of a sidequest or an injected node: no step of its flow's graph."""
        return bool(self.stack) and not self.stack[-1].startswith("flow:")

    @property
    def by_human(self) -> bool:
        return self.execution.agent == HUMAN


def is_about(concern: str, flow: str, step: str) -> bool:
    """Whether a concern of this id is a finding about that step."""
    return concern.partition("#")[0].endswith(f"@{flow}/{step}")


class OpenConcern(Struct, frozen=True):
    """A concern that nothing has settled. `opened_by`: its evidence says more."""

    id: str
    blocking: bool
    opened_by: StepRecord

    def is_of(self, flow: str, step: str) -> bool:
        return is_about(self.id, flow, step)


class StepTally(Struct, frozen=True):
    """One step so far: its highest iteration, its newest record, how many of its executions findings called for."""

    last_iteration: int
    newest: StepRecord
    repeats: int = 0


class Tally(Struct, frozen=True):
    """Kept up commit by commit, so that a step of a long run costs no more than one of a short run.

    `steps` is keyed by (flow, step) in the order of first execution. `entered` holds the executions of each flow
    since it was last entered, in order: only steps of its own graph, and not what people did. `flow_sequence` is the
    order in which flows were entered, without interruptions; `opened` the tokens of all interruptions so far.
    `concerns`: the open ones by id, in the order in which they were opened; `repeats`: executions that findings
    called for. `tokens` and `cost_usd` are those of the steps on the branch, for conditions; what the run spent is in
    ledger/spent.py.
    """

    steps: Mapping[tuple[str, str], StepTally] = field(default_factory=dict)
    entered: Mapping[str, tuple[StepRecord, ...]] = field(default_factory=dict)
    flow_sequence: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    concerns: Mapping[str, OpenConcern] = field(default_factory=dict)
    repeats: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0

    def after(self, record: StepRecord) -> Tally:
        key = (record.flow, record.step)
        iteration = record.execution.iteration
        earlier = self.steps.get(key)
        step = StepTally(
            last_iteration=max(iteration, earlier.last_iteration) if earlier else iteration,
            newest=record,
            repeats=(earlier.repeats if earlier else 0) + (record.repeat > 0),
        )
        after = Tally(
            steps={**self.steps, key: step},
            entered=self.entered,
            flow_sequence=self.flow_sequence,
            opened=self.opened,
            concerns=self._concerns_after(record),
            repeats=self.repeats + (record.repeat > 0),
            tokens=self.tokens + record.tokens,
            cost_usd=usd(self.cost_usd, record.cost_usd),
        )
        return after if record.by_human or record.by_command else after.with_position(record)

    def _concerns_after(self, record: StepRecord) -> Mapping[str, OpenConcern]:
        if not record.opened and not record.closed:
            return self.concerns
        kept = {name: concern for name, concern in self.concerns.items() if name not in record.closed}
        new = {
            name.lstrip("!"): OpenConcern(name.lstrip("!"), name.startswith("!"), record) for name in record.opened
        }
        return {**kept, **new}

    def with_position(self, record: StepRecord) -> Tally:
        """With the decisions that led the run to this execution."""
        opened = (*self.opened, *(token for token in record.stack if token not in self.opened))
        if record.is_detour:
            return replace(self, opened=opened)
        at_top, again = not record.stack, self.is_within(record.flow, record.stack)
        history = (*(self.entered.get(record.flow, ()) if again else ()), record)
        return replace(
            self,
            opened=opened,
            entered={**self.entered, record.flow: history},
            flow_sequence=(*self.flow_sequence, record.flow) if at_top and not again else self.flow_sequence,
        )

    def is_within(self, flow: str, stack: Sequence[str]) -> bool:
        """Whether an execution of this flow with these interruptions belongs to the entry of it that was last."""
        if not set(stack) <= set(self.opened):
            return False
        return bool(stack) or self.flow_sequence[-1:] == (flow,)

    def executions(self, flow: str, step: str) -> int:
        """How often the step's execution was committed."""
        found = self.steps.get((flow, step))
        return found.newest.executions if found else 0

    def uses(self, kind: str, name: str) -> int:
        """How often an interruption of this kind and id was begun."""
        return sum(1 for token in self.opened if token.startswith(f"{kind}:{name}@"))

    def without_costs(self) -> Tally:
        """For a fork: what its shared steps cost was spent by the run that it comes from."""
        return replace(self, tokens=0, cost_usd=0.0)
