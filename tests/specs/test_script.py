"""The stub's script: which entry plays, and what an entry may say."""

from __future__ import annotations

import pytest

from gitswarm.errors import SpecError
from gitswarm.records.execution import Status
from gitswarm.specs.script import Script, ScriptEntry, ScriptTokens
from gitswarm.specs.yaml_source import parse_yaml, validate
from tests.tables import table

SCRIPT = """\
default: {status: PARTIAL, summary: fine, tokens: {prompt: 5}}
steps:
  critique:
    - {status: UNVERIFIED, can_further_iteration_help: yes, concerns: [slow]}
    - {status: VERIFIED}
  build/fix: {fail: overloaded}
  plan/fix: {summary: planned}
  fix: {summary: anywhere}
"""


def script(text: str = SCRIPT) -> Script:
    return validate(parse_yaml("script.yaml", text), Script)


@table(
    ("flow", "step", "execution", "entry"),
    [
        pytest.param(
            "build",
            "critique",
            0,
            ScriptEntry(
                status=Status.UNVERIFIED,
                summary="fine",
                can_further_iteration_help="yes",
                concerns=("slow",),
                tokens=ScriptTokens(prompt=5),
            ),
            id="the first entry, over the default",
        ),
        pytest.param(
            "build",
            "critique",
            1,
            ScriptEntry(status=Status.VERIFIED, summary="fine", tokens=ScriptTokens(prompt=5)),
            id="the second entry",
        ),
        pytest.param(
            "build",
            "critique",
            7,
            ScriptEntry(status=Status.VERIFIED, summary="fine", tokens=ScriptTokens(prompt=5)),
            id="the last entry repeats",
        ),
        pytest.param(
            "build",
            "implement",
            0,
            ScriptEntry(status=Status.PARTIAL, summary="fine", tokens=ScriptTokens(prompt=5)),
            id="the default for every other step",
        ),
    ],
)
def test_a_step_plays_its_entries_in_order(flow: str, step: str, execution: int, entry: ScriptEntry) -> None:
    assert script().entry(flow, step, execution) == entry


@table(("flow", "summary"), [("build", "fine"), ("plan", "planned"), ("gate", "anywhere")])
def test_a_name_with_its_flow_wins_over_the_bare_name(flow: str, summary: str) -> None:
    assert script().entry(flow, "fix", 0).summary == summary


def test_without_a_default_a_step_is_verified() -> None:
    assert script("{}").entry("build", "fix", 0) == ScriptEntry(status=Status.VERIFIED, summary="ok")


def test_an_entry_may_take_back_what_the_default_says() -> None:
    found = script("default: {fail: always}\nsteps: {fix: {fail: null}}").entry("build", "fix", 0)
    assert found.fail is None


def test_everything_that_an_entry_may_say_survives_the_run_s_freezing() -> None:
    text = """\
steps:
  build/fix:
    - write: {a/b.txt: "x\\ny"}
      delete: [old.py]
      run: [make, "true"]
      delay_ms: 5
      hang: true
      fail: overloaded
      output: said
      envelope: {status: VERIFIED, summary: raw}
      route: {choose: terminate}
      tokens: {prompt: 1200, completion: 300}
      cost_usd: 0.01
      blockers: [key]
"""
    before = script(text)
    assert Script.from_json(before.to_json()) == before


@table(
    ("text", "problem"),
    [
        (
            "steps:\n  fix:\n    - {stauts: VERIFIED}",
            "3: unknown key 'steps.fix.0.stauts' (did you mean 'status'?)",
        ),
        ("steps:\n  fix: []", "2: steps.fix: needs at least 1, has 0"),
        (
            "default: {status: GOOD}",
            "1: default.status: 'GOOD' is not an allowed value (known: BLOCKED, PARTIAL, UNVERIFIED, VERIFIED)",
        ),
        ("default: {delay_ms: -1}", "1: default.delay_ms: has to be at least 0, not -1"),
        ('default: {files: {"RUN_BASE/.": x}}', "1: default.files.RUN_BASE/.: not a path of a file"),
        ("default: {files: {x: {link: ''}}}", "1: default.files.x.link: '' is not of the form ^[^\\x00]+$"),
        ("step: {}", "1: unknown key 'step' (did you mean 'steps'?)"),
        ("- fix", "1: expected a mapping with default, steps"),
    ],
)
def test_a_bad_script_names_file_line_and_key(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        script(text)
    assert caught.value.problems == [f"script.yaml:{problem}"]


@table(("said", "meant"), [("yes", "yes"), ("no", "no"), ("true", "yes"), ('"no"', "no")])
def test_yaml_s_booleans_are_yes_and_no(said: str, meant: str) -> None:
    text = f"default: {{can_further_iteration_help: {said}}}"
    assert script(text).default.can_further_iteration_help == meant
