"""Everything that a decision is taken from: plain values, gathered by the runner from what is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from gitswarm.records.execution import Result, Status
from gitswarm.records.gate_decision import GateVerdict
from gitswarm.records.route_question import Ask
from gitswarm.records.routing import ForkState, Frame, HumanPolicy, RoutingMode, StallState
from gitswarm.routing.conditions import Context
from gitswarm.routing.loops import ExecutedStep
from gitswarm.specs.flow import Flow
from gitswarm.specs.sidequest import Sidequest

MAX_DEPTH = 10
"""Interruptions that may be open at the same time."""

MAX_INJECTIONS = 20
"""Flows and nodes that a navigator may inject into one run."""

MAX_FINDING_REPEATS = 2
"""Executions that findings may call for, per entry into the loop of their step."""

MAX_FINDING_REPEATS_IN_RUN = 6

MAX_REPEATS = 3
"""Executions of a step in a row, when nothing but a wish to have it repeated calls for them."""


class Rules(Struct, frozen=True):
    """What holds for the whole run. `flows` are those that it may enter, `sequence` those it was started with;
    `stations` those that an injected node may name."""

    mode: RoutingMode = RoutingMode.ASSIST
    human: HumanPolicy = HumanPolicy.SUPERVISED
    flows: Mapping[str, Flow] = field(default_factory=dict)
    sequence: tuple[str, ...] = ()
    sidequests: Mapping[str, Sidequest] = field(default_factory=dict)
    stations: frozenset[str] = frozenset()
    navigator_timeout_s: float = 120.0


class ForkBranch(Struct, frozen=True):
    """A target of a fork that has been executed. `commit`: its own, off the branch like its siblings'; or, where it
    has none, that on the branch. `waived`: a person skipped it."""

    result: Result
    status: Status
    commit: str = ""
    waived: bool = False


class Progress(Struct, frozen=True):
    """How far the run is.

    `steps`: committed executions so far; `executions`: those of the step that just ended, `iteration`: what the last
    of them is named after; `uses`: how often each sidequest was taken; `injections`: of flows and nodes; `journey`:
    the flows in the order they were entered; `verdict`: what the newest Gate said. `clarified`: the clarifier was
    taken because of this step, and nothing else was executed since. `fork`: what the step was a branch of, as decided
    when it began; `branches`: the newest execution of each target on the same commit; `finished`: targets whose
    execution has a commit of its own, and none on the branch yet.
    """

    steps: int = 1
    executions: int = 1
    iteration: int = 1
    uses: Mapping[str, int] = field(default_factory=dict)
    injections: int = 0
    journey: tuple[str, ...] = ()
    stall: StallState | None = None
    fork: ForkState | None = None
    branches: Mapping[str, ForkBranch] = field(default_factory=dict)
    finished: frozenset[str] = frozenset()
    verdict: GateVerdict | None = None
    clarified: bool = False


class BlockingFindings(Struct, frozen=True):
    """Blocking findings that the step that just ended has of its own, or the branches of its fork have. `ids` of the
    concerns; `reason`: the first, with its fact. `may_repeat`: executing `steps` again could help, and was not tried
    too often."""

    ids: tuple[str, ...]
    reason: str
    may_repeat: bool
    steps: tuple[str, ...] = ()


class Situation(Struct, frozen=True):
    """What is known when a step has been committed.

    `context` holds receipt, envelope, evidence, run and history as plain data; `history` the executions of this flow
    since it was entered, the one that just ended last. `stack`: the interruptions that the step belonged to.
    `changed`: paths of the step's own change. `ask` None: there is no navigator. `limited_until`: when a usage limit
    that the step met ends. `unproven` None: nothing that is proven speaks against the step. `diverged`: why the run's
    code has to be brought to another base.
    """

    flow: Flow
    step_id: str
    result: Result
    status: Status
    context: Context
    history: Sequence[ExecutedStep]
    stack: tuple[Frame, ...] = ()
    changed: tuple[str, ...] = ()
    rules: Rules = field(default_factory=Rules)
    progress: Progress = field(default_factory=Progress)
    ask: Ask | None = None
    limited_until: str | None = None
    unproven: BlockingFindings | None = None
    untested: Callable[[Flow], str | None] = field(default=lambda _flow: None)
    diverged: Callable[[], str | None] = field(default=lambda: None)

    @property
    def frame(self) -> Frame | None:
        """The innermost interruption."""
        return self.stack[-1] if self.stack else None

    @property
    def is_branch(self) -> bool:
        """Whether the step was executed in parallel, as a target of a fork."""
        return self.progress.fork is not None

    @property
    def is_aside(self) -> bool:
        """Whether the step belongs to no flow's graph: a step of a sidequest, or an injected node."""
        return self.frame is not None and self.frame.kind != "flow"
