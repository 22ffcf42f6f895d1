"""The views of any run: they can be drawn, they fit, and `status` names the step that a resume executes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from gitswarm.cli.decisions import entry_lines
from gitswarm.cli.graph_view import graph_lines
from gitswarm.ledger.overview import overview
from gitswarm.ledger.reading import current_decision, ends_after, history, routing_entries
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import RunStatus
from gitswarm.runner.begin import start_run
from gitswarm.runner.resuming import resume_run
from tests.cli.test_reading import columns
from tests.conftest import Project
from tests.projects import new_project
from tests.test_random_routes import SAMPLE, SLOW, Stage, Story, staged, stories


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return new_project(tmp_path_factory.mktemp("template"))


def resumed_as_told(stage: Stage) -> RunState:
    """The run, resumed once after whatever ended it: at the step, and in the interruptions, that `status` names."""
    state = start_run(stage.repository, stage.run, stage.context)
    told = overview(stage.repository, stage.layout)
    if state.end is RunStatus.SUCCEEDED:
        assert (told.next_step, told.stack) == (None, ())
        return state
    after = resume_run(stage.repository, stage.layout, stage.context).state
    if len(after.steps) > len(state.steps):
        first = after.steps[len(state.steps)]
        within = [token.partition("@")[0] for token in first.stack]
        assert (told.next_step, [f"{open_.kind}:{open_.id}" for open_ in told.stack]) == (first.step, within)
    return after


def drawn(stage: Stage, state: RunState) -> list[str]:
    """Every line that a person can be shown about where the run went."""
    repository, layout = stage.repository, stage.layout
    start = current_decision(repository, layout, state.run_commit)
    lines = graph_lines(history(repository, state), start, state.shared)
    for record in state.steps:
        for commit in (record.commit, *(end.commit for end in ends_after(repository, state, record))):
            for entry in routing_entries(repository, layout, commit):
                lines += entry_lines(entry)
    return lines


@settings(max_examples=6, deadline=None, phases=SAMPLE, suppress_health_check=SLOW, derandomize=True)
@given(story=stories())
def test_any_run_can_be_shown_in_80_columns(template: Project, story: Story) -> None:
    with staged(template, story) as stage:
        if stage is not None:
            lines = drawn(stage, resumed_as_told(stage))
            assert [line for line in lines if columns(line) > 80] == []
