"""YAML into models: every problem names file, line and key, whatever a person writes."""

from __future__ import annotations

import pytest

from gitswarm.errors import SpecError
from gitswarm.records.text import did_you_mean
from gitswarm.specs.flow import Flow, Linear, Microloop
from gitswarm.specs.yaml_source import parse_yaml, validate
from tests.tables import table

FLOW = """\
id: hello
title: Say hello
steps:
  - id: write
    station: code-implementer
  - id: critique
    station: code-critic
    routing:
      kind: microloop
      loop_target: write
      max_iterations: 3
"""


def problems_of(text: str) -> list[str]:
    """What is wrong with a flow of this text."""
    with pytest.raises(SpecError) as caught:
        validate(parse_yaml("hello.yaml", text), Flow)
    return caught.value.problems


def test_a_sound_flow_becomes_a_model() -> None:
    flow = validate(parse_yaml("hello.yaml", FLOW), Flow)
    assert [(step.id, step.station, type(step.routing)) for step in flow.steps] == [
        ("write", "code-implementer", Linear),
        ("critique", "code-critic", Microloop),
    ]


def test_json_is_yaml_too() -> None:
    text = '{"id": "hello", "steps": [{"id": "write", "station": "s"}]}'
    assert validate(parse_yaml("hello.json", text), Flow).steps[0].id == "write"


def test_every_key_and_item_has_its_line() -> None:
    source = parse_yaml("hello.yaml", FLOW)
    places = [(), ("id",), ("steps",), ("steps", 0), ("steps", 1, "station"), ("steps", 1, "routing", "loop_target")]
    assert [source.line_of(tuple(place)) for place in places] == [1, 1, 3, 4, 7, 10]


def test_a_place_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    assert parse_yaml("hello.yaml", FLOW).line_of(("steps", 1, "objective")) == 6


@table(
    ("text", "problem"),
    [
        pytest.param("id: [a\nsteps: b", "hello.yaml:2: not valid YAML: ", id="unclosed"),
        pytest.param("id: a\n\tsteps: b", "hello.yaml:2: not valid YAML: ", id="tab"),
        pytest.param(
            "a: 1\n---\nb: 2", "hello.yaml:2: not valid YAML: but found another document", id="two documents"
        ),
        pytest.param("id: !!python/object:os.system x", "hello.yaml:1: not valid YAML: ", id="foreign tag"),
        pytest.param("? [a]\n: b", "hello.yaml:1: not valid YAML: found unhashable key", id="list as key"),
        pytest.param("a: *gone", "hello.yaml:1: not valid YAML: found undefined alias", id="unknown alias"),
        pytest.param("id: a\nname: a\x07b", "hello.yaml:2: not valid YAML: ", id="control character"),
        pytest.param(
            "id: a\nn: .nan", "hello.yaml:2: not valid YAML: '.nan' is no number that can", id="not a number"
        ),
        pytest.param("id: a\nn: -.inf", "hello.yaml:2: not valid YAML: '-.inf' is no number", id="infinite"),
        pytest.param("id: a\nn: 0x1" + "0" * 16, "hello.yaml:2: not valid YAML: a number with too", id="65 bits"),
        pytest.param("id: a\nn: 0x1" + "0" * 9000, "hello.yaml:2: not valid YAML: a number with too", id="many bits"),
        pytest.param("id: a\nn: 1" + "0" * 9000, "hello.yaml:2: not valid YAML: Exceeds the limit", id="many digits"),
        pytest.param(
            "id: a\nn: 1" + ":00" * 9000, "hello.yaml:2: not valid YAML: a number with too", id="of base 60"
        ),
        pytest.param("id: a\nn: !!binary aGk=", "hello.yaml:2: not valid YAML: could not determine", id="bytes"),
        pytest.param("id: a\nn: !!set {a, b}", "hello.yaml:2: not valid YAML: could not determine", id="a set"),
        pytest.param("id: a\nn: !!int one", "hello.yaml:2: not valid YAML: ", id="no number"),
        pytest.param("id: a\nsteps: &me [*me]", "hello.yaml:2: not valid YAML: ", id="a list in itself"),
        pytest.param("[" * 2000 + "]" * 2000, "hello.yaml:1: not valid YAML: nested", id="too deep"),
        pytest.param("[" * 200_000, "hello.yaml:1: not valid YAML: nested", id="far too deep"),
        pytest.param("- " * 5000, "hello.yaml:1: not valid YAML: nested", id="lists in lists"),
        pytest.param("id: a\nname: \ud800", "hello.yaml:2: not valid YAML: half a character", id="lone surrogate"),
    ],
)
def test_text_that_is_not_yaml_is_one_problem_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_yaml("hello.yaml", text)
    (line,) = caught.value.problems
    assert (line.startswith(problem), "\n" in line) == (True, False)


@table(
    ("text", "problem"),
    [
        ("id: a\nid: b", "hello.yaml:2: the key 'id' is here twice"),
        ("id: a\nsteps:\n  - id: b\n    id: c", "hello.yaml:4: the key 'id' is here twice"),
    ],
)
def test_a_key_that_stands_twice_is_a_problem(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_yaml("hello.yaml", text)
    assert caught.value.problems == [problem]


@table("text", ["", "# nothing\n", "- a\n- b\n", "word", "12"])
def test_a_document_that_is_no_mapping_says_which_keys_are_expected(text: str) -> None:
    keys = "id, title, charter, cross_cutting, on_complete, on_failure, utility, needs_task, budget, steps"
    assert problems_of(text) == [f"hello.yaml:1: expected a mapping with {keys}"]


@table(
    ("old", "new", "problem"),
    [
        pytest.param(
            "title: Say", "titel: Say", "hello.yaml:2: unknown key 'titel' (did you mean 'title'?)", id="top level"
        ),
        pytest.param(
            "    station: code-critic",
            "    station: code-critic\n    objectiv: x",
            "hello.yaml:8: unknown key 'steps.1.objectiv' (did you mean 'objective'?)",
            id="in a step",
        ),
        pytest.param(
            "max_iterations: 3",
            "max_iteration: 3",
            "hello.yaml:11: unknown key 'steps.1.routing.max_iteration' (did you mean 'max_iterations'?)",
            id="in a routing",
        ),
        pytest.param("id: hello\n", "", "hello.yaml:1: 'id' is missing", id="missing at the top"),
        pytest.param(
            "  - id: write\n    station", "  - station", "hello.yaml:4: 'steps.0.id' is missing", id="no id"
        ),
        pytest.param(
            "      loop_target: write\n",
            "",
            "hello.yaml:8: 'steps.1.routing.loop_target' is missing",
            id="a loop without a target",
        ),
        pytest.param(
            "max_iterations: 3",
            "max_iterations: 0",
            "hello.yaml:11: steps.1.routing.max_iterations: has to be at least 1, not 0",
            id="a number out of range",
        ),
        pytest.param(
            "id: write",
            "id: Write It",
            "hello.yaml:4: steps.0.id: 'Write It' is not an id: "
            "a lower-case letter, then letters, digits, '-' or '_'",
            id="a bad id",
        ),
    ],
)
def test_a_problem_names_file_line_key_and_the_nearest_known_name(old: str, new: str, problem: str) -> None:
    assert old in FLOW
    assert problems_of(FLOW.replace(old, new)) == [problem]


def test_an_unknown_kind_of_routing_names_the_nearest_or_the_kinds() -> None:
    where = "hello.yaml:8: steps.1.routing:"
    assert problems_of(FLOW.replace("microloop", "microlop")) == [
        f"{where} unknown kind 'microlop' (did you mean 'microloop'?)"
    ]
    assert problems_of(FLOW.replace("microloop", "xyz")) == [
        f"{where} unknown kind 'xyz' (known: branch, fork, join, linear, microloop, terminal)"
    ]


def test_a_step_without_station_and_command_says_what_it_needs() -> None:
    assert problems_of("id: a\nsteps:\n  - id: x\n") == [
        "hello.yaml:3: steps.0: step 'x' needs a 'station' (or 'engine: command' and a 'command')"
    ]


def test_a_command_that_is_neither_a_name_nor_a_line_is_one_problem() -> None:
    text = "id: a\nsteps:\n  - id: x\n    engine: command\n    command: {rum: make}\n"
    (problem,) = problems_of(text)
    assert problem == "hello.yaml:5: unknown key 'steps.0.command.rum' (did you mean 'run'?)"


def test_all_problems_are_told_at_once() -> None:
    text = "id: a\ntitel: b\nsteps:\n  - id: x\n    station: s\n    stations: t\n"
    assert problems_of(text) == [
        "hello.yaml:2: unknown key 'titel' (did you mean 'title'?)",
        "hello.yaml:6: unknown key 'steps.0.stations' (did you mean 'station'?)",
    ]


@table(
    ("word", "said"),
    [
        ("bulid", " (did you mean 'build'?)"),
        ("xyz", " (known: build, plan)"),
    ],
)
def test_a_near_name_is_suggested_else_all_are_listed(word: str, said: str) -> None:
    assert did_you_mean(word, ["plan", "build"]) == said


def test_a_name_in_another_case_is_the_one_that_was_meant() -> None:
    assert did_you_mean("verified", ["VERIFIED", "BLOCKED"]) == " (did you mean 'VERIFIED'?)"
    assert did_you_mean("ab", ["AB", "abc"]) == " (did you mean 'abc'?)"


def test_nothing_is_suggested_when_nothing_is_known() -> None:
    assert did_you_mean("x", []) == ""


def test_aliases_that_multiply_are_refused_at_once() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(SpecError) as caught:
        parse_yaml("bomb.yaml", "\n".join(["l0: &l0 [x, x, x, x, x, x, x, x, x]", *levels]))
    assert "more than 50,000 values" in caught.value.problems[0]


@pytest.mark.parametrize("date", ["2026-01-01", "2020-13-45", "2001-12-14t21:59:43.10-05:00"])
def test_a_date_is_the_text_that_stands_there(date: str) -> None:
    assert parse_yaml("hello.yaml", f"when: {date}\n{date}: key\nmerged: {{<<: {{a: {date}}}}}").data == {
        "when": date,
        date: "key",
        "merged": {"a": date},
    }
