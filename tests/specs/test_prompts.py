"""What agents are told: every bundled step, five of them word for word, and what moves a prompt's hash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from gitswarm.errors import SpecError
from gitswarm.resources import bundled
from gitswarm.runner.prompts import compile_blank
from gitswarm.runner.specs import checked_flow
from gitswarm.specs.compile import Briefing, Criterion, Critique, PromptPlan, Role, compile_prompt
from gitswarm.specs.context import Budget, EarlierStep, Priority, pack_history
from gitswarm.specs.fragments import Fragments, critics_of, template_id
from gitswarm.specs.library import Library, load_library
from gitswarm.specs.model_policy import ModelRequest, choose_model
from tests.golden import check_golden
from tests.tables import table

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_STEPS = ("signal/normalize", "plan/author_adr", "build/implement", "build/critique_code", "build/finalize")


@cache
def library() -> Library:
    return load_library(bundled("flows"), {})


def session_steps() -> Iterator[str]:
    for flow_id in library().flow_ids:
        for step in library().flow(flow_id).flow.steps:
            if step.station is not None:
                yield f"{flow_id}/{step.id}"


ALL_STEPS = tuple(session_steps())


@cache
def role_of(name: str, request: ModelRequest | None = None) -> Role:
    found = library()
    flow_id, _slash, step_id = name.partition("/")
    flow = checked_flow(found, flow_id)
    step = flow.step(step_id)
    station = found.station(step.station or "").station
    model = choose_model(found.policy(), "claude-step", name, station, request or ModelRequest())
    return Role(flow, step, station, found.template(template_id(flow, step)), model)


def briefing() -> Briefing:
    """One in which everything that can be told is told."""
    earlier = [
        EarlierStep(
            "plan/author_adr", "adr-author", "VERIFIED", "Sockets.", Priority.HIGH, ("concern: load",), ("a",)
        ),
        EarlierStep("build/clarify", "clarifier", "UNVERIFIED", "Two readings.", Priority.MEDIUM),
    ]
    return Briefing(
        history=pack_history(earlier, Budget.of("balanced", 200_000), "balanced"),
        task="Let the greeting be loud.",
        run_base=".swarm/runs/run-20260101-000000-abcdef",
        base_commit="c" * 40,
        critique=Critique("build/critique_code", "UNVERIFIED", "Half.", ("CC-1: no error",), {"c.md": "CC-1 at x:1"}),
        sent_back=EarlierStep("build/run_tests", "command", "UNVERIFIED", "3 tests failed", Priority.HIGH),
        criteria=(Criterion("AC-001-1", "It shouts.", "open", "REQ-001", ("test_loud",)),),
        messages=("Use capital letters.", ""),
        names={"run-20260101-000000-abcdef": "{{run.id}}"},
    )


def compiled(name: str, told: Briefing | None = None) -> PromptPlan:
    return compile_prompt(role_of(name), library().fragments, told or briefing())


@table("name", ALL_STEPS)
def test_an_agent_is_told_its_teaching_notes_the_criteria_and_the_newest_critique(name: str) -> None:
    role, prompt = role_of(name), compiled(name).prompt
    teaching = role.step.teaching
    for said in (*teaching.inputs, *teaching.output_names, *teaching.emphasizes, *teaching.constraints):
        assert f"- {said.strip()}" in prompt.user
    for said in (*role.station.invariants, role.station.identity):
        assert said.strip() in prompt.system
    for said in (
        "Let the greeting be loud.",
        "AC-001-1 [open] REQ-001: It shouts. (tests: test_loud)",
        "CC-1 at x:1",
    ):
        assert said in prompt.user
    for said in ("CC-1: no error", "3 tests failed", "Use capital letters.", "plan/author_adr", "concern: load"):
        assert said in prompt.user
    assert "{{" not in prompt.system + prompt.user


@table("name", ALL_STEPS)
def test_an_agent_is_told_how_to_hand_over(name: str) -> None:
    role, plan = role_of(name), compiled(name)
    handoff = role.station.handoff
    for said in (handoff.verified_when, handoff.unverified_when, handoff.partial_when, handoff.blocked_when):
        assert said.strip() in plan.prompt.system
    required = list_of(plan.output_schema["required"])
    assert {"status", "summary", *handoff.required} == {str(key) for key in required}


def list_of(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


@table("name", ALL_STEPS)
def test_critics_and_their_authors_are_told_of_each_other(name: str) -> None:
    role, system = role_of(name), compiled(name).prompt.system
    author = getattr(role.step.routing, "loop_target", None)
    assert ("You judge, you do not repair" in system) == (author is not None)
    assert ("## Your critic" in system) == bool(critics_of(role.flow, role.step))
    if author is not None:
        assert f"the critic of `{author}`" in system


@table("name", GOLDEN_STEPS)
def test_a_prompt_is_word_for_word_the_golden_one(name: str) -> None:
    prompt = compiled(name).prompt
    text = f"── system\n{prompt.system}\n── user\n{prompt.user}\n"
    check_golden(GOLDEN / f"{name.replace('/', '.')}.txt", text)


def test_the_same_inputs_give_the_same_hash_whatever_the_run_and_the_day() -> None:
    told = briefing()
    other = replace(
        told,
        run_base=".swarm/runs/run-20270101-000000-123456",
        base_commit="d" * 40,
        names={"run-20270101-000000-123456": "{{run.id}}", "/home/bob/x": "{{worktree}}"},
        task=f"{told.task} /home/bob/x at 2027-02-03T04:05:06Z after {'a' * 40}",
    )
    first = replace(told, task=f"{told.task} {{{{worktree}}}} at 2026-01-01 10:00 after {'b' * 40}")
    assert compiled("build/implement", other).prompt.hash == compiled("build/implement", first).prompt.hash
    assert compiled("build/implement", other).prompt.user != compiled("build/implement", first).prompt.user


def test_a_compiled_plan_says_who_works_with_what() -> None:
    plan = compile_blank(library(), library().flow("build").flow, "implement")
    assert plan.tools == ("Read", "Write", "Edit", "Bash", "Grep", "Glob")
    assert plan.max_turns == 50
    assert plan.model.rule == "implementation: primary"
    assert [name for name, _digest in plan.fragments] == [
        "common/workspace",
        "common/evidence",
        "microloop/answer_the_critique",
        "common/handoff",
    ]


@table(
    ("text", "problem"),
    [
        (
            "see {{fragment:comon/evidence}}",
            "build/x: unknown fragment 'comon/evidence' (did you mean 'common/evidence'?)",
        ),
        ("by {{step.idd}}", "build/x: unknown variable '{{step.idd}}' (did you mean 'step.id'?)"),
    ],
)
def test_a_misspelt_mark_is_told_with_the_nearest_name(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        library().fragments.expand(text, {"step.id": "x", "flow.id": "build"}, "build/x")
    assert caught.value.problems == [problem]


def test_a_fragment_that_contains_itself_is_refused() -> None:
    fragments = Fragments({"a": "{{fragment:b}}", "b": "{{ fragment:a }}"})
    with pytest.raises(SpecError) as caught:
        fragments.expand("{{fragment:a}}", {}, "here")
    assert caught.value.problems == ["fragment a contains itself: fragment a -> fragment b -> fragment a"]


def test_what_a_variable_holds_is_not_expanded() -> None:
    used: dict[str, None] = {}
    expanded = Fragments({"a": "secret"}).expand("{{task}}", {"task": "{{fragment:a}}"}, "here", used)
    assert (expanded, used) == ("{{fragment:a}}", {})


# --- one input changes: exactly the hashes that it should ------------------------------------------------------

IMPLEMENT = "build/implement"
CRITICS = {name for name in ALL_STEPS if role_of(name).template.id == "microloop-critic"}
WRITERS = {name for name in ALL_STEPS if role_of(name).template.id == "microloop-writer"}
POLICY = "policy/models.yaml"
IMPLEMENTERS = {
    name
    for name in ALL_STEPS
    if role_of(name).station.category == "implementation" and role_of(name).station.tier is None
}
BUILD = {name for name in ALL_STEPS if name.startswith("build/")}


def with_station(name: str) -> set[str]:
    return {step for step in ALL_STEPS if role_of(step).station.id == name}


def edited(path: str, old: str, new: str) -> dict[str, str]:
    """A user's copy of a bundled file with one change in it."""
    text = (bundled("flows") / path).read_text(encoding="utf-8")
    assert old in text, (path, old)
    return {f".swarm/flows/{path}": text.replace(old, new, 1)}


STATION = "stations/code-implementer.yaml"
NOBODY: set[str] = set()

STATION_CHANGES = {
    "identity": ("You are the engineer", "You are an engineer"),
    "invariant": ("Tests are read-only here.", "Tests are not edited."),
    "tools": ("Grep, Glob]", "Grep]"),
    "turns": ("max_turns: 50", "max_turns: 49"),
    "tier": ("max_turns: 50", "tier: elite\nmax_turns: 50"),
    "required": ("[status, summary]", "[status, summary, confidence]"),
    "verified_when": ("The full suite is green", "The suite is green"),
    "fragments": ("max_turns: 50", "fragments: [microloop/critic_never_fixes]\nmax_turns: 50"),
    "verification": ("commands: [test, lint]", "commands: [test]"),
    "title": ("title: Code Implementer", "title: Coder"),
}

FILE_CHANGES = {
    **{f"station: {name}": (edited(STATION, *how), {IMPLEMENT}) for name, how in STATION_CHANGES.items()},
    "station: io behind teaching notes": (edited(STATION, "- plan/adr.md\n", ""), NOBODY),
    "common fragment": (edited("fragments/common/evidence.md", "What counts", "What matters"), set(ALL_STEPS)),
    "critics' fragment": (edited("fragments/microloop/critic_never_fixes.md", "You judge", "Judge"), CRITICS),
    "authors' fragment": (edited("fragments/microloop/answer_the_critique.md", "Your critic", "A critic"), WRITERS),
    "critics' template": (edited("templates/microloop-critic.yaml", "Only your own", "Just your own"), CRITICS),
    "unused template": (edited("templates/context-loader.yaml", "Read before you list", "Read first"), NOBODY),
    "policy of a category": (edited(POLICY, "implementation: primary", "implementation: elite"), IMPLEMENTERS),
    "policy of a step": (edited(POLICY, "steps: {}", "steps: {build/implement: elite}"), {IMPLEMENT}),
    "policy of a station": (
        edited(POLICY, "stations: {}", "stations: {code-critic: x}"),
        with_station("code-critic"),
    ),
    "price": (edited(POLICY, "input: 3, output: 15", "input: 4, output: 15"), NOBODY),
    "objective": (edited("build.yaml", "Make the new tests pass", "Let the new tests pass"), {IMPLEMENT}),
    "charter": (edited("build.yaml", "Turn the task", "Turn this task"), BUILD),
    "emphasis": (edited("build.yaml", "Reading the failing test", "Read the failing test"), {IMPLEMENT}),
    "limit of a loop": (edited("build.yaml", "max_iterations: 4\n", "max_iterations: 5\n"), {"build/critique_code"}),
}


@table("change", FILE_CHANGES)
def test_one_change_in_a_file_moves_exactly_the_hashes_of_its_steps(change: str) -> None:
    files, expected = FILE_CHANGES[change]
    assert moved_by(files) == expected


def moved_by(files: dict[str, str]) -> set[str]:
    own = load_library(bundled("flows"), files)
    return {name for name in ALL_STEPS if blank_hash(own, name) != blank_hash(library(), name)}


def blank_hash(found: Library, name: str) -> str:
    flow_id, _slash, step_id = name.partition("/")
    return compile_blank(found, found.flow(flow_id).flow, step_id).prompt.hash


TOLD = briefing()
CRITIQUE = Critique("build/critique_code", "UNVERIFIED", "Half.", ("CC-1: no error",), {"c.md": "CC-1 at x:1"})
TOLD_CHANGES = {
    "task": replace(TOLD, task="Let the greeting be soft."),
    "critique": replace(TOLD, critique=replace(CRITIQUE, status="PARTIAL")),
    "a file of the critique": replace(TOLD, critique=replace(CRITIQUE, files={"c.md": "CC-2"})),
    "no critique": replace(TOLD, critique=None),
    "why it works again": replace(TOLD, sent_back=None),
    "state of a criterion": replace(TOLD, criteria=(replace(TOLD.criteria[0], state="done"),)),
    "an answer": replace(TOLD, messages=("Use small letters.",)),
    "history": replace(TOLD, history=pack_history((), Budget.of("balanced", 200_000), "balanced")),
}


@table("change", TOLD_CHANGES)
def test_one_change_in_what_happened_moves_the_hash(change: str) -> None:
    assert compiled(IMPLEMENT, TOLD_CHANGES[change]).prompt.hash != compiled(IMPLEMENT).prompt.hash


def test_another_model_moves_the_hash() -> None:
    role = role_of(IMPLEMENT, ModelRequest(economy=True))
    plan = compile_prompt(role, library().fragments, briefing())
    assert plan.model.rule == "implementation: primary, --economy: economy"
    assert plan.prompt.hash != compiled(IMPLEMENT).prompt.hash


def test_the_schema_of_a_handoff_is_json() -> None:
    assert json.loads(json.dumps(compiled(IMPLEMENT).output_schema))["title"] == "Handoff"


@table("text", ["see {{fragment:common/evidence", "see {{}}"])
def test_a_mark_that_is_not_finished_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="without its"):
        library().fragments.expand(text, {}, "here")
