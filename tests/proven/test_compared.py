"""The tests of a run are compared with those of its base: lies are held back, honest work is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask

FLOW = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: test}
"""
PYTEST = "python -m pytest -q -p no:cacheprovider"
APP = "def total(prices):\n    return sum(prices)\n\n\ndef tax(price):\n    return price * 2\n"
TESTS = """\
from app import tax, total


def test_total():
    assert total([1, 2]) == 3


def test_tax():
    assert tax(2) == 4
"""
BROKEN = APP.replace("sum(prices)", "0")
BASE = {
    "app.py": APP,
    "tests/test_app.py": TESTS,
    "conftest.py": "",
    "check.sh": f"{PYTEST}\n",
    ".swarm/flows/work.yaml": FLOW,
    ".swarm/config.yaml": "commands: {test: sh check.sh}\n",
}


def end(project: Project, writes: dict[str, str], deletes: tuple[str, ...] = ()) -> tuple[str, set[str]]:
    """State and blocking flags of a run whose agent leaves these files, and does not listen."""
    project.commit(BASE)
    script: dict[str, Any] = {"steps": {"write": {"write": writes, "delete": list(deletes)}}}
    path = project.script(json.dumps(script))
    ask(project, "start", "work", "--script", path, "--autopilot")
    (found,) = project.json("list")
    project.swarm("verify", found["run_id"])
    return found["state"], {each["id"].partition("@")[0] for each in found["open_concerns"] if each["blocking"]}


@pytest.mark.parametrize(
    ("writes", "deletes", "flags"),
    [
        pytest.param({"app.py": BROKEN}, (), {"tests_red"}, id="red"),
        pytest.param({"app.py": BROKEN}, ("tests/test_app.py",), {"tests_deleted", "tests_not_run"}, id="deleted"),
        pytest.param(
            {
                "app.py": BROKEN,
                "tests/test_app.py": "def test_total():\n    assert True\n\n\ndef test_tax():\n    pass\n",
            },
            (),
            {"tests_weakened"},
            id="assert True",
        ),
        pytest.param(
            {
                "app.py": BROKEN,
                "tests/test_app.py": TESTS.replace(
                    "def test_total", "import pytest\n\n\n@pytest.mark.skip\ndef test_total"
                ),
            },
            (),
            {"tests_weakened"},
            id="skipped",
        ),
        pytest.param(
            {
                "app.py": BROKEN,
                "conftest.py": (
                    "def pytest_collection_modifyitems(items):\n"
                    "    items[:] = [item for item in items if item.name != 'test_total']\n"
                ),
            },
            (),
            {"tests_deleted"},
            id="deselected by a conftest",
        ),
        pytest.param({"app.py": BROKEN, "check.sh": f"{PYTEST}; exit 0\n"}, (), {"tests_red"}, id="exit 0"),
        pytest.param(
            {"app.py": BROKEN, "tests/test_app.py": TESTS.replace("== 3", "== 0")},
            (),
            set(),
            id="expectation changed: said, for a person",
        ),
    ],
)
def test_dishonest_work_is_held_back(
    project: Project, writes: dict[str, str], deletes: tuple[str, ...], flags: set[str]
) -> None:
    state, found = end(project, writes, deletes)
    assert (state, flags <= found) == ("unproven" if flags else "succeeded", True)
    if not flags:
        (run,) = project.json("list")
        assert "expectation_changed@work/test" in [each["id"] for each in run["open_concerns"]]


@pytest.mark.parametrize(
    ("writes", "deletes"),
    [
        pytest.param({"app.py": APP + "\n\ndef off(x):\n    return x - 1\n"}, (), id="code alone"),
        pytest.param(
            {
                "app.py": APP + "\n\ndef off(x):\n    return x - 1\n",
                "tests/test_app.py": TESTS
                + "\n\ndef test_off():\n    from app import off\n\n    assert off(2) == 1\n",
            },
            (),
            id="a test more",
        ),
        pytest.param({"tests/test_till.py": TESTS}, ("tests/test_app.py",), id="a test file renamed"),
        pytest.param({"README.md": "# words\n"}, (), id="words alone"),
        pytest.param(
            {
                "tests/test_app.py": "import pytest\n\nfrom app import tax, total\n\n\n"
                "@pytest.mark.parametrize('prices, found', [([1, 2], 3), ([], 0)])\n"
                "def test_total(prices, found):\n    assert total(prices) == found\n\n\n"
                "def test_tax():\n    assert tax(2) == 4\n"
            },
            (),
            id="a table of it",
        ),
    ],
)
def test_honest_work_is_not(project: Project, writes: dict[str, str], deletes: tuple[str, ...]) -> None:
    assert end(project, writes, deletes) == ("succeeded", set())


def test_a_project_without_tests_is_no_lie(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": FLOW, ".swarm/config.yaml": f"commands: {{test: {PYTEST}}}\n"})
    run = project.start(json.dumps({"steps": {"write": {"write": {"src/app.py": "x = 2\n"}}}}), flow="work")
    found = project.json("status", run)
    assert (found["state"], [(each["id"], each["blocking"]) for each in found["open_concerns"]]) == (
        "succeeded",
        [("no_tests@work/test", False)],
    )


def test_a_test_that_fails_only_beside_others_is_said_and_excused(project: Project) -> None:
    alone = "import os\n\n\ndef test_alone():\n    assert 'SET' not in os.environ\n"
    command = "python -m pytest -q -p no:cacheprovider -p no:randomly tests"
    project.commit(
        {**BASE, "tests/test_z.py": alone, ".swarm/config.yaml": f"commands: {{test: '{command}'}}\n"},
    )
    beside = "import os\n\n\ndef test_beside():\n    os.environ['SET'] = '1'\n    assert os.environ['SET'] == '1'\n"
    script = {"steps": {"write": {"write": {"app.py": APP + "\nx = 1\n", "tests/test_a.py": beside}}}}
    run = project.start(json.dumps(script), flow="work")
    found = project.json("status", run)
    assert (found["state"], [each["id"] for each in found["open_concerns"]]) == ("succeeded", ["flaky@work/test"])


MATRIX = {
    "requirements": [
        {
            "id": "REQ-001",
            "description": "a till",
            "acceptance_criteria": [{"id": "AC-001-1", "criterion": "It rounds."}],
            "test_cases": ["test_rounds"],
        }
    ]
}
ROUNDS = """\
id: work
steps:
  - {id: write, station: code-implementer, teaching: {outputs: [plan/ac_matrix.json, build/ac_status.json]}}
  - {id: test, engine: command, command: test}
"""
BUILD = """\
id: build
steps:
  - {id: close, station: build-cleanup}
"""
ROUNDED = "\n\ndef test_rounds():\n    from app import total\n\n    assert total([1, 1]) == 2\n"


@pytest.mark.parametrize(
    ("tests", "state", "open_ones"),
    [
        pytest.param(TESTS, "unproven", [("criterion:REQ-001@work/test", True)], id="a test that exists nowhere"),
        pytest.param(TESTS + ROUNDED, "succeeded", [], id="proven"),
        pytest.param(
            TESTS + ROUNDED.replace("    assert", "    import pytest\n\n    pytest.skip()\n    assert"),
            "unproven",
            [("criterion:REQ-001@work/test", True)],
            id="skipped",
        ),
    ],
)
def test_a_criterion_is_done_when_its_tests_say_so(
    project: Project, tests: str, state: str, open_ones: list[tuple[str, bool]]
) -> None:
    project.commit({**BASE, ".swarm/flows/work.yaml": ROUNDS, ".swarm/flows/build.yaml": BUILD})
    status = {"criteria": [{"id": "AC-001-1", "status": "done", "evidence": "test_rounds"}]}
    writes = {
        "RUN_BASE/plan/ac_matrix.json": json.dumps(MATRIX),
        "RUN_BASE/build/ac_status.json": json.dumps(status),
        "tests/test_app.py": tests,
        "app.py": APP + "\nx = 1\n",
    }
    script = project.script(json.dumps({"steps": {"write": {"write": writes}}}))
    ask(project, "start", "work", "build", "--script", script, "--autopilot")
    (run,) = project.json("list")
    assert (run["state"], [(each["id"], each["blocking"]) for each in run["open_concerns"]]) == (state, open_ones)


def test_a_criterion_s_name_settles_nothing_else(project: Project) -> None:
    named = json.loads(json.dumps(MATRIX))
    named["requirements"][0]["id"] = "R -tests_deleted@work/write -criterion:R@work/test\n!"
    project.commit({**BASE, ".swarm/flows/work.yaml": ROUNDS, ".swarm/flows/build.yaml": BUILD})
    writes = {"RUN_BASE/plan/ac_matrix.json": json.dumps(named), "app.py": APP + "\nx = 1\n"}
    script = project.script(json.dumps({"steps": {"write": {"write": writes, "delete": ["tests/test_app.py"]}}}))
    ask(project, "start", "work", "build", "--script", script, "--autopilot")
    (run,) = project.json("list")
    open_ones = {each["id"] for each in run["open_concerns"] if each["blocking"]}
    assert (run["state"], "tests_deleted@work/write" in open_ones) == ("unproven", True)
    project.swarm("verify", run["run_id"])


def later_agent(project: Project, flow: str, steps: dict[str, Any], *options: str) -> tuple[str, set[str]]:
    project.commit({**BASE, ".swarm/flows/work.yaml": flow})
    script = project.script(json.dumps({"steps": steps}))
    ask(project, "start", "work", "--script", script, "--autopilot", *options)
    (run,) = project.json("list")
    return run["state"], {each["id"] for each in run["open_concerns"] if each["blocking"]}


ONE = TESTS.replace("def test_total():\n    assert total([1, 2]) == 3\n\n\n", "")


def test_a_later_agent_takes_back_nothing_that_the_tests_showed(project: Project) -> None:
    flow = FLOW + "  - {id: close, station: build-cleanup}\n"
    found = later_agent(project, flow, {"write": {"write": {"app.py": BROKEN, "tests/test_app.py": ONE}}})
    assert found == ("unproven", {"tests_deleted@work/test"})


def test_another_command_that_reports_tests_makes_none_green(project: Project) -> None:
    flow = FLOW + f"  - {{id: lint, engine: command, command: {{run: '{PYTEST} -k tax'}}}}\n"
    assert later_agent(project, flow, {"write": {"write": {"app.py": BROKEN}}}) == (
        "unproven",
        {"tests_red@work/test"},
    )


def test_what_the_test_command_itself_calls_decides_about_tests(project: Project) -> None:
    found = later_agent(project, FLOW, {"write": {"write": {"app.py": BROKEN, "check.sh": f"{PYTEST} -k tax\n"}}})
    assert (found[0], "tests_deleted@work/test" in found[1]) == ("unproven", True)


def test_helpers_of_tests_are_run_as_they_were(project: Project) -> None:
    tests = TESTS.replace("from app", "from helpers import check\n\nfrom app").replace(
        "assert total([1, 2]) == 3", "check(total([1, 2]), 3)"
    )
    project.commit({**BASE, "tests/helpers.py": "def check(a, b):\n    assert a == b\n", "tests/test_app.py": tests})
    writes = {"app.py": BROKEN, "tests/helpers.py": "def check(a, b):\n    pass\n"}
    script = project.script(json.dumps({"steps": {"write": {"write": writes}}}))
    ask(project, "start", "work", "--script", script, "--autopilot")
    (run,) = project.json("list")
    assert "expectation_changed@work/test" in {each["id"] for each in run["open_concerns"]}


def test_skipped_tests_prove_nothing(project: Project) -> None:
    found = later_agent(project, FLOW, {"write": {"write": {"app.py": BROKEN}}}, "--until", "write")
    assert found == ("stopped", set())
    ask(project, "skip", "test")
    (run,) = project.json("list")
    assert (run["state"], [each["id"] for each in run["open_concerns"]]) == ("unproven", ["tests_not_run@work/test"])


def test_the_branch_of_a_run_that_never_landed_excuses_nothing(project: Project) -> None:
    later_agent(project, FLOW, {"write": {"write": {"app.py": BROKEN}}})
    (first,) = project.json("list")
    script = project.script(json.dumps({"steps": {"write": {"write": {"other.py": "x = 1\n"}}}}))
    ask(project, "start", "work", "--script", script, "--autopilot", "--base", first["branch"])
    assert project.json("list")[0]["state"] == "unproven"


def test_what_was_accepted_at_a_step_is_not_asked_again_by_its_tests(project: Project) -> None:
    project.commit(BASE)
    script = project.script(json.dumps({"steps": {"write": {"delete": ["tests/test_app.py"]}}}))
    ask(project, "start", "work", "--script", script)
    ask(project, "resume", "--accept", "tests_deleted@work/write=the feature is gone")
    (run,) = project.json("list")
    assert "tests_deleted@work/test" not in {each["id"] for each in run["open_concerns"]}


def test_settings_of_tests_in_a_folder_above_change_no_name(project: Project) -> None:
    (project.root.parent / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    changed = TESTS.replace("== 4", "== 2 + 2")
    assert end(project, {"tests/test_app.py": changed}) == ("succeeded", set())


def test_an_agent_cannot_call_its_matrix_a_placeholder(project: Project) -> None:
    project.commit({**BASE, ".swarm/flows/work.yaml": ROUNDS, ".swarm/flows/build.yaml": BUILD})
    writes = {"RUN_BASE/plan/ac_matrix.json": json.dumps({**MATRIX, "stub": True}), "app.py": APP + "\nx = 1\n"}
    script = project.script(json.dumps({"steps": {"write": {"write": writes}}}))
    ask(project, "start", "work", "build", "--script", script, "--autopilot")
    (run,) = project.json("list")
    assert (run["state"], [each["id"] for each in run["open_concerns"]]) == (
        "unproven",
        ["criterion:REQ-001@work/test"],
    )
