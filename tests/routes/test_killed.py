"""A run that is killed where it has left its flow, or between two flows, takes the same way when it is resumed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence

import pytest

from tests.conftest import Project
from tests.faults import COUNT, Server
from tests.projects import ask, only_run
from tests.routed import (
    Case,
    check_stack,
    ended,
    fires_after,
    flow,
    lines,
    quest,
    routed,
    set_up,
    step,
    told_by_events,
)
from tests.routes.common import HALF, LINE, WHY, by_name, chooses

CASES = [
    Case(
        "in a sidequest",
        [LINE],
        {"a": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[
            quest("look", fires_after("a"), steps=[{"id": n, "station": "context-loader"} for n in ("one", "two")])
        ],
    ),
    Case(
        "in an injected flow",
        [LINE, flow("tool", step("t1"), step("t2"), utility=True)],
        {"a": {**HALF, **chooses("inject:tool", why_now=WHY)}},
        """
        f/a PARTIAL > inject:tool (navigator)
          tool/t1 VERIFIED > advance:t2 (fast_path)
          tool/t2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "between two flows",
        [flow("f", step("a"), step("b")), flow("g", step("x"))],
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
    ),
]
MOMENTS = [
    ("after Journal", 2),
    ("after Journal", 3),
    ("after Refs.swap next", 2),
    ("after Refs.swap branch", 2),
    ("before Refs.swap routing", 2),
    ("after Refs.swap routing", 2),
]
"""Where the run is killed: a point, and its how-manieth counted by step: the second step, the one after it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as started:
        yield started


def start_words(case: Case, script: str) -> list[str]:
    flows = [option.removeprefix("flow:") for option in case.options] or ["f"]
    return ["start", *flows, "--script", script]


def nth(names: Sequence[str], wanted: str, count: int) -> int:
    """The number of the `count`-th point of a name."""
    found = [number for number, name in enumerate(names, start=1) if name.partition(" ")[2] == wanted]
    return found[count - 1]


def without_iterations(route: str) -> str:
    """A step that was cut off is executed as its next iteration."""
    return re.sub(r"@\d+ ", " ", route)


@by_name(CASES)
def test_the_same_way_after_a_kill(project: Project, server: Server, case: Case) -> None:
    script = set_up(project, case)
    words = start_words(case, script)
    counted = server.execute(COUNT, words, project.root, project.env)
    assert counted.returncode == 0, counted.stderr
    names = counted.stdout.splitlines()
    for name, count in MOMENTS:
        assert ask(project, "discard", only_run(project), "--force").code == 0
        killed = server.execute(nth(names, name, count), words, project.root, project.env)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        run = only_run(project)
        assert ask(project, "resume", run).code == 0
        assert without_iterations("\n".join(routed(project, run))) == lines(case.route), (name, count)
        assert ended(project, run) == "succeeded"
        check_stack(told_by_events(project, run), whole=True)
