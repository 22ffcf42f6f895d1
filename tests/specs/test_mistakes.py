"""What nobody should have written is a mistake with a place, and no other error; what is read can be stored again."""

from __future__ import annotations

import json
import pkgutil
import random
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any

import pytest

import gitswarm
from gitswarm.records.envelope import Handoff
from gitswarm.records.guidance import SharedLesson
from gitswarm.records.json_schema import json_schema
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.receipt import Receipt, ToolCall
from gitswarm.records.record import Record, form, short_form, without_defaults
from gitswarm.records.run_spec import BudgetRules, ProofRules
from gitswarm.specs.script import ScriptEntry
from gitswarm.specs.station import Verification
from tests.tables import table

SAMPLES = 6_000
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 3.5, 10**30, float("inf"), float("nan"), {}, []),
    *("", "a", "VERIFIED", "LN-001\n", "\ud800", "yes", "4h", "x" * 600, "linear"),
]


LESSON = {"run": "r", "runs": 1, "kind": "keep", "confidence": "low", "scope": [], "lesson": "l"}


class Named(Record):
    name: Annotated[str, form("[a-z]+", "'{given}' is no name")]
    aside: Annotated[
        int | None, short_form(lambda given: len(given) if isinstance(given, str) else given, {"type": "string"})
    ] = None


def records() -> list[type[Record]]:
    for module in pkgutil.walk_packages(gitswarm.__path__, "gitswarm."):
        import_module(module.name)
    return [each for each in derived(Record) if each.__module__.startswith("gitswarm.")]


def derived(base: type[Record]) -> Iterator[type[Record]]:
    for each in base.__subclasses__():
        yield each
        yield from derived(each)


def value(chooser: random.Random, names: list[str], depth: int = 0) -> Any:
    kind = chooser.random()
    if depth > 4 or kind < 0.5:
        return chooser.choice(ODD)
    if kind < 0.75:
        return [value(chooser, names, depth + 1) for _ in range(chooser.randint(0, 3))]
    return {chooser.choice(names): value(chooser, names, depth + 1) for _ in range(chooser.randint(0, 4))}


def read(model: type[Record], given: dict[str, Any] | str) -> Record | None:
    """None: there are mistakes, which can be stored."""
    try:
        return model.from_json(given) if isinstance(given, str) else model.from_plain(given)
    except MistakesError as error:
        "".join(each.text for each in error.mistakes).encode()
        return None


def test_whatever_is_written_is_read_or_is_a_mistake() -> None:
    known = records()
    names = sorted({name for each in known for name in each.__struct_encode_fields__} | {"kind", "unknown"})
    chooser, count = random.Random(7), 0
    for _ in range(SAMPLES):
        model = chooser.choice(known)
        given = {name: value(chooser, names, 1) for name in model.__struct_encode_fields__ if chooser.random() < 0.7}
        for made in (read(model, given), read(model, json.dumps(given))):
            if made is not None:
                made.to_json()
                assert model.from_plain(without_defaults(made)) == made
                count += 1
    assert count > SAMPLES // 20


@table(
    ("model", "given", "told"),
    [
        (Named, {"name": "\ud800"}, ["name: '?' is no name"]),
        (SharedLesson, {**LESSON, "run": "\ud800"}, ["half a character (a lone surrogate) cannot be stored"]),
        (Named, {"name": "a\n"}, ["name: 'a\n' is no name"]),
        (Named, {"nane": "a"}, ["nane: unknown key (did you mean 'name'?)"]),
        (Named, {"name": 1, "asid": 2}, ["asid: unknown key (did you mean 'aside'?)", "name: expected a text: '1'"]),
        (Named, [], ["expected `key: value`"]),
        (Verification, {"commands": [{}]}, ["commands: expected `key: value`"]),
        (BudgetRules, {"max_time": float("inf")}, ["a limit that is infinite is none: leave it out"]),
        (ProofRules, {"max_time": "4 h"}, ["max_time: '4 h' is not a duration: 90s, 45m, 4h, 1h30m"]),
        (ScriptEntry, {"delay_ms": 2**53}, [f"delay_ms: has to be at most 86,400,000, not {2**53}"]),
        (BudgetRules, {"max_tokens": True}, ["max_tokens: 'true' is not a number"]),
        (Handoff, {"confidence": True}, ["confidence: 'true' is not an allowed value (known: high, low, medium)"]),
        (Handoff, {"status": "verified"}, ["status: 'verified' is not an allowed value (did you mean 'VERIFIED'?)"]),
    ],
)
def test_each_mistake_has_its_place(model: type[Record], given: Any, told: list[str]) -> None:
    with pytest.raises(MistakesError) as caught:
        model.from_plain(given)
    assert [each.text for each in caught.value.mistakes] == told


def test_what_is_said_is_short_whatever_was_written() -> None:
    with pytest.raises(MistakesError) as caught:
        Named.from_plain({"name": "A" * 10_000_000, "b" * 1_000_000: 1})
    assert max(len(each.text) for each in caught.value.mistakes) <= 501
    assert len(str(caught.value)) < 2_000


@table("content", ["{", "[" * 100_000, '{"name": "\\ud800"}', '{"name": NaN, "aside": 1}', "\x00"])
def test_what_is_no_json_is_a_mistake(content: str) -> None:
    with pytest.raises(MistakesError):
        Named.from_json(content)


@table(
    ("content", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("1" * 9_000, "Exceeds the limit (4300 digits) for integer string conversion: value has 9000 digits"),
        ('{"aside": NaN, "wrong": 1}', "NaN is no number that JSON has"),
        ('{"aside": -Infinity, "wrong": 1}', "-Infinity is no number that JSON has"),
    ],
)
def test_why_it_is_no_json_is_said_in_words(content: str, said: str) -> None:
    with pytest.raises(MistakesError) as caught:
        Named.from_json(content)
    assert str(caught.value) == f"it is no JSON: {said}"


def test_a_short_form_is_written_out_and_stands_in_the_schema() -> None:
    assert Named.from_plain({"name": "a", "aside": "four"}).aside == 4
    schema: Any = json_schema(Named)
    assert schema["properties"]["aside"]["anyOf"] == [{"type": "integer"}, {"type": "null"}, {"type": "string"}]
    assert schema["properties"]["name"]["pattern"] == "^[a-z]+$"


def test_the_time_to_prove_may_be_written_as_other_times_are() -> None:
    assert ProofRules.from_plain({"max_time": "1h30m"}) == ProofRules(max_time=5400)


@table(("commands", "read"), [([], {}), (["test"], {"test": "ran"}), ({"test": "green"}, {"test": "green"})])
def test_commands_by_name_alone_have_run(commands: object, read: dict[str, str]) -> None:
    assert Verification.from_plain({"commands": commands}).commands == read


def test_a_receipt_of_format_1_is_read() -> None:
    call = {"tool": "Bash", "input": {}, "source": "script", "success": True}
    fields = dict.fromkeys(("engine", "mode", "provider", "model", "step_id", "flow_key", "run_id", "agent_key"), "x")
    fields |= dict.fromkeys(("started_at", "completed_at", "transcript_path", "transport", "prompt_hash"), "x")
    rest = {"duration_ms": 1, "status": "succeeded", "tokens": {}, "iteration": 1, "station": None, "cost_usd": None}
    rest |= {"tool_calls": [call], "commit_before": "x", "skipped": False}
    made = Receipt.from_plain({**fields, **rest})
    assert made.tool_calls == (ToolCall(tool_name="Bash", input={}, source="kernel-executed", success=True),)
