"""Sidequests: the bundled ones are sound, a mistake is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitswarm.errors import SpecError
from gitswarm.records.json_value import JsonValue
from gitswarm.resources import bundled
from gitswarm.routing.conditions import evaluate
from gitswarm.runner.specs import checked_sidequest
from gitswarm.specs.library import Library, load_library
from gitswarm.specs.sidequest import ConditionTrigger
from tests.tables import table

SOUND = """\
id: mine
title: Mine
triggers:
  - {kind: paths, patterns: ["**/x/**"]}
  - {kind: condition, if: "evidence.tests.passed == false"}
steps:
  - {id: one, station: clarifier}
  - {id: two, station: fixer, on_blocked: continue}
returns: {mode: bounce_to, target: implement}
"""


def library(text: str = SOUND) -> Library:
    return load_library(bundled("flows"), {".swarm/sidequests/mine.yaml": text})


def test_the_bundled_ones_are_sound() -> None:
    found = load_library(bundled("flows"), {})
    uses = {name: checked_sidequest(found, name).max_uses_per_run for name in found.sidequest_ids}
    assert uses == {
        "clarifier": 3,
        "context-refresh": 3,
        "contract-check": 3,
        "env-doctor": 3,
        "flaky-tests": 1,
        "fuzz-triage": 1,
        "policy-check": 1,
        "risk-review": 1,
        "security-audit": 1,
        "test-triage": 3,
    }


@table(("flags", "wanted"), [(["flaky"], True), (["tests_red"], False), ([], False)])
def test_flaky_tests_are_looked_at_when_one_was_found(flags: list[str], wanted: bool) -> None:  # noqa: FBT001
    (trigger,) = load_library(bundled("flows"), {}).sidequest("flaky-tests").triggers
    assert isinstance(trigger, ConditionTrigger)
    context: dict[str, JsonValue] = {"evidence": {"opened": [{"flag": flag} for flag in flags]}}
    assert evaluate(trigger.if_, "x", context).value is wanted


def test_an_own_one_is_read() -> None:
    found = checked_sidequest(library(), "mine")
    assert [step.id for step in found.steps] == ["one", "two"]
    assert (found.returns.mode, found.returns.target) == ("bounce_to", "implement")


@table(
    ("old", "new", "problem"),
    [
        ("clarifier", "clarifer", ":7: unknown station 'clarifer' (did you mean 'clarifier'?)"),
        ("kind: paths", "kind: path", ":4: triggers.0:"),
        ("patterns", "pattern", ":4: unknown key 'triggers.0.pattern' (did you mean 'patterns'?)"),
        ("evidence.tests.passed == false", "evidence.(", ":5: not a CEL expression"),
        ("mode: bounce_to, target: implement", "mode: bounce_to", ":9: returns: 'target' belongs to mode"),
        ("mode: bounce_to, target: implement", "mode: conditional, if: 'true'", ":9: returns: 'if', 'then'"),
        ("id: two", "id: one", ":1: two steps have the same id"),
        ("id: mine", "id: other", ":1: id 'other' in a file named 'mine'"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        checked_sidequest(library(SOUND.replace(old, new, 1)), "mine")
    assert caught.value.problems[0].startswith(f".swarm/sidequests/mine.yaml{problem}"), caught.value.problems


def test_every_bundled_file_is_read_as_something() -> None:
    """A file in a wrong folder would be silently without effect."""
    root = bundled("flows")
    kinds = {path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file() and path.parent != root}
    assert kinds == {"stations", "templates", "sidequests", "fragments", "policy"}
    assert Path(root / "policy" / "models.yaml").is_file()
