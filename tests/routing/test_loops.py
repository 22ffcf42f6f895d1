"""When a microloop ends, and how often it may still go round."""

from __future__ import annotations

from msgspec.structs import replace

from gitswarm.records.execution import Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import ReceiptRouting
from gitswarm.records.routing import LoopState
from gitswarm.routing.loops import LoopVerdict, UncommittedExecution, judge_microloop, loop_state, receipt_routing
from gitswarm.specs.flow import Flow, Microloop
from tests.tables import table

FLOW = Flow.from_plain(
    {
        "id": "f",
        "steps": [
            {"id": "before", "station": "s"},
            {"id": "write", "station": "s"},
            {"id": "polish", "station": "s"},
            {
                "id": "critique",
                "station": "s",
                "routing": {"kind": "microloop", "loop_target": "write", "max_iterations": 3},
            },
            {
                "id": "test",
                "engine": "command",
                "command": "test",
                "routing": {
                    "kind": "branch",
                    "when": [{"if": "evidence.tests.passed", "next": "after"}],
                    "default": "write",
                    "max_iterations": 2,
                },
            },
            {"id": "after", "station": "s"},
        ],
    }
)


def history(text: str) -> list[UncommittedExecution]:
    """`write critique! test`: executions in order, `!` marks a failed one, `~` a skipped one."""
    results = {"!": Result.FAILED, "~": Result.SKIPPED}
    return [UncommittedExecution(word.rstrip("!~"), results.get(word[-1], Result.SUCCEEDED)) for word in text.split()]


LOOP = Microloop(loop_target="write", max_iterations=3)


@table(
    ("iteration", "envelope", "receipt", "verdict"),
    [
        (1, {"status": "VERIFIED"}, {}, LoopVerdict(again=False, reason="status:VERIFIED", content=True)),
        (1, {"status": "UNVERIFIED"}, {}, LoopVerdict(again=True, reason="loop_iteration:1")),
        (2, {"status": "PARTIAL"}, {}, LoopVerdict(again=True, reason="loop_iteration:2")),
        (1, {}, {"status": "VERIFIED"}, LoopVerdict(again=False, reason="status:VERIFIED", content=True)),
        (
            1,
            {"status": None},
            {"status": "VERIFIED"},
            LoopVerdict(again=False, reason="status:VERIFIED", content=True),
        ),
        (
            1,
            {"status": "UNVERIFIED"},
            {"status": "VERIFIED"},
            LoopVerdict(again=True, reason="loop_iteration:1"),
        ),
        (
            1,
            {"status": "UNVERIFIED", "can_further_iteration_help": "no"},
            {},
            LoopVerdict(again=False, reason="no_further_help"),
        ),
        (
            1,
            {"status": "UNVERIFIED", "can_further_iteration_help": "yes"},
            {},
            LoopVerdict(again=True, reason="loop_iteration:1"),
        ),
        (
            1,
            {"status": "UNVERIFIED", "can_further_iteration_help": None},
            {},
            LoopVerdict(again=True, reason="loop_iteration:1"),
        ),
        (3, {"status": "UNVERIFIED"}, {}, LoopVerdict(again=False, reason="max_iterations_reached:3")),
        (4, {"status": "UNVERIFIED"}, {}, LoopVerdict(again=False, reason="max_iterations_reached:3")),
    ],
)
def test_a_microloop_ends_on_success_on_no_further_help_and_at_its_maximum(
    iteration: int, envelope: dict[str, JsonValue], receipt: dict[str, JsonValue], verdict: LoopVerdict
) -> None:
    state = LoopState(iteration=iteration, max_iterations=3)
    assert judge_microloop(LOOP, state, envelope, receipt) == verdict


@table(
    ("envelope", "reason"),
    [
        ({"status": "VERIFIED", "can_further_iteration_help": "no"}, "status:VERIFIED"),
        ({"status": "UNVERIFIED", "can_further_iteration_help": "no"}, "no_further_help"),
        ({"status": "UNVERIFIED", "can_further_iteration_help": "yes"}, "max_iterations_reached:3"),
    ],
)
def test_success_is_named_before_no_further_help_and_that_before_the_maximum(
    envelope: dict[str, JsonValue], reason: str
) -> None:
    spent = LoopState(iteration=3, max_iterations=3)
    assert judge_microloop(LOOP, spent, envelope, {}) == LoopVerdict(
        again=False, reason=reason, content=reason == "status:VERIFIED"
    )


def test_a_flow_may_name_another_field_and_other_values_of_success() -> None:
    loop = replace(LOOP, loop_condition_field="confidence", loop_success_values=("high", "medium"))
    state = LoopState(iteration=1, max_iterations=3)
    said: dict[str, JsonValue] = {"status": "VERIFIED", "confidence": "medium"}
    assert judge_microloop(loop, state, said, {}) == LoopVerdict(
        again=False, reason="confidence:medium", content=True
    )


def test_a_field_that_nobody_filled_in_is_no_success() -> None:
    loop = replace(LOOP, loop_condition_field="severity", loop_success_values=("None", "none"))
    state = LoopState(iteration=1, max_iterations=3)
    assert judge_microloop(loop, state, {}, {}) == LoopVerdict(again=True, reason="loop_iteration:1")


@table(
    ("executed", "iteration"),
    [
        ("before write polish critique", 1),
        ("before write polish critique write polish critique", 2),
        ("before write polish critique write polish critique write polish critique", 3),
        ("critique", 1),
    ],
)
def test_a_critic_is_counted_since_its_loop_was_entered(executed: str, iteration: int) -> None:
    state = loop_state(FLOW, "critique", history(executed))
    assert state == LoopState(iteration=iteration, max_iterations=3)


def test_a_jump_back_from_outside_starts_a_new_entry() -> None:
    executed = history("before write polish critique write polish critique test write polish critique")
    assert loop_state(FLOW, "critique", executed) == LoopState(iteration=1, max_iterations=3)


def test_the_inner_loop_does_not_start_the_outer_one_anew() -> None:
    executed = history("before write critique write critique test write critique write critique test")
    assert loop_state(FLOW, "test", executed) == LoopState(iteration=2, max_iterations=2)


def test_leaving_the_outer_loop_starts_it_anew() -> None:
    executed = history("before write critique test before write critique test")
    assert loop_state(FLOW, "test", executed) == LoopState(iteration=1, max_iterations=2)


@table(
    ("executed", "iteration"),
    [
        ("before write critique! critique", 1),
        ("before write critique write critique! critique! critique", 2),
        ("before write! write critique", 1),
        ("before write critique!", 0),
    ],
)
def test_failed_executions_are_not_counted(executed: str, iteration: int) -> None:
    state = loop_state(FLOW, "critique", history(executed))
    assert state == LoopState(iteration=iteration, max_iterations=3)


def test_skipped_executions_are_counted() -> None:
    state = loop_state(FLOW, "test", history("before write critique test~ write critique test~"))
    assert state == LoopState(iteration=2, max_iterations=2)


@table("step", ["before", "write", "after"])
def test_a_step_that_closes_no_loop_has_no_loop_state(step: str) -> None:
    assert loop_state(FLOW, step, history(step)) is None


def test_a_step_may_loop_to_itself() -> None:
    flow = Flow.from_plain(
        {
            "id": "f",
            "steps": [
                {"id": "a", "station": "s"},
                {"id": "b", "station": "s", "routing": {"kind": "microloop", "loop_target": "b"}},
            ],
        }
    )
    assert loop_state(flow, "b", history("a b b b")) == LoopState(iteration=3, max_iterations=5)


@table(
    ("verdict", "decision"),
    [
        (LoopVerdict(again=True, reason="loop_iteration:2"), "loop"),
        (LoopVerdict(again=False, reason="status:VERIFIED", content=True), "advance"),
    ],
)
def test_the_receipt_counts_iterations_from_zero_and_names_the_decision(verdict: LoopVerdict, decision: str) -> None:
    state = LoopState(iteration=2, max_iterations=3)
    reason = "loop_iteration:1" if verdict.again else verdict.reason
    expected = ReceiptRouting.from_plain(
        {"loop_iteration": 1, "max_iterations": 3, "decision": decision, "reason": reason}
    )
    assert receipt_routing(FLOW, "critique", 1, state, verdict) == expected


def test_the_receipt_of_a_critic_at_the_end_of_its_flow_says_terminate() -> None:
    flow = replace(FLOW, steps=FLOW.steps[:4])
    state = LoopState(iteration=1, max_iterations=3)
    said = receipt_routing(
        flow, "critique", 0, state, LoopVerdict(again=False, reason="status:VERIFIED", content=True)
    )
    assert said is not None
    assert said.decision == "terminate"


def test_the_receipt_of_a_step_without_a_loop_says_nothing() -> None:
    assert receipt_routing(FLOW, "after", 0, None, None) is None
