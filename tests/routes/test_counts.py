"""An execution that was cut off counts for no rule: only committed ones do."""

from __future__ import annotations

import json
import re
from typing import Any
from unittest import mock

import pytest

from gitswarm.engines.stub import StubEngine as Stub
from tests.conftest import Project
from tests.projects import ask, only_run
from tests.routed import CRITIC, Case, ended, flow, lines, quest, routed, set_up, step, taken
from tests.routes.common import DOUBT, LINE, STRAIGHT

TRIGGERS = [
    {"kind": "iterations", "at_least": 2},
    {"kind": "condition", "if": "run.iteration > 1"},
    {"kind": "condition", "if": "receipt.iteration > 1"},
    {"kind": "condition", "if": "envelope.iteration > 1"},
    {"kind": "condition", "if": "history.exists(h, h.iteration > 1)"},
]


class CutOffError(BaseException):
    """The process is gone."""


def start_and_cut_off(project: Project, case: Case, times: int) -> str:
    """Starts the run of a case and ends its process `times` times while its second step is executed."""
    words: tuple[str, ...] = ("start", "f", "--script", set_up(project, case))
    work = Stub.run
    for whole in (1, *[0] * (times - 1)):
        left = whole

        def cut(stub: Stub, *asked: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise CutOffError
            return work(stub, *asked)

        with mock.patch.object(Stub, "run", cut), pytest.raises(CutOffError):
            ask(project, *words)
        words = ("resume", only_run(project))
    return only_run(project)


@pytest.mark.parametrize("trigger", TRIGGERS, ids=json.dumps)
def test_a_trigger_counts_committed_executions(project: Project, trigger: dict[str, Any]) -> None:
    case = Case("", [LINE], {}, STRAIGHT, sidequests=[quest("look", trigger)])
    run = start_and_cut_off(project, case, 2)
    assert ask(project, "resume", run).code == 0
    assert "\n".join(routed(project, run)) == lines(STRAIGHT.replace("b VERIFIED", "b@3 VERIFIED"))
    assert ended(project, run) == "succeeded"


def test_a_critic_counts_its_committed_executions(project: Project) -> None:
    loop = {"kind": "microloop", "loop_target": "a", "max_iterations": 3}
    case = Case("", [flow("f", step("a"), step("b", CRITIC, **loop))], {"b": [DOUBT, {}]}, "")
    run = start_and_cut_off(project, case, 1)
    assert ask(project, "resume", run).code == 0
    receipts = [
        json.loads(ask(project, "show", f"b@{iteration}", "--run", run, "--receipt").stdout) for iteration in (2, 3)
    ]
    assert [(found["iteration"], found["routing"]) for found in receipts] == [
        (2, {"loop_iteration": 0, "max_iterations": 3, "decision": "loop", "reason": "loop_iteration:0"}),
        (3, {"loop_iteration": 1, "max_iterations": 3, "decision": "terminate", "reason": "status:VERIFIED"}),
    ]


def test_a_step_of_a_sidequest_may_be_repeated_as_often_as_without_the_cut(project: Project) -> None:
    """At most three executions: the third offers no fourth one."""
    broken = quest("look", {"kind": "condition", "if": 'envelope.step_id == "a"'}, max_uses_per_run=1)
    case = Case("", [LINE], {"sq-look-look": {"fail": "out of luck"}}, "", sidequests=[broken])
    run = start_and_cut_off(project, case, 2)
    assert ask(project, "resume", run).code == 4
    (failed,) = [decision for decision in taken(project, run) if decision.from_step == "sq-look-look"]
    assert "repeat:sq-look-look" in [candidate.candidate_id for candidate in failed.candidates]


def test_the_navigator_reads_the_same_after_a_cut(project: Project) -> None:
    """What it is asked has the counts of committed executions."""
    asked: list[str] = []
    case = Case("", [LINE], {"b": {"status": "PARTIAL", "route": None}}, "")
    run = start_and_cut_off(project, case, 1)

    def listen(_stub: object, question: Any, _terms: object) -> Any:
        asked.append(question.prompt)
        raise TimeoutError

    with mock.patch.object(Stub, "route", listen):
        assert ask(project, "resume", run).code == 0
    assert re.findall(r'"iteration": (\d+)', asked[0]) == ["1"]
