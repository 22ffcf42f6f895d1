"""Every example of docs/conditions.md works on a real step, and every field that there is has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitswarm.git.repository import open_repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Receipt
from gitswarm.records.record import Record
from gitswarm.routing.conditions import NAMES, condition_problem, evaluate
from gitswarm.runner.deciding.decision_facts import situation_of
from gitswarm.runner.open_run import open_run
from gitswarm.runner.run_context import Observer, RunContext
from gitswarm.runner.specs import RUN_FIELDS, STALL_FIELDS, field_problem
from gitswarm.worktree.shadow import Placement
from tests.projects import new_project
from tests.routed import CRITIC, Case, command, drive, flow, step

DOC = (Path(__file__).parent.parent / "docs" / "conditions.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?:`(\w+)`[^|]*\| )?`((?:[^`|]|\\\|)+)` \|", re.MULTILINE)
EXAMPLES = [expression.replace("\\|", "|") for _field, expression in ROW.findall(DOC)]

CASE = Case(
    "every field",
    [
        flow(
            "talk",
            step("write"),
            step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=2),
            command("test", kind="branch", when=[("evidence.tests.passed == true", "done")], default="write"),
            step("done"),
        )
    ],
    {"critique": {"status": "UNVERIFIED", "concerns": ["one"]}},
    (),
    bundled_sidequests=True,
)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, JsonValue]]:
    """What conditions see after each step of a run."""
    project = new_project(tmp_path_factory.mktemp("conditions"))
    run = drive(project, CASE)
    repository = open_repository(project.root, project.env)
    context = RunContext(
        project.env, lambda: datetime.now(UTC), Placement(None, project.root.parent / "state"), Observer()
    )
    with open_run(repository, RunLayout(run), context) as opened:
        return [situation_of(opened.session, opened.state, record).context for record in opened.state.steps]


def fields_of(name: str, contexts: list[Mapping[str, JsonValue]]) -> set[str]:
    models: dict[str, type[Record]] = {"receipt": Receipt, "envelope": Envelope, "evidence": Evidence}
    if name in models:
        return set(models[name].__struct_fields__)
    seen = contexts[-1][name]
    return set(seen) if isinstance(seen, dict) else set()


def section(name: str) -> str:
    return DOC.split(f"\n## `{name}`")[1].split("\n## ")[0]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 60


@pytest.mark.parametrize("expression", EXAMPLES)
def test_an_example_can_be_asked(expression: str, contexts: list[Mapping[str, JsonValue]]) -> None:
    assert (condition_problem(expression), field_problem(expression)) == (None, None)
    answers = [evaluate(expression, "x", context) for context in contexts]
    assert [answer.error for answer in answers if answer.error] == []
    assert {type(answer.value) for answer in answers} == {bool}


@pytest.mark.parametrize("name", NAMES)
def test_every_field_has_an_example(name: str, contexts: list[Mapping[str, JsonValue]]) -> None:
    documented = {field for field, _expression in ROW.findall(section(name)) if field}
    assert documented == fields_of(name, contexts)


def test_the_fields_of_a_run_are_those_that_a_condition_sees(contexts: list[Mapping[str, JsonValue]]) -> None:
    run = contexts[-1]["run"]
    assert isinstance(run, dict)
    assert (tuple(run), tuple(run["stall"])) == (RUN_FIELDS, STALL_FIELDS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("evidence.tests.pased == true", "no field 'pased' in evidence.tests (did you mean 'passed'?)"),
        ("has(evidence.test) && evidence.test.passed", "no field 'test' in evidence (did you mean 'tests'?)"),
        ("evidence.verdict != null && evidence.verdict.scoer > 0.5", "no field 'scoer' in evidence.verdict"),
        ("envelope . sumary.contains('x')", "no field 'sumary' in envelope (did you mean 'summary'?)"),
        ("run.stall.stalled", "no field 'stalled' in run.stall (did you mean 'is_stalled'?)"),
        ("run.itaration > 1", "no field 'itaration' in run (did you mean 'iteration'?)"),
        ("receipt.tokens.totl > 1", "no field 'totl' in receipt.tokens (did you mean 'total'?)"),
    ],
)
def test_a_field_that_no_step_has_is_a_mistake(expression: str, problem: str) -> None:
    assert condition_problem(expression) is None
    assert (field_problem(expression) or "").startswith(problem)


@pytest.mark.parametrize(
    "expression",
    [
        'envelope.summary == "evidence.tests.pased"',
        r"envelope.summary == 'it\'s run.nothing'",
        "evidence.operation.whatever == 1",
        "run.sidequests.mine > 0",
        "evidence.opened.exists(run, run.flag == 'x') || evidence.tests.passed",
        "history.exists(h, h.status == 'VERIFIED')",
    ],
)
def test_what_may_be_there_is_no_mistake(expression: str) -> None:
    assert field_problem(expression) is None
