"""A flow: steps of stations and commands, and how one leads to the next (design section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, field

from gitswarm.records.execution import OTHER_COMMANDS
from gitswarm.records.record import AtLeastOne, Record, form, short_form
from gitswarm.records.run_spec import BudgetRules

SDLC_FLOWS = ("signal", "plan", "build", "review", "gate", "deploy", "wisdom", "reset")

Identifier = Annotated[
    str,
    form("[a-z][a-z0-9_-]{0,63}", "'{given}' is not an id: a lower-case letter, then letters, digits, '-' or '_'"),
]


class OffroadPolicy(Record):
    """Reasons to leave the flow's own graph by a detour, an injection or a skip. A navigator has to name one of
    `justified`, if there are any; one of `not_justified` is refused."""

    justified: tuple[str, ...] = ()
    not_justified: tuple[str, ...] = ()


class Charter(Record):
    """What a flow is for. Every agent and the navigator are told it, `goal` and `prime_directive` first."""

    goal: str
    question: str = ""
    exit_criteria: tuple[str, ...] = ()
    non_goals: tuple[str, ...] = ()
    prime_directive: str = ""
    offroad_policy: OffroadPolicy = OffroadPolicy()


class PromisedOutput(Record):
    """An artifact that exists and says something when the step is over: in any case (`required`), or where `when`
    holds, a CEL expression over envelope and evidence."""

    path: str
    required: bool = False
    when: str | None = None

    def __post_init__(self) -> None:
        if self.required == (self.when is not None):
            raise ValueError(f"'{self.path}' needs 'required: true' or 'when', and not both")


class Teaching(Record):
    """Teaching notes of a step. `inputs` and `outputs` are artifacts or code patterns (specs/artifacts)."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str | PromisedOutput, ...] = ()
    emphasizes: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(each if isinstance(each, str) else each.path for each in self.outputs)

    @property
    def promised(self) -> tuple[PromisedOutput, ...]:
        return tuple(each for each in self.outputs if isinstance(each, PromisedOutput))


class Condition(Record):
    """`if` is a CEL expression over receipt, envelope, evidence, run and history. `max_iterations` bounds this jump
    when it leads back; None: as the branch says."""

    if_: str = field(name="if")
    next: str
    max_iterations: AtLeastOne | None = None


class Linear(Record, tag_field="kind", tag="linear"):
    next: str | None = None


class Microloop(Record, tag_field="kind", tag="microloop"):
    """A critic that sends its author back until it is content, cannot help, or may not ask again."""

    loop_target: str
    loop_condition_field: str = "status"
    loop_success_values: tuple[str, ...] = ("VERIFIED",)
    max_iterations: AtLeastOne = 5
    next: str | None = None


class Branch(Record, tag_field="kind", tag="branch"):
    """The first condition that holds decides, else `default`; at its maximum the flow continues at `next`."""

    when: Annotated[tuple[Condition, ...], Meta(min_length=1)]
    default: str | None = None
    max_iterations: AtLeastOne = 5
    next: str | None = None


class Fork(Record, tag_field="kind", tag="fork"):
    """The targets are executed at the same time, on the commit of this step; then the join that names them.

    `on_failure`: whether a failed target lets the others finish (`wait`) or ends them (`cancel`).
    """

    fork_targets: Annotated[tuple[str, ...], Meta(min_length=2)]
    on_failure: Literal["wait", "cancel"] = "wait"


JoinStrategy = Literal["all_complete", "all_verified", "any_verified", "first_complete", "quorum"]


class Join(Record, tag_field="kind", tag="join"):
    """Executed when the branches of its fork have come together. `join_quorum`: how many of them must be VERIFIED."""

    join_from: Annotated[tuple[str, ...], Meta(min_length=2)]
    join_strategy: JoinStrategy = "all_complete"
    join_quorum: AtLeastOne | None = None
    next: str | None = None

    def __post_init__(self) -> None:
        if (self.join_strategy == "quorum") != (self.join_quorum is not None):
            raise ValueError("'join_quorum' belongs to 'join_strategy: quorum', and is needed there")
        if self.join_quorum is not None and self.join_quorum > len(self.join_from):
            raise ValueError(f"'join_quorum' is {self.join_quorum}, but only {len(self.join_from)} steps are joined")


class Terminal(Record, tag_field="kind", tag="terminal"):
    """The flow is over."""


def _straight_on(value: object) -> object:
    """A `next` alone says enough."""
    return {"kind": "linear", **value} if isinstance(value, dict) and set(value) == {"next"} else value


Routing = Annotated[Linear | Microloop | Branch | Fork | Join | Terminal, short_form(_straight_on)]


class ShellCommand(Record):
    run: str
    timeout_s: AtLeastOne | None = None


Operation = Literal[
    "verify",
    "scan_secrets",
    "publish",
    "harvest",
    "approve",
    "land",
    "record_not_deployed",
    "watch_ci",
    "wisdom",
    "fetch_upstream",
    "rebase",
    "carry_over",
]
"""What git-swarm itself can do as a step; docs/flows.md says what each one does."""


class Step(Record):
    """A station executes it, or a command of the project does, or git-swarm itself (`engine: kernel`).

    `tests`: the command's own line runs tests. `may_fail`: that the command fails is no concern. `budget`: of one
    execution.
    """

    id: Identifier
    station: str | None = None
    engine: Literal["command", "kernel"] | None = None
    command: str | ShellCommand | None = None
    tests: bool = False
    may_fail: bool = False
    operation: Operation | None = None
    objective: str = ""
    template: Identifier | None = None
    teaching: Teaching = Teaching()
    routing: Routing = Linear()
    budget: BudgetRules = BudgetRules()

    def __post_init__(self) -> None:
        for engine, key, value in (("command", "command", self.command), ("kernel", "operation", self.operation)):
            if self.engine == engine and value is None:
                raise ValueError(f"step '{self.id}' has engine '{engine}' but no '{key}'")
            if self.engine != engine and value is not None:
                article = "an" if key == "operation" else "a"
                raise ValueError(f"step '{self.id}' has {article} '{key}' but not 'engine: {engine}'")
        if self.engine is not None and self.station is not None:
            what = "a command" if self.is_command else "git-swarm's own"
            raise ValueError(f"step '{self.id}' is {what}: it cannot have a 'station'")
        if self.engine is None and self.station is None:
            raise ValueError(f"step '{self.id}' needs a 'station' (or 'engine: command' and a 'command')")
        if not self.is_command and (self.tests or self.may_fail):
            key = "tests" if self.tests else "may_fail"
            raise ValueError(f"step '{self.id}' has '{key}', which only commands have")

    @property
    def is_command(self) -> bool:
        return self.engine == "command"

    @property
    def is_test(self) -> bool:
        """Whether it says that its command runs tests: `test`, a name of `commands.tests`, or a line with `tests`."""
        by_name = isinstance(self.command, str) and self.command not in OTHER_COMMANDS
        return self.is_command and (self.tests or by_name)

    @property
    def is_kernel(self) -> bool:
        return self.engine == "kernel"

    @property
    def agent(self) -> str:
        """The station's key as shown to people; steps of commands and of git-swarm itself are their own agent."""
        return self.station or self.engine or "command"


class Flow(Record, dict=True):
    """`cross_cutting`: stations that any step may call on, as injected nodes. `on_complete`, `on_failure`: a flow
    that is executed then, before the run continues or ends. A `utility` flow can be injected into any run.
    `needs_task`: without a task its agents would not know what to do. `budget`: of all executions of its steps in a
    run."""

    id: Identifier
    title: str = ""
    charter: Charter | None = None
    cross_cutting: tuple[str, ...] = ()
    on_complete: str | None = None
    on_failure: str | None = None
    utility: bool = False
    needs_task: bool = False
    budget: BudgetRules = BudgetRules()
    steps: Annotated[tuple[Step, ...], Meta(min_length=1)]

    @cached_property
    def closing_tests(self) -> tuple[Step, ...]:
        """Steps behind the last one, one per test command: executed when the code changed after the tests ran."""
        tests = {str(step.command): step for step in self.steps if step.is_test}
        taken = {step.id for step in self.steps}
        names = (name for name in ("tests", *(f"tests-{n}" for n in range(2, 99))) if name not in taken)
        return tuple(
            Step(id=name, engine="command", command=step.command, tests=step.tests, routing=Terminal())
            for name, step in zip(names, tests.values(), strict=False)
        )

    def step(self, step_id: str) -> Step:
        """
        :raises KeyError: the flow has no such step.
        """
        return self._all[self.index(step_id)]

    def index(self, step_id: str) -> int:
        """
        :raises KeyError: the flow has no such step.
        """
        return self._indexes[step_id]

    def has_step(self, step_id: str) -> bool:
        return step_id in self._indexes

    def behind(self, step_id: str) -> frozenset[str]:
        """The steps that come after it in the file, and the closing tests."""
        return frozenset(step.id for step in self._all[self.index(step_id) + 1 :])

    @cached_property
    def _all(self) -> tuple[Step, ...]:
        return (*self.steps, *self.closing_tests)

    @cached_property
    def _indexes(self) -> Mapping[str, int]:
        """By id, where each is; of two with one id the first."""
        return {step.id: index for index, step in reversed([*enumerate(self._all)])}

    @cached_property
    def _joins(self) -> Mapping[str, Step]:
        """By the id of a step that is joined."""
        joins = [(step, step.routing) for step in reversed(self.steps) if isinstance(step.routing, Join)]
        return {name: step for step, routing in joins for name in routing.join_from}

    @cached_property
    def critics(self) -> Mapping[str, tuple[Step, ...]]:
        """By id, the steps that send the flow back to this one."""
        found: dict[str, tuple[Step, ...]] = {}
        for step in self.steps:
            if isinstance(step.routing, Microloop):
                found[step.routing.loop_target] = (*found.get(step.routing.loop_target, ()), step)
        return found

    def following(self, step_id: str) -> str | None:
        """Where the step leads when nothing sends it elsewhere; None ends the flow."""
        join = self.join_of(step_id)
        if join is not None:
            return join.id
        routing = self.step(step_id).routing
        if isinstance(routing, Terminal):
            return None
        if not isinstance(routing, Fork) and routing.next is not None:
            return routing.next
        index = self.index(step_id) + 1
        return self.steps[index].id if index < len(self.steps) else None

    def is_closing(self, step_id: str) -> bool:
        return any(step.id == step_id for step in self.closing_tests)

    def fixed_at(self, step_id: str) -> str | None:
        """Where red tests of a closing step send the run: to where the newest test step of the same command would."""
        command = self.step(step_id).command
        branches = [each.routing for each in self.steps if each.is_test and each.command == command]
        return next((branch.default for branch in reversed(branches) if isinstance(branch, Branch)), None)

    def join_of(self, step_id: str) -> Step | None:
        """The join that a fork, or one of its targets, leads to; None for any other step."""
        routing = self.step(step_id).routing
        return self._joins.get(routing.fork_targets[0] if isinstance(routing, Fork) else step_id)

    def loop_body(self, step_id: str) -> frozenset[str]:
        """Steps of the loop that `step_id` closes: from the earliest step it jumps back to, to itself.

        Empty for a step that jumps back nowhere.
        """
        routing = self.step(step_id).routing
        targets: list[str] = []
        if isinstance(routing, Microloop):
            targets = [routing.loop_target]
        elif isinstance(routing, Branch):
            targets = [condition.next for condition in routing.when]
            targets += [routing.default] if routing.default else []
        bodies = [self.steps_back_to(step_id, target) for target in targets]
        return max(bodies, key=len, default=frozenset())

    def steps_back_to(self, step_id: str, target: str) -> frozenset[str]:
        """Steps that are executed again when `step_id` jumps to `target`; empty when that lies ahead."""
        start, here = self.index(target), self.index(step_id)
        return frozenset(step.id for step in self.steps[start : here + 1])
