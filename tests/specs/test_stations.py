"""The bundled stations: each written for its role, honest about handing over, and fed by steps that come before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from itertools import combinations, pairwise

import pytest

from gitswarm.resources import bundled
from gitswarm.routing.macro import ALL
from gitswarm.specs.compile import TRAIL
from gitswarm.specs.flow import Flow, Microloop, Step
from gitswarm.specs.library import load_library
from gitswarm.specs.station import (
    CodePattern,
    RunArtifact,
    Station,
    declared_artifacts,
    parse_artifact,
    promised_artifacts,
)
from tests.tables import table

LIBRARY = load_library(bundled("flows"), {})
STATIONS = {name: LIBRARY.station(name).station for name in LIBRARY.station_ids}
CRITICS = [name for name, station in STATIONS.items() if station.category == "critic"]
TOOLS = {"Read", "Write", "Edit", "Bash", "Grep", "Glob", "Agent"}

# Flows that hand artifacts to the next one, in this order; a reset interrupts any of them, and reads what is there.
CHAIN = [LIBRARY.flow(name).flow for name in (*ALL, "reset")]
STEPS = [pytest.param(flow, step, id=f"{flow.id}/{step.id}") for flow in CHAIN for step in flow.steps]
STATION_STEPS = [
    pytest.param(flow, step, STATIONS[step.station], id=f"{flow.id}/{step.id}")
    for flow in CHAIN
    for step in flow.steps
    if step.station is not None
]
LOOPS = [
    pytest.param(flow, step, id=f"{flow.id}/{step.id}")
    for flow in CHAIN
    for step in flow.steps
    if isinstance(step.routing, Microloop)
]

# What is there when a Gate has sent the run back: Plan, Build and Review begin again with it. And what earlier runs
# left.
KEPT_FROM_AN_EARLIER_ENTRY = {
    RunArtifact(path)
    for path in (
        "build/ac_status.json",
        "review/pr.md",
        "review/review_worklist.json",
        "gate/merge_decision.json",
        "gate/gate_findings.json",
        TRAIL,
    )
}

OF_A_PROJECT = {"package.json", "AGENTS.md"}

# English alone takes two of these texts to a ratio of 0.17 (`the`, `and`, `is`), and to 0.008 of common runs of five
# words ("at the commit where the run began"). A text of which one half is another's comes to about 0.5, and one
# borrowed invariant to more than 0.02 of common runs: the test of the measure below.
MOST_ALIKE = 0.25
MOST_COMMON_RUNS = 0.02
RUN_OF_WORDS = 5


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9_'-]+", text.lower())


@cache
def said(name: str) -> list[str]:
    """Identity and invariants of a station, in words."""
    return words(" ".join((STATIONS[name].identity, *STATIONS[name].invariants)))


def alike(one: list[str], other: list[str]) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def common_runs(one: list[str], other: list[str]) -> float:
    """Share of five-word runs that both texts have, of all that either has."""
    first, second = (
        {tuple(text[at : at + RUN_OF_WORDS]) for at in range(len(text) - RUN_OF_WORDS + 1)} for text in (one, other)
    )
    return len(first & second) / len(first | second)


def run_artifacts(names: tuple[str, ...], flow: Flow) -> set[RunArtifact]:
    parsed = (parse_artifact(name, flow.id) for name in names)
    return {artifact for artifact in parsed if isinstance(artifact, RunArtifact)}


def written_by(step: Step, flow: Flow) -> set[RunArtifact]:
    """What is there after a step: its promised outputs, and the evidence that git-swarm writes for every step."""
    promised = run_artifacts(step.teaching.output_names, flow)
    return promised | {RunArtifact(f"{flow.id}/evidence/{step.id}.json")}


def readable_in(step: Step, flow: Flow) -> set[RunArtifact]:
    """What can be there when a step begins, in a run of the whole chain: written by an earlier flow, by an
    earlier step, or by a step of a loop that leads back to or before this one.
    """
    before = [(other, earlier) for earlier in CHAIN[: CHAIN.index(flow)] for other in earlier.steps]
    here = [(other, flow) for other in flow.steps[: flow.index(step.id)]]
    bodies = [body for closing in flow.steps if step.id in (body := flow.loop_body(closing.id))]
    around = [(flow.step(other), flow) for body in bodies for other in body]
    found = (written_by(other, of) for other, of in (*before, *here, *around))
    return KEPT_FROM_AN_EARLIER_ENTRY.union(*found)


def finding_prefix(critic: Station) -> str:
    """`CC-` of a critic whose invariants say that ids are `(CC-1, CC-2, …)`."""
    found = set(re.findall(r"\b([A-Z]{2})-1, \1-2, …", " ".join(critic.invariants)))
    assert len(found) == 1, f"{critic.id} has no prefix of its own: {found}"
    return f"{found.pop()}-"


def authors_in(loop: Step, flow: Flow) -> Iterator[tuple[Step, Station]]:
    """The steps that a critic can send back whose stations are no critics themselves."""
    assert isinstance(loop.routing, Microloop)
    body = flow.steps[flow.index(loop.routing.loop_target) : flow.index(loop.id)]
    for step in body:
        if step.station is not None and STATIONS[step.station].category != "critic":
            yield step, STATIONS[step.station]


@table("name", STATIONS)
def test_a_station_is_a_person_with_rules_and_an_honest_end(name: str) -> None:
    station = STATIONS[name]
    sentences = re.split(r"(?<=[.?!])\s+", station.identity.strip())
    handoff = station.handoff
    ends = (handoff.verified_when, handoff.unverified_when, handoff.partial_when, handoff.blocked_when)
    assert 5 <= len(sentences) <= 8
    assert re.search(r"\bYou\b", station.identity)
    assert 5 <= len(station.invariants) <= 8
    assert all(ends), "each status needs a criterion"
    assert len(set(ends)) == len(ends)
    assert {"status", "summary"} <= set(handoff.required)


@table("name", STATIONS)
def test_a_station_has_known_tools_and_can_do_with_them_what_it_owes(name: str) -> None:
    station = STATIONS[name]
    assert set(station.tools) <= TOOLS
    assert "Write" in station.tools, "artifacts are written with it"
    assert "Bash" in station.tools or not station.verification.commands


ONLY_WITH_A_MATRIX = {"ac_status.json": ("code-implementer",)}
"""Artifacts that a station writes when there is an acceptance matrix, and not otherwise."""


def told(name: str) -> str:
    """Everything that is particular to a station and its steps, in one text."""
    station = STATIONS[name]
    ends = station.handoff
    steps = [step for _flow, step in steps_of(name)]
    notes = [(step.objective, *step.teaching.emphasizes, *step.teaching.constraints) for step in steps]
    own = (*station.invariants, ends.verified_when, ends.unverified_when, ends.partial_when, ends.blocked_when)
    return "\n".join((*own, *(text for texts in notes for text in texts)))


def steps_of(name: str) -> list[tuple[Flow, Step]]:
    return [(flow, step) for flow in CHAIN for step in flow.steps if step.station == name]


@table("name", STATIONS)
def test_who_is_told_a_command_has_a_shell(name: str) -> None:
    assert "Bash" in STATIONS[name].tools or not re.search(r"`(git|gh) |\bBash\b", told(name))


@table("name", [name for name in STATIONS if steps_of(name)])
def test_a_file_that_is_spoken_of_is_handed_in_or_owed(name: str) -> None:
    spoken = set(re.findall(r"(?<![\w/.*])(?:[\w-]+/)*([\w-]+\.(?:json|md|yaml))\b", told(name))) - OF_A_PROJECT
    for _flow, step in steps_of(name):
        given = {path.rpartition("/")[2] for path in (*step.teaching.inputs, *step.teaching.output_names)}
        assert spoken - given == set(), step.id


@table("name", STATIONS)
def test_a_station_hands_over_every_artifact_that_it_promises(name: str) -> None:
    station = STATIONS[name]
    named = [output for output in station.io.outputs if not isinstance(parse_artifact(output, "any"), CodePattern)]
    promised = [output for output in named if name not in ONLY_WITH_A_MATRIX.get(output, ())]
    assert promised
    assert list(station.verification.artifacts) == promised


def test_a_step_owes_what_it_is_told_to_write() -> None:
    left = [
        (f"{flow.id}/{step.id}", path)
        for name, station in STATIONS.items()
        for flow, step in steps_of(name)
        for path in set(declared_artifacts(flow, step, station)).difference(promised_artifacts(flow, station))
    ]
    assert left == [("build/implement", "build/ac_status.json")], "which it writes where there is a matrix"


def test_no_two_stations_read_like_copies() -> None:
    pairs = list(combinations(STATIONS, 2))
    measured = [(alike(said(a), said(b)), common_runs(said(a), said(b)), a, b) for a, b in pairs]
    too_close = [pair for pair in measured if pair[0] > MOST_ALIKE or pair[1] > MOST_COMMON_RUNS]
    assert too_close == []


@table(("lender", "borrower"), list(pairwise(STATIONS)))
def test_one_borrowed_rule_and_a_borrowed_half_are_noticed(lender: str, borrower: str) -> None:
    rule = words(max(STATIONS[lender].invariants, key=lambda text: len(words(text))))
    own = said(borrower)
    half = own[: len(own) // 2] + said(lender)[: len(said(lender)) // 2]
    assert common_runs([*own, *rule], said(lender)) > MOST_COMMON_RUNS
    assert alike(half, said(lender)) > MOST_ALIKE


@table("name", CRITICS)
def test_a_critic_writes_its_critique_and_repairs_nothing(name: str) -> None:
    critic = STATIONS[name]
    assert set(critic.tools) - {"Bash"} == {"Read", "Grep", "Glob", "Write"}
    assert len(critic.io.outputs) == 1
    assert critic.io.outputs[0].endswith("_critique.md")
    assert critic.io.outputs[0] in critic.io.inputs, "a second pass starts from the first"
    assert "can_further_iteration_help" in critic.handoff.required


def test_findings_of_two_critics_cannot_be_confused() -> None:
    prefixes = [finding_prefix(STATIONS[name]) for name in CRITICS]
    assert sorted(set(prefixes)) == sorted(prefixes)


@table(("flow", "step"), STEPS)
def test_the_station_of_a_step_exists(flow: Flow, step: Step) -> None:
    assert step.station is None or step.station in STATIONS, f"{flow.id}/{step.id}"


@table("flow", [pytest.param(flow, id=flow.id) for flow in CHAIN])
def test_cross_cutting_stations_exist(flow: Flow) -> None:
    assert [name for name in flow.cross_cutting if name not in STATIONS] == []


@table(("flow", "step"), STEPS)
def test_what_a_step_reads_was_written_before_it(flow: Flow, step: Step) -> None:
    wanted = run_artifacts(step.teaching.inputs, flow)
    if step.station is not None:
        wanted |= run_artifacts(STATIONS[step.station].io.inputs, flow)
    assert {artifact.path for artifact in wanted - readable_in(step, flow)} == set()


@table("name", STATIONS)
def test_what_a_station_reads_of_a_named_flow_is_written_there(name: str) -> None:
    there = {path for flow in CHAIN for step in flow.steps for path in written_by(step, flow)}
    flows = {flow.id for flow in CHAIN}
    named = [read for read in STATIONS[name].io.inputs if read.split("/")[0] in flows and "*" not in read]
    assert [read for read in named if RunArtifact(read) not in there] == []


@table(("flow", "step", "station"), STATION_STEPS)
def test_a_step_and_its_station_agree_on_what_goes_in_and_out(flow: Flow, step: Step, station: Station) -> None:
    asked = run_artifacts(step.teaching.inputs, flow)
    assert run_artifacts(step.teaching.output_names, flow) == run_artifacts(station.io.outputs, flow)
    assert {artifact.path for artifact in run_artifacts(station.io.inputs, flow) - asked} == set()


@table(("flow", "step"), LOOPS)
def test_a_critic_reads_its_authors_work_first(flow: Flow, step: Step) -> None:
    assert isinstance(step.routing, Microloop)
    author = flow.step(step.routing.loop_target)
    assert parse_artifact(step.teaching.inputs[0], flow.id) in written_by(author, flow)


@table(("flow", "loop"), LOOPS)
def test_everybody_whom_a_critic_sends_back_answers_its_findings(flow: Flow, loop: Step) -> None:
    assert loop.station is not None
    critic = STATIONS[loop.station]
    critique = run_artifacts(critic.io.outputs, flow)
    unanswered = [
        step.id
        for step, author in authors_in(loop, flow)
        if not critique <= run_artifacts(step.teaching.inputs, flow)
        or not {finding_prefix(critic), critic.io.outputs[0]}
        & set(re.findall(r"[A-Z]{2}-|\w+\.md", " ".join(author.invariants)))
    ]
    assert unanswered == []
