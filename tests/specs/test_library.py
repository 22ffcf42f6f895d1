"""Flows and stations by id: the bundled ones, the user's over them, and what makes one unfit to run."""

from __future__ import annotations

import sys

import pytest

from gitswarm.errors import NotFoundError, SpecError
from gitswarm.resources import bundled
from gitswarm.runner.specs import checked_flow, refuse_unreachable
from gitswarm.specs.library import Library, load_library
from tests.tables import table

STATION = "id: {id}\ntitle: T\ncategory: critic\nidentity: nobody\ninvariants: [none]\n"

HELLO = """\
id: hello
steps:
  - id: write
    station: code-implementer
  - id: critique
    station: code-critic
    routing: {kind: microloop, loop_target: write}
  - id: test
    engine: command
    command: test
    routing: {kind: branch, when: [{if: "evidence.tests.passed", next: done}], default: write}
  - id: done
    station: build-cleanup
"""


def library(flow: str = HELLO, name: str = ".swarm/flows/hello.yaml") -> Library:
    return load_library(bundled("flows"), {name: flow})


def problems_of(flow: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        library(flow).flow("hello")
    return [problem.removeprefix(".swarm/flows/hello.yaml:") for problem in caught.value.problems]


def steps(*lines: str) -> str:
    """A flow of steps in flow style, the first in line 3."""
    return "id: hello\nsteps:\n" + "".join(f"  - {line}\n" for line in lines)


def test_bundled_flows_are_sound() -> None:
    shipped = load_library(bundled("flows"), {})
    assert [shipped.flow(flow_id).origin for flow_id in shipped.flow_ids] == ["bundled"] * len(shipped.flow_ids)


def test_bundled_stations_are_sound() -> None:
    shipped = load_library(bundled("flows"), {})
    assert [shipped.station(name).station.id for name in shipped.station_ids] == shipped.station_ids


def test_a_users_flow_stands_beside_the_bundled_ones() -> None:
    found = library()
    assert (found.flow("hello").origin, found.flow("build").origin) == ("user", "bundled")


def test_a_users_flow_replaces_a_bundled_one() -> None:
    own = HELLO.replace("id: hello", "id: build", 1)
    found = library(own, ".swarm/flows/build.yaml").flow("build")
    assert (found.origin, [step.id for step in found.flow.steps]) == ("user", ["write", "critique", "test", "done"])


def test_a_users_station_replaces_a_bundled_one() -> None:
    own = {".swarm/flows/stations/code-critic.yaml": STATION.format(id="code-critic")}
    found = load_library(bundled("flows"), own).station("code-critic")
    assert (found.origin, found.station.title) == ("user", "T")


@table(
    "name",
    [
        ".swarm/flows/hello.txt",
        ".swarm/flows/old/hello.yaml",
        ".swarm/hello.yaml",
        ".swarm/flows/stations/hello.yaml",
    ],
)
def test_a_file_elsewhere_is_no_flow(name: str) -> None:
    assert "hello" not in library(name=name).flow_ids


@table("suffix", ["yaml", "yml", "json"])
def test_a_flow_is_yaml_or_json(suffix: str) -> None:
    text = '{"id": "hello", "steps": [{"id": "a", "station": "code-critic"}]}'
    assert library(text, f".swarm/flows/hello.{suffix}").flow("hello").flow.steps[0].id == "a"


def test_an_unknown_flow_names_the_near_one_and_the_next_command() -> None:
    with pytest.raises(NotFoundError) as caught:
        load_library(bundled("flows"), {}).flow("bulid")
    assert (caught.value.message, caught.value.hint) == (
        "unknown flow 'bulid' (did you mean 'build'?)",
        "git swarm flows list",
    )


def test_an_unknown_station_names_the_near_one() -> None:
    with pytest.raises(NotFoundError) as caught:
        load_library(bundled("flows"), {}).station("code-critik")
    assert caught.value.message == "unknown station 'code-critik' (did you mean 'code-critic'?)"


def test_a_bad_flow_spoils_no_other() -> None:
    assert library("id: [").flow("build").flow.id == "build"


AT = 'kind: branch, when: [{if: "evidence.tests.pased == true", next: b}], default: a'


def validated(found: Library) -> None:
    """As `flows validate` does it."""
    checked_flow(found, "hello")
    refuse_unreachable(found, "hello")


@table(
    ("flow", "problem"),
    [
        (
            steps(f"{{id: a, engine: command, command: test, routing: {{{AT}}}}}", "{id: b, station: fixer}"),
            "3: 'evidence.tests.pased == true': no field 'pased' in evidence.tests (did you mean 'passed'?)",
        ),
        (
            steps("{id: a, station: fixer, routing: {kind: terminal}}", "{id: b, station: fixer}"),
            "4: no step leads to 'b'",
        ),
    ],
)
def test_what_would_never_be_executed_is_refused(flow: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        validated(library(flow))
    assert caught.value.problems == [f".swarm/flows/hello.yaml:{problem}"]


def test_a_step_may_be_only_where_a_sidequest_returns_to() -> None:
    flow = steps("{id: a, station: fixer, routing: {kind: terminal}}", "{id: b, station: fixer}")
    quest = "id: q\ntitle: Q\ntriggers: [{kind: paths, patterns: [x]}]\nsteps: [{id: s, station: fixer}]\n"
    files = {
        ".swarm/flows/hello.yaml": flow,
        ".swarm/flows/sidequests/q.yaml": f"{quest}returns: {{mode: bounce_to, target: b}}\n",
    }
    refuse_unreachable(load_library(bundled("flows"), files), "hello")


@table(
    ("flow", "problems"),
    [
        pytest.param(
            HELLO.replace("code-critic", "code-critik"),
            ["6: unknown station 'code-critik' (did you mean 'code-critic'?)"],
            id="unknown station",
        ),
        pytest.param(
            f"{HELLO}cross_cutting: [clarifyer]\n",
            ["14: cross_cutting: unknown station 'clarifyer' (did you mean 'clarifier'?)"],
            id="unknown cross-cutting station",
        ),
        pytest.param(
            HELLO.replace("command: test", "command: tests"),
            ["10: unknown command 'tests' (did you mean 'test'?)"],
            id="unknown command",
        ),
        pytest.param(
            HELLO.replace("loop_target: write", "loop_target: wriet"),
            ["7: loop_target: no step 'wriet' in this flow (did you mean 'write'?)"],
            id="loop target that does not exist",
        ),
        pytest.param(
            HELLO.replace("default: write", "default: wriet").replace("next: done", "next: doen"),
            [
                "11: default: no step 'wriet' in this flow (did you mean 'write'?)",
                "11: next: no step 'doen' in this flow (did you mean 'done'?)",
            ],
            id="branch targets that do not exist",
        ),
        pytest.param(HELLO.replace("id: hello", "id: hallo"), ["1: id 'hallo' in a file named 'hello'"], id="name"),
        pytest.param(
            HELLO.replace("id: done", "id: write"),
            [
                "12: the step 'write' exists already",
                "11: next: no step 'done' in this flow (known: critique, test, write, write)",
            ],
            id="a step twice",
        ),
        pytest.param(
            steps("{id: a, station: fixer}", "{id: a, station: code-critic}", "{id: b, station: fixer}"),
            ["4: the step 'a' exists already"],
            id="a step twice, of another station",
        ),
        pytest.param(
            steps("{id: a, engine: command, command: {run: ' '}}"),
            ["3: the command of 'a' is empty"],
            id="no command",
        ),
        pytest.param(
            steps("{id: a, station: fixer, routing: {kind: loop, loop_target: a}}"),
            ["3: steps.0.routing: unknown kind 'loop' (did you mean 'microloop'?)"],
            id="an unknown kind of routing",
        ),
        pytest.param("id: hello\nsteps: yes\n", ["2: steps: expected a list"], id="steps that are a switch"),
        pytest.param("id: hello\nsteps: []\n", ["2: steps: needs at least 1, has 0"], id="no steps"),
        pytest.param("id: hello\nsteps: [fix]\n", ["2: steps.0: expected `key: value`"], id="a step of one word"),
        pytest.param(
            HELLO.replace("loop_target: write", "loop_target: done"),
            ["7: 'critique' loops to 'done', which comes after it"],
            id="a loop that looks forward",
        ),
        pytest.param(
            steps(
                "{id: a, station: code-critic}",
                "{id: b, station: code-critic}",
                "{id: c, station: code-critic, routing: {kind: microloop, loop_target: a}}",
                "{id: d, station: code-critic, routing: {kind: microloop, loop_target: b}}",
            ),
            ["6: the loop of 'd' starts inside the loop of 'c': loops may nest, not cross"],
            id="crossing loops",
        ),
        pytest.param(
            steps(
                "{id: a, station: code-critic}",
                "{id: b, station: code-critic, routing: {kind: linear, next: a}}",
            ),
            ["4: 'b' leads back to 'a' without a limit: only loops may go back"],
            id="a circle",
        ),
    ],
)
def test_a_flow_that_cannot_run_says_why_with_its_line(flow: str, problems: list[str]) -> None:
    assert problems_of(flow) == problems


@table(
    "flow",
    [
        pytest.param(
            steps(
                '{id: a, station: code-critic, routing: {kind: branch, when: [{if: "true", next: b}], next: c}}',
                "{id: b, station: code-critic, routing: {kind: linear, next: a}}",
                "{id: c, station: code-critic}",
            ),
            id="to the step that branched",
        ),
        pytest.param(
            steps(
                '{id: a, station: code-critic, routing: {kind: branch, when: [{if: "true", next: b}], next: c}}',
                "{id: b, station: code-critic, routing: {kind: linear, next: b}}",
                "{id: c, station: code-critic}",
            ),
            id="to itself",
        ),
    ],
)
def test_a_side_way_that_leads_back_for_ever_is_refused(flow: str) -> None:
    (problem,) = problems_of(flow)
    assert "without a limit" in problem


def test_loops_may_nest() -> None:
    flow = steps(
        "{id: a, station: code-critic}",
        "{id: b, station: code-critic}",
        "{id: c, station: code-critic, routing: {kind: microloop, loop_target: b}}",
        "{id: d, station: code-critic, routing: {kind: microloop, loop_target: a}}",
    )
    assert library(flow).flow("hello").flow.loop_body("d") == frozenset("abcd")


def test_a_step_and_agent_that_share_a_receipt_with_another_step_are_refused() -> None:
    """`receipts/<step>-<agent>.json`: two steps must never write one file."""
    own = {
        ".swarm/flows/hello.yaml": steps(
            "{id: critique, station: code-critic}", "{id: critique-code, station: critic}"
        ),
        ".swarm/flows/stations/critic.yaml": STATION.format(id="critic"),
    }
    with pytest.raises(SpecError) as caught:
        load_library(bundled("flows"), own).flow("hello")
    (problem,) = caught.value.problems
    assert problem.startswith(".swarm/flows/hello.yaml:4: ")


def test_a_wrong_flow_names_the_next_command() -> None:
    with pytest.raises(SpecError) as caught:
        library(HELLO.replace("code-critic", "nobody")).flow("hello")
    assert caught.value.hint == "git swarm flows validate hello"


def test_a_flow_that_is_not_yaml_names_the_next_command_too() -> None:
    with pytest.raises(SpecError) as caught:
        library("id: [").flow("hello")
    assert caught.value.hint == "git swarm flows validate hello"


def test_a_station_in_a_file_of_another_name_is_refused() -> None:
    own = {".swarm/flows/stations/critic.yaml": STATION.format(id="other")}
    found = load_library(bundled("flows"), own)
    with pytest.raises(SpecError) as caught:
        found.station("critic")
    assert caught.value.problems == [".swarm/flows/stations/critic.yaml:1: id 'other' in a file named 'critic'"]


@table(
    ("step", "following"),
    [("write", "critique"), ("critique", "test"), ("test", "done"), ("done", None)],
)
def test_without_next_the_following_step_is_next(step: str, following: str | None) -> None:
    assert library().flow("hello").flow.following(step) == following


@table(
    ("step", "body"),
    [
        ("write", frozenset()),
        ("critique", frozenset({"write", "critique"})),
        ("test", frozenset({"write", "critique", "test"})),
        ("done", frozenset()),
    ],
)
def test_the_body_of_a_loop_reaches_from_its_target_to_the_step_that_closes_it(
    step: str, body: frozenset[str]
) -> None:
    assert library().flow("hello").flow.loop_body(step) == body


@table(
    "line, problem",
    [
        (
            "fragments: [common/evidnce]",
            "6: fragments: unknown fragment 'common/evidnce' (did you mean 'common/evidence'?)",
        ),
        ("tools: [Read, Bsh]", "6: tools: unknown tool 'Bsh' (did you mean 'Bash'?)"),
        ("tools: [read]", "6: tools: unknown tool 'read' (did you mean 'Read'?)"),
        ("handoff: {required: [sumary]}", "6: handoff.required: a handoff has no 'sumary' (did you mean 'summary'?)"),
    ],
)
def test_a_station_names_what_there_is(line: str, problem: str) -> None:
    name = ".swarm/flows/stations/own.yaml"
    found = load_library(bundled("flows"), {name: STATION.format(id="own") + line})
    with pytest.raises(SpecError) as caught:
        found.station("own")
    assert caught.value.problems == [f"{name}:{problem}"]


def test_a_station_may_have_tools_that_nobody_here_knows() -> None:
    line = "tools: [Task, mcp__bsh, mcp__tickets__read, Frobnicate, LSP]"
    text = STATION.format(id="own") + line
    assert load_library(bundled("flows"), {".swarm/flows/stations/own.yaml": text}).station("own").station.tools


def test_a_flow_of_twice_the_steps_is_twice_the_work() -> None:
    def work(pairs: int) -> int:
        """Calls that it takes to find a flow of so many authors and critics sound."""
        steps = "".join(
            f"  - {{id: w{n}, station: code-implementer}}\n"
            f"  - {{id: c{n}, station: code-critic, routing: {{kind: microloop, loop_target: w{n}}}}}\n"
            for n in range(pairs)
        )
        found, calls = library(f"id: hello\nsteps:\n{steps}"), 0

        def count(*_event: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            checked_flow(found, "hello")
            refuse_unreachable(found, "hello")
        finally:
            sys.setprofile(None)
        return calls

    work(1)  # what is read once for all
    assert work(200) < 2.2 * work(100)
