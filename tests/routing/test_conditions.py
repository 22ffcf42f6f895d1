"""CEL conditions: what holds, what does not, and what can never work."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import ConditionTrace
from gitswarm.routing import conditions
from gitswarm.routing.conditions import condition_problem, evaluate
from tests.tables import table

CONTEXT: dict[str, JsonValue] = {
    "receipt": {"status": "succeeded", "duration_ms": 40, "tokens": {"total": 900}},
    "envelope": {"status": "UNVERIFIED", "concerns": ["slow", "unsafe"], "confidence": None},
    "evidence": {"tests": {"passed": None, "exit_code": 5, "reason": "no_tests"}, "diff": {"files": []}},
    "run": {"task": "mend it", "iteration": 2, "cost_usd": 0.5},
}


@table(
    ("expression", "value"),
    [
        ("true", True),
        ("evidence.tests.passed", None),
        ("evidence.tests.passed == true", False),
        ("evidence.tests.passed == null", True),
        ('evidence.tests.reason == "no_tests"', True),
        ('evidence.tests.passed == true || evidence.tests.reason == "no_tests"', True),
        ("evidence.tests.exit_code", 5),
        ("receipt.tokens.total > 500 && run.iteration < 3", True),
        ("run.cost_usd >= 0.5", True),
        ("envelope.status", "UNVERIFIED"),
        ('envelope.status in ["VERIFIED", "PARTIAL"]', False),
        ('envelope.concerns.exists(c, c.startsWith("un"))', True),
        ('envelope.concerns[0] == "slow"', True),
        ("size(envelope.concerns) == 2", True),
        ("has(envelope.blockers)", False),
        ("'é' == 'é'", True),
    ],
)
def test_a_condition_is_evaluated_over_receipt_envelope_evidence_and_run(expression: str, value: JsonValue) -> None:
    assert evaluate(expression, "there", CONTEXT) == ConditionTrace(
        expression=expression, target="there", value=value
    )


@table(
    ("expression", "error"),
    [
        ("evidence.lint.passed", "no field 'lint'"),
        ("receipt.tokens.prompt > 1", "no field 'prompt'"),
    ],
)
def test_a_missing_field_is_an_error_in_the_trace_and_not_true(expression: str, error: str) -> None:
    assert evaluate(expression, "there", CONTEXT) == ConditionTrace(
        expression=expression, target="there", value=None, error=error
    )


@table(
    "expression",
    [
        "receipt.duration_ms > 'a'",
        "nobody.knows",
        'envelope.concerns[7] == "slow"',
        "run.iteration / 0 == 1",
        "run.iteration % 0 == 1",
        "9223372036854775807 + run.iteration > 0",
        "int(envelope.status) == 1",
        "timestamp(envelope.status) == timestamp(envelope.status)",
        "envelope.status.matches('(')",
    ],
)
def test_whatever_goes_wrong_in_a_condition_is_an_error_in_the_trace(expression: str) -> None:
    trace = evaluate(expression, "there", CONTEXT)
    assert (trace.value, bool(trace.error)) == (None, True)


def test_an_error_in_the_trace_is_one_line() -> None:
    trace = evaluate("receipt.duration_ms > 'a'", "there", CONTEXT)
    assert trace.error is not None
    assert len(trace.error.splitlines()) == 1


@table(
    "expression",
    [
        "evidence.tests.passed",
        'evidence.tests.passed == true || evidence.tests.reason == "no_tests"',
        "envelope.concerns.all(concern, size(concern) < 80)",
        "has(receipt.error) ? false : true",
        "receipt.duration_ms > 1000 && !(run.iteration in [1, 2])",
        "type(receipt.duration_ms) == int",
    ],
)
def test_a_condition_that_can_work_has_no_problem(expression: str) -> None:
    assert condition_problem(expression) is None


@table(
    ("expression", "problem"),
    [
        ("evidence.", "column 10: Syntax error: no viable alternative at input '.'"),
        ("a b", "column 3: Syntax error: extraneous input 'b' expecting <EOF>"),
        ("evidnce.tests.passed", "unknown name 'evidnce' (known: receipt, envelope, evidence, run, history)"),
        ("exists(receipt.error)", "unknown function 'exists'"),
        ("receipt.status.shout()", "unknown function 'shout'"),
    ],
)
def test_a_condition_that_can_never_work_says_why(expression: str, problem: str) -> None:
    assert condition_problem(expression) == problem


@table("expression", ["", " ", '"unclosed', "1 +", "é", "(", "=="])
def test_what_is_not_cel_names_the_column(expression: str) -> None:
    problem = condition_problem(expression)
    assert problem is not None
    assert problem.startswith("column ")


# --- only the part of the context that an expression can reach is handed over ---

TREE = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=0, max_size=3).map(
    lambda names: ".".join(["run", *names])
)
ASKED = st.one_of(
    PATHS.map(lambda path: f"{path} == 1"),
    PATHS.filter(lambda path: "." in path).map(lambda path: f"has({path})"),
    PATHS.map(lambda path: f"size({path}) > 1"),
    PATHS.map(lambda path: f"{path}['a'] == 'b'"),
    PATHS.map(lambda path: f"'a' in {path}"),
    PATHS.map(lambda path: f"{path}.exists(x, x == 1)"),
    st.tuples(PATHS, PATHS).map(lambda two: f"{two[0]} == {two[1]}"),
    st.tuples(PATHS, PATHS).map(lambda two: f"{two[0]} == 1 || {two[1]}.a == 2"),
)


@given(run=st.dictionaries(st.sampled_from(["a", "b", "c"]), TREE, max_size=3), expression=ASKED)
def test_a_condition_says_the_same_of_a_part_as_of_the_whole(run: dict[str, Any], expression: str) -> None:
    whole = json.loads(json.dumps(run))
    found = evaluate(expression, "x", {"run": run, "receipt": {"a": 1}})
    with mock.patch.object(conditions, "_used", lambda _expression, context: dict(context)):
        assert found == evaluate(expression, "x", {"run": whole, "receipt": {"a": 1}})
    assert run == whole
