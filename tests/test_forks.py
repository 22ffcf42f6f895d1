"""Forks and joins through the product: what is executed at the same time, and how it comes together."""

from __future__ import annotations

from tests.conftest import Project
from tests.forking import (
    AUDITS,
    WRITERS,
    check_tidy,
    sibling_refs,
    span,
    steps,
    trailers,
    with_flow,
)

READING = """\
steps:
  left: {delay_ms: 700, write: {RUN_BASE/fan/left.md: "left\\n"}}
  right: {delay_ms: 300, write: {RUN_BASE/fan/right.md: "right\\n"}}
"""
WRITING = """\
steps:
  left: {delay_ms: 400, write: {left.txt: "left\\n", RUN_BASE/fan/left.md: "l\\n"}}
  right: {write: {right.txt: "right\\n", src/app.py: "print('right')\\n"}, run: [pwd]}
"""


def test_stations_that_only_read_work_at_the_same_time_in_the_worktree_of_the_run(project: Project) -> None:
    with_flow(project, AUDITS)
    run = project.start(READING, flow="fan")

    assert steps(project) == ["begin@1", "left@1", "right@1", "both@1", "close@1"]
    left, right = span(project, "left"), span(project, "right")
    assert max(left[0], right[0]) < min(left[1], right[1]), "they did not overlap"
    assert right[1] < left[1], "the order of the commits is that of the flow, not of finishing"
    folder = f".swarm/runs/{run}/fan"
    assert project.git("show", f"shadow/{run}:{folder}/left.md") == "left"
    assert project.git("show", f"shadow/{run}:{folder}/right.md") == "right"
    check_tidy(project, run)


def test_stations_that_write_code_have_worktrees_of_their_own_and_their_changes_come_together(
    project: Project,
) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, flow="fan")

    assert steps(project) == ["begin@1", "left@1", "right@1", "both@1", "close@1"]
    assert project.git("show", f"shadow/{run}:left.txt") == "left"
    assert project.git("show", f"shadow/{run}:src/app.py") == "print('right')"
    begin, left, right = (entry["commit"] for entry in project.json("log")[:3])
    refs = sibling_refs(project, run)
    assert sorted(refs) == ["left", "right"]
    assert {project.git("rev-parse", f"{commit}^") for commit in refs.values()} == {begin}
    for step, commit in (("left", left), ("right", right)):
        said = trailers(project, commit)
        assert (said["Swarm-Fork"], said["Swarm-Fork-Commit"]) == (begin, refs[step])
        assert trailers(project, refs[step])["Swarm-Fork"] == begin
    check_tidy(project, run)
