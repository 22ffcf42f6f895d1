"""Where a run went and why, as a person sees it: whole outputs of `log --graph` and `show --routing`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.test_reading import columns
from tests.conftest import Project
from tests.golden import check_golden
from tests.projects import ask, new_project
from tests.routed import CLEANUP, CRITIC, Case, command, drive, fires_after, flow, quest, set_up, step
from tests.routes.common import decision

GOLDEN = Path(__file__).parent / "golden"

LINE = flow("line", step("a"), step("b"), step("c", CLEANUP, kind="terminal"))
LOOP = flow(
    "loop",
    step("write"),
    step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=2),
    command(kind="branch", when=[("evidence.tests.passed", "done")], default="write", max_iterations=2),
    step("done", CLEANUP),
)
TOOL = flow("tool", step("fetch"), step("use"), utility=True)
GATE = flow("gate", {"id": "decide", "station": "policy-analyst", "teaching": {"outputs": ["merge_decision.json"]}})
FLOWS = [flow("plan", step("think")), flow("build", step("make")), GATE, flow("deploy", step("ship"))]
WHY = {
    "trigger": "the data are older than the task",
    "relevance_to_charter": "a plan on old data is worth nothing",
    "analysis": "Two of the three sources were changed after the plan was written.",
    "alternatives_considered": ["go on with the old data", "ask a person"],
    "expected_outcome": "the newest data",
}
SKIP = {
    "skip_reason": "there is nothing to build",
    "why_not_needed_for_exit": "the exit criteria are about documents only",
    "replacement_assurance": "the links are checked in c",
}
TWO = [{"id": "one", "station": "context-loader"}, {"id": "two", "station": "clarifier"}]
PARTIAL = {"status": "PARTIAL"}


def verdicts(*said: str) -> dict[str, object]:
    written = [{"write": {"RUN_BASE/gate/merge_decision.json": decision(verdict)}} for verdict in said]
    return {"decide": written}


def routed(route: object) -> dict[str, object]:
    """A script in which the navigator answers after `a`."""
    return {"a": {"status": "PARTIAL", "route": route}}


ASIDE = quest("look", fires_after("a"), steps=[{"id": "ask", "station": "clarifier", "on_blocked": "halt"}])

CASES = [
    Case(
        "within",
        [LINE],
        {"a": PARTIAL, "sq-look-ask": {"status": "BLOCKED", "blockers": ["which one?"]}},
        [],
        sidequests=[ASIDE],
    ),
    Case(
        "failed_within",
        [LINE],
        {"a": PARTIAL, "sq-look-ask": {"fail": "the model is overloaded"}},
        [],
        sidequests=[ASIDE],
    ),
    Case(
        "loop",
        [LOOP],
        {
            "critique": [{"status": "UNVERIFIED"}, {"status": "UNVERIFIED"}, {"status": "VERIFIED"}],
            "test": [{"run": ["echo 1 failed; exit 1"]}, {"run": ["echo 1 passed"]}],
        },
        [],
    ),
    Case(
        "nested",
        [LINE, TOOL],
        {**routed({"chosen_candidate_id": "inject:tool", "why_now": WHY}), "fetch": PARTIAL},
        [],
        sidequests=[
            quest("look", fires_after("fetch"), title="Look again", steps=TWO),
            quest("never", fires_after("sq-look-one", "VERIFIED")),
        ],
    ),
    Case(
        "rejected",
        [LINE],
        routed({"chosen_candidate_id": "detour:look", "reasoning": "somebody should look"}),
        [],
        sidequests=[quest("look", fires_after("a")), quest("other", fires_after("a"), priority=90)],
    ),
    Case(
        "skipped",
        [LINE],
        routed({"chosen_candidate_id": "skip:b", "reasoning": "b has no work", "skip_justification": SKIP}),
        [],
        options=["--routing", "authoritative"],
    ),
    Case("by_hand", [LINE], {}, [], options=["--until", "a"], then=[("skip", "b"), ("resume",)]),
    Case("bounced", FLOWS, verdicts("BOUNCE_BUILD", "MERGE"), [], options=[f"flow:{found['id']}" for found in FLOWS]),
    Case(
        "paused",
        [LINE],
        {"a": [{"status": "BLOCKED", "blockers": ["which one?"]}, {}]},
        [],
        then=[("resume", "-m", "the first")],
    ),
    Case("failed", [LINE], {"b": [{"fail": "the model is overloaded"}, {}]}, [], then=[("resume",)]),
    Case(
        "halted",
        [LINE],
        {"a": PARTIAL},
        [],
        sidequests=[quest("look", fires_after("a"), returns={"mode": "halt"})],
    ),
    Case(
        "proposed",
        [LINE],
        routed(
            {
                "inject_nodes": [{"id": "probe", "station": "context-loader", "objective": "measure how slow it is"}],
                "why_now": WHY,
                "reasoning": "nobody has measured yet",
            }
        ),
        [],
        then=[("resume", "--approve")],
    ),
]

SHOWN = [
    ("loop", "2"),
    ("loop", "4"),
    ("loop", "5"),
    ("nested", "1"),
    ("nested", "2"),
    ("nested", "3"),
    ("nested", "5"),
    ("rejected", "1"),
    ("skipped", "1"),
    ("bounced", "3"),
    ("bounced", "5"),
    ("paused", "1"),
    ("failed", "2"),
    ("halted", "2"),
    ("proposed", "1"),
]


@dataclass(frozen=True)
class Drive:
    """Every case's run, executed when it is first asked for."""

    folder: Path
    runs: dict[str, tuple[Project, str]]

    def of(self, name: str) -> tuple[Project, str]:
        if name not in self.runs:
            folder = self.folder / name
            folder.mkdir()
            project = new_project(folder)
            self.runs[name] = (project, drive(project, next(case for case in CASES if case.name == name)))
        return self.runs[name]

    def shown(self, name: str, *arguments: str) -> str:
        """What a command says of a case's run; ids and times replaced."""
        project, run = self.of(name)
        answer = ask(project, *arguments)
        assert (answer.code, answer.stderr) == (0, "")
        text = answer.stdout.replace(run, "run-20260101-000000-abcdef")
        assert [line for line in text.splitlines() if columns(line) > 80] == []
        text = re.sub(r"in \d+\.\dm?s", "in 1.0ms", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-01T00:00:00.000Z", text)
        return re.sub(r"\b[0-9a-f]{12}\b", "0" * 12, text)


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Drive:
    return Drive(tmp_path_factory.mktemp("why"), {})


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_graph(driven: Drive, name: str) -> None:
    check_golden(GOLDEN / f"graph-{name}.txt", driven.shown(name, "log", "--graph"))


@pytest.mark.parametrize(("name", "number"), SHOWN)
def test_routing(driven: Drive, name: str, number: str) -> None:
    check_golden(GOLDEN / f"routing-{name}-{number}.txt", driven.shown(name, "show", number, "--routing"))


@pytest.mark.parametrize("name", ["graph-nested", "routing-rejected-1"])
def test_the_examples_of_the_docs_are_real(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "routing-views.md"
    assert f"```text\n{golden(name)}```\n" in page.read_text(encoding="utf-8")


# --- status, log --json -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "state"), [("within", "paused"), ("failed_within", "failed")])
def test_status_names_the_interruption_that_the_next_step_belongs_to(driven: Drive, name: str, state: str) -> None:
    project, run = driven.of(name)
    shown = ask(project, "status").stdout.splitlines()
    assert shown[:4] == [
        f"{run}  {state}",
        "  flow      line",
        "  next      sq-look-ask",
        "  within    look (back to line/b)",
    ]
    status = json.loads(ask(project, "status", "--json").stdout)
    assert status["stack"] == [{"kind": "sidequest", "id": "look", "back_to": "line/b"}]


@pytest.mark.parametrize(("name", "step"), [("halted", "b"), ("bounced", "ship"), ("paused", None)])
def test_status_says_where_a_run_goes_on_outside_of_interruptions(driven: Drive, name: str, step: str | None) -> None:
    project, _run = driven.of(name)
    status = json.loads(ask(project, "status", "--json").stdout)
    assert (status["next_step"], status["stack"]) == (step, [])


def test_log_json_names_the_flow_where_it_changes(driven: Drive) -> None:
    project, _run = driven.of("bounced")
    entries = json.loads(ask(project, "log", "--json").stdout)
    assert [entry["routing"].get("to_flow") for entry in entries] == ["build", "gate", "build", "gate", None]
    assert "to_flow" not in entries[-1]["routing"]


def test_routing_json_is_the_list_of_decisions_as_recorded(driven: Drive) -> None:
    project, _run = driven.of("nested")
    (taken,) = json.loads(ask(project, "show", "1", "--routing", "--json").stdout)
    assert (taken["candidate_id"], taken["to_flow"], taken["why_now"]) == ("inject:tool", "tool", WHY)


def test_progress_tells_of_a_detour(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    script = set_up(project, next(case for case in CASES if case.name == "rejected"))
    said = ask(project, "start", "line", "--script", script).stderr.splitlines()
    assert [line for line in said if line.startswith("    ")] == ["     → sidequest other"]
