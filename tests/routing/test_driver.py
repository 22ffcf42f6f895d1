"""What the one driver decides, kind by kind; and that every flow it drives comes to an end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gitswarm.errors import SpecError
from gitswarm.records.execution import Result, Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import pretty_json
from gitswarm.records.routing import Action, Choice, ConditionTrace, LoopState, RoutingSource
from gitswarm.resources import bundled
from gitswarm.routing.choices import Situation, retry
from gitswarm.routing.driver import continue_at, decide, start
from gitswarm.routing.loops import UncommittedExecution
from gitswarm.specs.flow import Branch, Flow, Microloop
from gitswarm.specs.library import Library, load_library
from tests.tables import table

FLOW = Flow.from_plain(
    {
        "id": "f",
        "steps": [
            {"id": "write", "station": "s"},
            {
                "id": "critique",
                "station": "s",
                "routing": {"kind": "microloop", "loop_target": "write", "max_iterations": 2},
            },
            {
                "id": "test",
                "engine": "command",
                "command": "test",
                "routing": {
                    "kind": "branch",
                    "when": [
                        {"if": "evidence.tests.passed", "next": "done"},
                        {"if": 'evidence.tests.reason == "no_tests"', "next": "report"},
                    ],
                    "default": "write",
                    "max_iterations": 2,
                },
            },
            {"id": "report", "station": "s"},
            {"id": "done", "station": "s", "routing": {"kind": "terminal"}},
        ],
    }
)


@dataclass(frozen=True)
class Outcome:
    """How the newest execution ended."""

    result: Result = Result.SUCCEEDED
    status: Status = Status.VERIFIED
    tests: Mapping[str, JsonValue] | None = None
    envelope: Mapping[str, JsonValue] | None = None


def situation(flow: Flow, executed: str, outcome: Outcome) -> Situation:
    steps = executed.split()
    return Situation(
        flow=flow,
        step_id=steps[-1],
        result=outcome.result,
        status=outcome.status,
        context={
            "receipt": {"status": "failed" if outcome.result is Result.FAILED else "succeeded"},
            "envelope": {"status": outcome.status.value, **(outcome.envelope or {})},
            "evidence": {"tests": {"passed": None, "exit_code": None, "reason": None, **(outcome.tests or {})}},
            "run": {"iteration": steps.count(steps[-1])},
        },
        history=[
            *(UncommittedExecution(step, Result.SUCCEEDED) for step in steps[:-1]),
            UncommittedExecution(steps[-1], outcome.result),
        ],
    )


def after(executed: str, outcome: Outcome | None = None, flow: Flow = FLOW) -> Choice:
    return decide(situation(flow, executed, outcome or Outcome()))


def gist(choice: Choice) -> tuple[str, str | None, str, str]:
    """Candidate, target, source and reason."""
    return choice.candidate_id, choice.to_step, choice.routing_source.value, choice.reason


@table(
    ("executed", "outcome", "expected"),
    [
        pytest.param(
            "write", Outcome(), ("advance:critique", "critique", "fast_path", "the only next step"), id="straight on"
        ),
        pytest.param(
            "write",
            Outcome(status=Status.UNVERIFIED),
            ("advance:critique", "critique", "fast_path", "the only next step"),
            id="an author's doubt does not stop the flow",
        ),
        pytest.param(
            "write",
            Outcome(status=Status.PARTIAL),
            ("advance:critique", "critique", "fast_path", "the only next step"),
            id="PARTIAL goes on",
        ),
        pytest.param(
            "write",
            Outcome(result=Result.SKIPPED, status=Status.UNVERIFIED),
            ("advance:critique", "critique", "fast_path", "the only next step"),
            id="a skipped step leads on",
        ),
        pytest.param(
            "done", Outcome(), ("terminate", None, "fast_path", "the flow is complete"), id="terminal ends the flow"
        ),
        pytest.param(
            "report",
            Outcome(),
            ("advance:done", "done", "fast_path", "the only next step"),
            id="to the following step",
        ),
        pytest.param(
            "write critique",
            Outcome(status=Status.UNVERIFIED),
            ("loop:write:iter_2", "write", "deterministic", "loop_iteration:1"),
            id="a critic sends back",
        ),
        pytest.param(
            "write critique",
            Outcome(status=Status.PARTIAL),
            ("loop:write:iter_2", "write", "deterministic", "loop_iteration:1"),
            id="a critic that is half content sends back",
        ),
        pytest.param(
            "write critique",
            Outcome(),
            ("advance:test", "test", "deterministic", "status:VERIFIED"),
            id="a content critic leads on",
        ),
        pytest.param(
            "write critique",
            Outcome(status=Status.UNVERIFIED, envelope={"can_further_iteration_help": "no"}),
            ("advance:test", "test", "deterministic", "no_further_help"),
            id="a critic that cannot help leads on",
        ),
        pytest.param(
            "write critique write critique",
            Outcome(status=Status.UNVERIFIED),
            ("advance:test", "test", "deterministic", "max_iterations_reached:2"),
            id="a critic at its maximum leads on",
        ),
        pytest.param(
            "write critique write critique test write critique",
            Outcome(status=Status.UNVERIFIED),
            ("loop:write:iter_2", "write", "deterministic", "loop_iteration:1"),
            id="entered again from outside, a critic has all its iterations",
        ),
        pytest.param(
            "write critique test",
            Outcome(tests={"passed": True}),
            ("branch:done", "done", "deterministic", "evidence.tests.passed"),
            id="the condition that holds decides",
        ),
        pytest.param(
            "write critique test",
            Outcome(status=Status.UNVERIFIED, tests={"reason": "no_tests"}),
            ("branch:report", "report", "deterministic", 'evidence.tests.reason == "no_tests"'),
            id="the second condition, null is not true",
        ),
        pytest.param(
            "write critique test",
            Outcome(tests={"passed": True, "reason": "no_tests"}),
            ("branch:done", "done", "deterministic", "evidence.tests.passed"),
            id="the first condition that holds",
        ),
        pytest.param(
            "write critique test",
            Outcome(status=Status.UNVERIFIED, tests={"passed": False}),
            ("branch:write", "write", "deterministic", "no condition holds: default"),
            id="no condition holds: default",
        ),
        pytest.param(
            "write critique test",
            Outcome(status=Status.UNVERIFIED, tests={"passed": "true"}),
            ("branch:write", "write", "deterministic", "no condition holds: default"),
            id="a word is not true",
        ),
        pytest.param(
            "write critique test write critique test",
            Outcome(status=Status.UNVERIFIED, tests={"passed": False}),
            ("advance:report", "report", "deterministic", "max_iterations_reached:2: on, with the concern recorded"),
            id="a branch at its maximum goes on to the following step",
        ),
        pytest.param(
            "write critique test write critique test",
            Outcome(tests={"passed": True}),
            ("branch:done", "done", "deterministic", "evidence.tests.passed"),
            id="at its maximum a way forward is still open",
        ),
        pytest.param(
            "write",
            Outcome(status=Status.BLOCKED),
            ("pause", None, "deterministic", "write is BLOCKED: waiting for your answer"),
            id="BLOCKED pauses",
        ),
        pytest.param(
            "write critique",
            Outcome(status=Status.BLOCKED, envelope={"can_further_iteration_help": "no"}),
            ("pause", None, "deterministic", "critique is BLOCKED: waiting for your answer"),
            id="a blocked critic pauses, whatever its loop says",
        ),
        pytest.param(
            "write",
            Outcome(result=Result.FAILED, status=Status.UNVERIFIED),
            ("terminate", None, "deterministic", "write failed"),
            id="a failed step ends the run",
        ),
        pytest.param(
            "write",
            Outcome(result=Result.FAILED, status=Status.BLOCKED),
            ("terminate", None, "deterministic", "write failed"),
            id="failed counts before BLOCKED",
        ),
    ],
)
def test_the_driver_decides(executed: str, outcome: Outcome, expected: tuple[str, str | None, str, str]) -> None:
    assert gist(after(executed, outcome)) == expected


def test_the_way_into_a_flow_is_its_first_step() -> None:
    assert gist(start(FLOW)) == ("advance:write", "write", "fast_path", "the flow starts here")


def test_a_resumed_step_is_repeated() -> None:
    assert gist(continue_at(retry("flow", "write"), (), "resumed after the run failed")) == (
        "repeat:write",
        "write",
        "deterministic",
        "resumed after the run failed",
    )


@table(
    ("executed", "outcome", "candidates"),
    [
        pytest.param("write", Outcome(), ["*advance:critique"], id="linear"),
        pytest.param("done", Outcome(), ["*terminate"], id="terminal"),
        pytest.param("write", Outcome(status=Status.PARTIAL), ["*advance:critique", "repeat:write"], id="PARTIAL"),
        pytest.param("write critique", Outcome(), ["loop:write:iter_2", "*advance:test"], id="content critic"),
        pytest.param(
            "write critique",
            Outcome(status=Status.UNVERIFIED),
            ["*loop:write:iter_2", "advance:test"],
            id="discontent critic",
        ),
        pytest.param(
            "write critique test",
            Outcome(tests={"passed": True}),
            ["*branch:done", "branch:report", "branch:write", "advance:report"],
            id="branch",
        ),
        pytest.param(
            "write",
            Outcome(status=Status.BLOCKED),
            ["*pause", "escalate", "repeat:write", "advance:critique"],
            id="BLOCKED",
        ),
        pytest.param("write", Outcome(result=Result.FAILED), ["*terminate", "repeat:write"], id="failed"),
    ],
)
def test_the_candidates_are_every_way_on_and_one_of_them_is_taken(
    executed: str, outcome: Outcome, candidates: list[str]
) -> None:
    choice = after(executed, outcome)
    marked = [f"{'*' if candidate.is_default else ''}{candidate.candidate_id}" for candidate in choice.candidates]
    assert marked == candidates


@table(
    ("executed", "outcome", "actions"),
    [
        ("write", Outcome(), [Action.ADVANCE]),
        ("done", Outcome(), [Action.TERMINATE]),
        ("write critique", Outcome(), [Action.LOOP, Action.ADVANCE]),
        ("write critique test", Outcome(), [Action.BRANCH, Action.BRANCH, Action.BRANCH, Action.ADVANCE]),
        ("write", Outcome(result=Result.FAILED), [Action.TERMINATE, Action.REPEAT]),
        (
            "write",
            Outcome(status=Status.BLOCKED),
            [Action.PAUSE, Action.ESCALATE, Action.REPEAT, Action.ADVANCE],
        ),
    ],
)
def test_every_candidate_says_what_it_would_do(executed: str, outcome: Outcome, actions: list[Action]) -> None:
    assert [candidate.action for candidate in after(executed, outcome).candidates] == actions


def test_candidates_that_are_not_taken_are_eliminated_with_the_reason() -> None:
    choice = after("write critique", Outcome(status=Status.UNVERIFIED))
    assert [(gone.candidate_id, gone.reason) for gone in choice.explanation.eliminated] == [
        ("advance:test", "not taken: loop_iteration:1")
    ]


def test_every_condition_of_a_branch_is_traced() -> None:
    choice = after("write critique test", Outcome(tests={"passed": True}))
    assert choice.explanation.conditions == (
        ConditionTrace(expression="evidence.tests.passed", target="done", value=True),
        ConditionTrace(expression='evidence.tests.reason == "no_tests"', target="report", value=False),
    )


def test_a_missing_field_is_an_error_in_the_trace_and_the_next_condition_decides() -> None:
    routing = Branch.from_plain(
        {
            "kind": "branch",
            "when": [{"if": "evidence.lint.passed", "next": "done"}, {"if": "true", "next": "report"}],
        }
    )
    choice = after("write critique test", Outcome(), with_routing("test", routing))
    assert (choice.to_step, choice.explanation.conditions) == (
        "report",
        (
            ConditionTrace(expression="evidence.lint.passed", target="done", error="no field 'lint'"),
            ConditionTrace(expression="true", target="report", value=True),
        ),
    )


def with_routing(step_id: str, routing: Branch | Microloop) -> Flow:
    steps = tuple(replace(step, routing=routing) if step.id == step_id else step for step in FLOW.steps)
    return replace(FLOW, steps=steps)


@table(
    ("executed", "loop_state"),
    [
        ("write critique", LoopState(iteration=1, max_iterations=2)),
        ("write critique write critique", LoopState(iteration=2, max_iterations=2)),
        ("write critique write critique test", LoopState(iteration=1, max_iterations=2)),
        ("write", None),
    ],
)
def test_a_decision_of_a_loop_carries_its_state(executed: str, loop_state: LoopState | None) -> None:
    assert after(executed, Outcome(status=Status.UNVERIFIED)).loop_state == loop_state


def test_a_branch_without_default_goes_on_to_the_following_step() -> None:
    routing = Branch.from_plain({"kind": "branch", "when": [{"if": "false", "next": "done"}]})
    choice = after("write critique test", Outcome(), with_routing("test", routing))
    assert (choice.to_step, choice.reason) == ("report", "no condition holds: default")


def test_a_branch_at_the_end_of_a_flow_ends_it_and_does_not_speak_of_its_maximum() -> None:
    flow = Flow.from_plain(
        {
            "id": "f",
            "steps": [
                {"id": "a", "station": "s"},
                {
                    "id": "b",
                    "station": "s",
                    "routing": {"kind": "branch", "when": [{"if": "false", "next": "a"}]},
                },
            ],
        }
    )
    choice = after("a b", Outcome(), flow)
    assert (choice.candidate_id, choice.reason) == ("terminate", "no condition holds: default")


def test_two_conditions_with_one_target_are_one_candidate_with_the_reason_that_holds() -> None:
    routing = Branch.from_plain(
        {"kind": "branch", "when": [{"if": "true", "next": "done"}, {"if": "false", "next": "done"}]}
    )
    choice = after("write critique test", Outcome(), with_routing("test", routing))
    taken = next(candidate for candidate in choice.candidates if candidate.is_default)
    assert (taken.candidate_id, taken.reason) == ("branch:done", "if true")


def test_the_same_situation_gives_the_same_choice() -> None:
    first = after("write critique test", Outcome(tests={"passed": False}))
    assert after("write critique test", Outcome(tests={"passed": False})) == first


# --- any flow, any outcomes: there is an end ---------------------------------------------------------------------

STATUSES = (Status.VERIFIED, Status.UNVERIFIED, Status.PARTIAL)
CONDITIONS = ("true", "false", "evidence.tests.passed", 'envelope.status == "VERIFIED"', "run.missing")
STATION = "id: s\ntitle: S\ncategory: critic\nidentity: nobody\ninvariants: [none]\n"


def library(flow: Mapping[str, Any]) -> Library:
    text = pretty_json(dict(flow)).decode()
    own = {".swarm/flows/f.json": text, ".swarm/flows/stations/s.yaml": STATION}
    return load_library(bundled("flows"), own)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """A flow that `git swarm start` would accept."""
    names = [f"s{number}" for number in range(draw(st.integers(3, 6)))]
    steps = [{"id": name, "station": "s", "routing": draw(_routing(names, at))} for at, name in enumerate(names)]
    try:
        return library({"id": "f", "steps": steps}).flow("f").flow
    except SpecError:
        assume(False)  # noqa: FBT003 - hypothesis has no keyword for it
        raise


@st.composite
def _routing(draw: st.DrawFn, names: list[str], at: int) -> dict[str, Any]:
    """Loops back, branches to both sides, ways on that skip steps, now and then one that leads back."""
    kind = draw(st.sampled_from(["linear", "microloop", "branch", "branch"]))
    forward = names[at + 1 :] or names[-1:]
    routing: dict[str, Any] = {"kind": kind}
    way_on = draw(st.sampled_from(["following", "skip", "skip", "back", "terminal"]))
    if way_on == "terminal" and kind == "linear":
        return {"kind": "terminal"}
    if way_on in ("skip", "back"):
        routing["next"] = draw(st.sampled_from(forward if way_on == "skip" else names[: at + 1]))
    if kind == "linear":
        return routing
    routing["max_iterations"] = draw(st.integers(1, 3))
    if kind == "microloop":
        routing["loop_target"] = draw(st.sampled_from(names[: at + 1]))
        return routing
    targets = st.sampled_from(draw(st.sampled_from([names, forward])))
    conditions = draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2))
    routing["when"] = [{"if": condition, "next": draw(targets)} for condition in conditions]
    if draw(st.booleans()):
        routing["default"] = draw(targets)
    return routing


def most_executions(flow: Flow) -> int:
    """Every loop multiplies what is inside of it, and so does each way of a branch; more than all cannot be."""
    routings = [step.routing for step in flow.steps]
    maxima = [routing.max_iterations for routing in routings if isinstance(routing, Microloop)]
    maxima += [
        routing.max_iterations * (len(routing.when) + 1) for routing in routings if isinstance(routing, Branch)
    ]
    return len(flow.steps) * prod(maxima)


SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow]
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]  # explaining costs ten seconds


def test_loops_that_overlap_do_not_begin_each_other_anew() -> None:
    first = {"kind": "branch", "when": [{"if": "true", "next": "s0"}], "max_iterations": 2}
    second = {"kind": "branch", "when": [{"if": "true", "next": "s1"}], "max_iterations": 2}
    steps: list[dict[str, object]] = [{"id": "s0"}, {"id": "s1", "routing": first}, {"id": "s2", "routing": second}]
    flow = Flow.from_plain({"id": "f", "steps": [{**step, "station": "s"} for step in steps]})
    executed: list[str] = []
    choice = start(flow)
    while choice.to_step is not None and len(executed) < 40:
        executed.append(choice.to_step)
        choice = decide(situation(flow, " ".join(executed), Outcome()))
    assert " ".join(executed) == "s0 s1 s0 s1 s2 s1 s0 s1 s2"


@settings(deadline=None, max_examples=60, phases=PHASES, suppress_health_check=SLOW)
@given(flow=flows(), outcomes=st.data())
def test_every_sound_flow_ends_and_never_leaves_its_graph(flow: Flow, outcomes: st.DataObject) -> None:
    said = st.tuples(st.sampled_from(STATUSES), st.booleans(), st.sampled_from([None, "yes", "no"]))
    sequence = outcomes.draw(st.lists(said, min_size=1, max_size=12))
    bound = most_executions(flow)
    executed: list[str] = []
    choice = start(flow)
    while choice.to_step is not None:
        assert flow.has_step(choice.to_step)
        executed.append(choice.to_step)
        assert len(executed) <= bound, f"no end: {executed[:40]}"
        status, passed, more = sequence[len(executed) % len(sequence)]
        outcome = Outcome(Result.SUCCEEDED, status, {"passed": passed}, {"can_further_iteration_help": more})
        choice = decide(situation(flow, " ".join(executed), outcome))
        assert [c.candidate_id for c in choice.candidates if c.is_default] == [choice.candidate_id]
        assert {c.target for c in choice.candidates if c.target} <= {step.id for step in flow.steps}
    assert choice.candidate_id in ("terminate", "escalate")


@settings(deadline=None, max_examples=30, phases=PHASES, suppress_health_check=SLOW)
@given(flow=flows(), last=st.sampled_from([(Result.FAILED, "terminate"), (Result.SUCCEEDED, "pause")]))
def test_a_failed_or_blocked_step_ends_any_flow_at_once(flow: Flow, last: tuple[Result, str]) -> None:
    result, candidate = last
    for step in flow.steps:
        choice = decide(situation(flow, step.id, Outcome(result=result, status=Status.BLOCKED)))
        assert (choice.candidate_id, choice.to_step) == (candidate, None)


def test_only_a_lone_way_on_is_taken_without_looking() -> None:
    sources = {
        executed: after(executed, Outcome(status=Status.UNVERIFIED)).routing_source
        for executed in ("write", "write critique", "write critique test", "report", "done")
    }
    assert sources == {
        "write": RoutingSource.FAST_PATH,
        "write critique": RoutingSource.DETERMINISTIC,
        "write critique test": RoutingSource.DETERMINISTIC,
        "report": RoutingSource.FAST_PATH,
        "done": RoutingSource.FAST_PATH,
    }
