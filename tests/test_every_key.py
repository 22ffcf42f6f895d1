"""No key of a file that people write is without effect: each has a test that sees what it changes.

What prompts, decisions and forecasts show of it stands in tests/specs/test_every_key.py, what only a run shows stands
here. Where the effect has a test of its own already, that is named.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
import yaml
from msgspec import Meta
from msgspec import field as named

from gitswarm.git.repository import Repository
from gitswarm.records.record import Record
from gitswarm.settings import config_with
from gitswarm.specs.flow import Flow
from gitswarm.specs.fragments import StepTemplate
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.sidequest import Sidequest
from gitswarm.specs.station import Station
from tests import test_budget, test_denied, test_guarantee_7_secrets, test_instructions
from tests.claude import test_capabilities, test_faults, test_program
from tests.cli import test_archive
from tests.codex import test_faults as codex_faults
from tests.conftest import Project
from tests.every_key import keys_of
from tests.gemini import test_faults as test_gemini
from tests.landing import test_push, test_signed, test_strategies, test_targets
from tests.operations import test_forge, test_gate_and_deploy, test_wisdom
from tests.projects import ask, new_project
from tests.proven import test_closing_tests
from tests.routed import MAKER, quest
from tests.routes import test_navigator, test_sidequests
from tests.safety import test_environment
from tests.safety.network import test_reach
from tests.safety.sandbox import test_policy_key
from tests.specs.test_every_key import ROWS
from tests.tables import table
from tests.worktree import test_setup

FLOW = ".swarm/flows/f.yaml"
CONFIG = ".swarm/config.yaml"
(STATION,) = MAKER
UNTRACKED = "local.env"
ASIDE = ".swarm/sidequests/aside.yaml"
STEPS: dict[str, dict[str, Any]] = {
    "work": {"station": "maker"},
    "test": {"engine": "command", "command": "test"},
    "lint": {"engine": "command", "command": "lint"},
    "smoke": {"engine": "command", "command": "smoke"},
    "own": {"engine": "command", "command": {"run": "true"}},
    "doubt": {"station": "maker"},
}
SCRIPT = {
    "work": {
        "status": "PARTIAL",
        "write": {"src/app.py": "# greeting-12345\n"},
        "route": {"chosen_candidate_id": "advance:test", "reasoning": "on"},
    },
    "doubt": [{"status": "BLOCKED", "blockers": ["Which colour?"]}, {}],
}


@dataclass(frozen=True)
class Started:
    """A run of the flow."""

    project: Project
    run: str

    def log(self) -> object:
        """How each step ended, by whom, and where it led."""
        names = ("step", "agent", "result", "status")
        return [
            (*(each[name] for name in names), (each["routing"] or {}).get("routing_source"))
            for each in self.project.json("log", self.run)
        ]

    def receipt(self) -> Any:
        said = self.project.json("show", "work", "--receipt", "--run", self.run)
        return {name: said[name] for name in ("engine", "provider", "context")}

    def concerns(self) -> object:
        return [each["id"] for each in self.project.json("status", self.run)["open_concerns"]]

    def place(self) -> object:
        """The run's worktree, and what lies in it."""
        folder = self.project.worktree(self.run)
        return folder.parent, sorted(path.name for path in folder.iterdir())

    def engines(self) -> object:
        """What `engines` shows."""
        return self.project.json("engines")


Look = Callable[[Started], object]


@dataclass(frozen=True)
class Change:
    """Files of the project, with a key in them and without or with another value of it."""

    look: Look
    after: Mapping[str, object]
    before: Mapping[str, object] = field(default_factory=dict)


def config(**sections: object) -> dict[str, object]:
    return {CONFIG: sections}


def flow(**steps: Mapping[str, object]) -> dict[str, object]:
    return {FLOW: {"id": "f", "steps": [{"id": name, **step} for name, step in {**STEPS, **steps}.items()]}}


def claude(**keys: object) -> dict[str, object]:
    return config(engines={"claude": keys})


def gemini(**keys: object) -> dict[str, object]:
    return config(engines={"gemini": keys})


def line(**keys: object) -> dict[str, object]:
    return flow(own={"engine": "command", "command": keys})


def aside(**keys: object) -> dict[str, object]:
    """A sidequest that the first step calls for in a run that asks no navigator."""
    called = {"kind": "condition", "if": 'envelope.status == "PARTIAL"'}
    found = quest("aside", called, steps=[{"id": "look", "station": "context-loader", **keys}])
    return {ASIDE: found, **config(routing={"mode": "deterministic_only"})}


COMPAT = {"mode": "cli", "provider": "anthropic_compat"}
CHANGES: dict[str, Change] = {
    "EnginesSection.default": Change(Started.receipt, config(engines={"default": "gemini-step"})),
    "EnginesSection.flows": Change(Started.receipt, config(engines={"flows": {"f": "gemini-step"}})),
    "EnginesSection.steps": Change(Started.receipt, config(engines={"steps": {"f/work": "gemini-step"}})),
    "ClaudeSection.mode": Change(Started.engines, claude(mode="sdk")),
    "ClaudeSection.provider": Change(Started.receipt, claude(provider="anthropic_compat")),
    "ClaudeSection.env": Change(
        Started.engines, claude(**COMPAT, env={"ANTHROPIC_BASE_URL": "http://localhost:1"}), claude(**COMPAT)
    ),
    "ClaudeSection.cli": Change(Started.engines, claude(cli="/nowhere/claude")),
    "CodexSection.mode": Change(
        Started.engines,
        config(engines={"flows": {"build": "codex"}, "codex": {"mode": "cli"}}),
        config(engines={"flows": {"build": "codex"}}),
    ),
    "CodexSection.cli": Change(Started.engines, config(engines={"codex": {"cli": "/nowhere/codex"}})),
    "CodexSection.env": Change(
        Started.engines,
        config(engines={"codex": {"cli": "/bin/sh", "env": {"A": "${UNSET}"}}}),
        config(engines={"codex": {"cli": "/bin/sh"}}),
    ),
    "GeminiSection.mode": Change(
        Started.engines,
        config(engines={"default": "gemini", "gemini": {"mode": "cli"}}),
        config(engines={"default": "gemini"}),
    ),
    "GeminiSection.env": Change(Started.engines, gemini(env={"GEMINI_API_KEY": "${NOBODYS_KEY}"})),
    "GeminiSection.cli": Change(Started.engines, gemini(cli="/nowhere/gemini")),
    "CommandsSection.test": Change(Started.log, config(commands={"test": "true"})),
    "CommandsSection.lint": Change(Started.log, config(commands={"lint": "true"})),
    "CommandsSection.smoke": Change(Started.log, config(commands={"smoke": "true"})),
    "WorktreeSection.dir": Change(Started.place, config(worktree={"dir": "~/trees"})),
    "WorktreeSection.copy": Change(Started.place, config(worktree={"copy": [UNTRACKED]})),
    "WorktreeSection.paths": Change(
        Started.place, config(worktree={"paths": ["src"]}) | {"doc/x": "x\n"}, {"doc/x": "x\n"}
    ),
    "WorktreeSection.setup": Change(Started.place, config(worktree={"setup": "touch made.txt"})),
    "RoutingSection.mode": Change(Started.log, config(routing={"mode": "deterministic_only"})),
    "PolicySection.human": Change(Started.log, config(policy={"human": "autopilot"})),
    "SecretRules.patterns": Change(Started.log, config(secrets={"patterns": {"greeting": "greeting-[0-9]+"}})),
    "ContextSection.profile": Change(Started.receipt, config(context={"profile": "lean"})),
    "Step.command": Change(Started.log, flow(lint={"engine": "command", "command": {"run": "true"}})),
    "ShellCommand.run": Change(Started.log, line(run="false")),
    "ShellCommand.timeout_s": Change(Started.log, line(run="sleep 2", timeout_s=1), line(run="sleep 2")),
    "Station.writes": Change(Started.concerns, {STATION: {**yaml.safe_load(MAKER[STATION]), "writes": ["docs"]}}),
    "SidequestStep.station": Change(Started.log, aside(station="clarifier"), aside()),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return new_project(tmp_path_factory.mktemp("keys"))


STARTED: dict[str, Started] = {}
"""What these files led to, in this worker."""


def started(project: Project, files: Mapping[str, object]) -> Started:
    """The run of the project with these files, which then stand in it."""
    never = quest("aside", {"kind": "condition", "if": "false"})
    whole = {FLOW: flow()[FLOW], CONFIG: {}, ASIDE: never, STATION: yaml.safe_load(MAKER[STATION]), **files}
    (project.root / UNTRACKED).unlink(missing_ok=True)
    project.commit({name: yaml.safe_dump(said) for name, said in whole.items()})
    project.write({UNTRACKED: "SAID=1\n"})
    known = json.dumps(whole, sort_keys=True)
    if known not in STARTED:
        before = {run["run_id"] for run in project.json("list")}
        ask(project, "start", "f", "--script", project.script(yaml.safe_dump({"steps": SCRIPT})))
        (run,) = {run["run_id"] for run in project.json("list")} - before
        STARTED[known] = Started(project, run)
    return STARTED[known]


@pytest.mark.parametrize("key", CHANGES)
def test_another_value_shows_in_a_run(here: Project, key: str) -> None:
    change = CHANGES[key]
    before = change.look(started(here, change.before))
    after = change.look(started(here, change.after))
    assert key.partition(".")[2] in yaml.safe_dump(dict(change.after)), "another key"
    assert before != after, "nothing reads it"


def test_full_durability_has_git_flush(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a flush is good for would show when the power fails."""
    flushed: list[str] = []
    monkeypatch.setattr(Repository, "survive_power_loss", lambda self: flushed.append(type(self).__name__))
    for durability, asked in (("fast", 0), ("full", 1)):
        project.commit({FLOW: yaml.safe_dump(flow()[FLOW]), CONFIG: f"durability: {durability}\n"} | MAKER)
        project.swarm("start", "f", "--until", "work", "--script", project.script("{}"))
        assert len(flushed) == asked


SHOWN_BY: dict[str, Callable[..., None]] = {
    "SidequestStep.max_turns": test_sidequests.test_a_sidequest_says_which_tier_and_how_many_turns_its_steps_have,
    "SidequestStep.tier": test_sidequests.test_a_sidequest_says_which_tier_and_how_many_turns_its_steps_have,
    "RetentionRules.days": test_archive.test_a_run_that_waits_is_young_or_holds_work_is_not_archived,
    "ClaudeSection.setting_sources": test_capabilities.test_project_context,
    "ClaudeSection.fallback_model": test_faults.test_another_model_takes_over,
    "ClaudeSection.step_timeout": test_program.test_a_session_without_a_result_was_killed,
    "ClaudeSection.attempts": test_faults.test_a_provider_that_does_not_answer_fails_the_step,
    "CodexSection.step_timeout": codex_faults.test_a_step_has_an_end,
    "CodexSection.attempts": codex_faults.test_what_may_pass_is_tried_again_in_the_same_session,
    "GeminiSection.step_timeout": test_gemini.test_a_step_that_takes_too_long_is_ended_with_its_shells,
    "GeminiSection.attempts": test_gemini.test_a_failure_that_passes_is_got_over,
    "WorktreeSection.setup_timeout": test_setup.test_a_setup_that_does_not_end_is_ended,
    "RoutingSection.navigator_timeout": test_navigator.test_an_answer_counts_when_it_is_in_time,
    "PolicySection.env": test_environment.test_a_command_is_told_which_variable_it_did_not_get,
    "PolicySection.deny": test_denied.test_a_team_and_a_person_forbid_more,
    "PolicySection.protected_paths": test_denied.test_a_team_and_a_person_forbid_more,
    "PolicySection.sandbox": test_policy_key.test_require_refuses_without_and_leaves_nothing,
    "PolicySection.network": test_reach.test_none_is_stricter_than_a_list,
    "PolicySection.allow_hosts": test_reach.test_a_command_reaches_itself_and_what_is_allowed,
    "PolicySection.sandbox_binds": test_policy_key.test_binds_are_read_and_not_written,
    "SecretRules.allow_paths": test_guarantee_7_secrets.test_a_team_may_allow_paths,
    "DeployRules.target": test_targets.test_the_configured_target_counts_before_the_runs_own,
    "DeployRules.strategy": test_strategies.test_the_configured_strategy_counts_and_the_command_line_before_it,
    "DeployRules.push": test_push.test_the_target_is_pushed_and_nothing_else,
    "DeployRules.require_signature": test_signed.test_without_a_key_nothing_is_approved,
    "DeployRules.ci_timeout": test_forge.test_the_checks_of_what_landed,
    "ReviewRules.forge": test_forge.test_a_run_is_shown_as_one_commit_and_answers_everybody_once,
    "ReviewRules.remote": test_forge.test_an_unknown_remote_is_reported,
    "ContextSection.instructions": test_instructions.test_which_files_count_is_configured_with_globs,
    "ContextSection.wisdom": test_wisdom.test_it_can_be_switched_off,
    "Step.operation": test_gate_and_deploy.test_a_merge_that_nothing_contradicts_is_landed,
    "Flow.needs_task": test_program.test_an_own_flow_says_whether_it_needs_a_task,
    "Step.tests": test_closing_tests.test_each_suite_is_compared_with_itself,
    "Step.may_fail": test_closing_tests.test_a_command_that_may_fail_is_no_concern,
    "CommandsSection.tests": test_closing_tests.test_each_suite_is_compared_with_itself,
    "TestSuite.run": test_closing_tests.test_each_suite_is_compared_with_itself,
    "TestSuite.paths": test_closing_tests.test_each_suite_is_compared_with_itself,
    "BudgetRules.max_cost_usd": test_budget.test_a_person_may_only_tighten_what_the_team_wrote,
    "BudgetRules.max_tokens": test_budget.test_a_person_may_only_tighten_what_the_team_wrote,
    "BudgetRules.max_time": test_budget.test_a_limit_of_one_execution_ends_only_that,
    "ProofRules.max_time": test_closing_tests.test_extra_runs_have_an_end,
    "Config.durability": test_full_durability_has_git_flush,
}
"""Tests that set a key and see what it changes."""

WAITING = {"Config.hub"}
"""The push guard reads it as text; what may go there comes with the hub."""


class Inner(Record, tag_field="kind", tag="inner"):
    if_: str = named(default="", name="if")


class Outer(Record):
    section: Inner
    several: dict[str, Annotated[tuple[Inner, ...] | None, Meta(title="x")]] = {}


def test_keys_are_found_however_deep_they_stand() -> None:
    assert keys_of(Outer) == {"Outer.several", "Inner.if"}


def test_every_key_is_seen_to_change_something() -> None:
    keys = keys_of(Flow, Station, Sidequest, StepTemplate, ModelPolicy, config_with())
    shown = {*ROWS, *CHANGES, *SHOWN_BY}
    assert keys - shown == WAITING, "give each a row, or take it away"
    assert shown - keys == set(), "there is no such key"


@table("key", list(SHOWN_BY), ids=list(SHOWN_BY))
def test_a_test_that_is_named_speaks_of_the_key(key: str) -> None:
    test = SHOWN_BY[key]
    module = inspect.getsource(inspect.getmodule(test) or test)
    assert test.__name__.startswith("test_")
    assert key.partition(".")[2] in module
