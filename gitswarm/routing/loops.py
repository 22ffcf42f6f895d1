"""How often a step may still send the flow back, and whether another pass would bring anything new.

Counted per entry into its loop, without failed executions and repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Protocol

from msgspec import Struct

from gitswarm.records.execution import Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import LoopDecision, ReceiptRouting
from gitswarm.records.routing import LoopState, StallState
from gitswarm.specs.flow import Branch, Flow, Join, Microloop

WINDOW = 3
"""Equal passes in a row, the first included, that make a stall."""


class ExecutedStep(Protocol):
    """One execution in the order of the run."""

    @property
    def step(self) -> str: ...

    @property
    def result(self) -> Result: ...

    @property
    def repeat(self) -> int: ...


class UncommittedExecution(Struct, frozen=True):
    """An execution that is not committed yet. `repeat` 0: no finding called for it."""

    step: str
    result: Result
    repeat: int = 0


def loop_state(flow: Flow, step_id: str, history: Sequence[ExecutedStep]) -> LoopState | None:
    """Where the loop that `step_id` closes stands; `history` ends with its newest execution.

    None for a step that closes no loop.
    """
    routing = flow.step(step_id).routing
    if not isinstance(routing, Microloop | Branch):
        return None
    body = flow.loop_body(step_id) or frozenset({step_id})
    most = routing.max_iterations
    return LoopState(iteration=_passes(flow, body, step_id, history, most), max_iterations=most)


def jump_state(
    flow: Flow, step_id: str, target: str, limit: int, history: Sequence[ExecutedStep]
) -> LoopState | None:
    """How often a branch has jumped back to a step; None for a target that lies ahead."""
    body = flow.steps_back_to(step_id, target)
    if not body:
        return None
    return LoopState(iteration=_passes(flow, body, step_id, history, limit), max_iterations=limit)


def _passes(flow: Flow, body: frozenset[str], step_id: str, history: Sequence[ExecutedStep], most: int) -> int:
    """How often the step was executed since its loop was entered, looked at until it is `most`. What findings have
    repeated counts once.

    The loop is entered anew by a jump of the step itself, or of a later one, to a place before the loop. A jump there
    by an earlier step of the loop is no new entry: two loops that overlap would begin each other anew for ever.
    """
    later = flow.behind(step_id)
    is_before_loop = False
    count = 0
    for executed in reversed(history):
        if executed.step in later or (is_before_loop and executed.step == step_id):
            break
        is_before_loop = executed.step not in body
        if executed.step == step_id and executed.result is not Result.FAILED and not executed.repeat:
            count += 1
            if count >= most:
                break
    return count


class LoopVerdict(Struct, frozen=True):
    """Whether a critic sends its author back, and why; `content`: it has nothing more to say."""

    again: bool
    reason: str
    content: bool = False


def judge_microloop(
    routing: Microloop, state: LoopState, envelope: Mapping[str, JsonValue], receipt: Mapping[str, JsonValue]
) -> LoopVerdict:
    """The three exits of seed 000: success value, no further help, maximum. Else another pass."""
    field = routing.loop_condition_field
    value = envelope.get(field) if envelope.get(field) is not None else receipt.get(field)
    if value in routing.loop_success_values:
        return LoopVerdict(again=False, reason=f"{field}:{value}", content=True)
    if envelope.get("can_further_iteration_help") == "no":
        return LoopVerdict(again=False, reason="no_further_help")
    if state.iteration >= state.max_iterations:
        return LoopVerdict(again=False, reason=f"max_iterations_reached:{state.max_iterations}")
    return LoopVerdict(again=True, reason=f"loop_iteration:{state.iteration}")


def receipt_routing(
    flow: Flow, step_id: str, earlier: int, state: LoopState | None, verdict: LoopVerdict | None
) -> ReceiptRouting | None:
    """What the receipt of a critic says about its own loop, before the step is committed.

    :param earlier: committed executions of the critic before this one.
    """
    if state is None or verdict is None:
        return None
    onward: LoopDecision = "advance" if flow.following(step_id) else "terminate"
    return ReceiptRouting(
        loop_iteration=earlier,
        max_iterations=state.max_iterations,
        decision="loop" if verdict.again else onward,
        reason=f"loop_iteration:{earlier}" if verdict.again else verdict.reason,
    )


def repeats_of(flow: Flow, step_id: str, history: Sequence[ExecutedStep]) -> int:
    """How often findings had the step repeated since its loop was entered: since a step behind that loop."""
    here = flow.index(step_id)
    closing = (
        flow.index(each.id)
        for each in flow.steps[here:]
        if isinstance(each.routing, Microloop) and flow.index(each.routing.loop_target) <= here
    )
    join = flow.join_of(step_id)
    siblings = join.routing.join_from if join is not None and isinstance(join.routing, Join) else ()
    behind = flow.behind(flow.steps[max(closing, default=here)].id) - {*siblings}
    since = takewhile(lambda executed: executed.step not in behind, reversed(history))
    return sum(1 for executed in since if executed.step == step_id and executed.repeat)


class Pass(Struct, frozen=True):
    """One round of a loop, from behind its earlier last step to its last step.

    `failure`: signature of the tests that failed at its end, None when none did or none ran. `work`: what the round
    left: the tree of the code, and the artifacts that are not its critic's.
    """

    failure: str | None
    work: str

    @property
    def signature(self) -> str:
        """Equal for rounds of which the later one made no progress.

        The same failing tests are no progress, whatever was edited meanwhile. Without failing tests a round brings
        something new when it leaves other work behind; that its critic words it otherwise does not count.
        """
        if self.failure is not None:
            return f"failure:{self.failure}"
        return f"work:{sha256(self.work.encode()).hexdigest()[:16]}"


def stall_state(passes: Sequence[Pass]) -> StallState | None:
    """
    :param passes: the rounds since the loop was entered, oldest first; None for none.
    """
    if not passes:
        return None
    last = passes[-1]
    equal = 0
    for earlier in reversed(passes):
        if earlier.signature != last.signature:
            break
        equal += 1
    return StallState(passes=equal, window=WINDOW, signature=last.signature, same_failure=last.failure is not None)
