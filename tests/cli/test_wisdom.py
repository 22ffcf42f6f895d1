"""`wisdom list` and `show` as screens of 80 columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gitswarm.records.text import columns
from tests.conftest import Project
from tests.golden import check_golden
from tests.operations.test_wisdom import FILES, learned, learning, proposal
from tests.projects import ask, new_project

GOLDEN = Path(__file__).parent / "golden"
LONG = "When a table of prices is changed, run the rounding tests first, because three runs in a row broke them. "
SCREENS = {
    "wisdom-list": "list",
    "wisdom-show": "show WP-001",
    "wisdom-misfit": "show WP-002",
}


@pytest.fixture(scope="module")
def wise(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = new_project(tmp_path_factory.mktemp("wise"))
    project.commit(FILES, "flows")
    many: dict[str, Any] = {"kind": "avoid", "confidence": "medium", "scope": ["src/x", "build", "gate", "plan"]}
    learned(project, learning(LONG * 3, **many))
    gone = {"path": "AGENTS.md", "old": "Use vim.", "new": "Use ed.\x1b[2J"}
    why = f"{LONG}\n\nThe tables broke twice."
    learned(
        project,
        learning(),
        learning(LONG * 3, 2, **many),
        proposals=[proposal(why=why), proposal(2, gone, title="An editor for all of us, " * 4)],
    )
    return project


def shown(project: Project, words: str) -> str:
    """The screen, without what differs from day to day."""
    answer = ask(project, "wisdom", *words.split())
    assert answer.code == 0, answer.stderr
    runs = sorted(set(re.findall(r"run-\d{8}-\d{6}-[0-9a-f]{6}", project.git("for-each-ref"))))
    text = answer.stdout
    for number, run in enumerate(runs, 1):
        text = text.replace(run, f"run-20260101-000000-{number:06}").replace(run[-6:], f"{number:06}")
    return re.sub(r"\d{4}-\d\d-\d\d(?=,)", "2026-01-01", text)


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen(wise: Project, name: str) -> None:
    text = shown(wise, SCREENS[name])
    check_golden(GOLDEN / f"{name}.txt", text)
    assert max(map(columns, text.splitlines())) <= 80


def test_before_any_run_the_list_says_where_lessons_come_from(project: Project) -> None:
    answer = ask(project, "wisdom", "list")
    assert answer.stdout == "no run has learned anything yet\n"
    assert answer.stderr == "hint: git swarm start wisdom -m 'the task'\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("show WP-009", "no run proposed 'WP-009'\nhint: git swarm wisdom list --all\n"),
        ("apply 77/WP-001", "no run proposed '77/WP-001'\nhint: git swarm wisdom list --all\n"),
        ("dismiss WP-001", "say why\nhint: git swarm wisdom dismiss WP-001 -m 'WHY'\n"),
        ("show --diff WP-002", "AGENTS.md: 'Use vim.' is not in the file\nhint: git swarm wisdom show "),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_command(wise: Project, words: str, said: str) -> None:
    answer = ask(wise, "wisdom", *words.split())
    assert answer.stderr.startswith(f"git-swarm: {said}")
    assert answer.code in (1, 2)


def test_a_name_that_two_runs_gave_is_refused_with_both(project: Project) -> None:
    project.commit(FILES, "flows")
    runs = [learned(project, learning(), proposals=[proposal()]) for _round in range(2)]
    refused = ask(project, "wisdom", "show", "WP-001").stderr
    ids = ", ".join(f"{run[-6:]}/WP-001" for run in reversed(runs))
    assert refused.startswith(f"git-swarm: 'WP-001' matches 2 proposals: {ids}\n")
    assert ask(project, "wisdom", "show", f"{runs[0]}/WP-001").code == 0
