"""Which forks are fit to be executed, and how they are drawn."""

from __future__ import annotations

import pytest

from gitswarm.cli.flows import drawing
from gitswarm.errors import SpecError
from gitswarm.resources import bundled
from gitswarm.specs.graph import edges, mermaid, worst_executions
from gitswarm.specs.library import Library, load_library
from gitswarm.specs.station import Station
from tests.tables import table

HEAD = "id: fan\nsteps:\n"
FAN = (
    "{id: begin, station: fixer, routing: {kind: fork, fork_targets: [left, right]}}",
    "{id: left, station: fixer}",
    "{id: right, station: code-critic}",
    "{id: both, station: fixer, routing: {kind: join, join_from: [right, left]}}",
    "{id: close, station: build-cleanup}",
)


def library(*steps: str) -> Library:
    text = HEAD + "".join(f"  - {step}\n" for step in steps)
    return load_library(bundled("flows"), {".swarm/flows/fan.yaml": text})


def problems(*steps: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        library(*steps).flow("fan")
    return [problem.removeprefix(".swarm/flows/fan.yaml:") for problem in caught.value.problems]


def changed(number: int, old: str, new: str) -> list[str]:
    assert old in FAN[number]
    return [step.replace(old, new) if index == number else step for index, step in enumerate(FAN)]


def test_a_fork_with_its_join_is_sound() -> None:
    flow = library(*FAN).flow("fan").flow
    assert [flow.following(step.id) for step in flow.steps] == ["both", "both", "both", "close", None]


@table(
    ("number", "old", "new", "expected"),
    [
        (0, "right]", "rihgt]", ["3: fork_targets: no step 'rihgt' in this flow (did you mean 'right'?)"]),
        (3, "[right", "[rihgt", ["6: join_from: no step 'rihgt' in this flow (did you mean 'right'?)"]),
        (0, "[left, right]", "[left, left]", ["3: fork_targets: 'left' is listed twice"]),
        (0, "[left,", "[begin, left,", ["3: fork_targets: 'begin' does not come after 'begin'"]),
        (
            1,
            "fixer}",
            "fixer, routing: {kind: linear, next: both}}",
            ["4: 'left' is executed in parallel: it leads to the join, and cannot have a routing of its own"],
        ),
        (
            3,
            "[right, left]",
            "[right, begin]",
            [
                "3: no join names exactly the targets of 'begin': left, right",
                "6: no fork has exactly these targets: right, begin",
            ],
        ),
        (
            4,
            "build-cleanup}",
            "build-cleanup, routing: {kind: microloop, loop_target: left}}",
            [
                "7: 'close' leads to 'left', which only the fork 'begin' may execute",
                "7: the loop of 'close' cuts the fork 'begin': it has to hold all of it, its join included",
            ],
        ),
        (
            4,
            "build-cleanup}",
            "build-cleanup, routing: {kind: join, join_from: [left, right]}}",
            ["7: 'both' joins left, right already"],
        ),
    ],
)
def test_a_fork_that_could_not_be_executed_is_refused_with_its_line(
    number: int, old: str, new: str, expected: list[str]
) -> None:
    assert [problem for problem in problems(*changed(number, old, new)) if problem in expected] == expected


def test_nothing_else_leads_to_a_target() -> None:
    between = [FAN[0], "{id: between, station: fixer}", *FAN[1:]]
    assert problems(*between) == ["4: 'between' leads to 'left', which only the fork 'begin' may execute"]


def test_a_join_comes_after_its_branches() -> None:
    early = [FAN[0], FAN[1], FAN[3], FAN[2], FAN[4]]
    assert "5: join_from: 'both' does not come after 'right'" in problems(*early)


def test_a_loop_may_hold_a_whole_fork_or_none_of_it() -> None:
    again = "{id: judge, station: code-critic, routing: {kind: microloop, loop_target: TARGET, max_iterations: 3}}"
    for target in ("begin", "both", "judge"):
        assert library(*FAN[:4], again.replace("TARGET", target)).flow("fan")


def test_a_target_belongs_to_one_fork_only() -> None:
    second = [
        *FAN[:4],
        "{id: more, station: fixer, routing: {kind: fork, fork_targets: [last, left]}}",
        "{id: last, station: fixer}",
        FAN[4],
    ]
    assert "7: fork_targets: 'left' does not come after 'more'" in problems(*second)


def test_a_fork_is_drawn_with_its_branches_beside_each_other() -> None:
    flow = library(*FAN).flow("fan").flow
    assert drawing(flow) == (
        "● begin  fixer\n"
        "│   ⇉ at the same time: left, right\n"
        "║ left  fixer\n"
        "║ right  code-critic\n"
        "│ both  fixer\n"
        "│   ⇇ all_complete of right, left\n"
        "│ close  build-cleanup\n"
        "○ end"
    )


def test_a_drawing_of_a_wide_fork_stays_within_a_terminal() -> None:
    names = [f"a-target-with-a-long-name-{number}" for number in range(8)]
    listed = ", ".join(names)
    flow = library(
        f"{{id: begin, station: fixer, routing: {{kind: fork, fork_targets: [{listed}]}}}}",
        *(f"{{id: {name}, station: fixer}}" for name in names),
        f"{{id: both, station: fixer, routing: {{kind: join, join_from: [{listed}]}}}}",
    ).flow("fan")
    assert max(map(len, drawing(flow.flow).splitlines())) <= 80


def test_the_edges_of_a_fork_lead_to_each_branch_and_from_there_to_the_join() -> None:
    flow = library(*FAN).flow("fan").flow
    assert [(edge.source, edge.target, edge.label) for edge in edges(flow)] == [
        ("begin", "left", "at the same time"),
        ("begin", "right", "at the same time"),
        ("left", "both", "all_complete"),
        ("right", "both", "all_complete"),
        ("both", "close", ""),
        ("close", "end", ""),
    ]
    assert '  begin -->|"at the same time"| left\n' in mermaid(flow)
    assert worst_executions(flow, with_criteria=False) == dict.fromkeys(
        ("begin", "left", "right", "both", "close"), 1
    )


@table(
    ("station", "writes"),
    [
        ("code-critic", False),
        ("security-auditor", False),
        ("bdd-author", True),
        ("fixer", True),
        ("doc-writer", True),
    ],
)
def test_who_only_reads_the_code_says_its_category_and_its_outputs(station: str, *, writes: bool) -> None:
    found: Station = load_library(bundled("flows"), {}).station(station).station
    assert found.writes_code is writes
