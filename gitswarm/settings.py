"""What was configured: `.swarm/config.yaml` of the base < `git config swarm.*` < environment < command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator

from gitswarm.engines.base import EngineAccess
from gitswarm.errors import SpecError, UsageError
from gitswarm.records.base import Record, WrittenSection
from gitswarm.records.instructions import INSTRUCTION_FILES
from gitswarm.records.limits import BudgetRules
from gitswarm.records.policy import PolicyRules
from gitswarm.records.routing import HumanPolicy, RoutingMode
from gitswarm.records.run_spec import (
    ClaudeSettings,
    DeployRules,
    EngineChoice,
    FrozenSettings,
    ProofRules,
    ReviewRules,
    TestSuite,
)
from gitswarm.records.secrets import SecretRules
from gitswarm.settings_personal import TEAM_FILE, EntryError, entry_of, entry_value, put_personal
from gitswarm.specs.context import Profile
from gitswarm.specs.flow import Identifier
from gitswarm.specs.library import KNOWN_COMMANDS
from gitswarm.specs.yaml_source import YamlSource, did_you_mean, parse_yaml, plain_message, validate

CONFIG_FILE = TEAM_FILE

_ENGINES = {"claude": "claude-step", "gemini": "gemini-step"}
_STUB_MODELS = {"claude-step": "claude-stub", "gemini-step": "gemini-stub"}
_PROVIDERS = {"claude-step": "anthropic", "gemini-step": "gemini"}
_OF_CLAUDE = ("ANTHROPIC_", "CLAUDE_")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
KEY_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$")


def _mode_of(*known: str) -> AfterValidator:
    """One of the modes that an engine has in some version."""

    def check(mode: str) -> str:
        if mode not in known:
            raise ValueError(f"there is no mode '{mode}'{did_you_mean(mode, list(known))}")
        return mode

    return AfterValidator(check)


class GeminiSection(Record):
    mode: Annotated[str, _mode_of("stub", "cli")] | None = None


class ClaudeSection(ClaudeSettings):
    """`env`: for Claude's own processes only; `${NAME}` in a value is the caller's variable. `cli`: path of its
    program. The rest is described in `ClaudeSettings`."""

    mode: Annotated[str, _mode_of("stub", "sdk", "cli")] | None = None
    provider: Literal["anthropic", "anthropic_compat"] = "anthropic"
    env: dict[str, str] = {}
    cli: str | None = None

    @field_validator("env", mode="before")
    @classmethod
    def _texts(cls, env: object) -> object:
        """`FLAG: 1` in YAML is a number."""
        if not isinstance(env, dict):
            return env
        return {name: str(value) if isinstance(value, int | float) else value for name, value in env.items()}


def _known_engine(name: str) -> str:
    if name not in _ENGINES and name not in _PROVIDERS:
        raise ValueError(f"unknown engine '{name}'{did_you_mean(name, [*_ENGINES, *_PROVIDERS])}")
    return name


EngineName = Annotated[str, AfterValidator(_known_engine)]


class EnginesSection(Record):
    default: EngineName = "claude-step"
    claude: ClaudeSection = ClaudeSection()
    gemini: GeminiSection = GeminiSection()
    flows: dict[str, EngineName] = {}
    steps: dict[str, EngineName] = {}


def _not_a_command(names: dict[str, TestSuite]) -> dict[str, TestSuite]:
    for name in names:
        if name in KNOWN_COMMANDS:
            raise ValueError(f"'{name}' is the name of a command already")
    return names


class CommandsSection(Record):
    """`tests`: several suites of one project by name, beside `test` or in its place."""

    test: str | None = None
    lint: str | None = None
    smoke: str | None = None
    tests: Annotated[dict[Identifier, TestSuite], AfterValidator(_not_a_command)] = {}


class WorktreeSection(WrittenSection):
    dir: str | None = None
    copy_: tuple[str, ...] = Field(default=(), alias="copy")
    setup: str | None = None
    setup_timeout: int = Field(default=600, ge=1)


class RoutingSection(WrittenSection):
    """`navigator_timeout`: seconds."""

    mode: RoutingMode = RoutingMode.ASSIST
    navigator_timeout: float = Field(default=120, gt=0)


class PolicySection(PolicyRules):
    human: HumanPolicy = HumanPolicy.SUPERVISED


class ContextSection(Record):
    """`profile`: how much of the run a prompt holds. `instructions`: paths and globs of what the project says to
    agents, read from the base commit. `wisdom`: whether agents are shown what earlier runs learned."""

    profile: Profile = "balanced"
    instructions: tuple[str, ...] = INSTRUCTION_FILES
    wisdom: bool = True


def _profile_alone(said: object) -> object:
    """`context: lean` for short."""
    return {"profile": said} if isinstance(said, str) else said


def _days(given: object) -> object:
    """`30d` as `gc --archive` takes it."""
    return given[:-1] if isinstance(given, str) and re.fullmatch(r"\d+d", given) else given


class RetentionRules(WrittenSection):
    """`days`: how long a run that has ended stays a branch before `gc` moves it to the archive; None: for good."""

    days: Annotated[int | None, BeforeValidator(_days, int | str | None)] = Field(default=None, ge=0)


class Config(Record):
    """The whole configuration. A key that is not here is an error, never silently without effect."""

    engines: EnginesSection = EnginesSection()
    commands: CommandsSection = CommandsSection()
    worktree: WorktreeSection = WorktreeSection()
    routing: RoutingSection = RoutingSection()
    policy: PolicySection = PolicySection()
    secrets: SecretRules = SecretRules()
    hub: str | None = None
    deploy: DeployRules = DeployRules()
    review: ReviewRules = ReviewRules()
    proof: ProofRules = ProofRules()
    budget: BudgetRules = BudgetRules()
    retention: RetentionRules = RetentionRules()
    context: Annotated[ContextSection, BeforeValidator(_profile_alone, Profile | ContextSection)] = ContextSection()
    durability: Literal["fast", "full"] = "fast"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What the options of `start` say about engines; None: nothing."""

    engine: str | None = None
    mode: str | None = None
    model: str | None = None
    economy: bool = False


def load_config(team_file: str | None, git_config: Mapping[str, str]) -> Config:
    """
    :param team_file: text of `.swarm/config.yaml`, None when there is none.
    :param git_config: entries below `swarm.`, by full name.
    :raises SpecError: an unknown key or a bad value, with file and line or with the name git config uses.
    """
    merged: dict[str, Any] = {}
    if team_file is not None and _says_anything(team_file):
        source = parse_yaml(CONFIG_FILE, team_file)
        try:
            _refuse_written_keys(source, validate(source, Config))
        except SpecError as error:
            hint = error.hint or f"fix {CONFIG_FILE} and commit it: the base commit's counts"
            raise SpecError(error.problems, hint=hint) from error
        merged = deepcopy(source.data)
        if "context" in merged:
            merged = {**merged, "context": _profile_alone(merged["context"])}
    for name, value in git_config.items():
        put_personal(Config, merged, name, entry_value(Config, name, value))
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        name, key = entry_of(Config, first["loc"], git_config)
        hint = f"git swarm config --unset {key}"
        place = takewhile(lambda part: isinstance(part, str), first["loc"])
        raise EntryError(name, ".".join(map(str, place)), plain_message(first), hint=hint) from error


def readable_parts(
    team_file: str | None, git_config: Mapping[str, str]
) -> tuple[str | None, dict[str, str], list[SpecError]]:
    """What of a configuration can be read, and what is wrong with the rest: the team's file, or single entries."""
    team, entries, wrong = team_file, dict(git_config), list[SpecError]()
    while True:
        try:
            load_config(team, entries)
        except EntryError as error:
            del entries[error.name]
            wrong.append(error)
        except SpecError as error:
            if team is None:
                raise
            team = None
            wrong.append(error)
        else:
            return team, entries, wrong


def _says_anything(text: str) -> bool:
    """Whether there is anything but comments, as in the file that `init` writes."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def freeze_settings(config: Config, env: Mapping[str, str], said: CommandLine, *, scripted: bool) -> FrozenSettings:
    """Everything decided once, above the runner.

    :raises UsageError: an engine or mode that does not exist.
    """
    mode_said = "stub" if scripted else said.mode
    if scripted and said.mode not in (None, "stub"):
        raise UsageError(f"--script needs mode stub, not '{said.mode}'", hint="leave out --mode or --script")

    def choice(name: str) -> EngineChoice:
        engine = _ENGINES.get(name, name)
        if engine not in _PROVIDERS:
            near = did_you_mean(name, [*_ENGINES, *_ENGINES.values()])
            what = f"unknown engine '{name}'{near}"
            raise UsageError(what, hint="git swarm start FLOW --engine claude-step")
        claude, gemini = config.engines.claude, config.engines.gemini
        configured = claude.mode if engine == "claude-step" else gemini.mode
        mode = mode_said or mode_from_env(engine, env) or configured or "stub"
        model = _STUB_MODELS[engine] if mode == "stub" else said.model
        return EngineChoice(
            engine=engine,
            mode=mode,
            provider=claude.provider if engine == "claude-step" else _PROVIDERS[engine],
            model=said.model or model,
        )

    return FrozenSettings(
        model=said.model,
        economy=said.economy,
        context=config.context.profile,
        default_engine=choice(said.engine or config.engines.default),
        flow_engines={} if said.engine else {k: choice(v) for k, v in config.engines.flows.items()},
        step_engines={} if said.engine else {k: choice(v) for k, v in config.engines.steps.items()},
        commands={name: getattr(config.commands, name) for name in KNOWN_COMMANDS},
        test_suites=config.commands.tests,
        copy_patterns=config.worktree.copy_,
        setup=config.worktree.setup,
        setup_timeout_s=config.worktree.setup_timeout,
        navigator_timeout_s=config.routing.navigator_timeout,
        policy=PolicyRules(**{name: getattr(config.policy, name) for name in PolicyRules.model_fields}),
        secrets=config.secrets,
        deploy=config.deploy,
        review=config.review,
        proof=config.proof,
        budget=config.budget,
        claude=ClaudeSettings(**{name: getattr(config.engines.claude, name) for name in ClaudeSettings.model_fields}),
    )


def engine_access(config: Config, env: Mapping[str, str]) -> dict[str, EngineAccess]:
    """How the engines are reached from here, by engine. It holds keys: it is frozen in no run.

    :raises UsageError: a value names a variable that is not set.
    """
    claude = config.engines.claude
    inherited = {name: value for name, value in env.items() if name.startswith(_OF_CLAUDE)}
    own = {name: _filled_in(name, value, env) for name, value in claude.env.items()}
    return {"claude-step": EngineAccess(inherited | own, env.get("SWARM_CLAUDE_CLI") or claude.cli)}


def _filled_in(name: str, value: str, env: Mapping[str, str]) -> str:
    def variable(found: re.Match[str]) -> str:
        if found[1] not in env:
            what = f"engines.claude.env.{name} needs the variable {found[1]}, which is not set"
            raise UsageError(what, hint=f"export {found[1]}=…")
        return env[found[1]]

    return VARIABLE.sub(variable, value)


def _refuse_written_keys(source: YamlSource, config: Config) -> None:
    """
    :raises SpecError: a key stands in a file that is committed.
    """
    for name, value in config.engines.claude.env.items():
        if KEY_NAME.search(name) and not VARIABLE.search(value):
            what = f"engines.claude.env.{name}: a key does not belong in a committed file"
            raise SpecError(
                [source.problem(("engines", "claude", "env", name), what)],
                hint=f'{name}: "${{{name}}}" takes it from your environment',
            )


def worktree_folder(config: Config, home: Path) -> Path | None:
    """The user's own folder for worktrees, or None."""
    if not config.worktree.dir:
        return None
    folder = config.worktree.dir
    return home / folder[2:] if folder.startswith("~/") else Path(folder)


def mode_from_env(engine: str, env: Mapping[str, str]) -> str | None:
    if engine == "claude-step":
        return env.get("SWARM_CLAUDE_STEP_ENGINE_MODE") or None
    stub = env.get("SWARM_GEMINI_STUB")
    return {"0": "cli", "1": "stub"}.get(stub) if stub else None
