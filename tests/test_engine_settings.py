"""What configuration says about engines: frozen in a run, or read anew by each process."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gitswarm.engines.adapter import EngineSetup
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude.claude_code import ClaudeSection, ClaudeSettings
from gitswarm.engines.claude.provider import ClaudeProfile
from gitswarm.engines.registry import adapter_of
from gitswarm.errors import SpecError
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.run_spec import RunSpec
from gitswarm.settings import CommandLine, Config, engine_access, freeze_settings, load_config

GLM = """\
engines:
  claude:
    mode: sdk
    provider: anthropic_compat
    env:
      ANTHROPIC_BASE_URL: https://api.z.ai/api/anthropic
      ANTHROPIC_AUTH_TOKEN: "${ZAI_KEY}"
      CLAUDE_CODE_MAX_RETRIES: 4
    setting_sources: [project]
    fallback_model: claude-haiku-4-5
    step_timeout: 90
    attempts: 2
"""


def claude_section(config: Config) -> ClaudeSection:
    found = config.engines.sections["claude"]
    assert isinstance(found, ClaudeSection)
    return found


def test_a_profile_takes_its_key_from_the_callers_environment() -> None:
    access = engine_access(load_config(GLM, {}), {"ZAI_KEY": "k-123", "SWARM_CLAUDE_CLI": "/opt/claude"})
    assert access["claude-step"] == EngineAccess(
        {
            "ANTHROPIC_BASE_URL": "https://api.z.ai/api/anthropic",
            "ANTHROPIC_AUTH_TOKEN": "k-123",
            "CLAUDE_CODE_MAX_RETRIES": "4",
        },
        "/opt/claude",
    )
    assert access["gemini-step"] == EngineAccess()


def test_what_is_frozen_in_a_run_holds_no_environment() -> None:
    frozen = freeze_settings(load_config(GLM, {}), {"ZAI_KEY": "k-123"}, CommandLine(), scripted=False)
    assert ClaudeSettings.from_plain(frozen.engines["claude"]) == ClaudeSettings(
        setting_sources=("project",), fallback_model="claude-haiku-4-5", step_timeout=90, attempts=2
    )
    assert (frozen.default_engine.mode, frozen.default_engine.provider) == ("sdk", "anthropic_compat")
    assert b"ZAI" not in frozen.to_json()
    assert b"z.ai" not in frozen.to_json()


def test_a_variable_that_is_not_set_is_named() -> None:
    access = engine_access(load_config(GLM, {}), {})["claude-step"]
    assert access.unset == ("ZAI_KEY", "ANTHROPIC_AUTH_TOKEN")

    found = adapter_of("claude").usable(
        "cli", EngineSetup("anthropic_compat", lambda: datetime.now(UTC), {}, access), {}
    )

    what = "engines.claude.env.ANTHROPIC_AUTH_TOKEN needs the variable ZAI_KEY, which is not set"
    assert (found.problem, found.advice) == (what, "export ZAI_KEY=…")


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AWS_SECRET", "PROXY_PASSWORD"])
def test_a_key_that_is_written_into_the_committed_file_is_refused(name: str) -> None:
    text = f"engines:\n  claude:\n    env:\n      {name}: abc123\n"
    with pytest.raises(SpecError) as told:
        load_config(text, {})
    assert told.value.problems == [
        f".swarm/config.yaml:4: engines.claude.env.{name}: a key does not belong in a committed file"
    ]
    assert told.value.hint == f'{name}: "${{{name}}}" takes it from your environment'


def test_a_person_may_keep_a_key_in_their_own_git_configuration() -> None:
    config = load_config(GLM, {"swarm.engines.claude.env": "{ANTHROPIC_API_KEY: abc}"})
    assert claude_section(config).env["ANTHROPIC_API_KEY"] == "abc"


def test_a_persons_environment_is_laid_over_the_teams() -> None:
    config = load_config(GLM, {"swarm.engines.claude.env": "{ANTHROPIC_AUTH_TOKEN: own}"})
    assert claude_section(config).env == {
        "ANTHROPIC_BASE_URL": "https://api.z.ai/api/anthropic",
        "ANTHROPIC_AUTH_TOKEN": "own",
        "CLAUDE_CODE_MAX_RETRIES": "4",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("setting_sources: [everything]", "engines.claude.setting_sources"),
        ("step_timeout: 0", "engines.claude.step_timeout"),
        ("attempts: 0", "engines.claude.attempts"),
        ("provider: openai", "engines.claude.provider"),
        ("retries: 3", "engines.claude.retries"),
    ],
)
def test_a_wrong_value_is_told_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as told:
        load_config(f"engines:\n  claude:\n    {text}\n", {})
    assert told.value.problems[0].startswith(".swarm/config.yaml:3: ")
    assert problem in told.value.problems[0] or text.split(":", maxsplit=1)[0] in told.value.problems[0]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("claude: {mode: clli}", "engines.claude.mode: there is no mode 'clli' (did you mean 'cli'?)"),
        ("claude: {mode: fast}", "engines.claude.mode: there is no mode 'fast' (known: cli, sdk, stub)"),
        ("gemini: {mode: sdk}", "engines.gemini.mode: there is no mode 'sdk' (known: cli, stub)"),
        ("claude: {setting_sources: user}", "engines.claude.setting_sources: expected a list: [user]"),
    ],
)
def test_what_cannot_be_is_refused_in_plain_words_with_its_place(section: str, problem: str) -> None:
    with pytest.raises(SpecError) as told:
        load_config(f"engines:\n  {section}\n", {})
    assert told.value.problems == [f".swarm/config.yaml:2: {problem}"]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("mode", "clli", "there is no mode 'clli' (did you mean 'cli'?)"),
        ("setting_sources", "user", "expected a list: [user]"),
    ],
)
def test_the_same_of_git_configuration(key: str, value: str, problem: str) -> None:
    with pytest.raises(SpecError) as told:
        load_config(None, {f"swarm.engines.claude.{key}": value})
    assert told.value.problems == [f"git config: engines.claude.{key}: {problem}"]


def test_git_configuration_spells_lists_and_maps_in_one_line() -> None:
    config = load_config(
        None,
        {
            "swarm.engines.claude.env": "{ANTHROPIC_BASE_URL: http://127.0.0.1:8080}",
            "swarm.engines.claude.setting_sources": "[user]",
        },
    )
    assert claude_section(config).env == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080"}
    assert claude_section(config).to_plain()["setting_sources"] == ["user"]


def profile(provider: str = "anthropic", env: dict[str, str] | None = None) -> ClaudeProfile:
    return ClaudeProfile(provider, ClaudeSettings(), EngineAccess(env or {}))


def test_the_profile_comes_before_the_caller_and_the_caller_before_our_defaults() -> None:
    caller = {"PATH": "/bin", "CLAUDECODE": "1", "CLAUDE_CODE_MAX_RETRIES": "7", "ANTHROPIC_BASE_URL": "http://a"}
    env = profile(env={"ANTHROPIC_BASE_URL": "http://b"}).environment(caller)
    assert env == {
        "PATH": "/bin",
        "ANTHROPIC_BASE_URL": "http://b",
        "CLAUDE_CODE_MAX_RETRIES": "7",
        "API_TIMEOUT_MS": "300000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1",
        **dict.fromkeys(FORGETFUL, "1"),
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    }


FORGETFUL = (
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_ORG_MEMORY",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
)


@pytest.mark.parametrize(
    "name", ["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", *FORGETFUL]
)
def test_what_policy_and_amnesia_rest_on_cannot_be_switched_off(name: str) -> None:
    assert profile(env={name: "0"}).environment({name: "0"})[name] == "1"


def test_a_compatible_provider_has_to_be_told_where_it_is() -> None:
    compatible = profile("anthropic_compat")
    assert compatible.missing_variable({}) == (
        "provider anthropic_compat has no address",
        "export ANTHROPIC_BASE_URL=https://…, or engines.claude.env in .swarm/config.yaml",
    )
    assert compatible.missing_variable({"ANTHROPIC_BASE_URL": "http://127.0.0.1"}) is None
    assert profile().missing_variable({}) is None
    own_settings = replace(compatible, settings=ClaudeSettings(setting_sources=("user",)))
    assert own_settings.missing_variable({}) is None


@pytest.mark.parametrize("below", ["", ".claude", ".claude/projects"])
def test_a_folder_that_cannot_keep_conversations_is_named(tmp_path: Path, below: str) -> None:
    home = tmp_path / "home"
    assert profile().unkept({"HOME": str(home)}) is None
    file = home / below
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    assert profile().unkept({"HOME": str(home)}) == home / ".claude"
    assert profile().unkept({"HOME": str(home), "CLAUDE_CONFIG_DIR": str(tmp_path / "own")}) is None
    assert profile(env={"CLAUDE_CONFIG_DIR": str(file)}).unkept({"HOME": str(tmp_path)}) == file


def test_without_a_home_nothing_can_be_said() -> None:
    assert profile().unkept({}) is None


def test_the_cost_of_another_provider_is_unknown_until_its_prices_are() -> None:
    tokens = (1_000_000, 100_000)
    assert profile().cost(1.25, "claude-x", tokens) == 1.25
    assert profile("anthropic_compat").cost(1.25, "glm", tokens) is None
    priced = replace(profile("anthropic_compat"), prices={"glm": (0.5, 2.0)}.get)
    assert priced.cost(1.25, "glm", tokens) == pytest.approx(0.7)


def test_a_run_of_an_earlier_version_keeps_what_its_engine_had_to_keep_to() -> None:
    new = freeze_settings(load_config(GLM, {}), {"ZAI_KEY": "k-123"}, CommandLine(), scripted=False)
    said = json.loads(new.to_json())
    said["claude"] = said.pop("engines")["claude"]

    run: dict[str, Any] = {
        "run_id": "r",
        "created_at": "",
        "flows": ["f"],
        "base": "b",
        "base_ref": None,
        "task": "",
        "initiator": "i",
    }
    run |= {"routing_mode": "assist", "allow_stub": False, "scripted": False}
    assert RunSpec.from_plain({**run, "settings": said}).settings == new
    with pytest.raises(MistakesError):
        RunSpec.from_plain({**run, "settings": {**json.loads(new.to_json()), "misspelt": 1}})
