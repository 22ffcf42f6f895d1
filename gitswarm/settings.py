"""What was configured: `.swarm/config.yaml` of the base < `git config swarm.*` < environment < command line."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from gitswarm.engines.adapter import VARIABLE, EngineSection, ProgramSection
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.names import BUILT_IN, DEFAULT, STUB, id_of, short_of
from gitswarm.engines.registry import BrokenEngineError, adapter_of, is_known, unknown_engine
from gitswarm.errors import SpecError, UsageError
from gitswarm.records.globs import INSTRUCTION_FILES
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import Mistake, MistakesError
from gitswarm.records.record import AtLeastOne, Count, Record, extended, form, short_form
from gitswarm.records.routing import HumanPolicy, RoutingMode
from gitswarm.records.run_spec import (
    BudgetRules,
    DeployRules,
    EngineChoice,
    FrozenSettings,
    ProofRules,
    ReviewRules,
    TestSuite,
)
from gitswarm.records.safety import PolicyRules, SecretRules
from gitswarm.settings_personal import TEAM_FILE, EntryError, entry_of, entry_value, has_nul, put_personal
from gitswarm.specs.context import Profile
from gitswarm.specs.flow import Identifier
from gitswarm.specs.library import KNOWN_COMMANDS
from gitswarm.specs.yaml_source import YamlSource, parse_yaml, validate

CONFIG_FILE = TEAM_FILE

KEY_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$")


_PLAIN_KEYS = {"default", "flows", "steps"}


def _known(name: object) -> object:
    if isinstance(name, str) and not is_known(name):
        raise ValueError(unknown_engine(name))
    return name


EngineName = Annotated[str, short_form(_known)]


class EnginesSection(Record):
    """`default`, `flows`, `steps`: which engine executes what. Beside them each engine has a section of its own."""

    default: EngineName = id_of(DEFAULT)
    flows: dict[str, EngineName] = {}
    steps: dict[str, EngineName] = {}

    def __post_init__(self) -> None:
        for name in (self.default, *self.flows.values(), *self.steps.values()):
            _known(name)

    @property
    def sections(self) -> dict[str, EngineSection]:
        """The sections of engines by short name. Of engines that are not built in, those that were mentioned."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: each for name, each in found.items() if isinstance(each, EngineSection)}


class UnreadSection(EngineSection, forbid_unknown_fields=False):
    """The section of an engine that is broken: nobody can say what may stand in it."""


class CommandsSection(Record):
    """`tests`: several suites of one project by name, beside `test` or in its place."""

    test: str | None = None
    lint: str | None = None
    smoke: str | None = None
    tests: dict[Identifier, TestSuite] = {}

    def __post_init__(self) -> None:
        taken = next((name for name in self.tests if name in KNOWN_COMMANDS), None)
        if taken is not None:
            raise MistakesError([Mistake(("tests",), f"'{taken}' is the name of a command already")])


Folder = Annotated[
    str,
    form(
        r"(?!/)(?!(.*/)?\.\.?(/|$))[^\n]*[^\n/]/?",
        "'{given}' is no folder of the repository: apps/shop, from its top",
    ),
]


class WorktreeSection(Record):
    """`paths`: folders that a run's worktree holds, with the files above them; None: all."""

    dir: str | None = None
    paths: tuple[Folder, ...] | None = None
    copy_: tuple[str, ...] = field(default=(), name="copy")
    setup: str | None = None
    setup_timeout: AtLeastOne = 600


class RoutingSection(Record):
    """`navigator_timeout`: seconds."""

    mode: RoutingMode = RoutingMode.ASSIST
    navigator_timeout: Annotated[float, Meta(gt=0)] = 120.0


class PolicySection(PolicyRules):
    human: HumanPolicy = HumanPolicy.SUPERVISED


class ContextSection(Record):
    """`profile`: how much of the run a prompt holds. `instructions`: paths and globs of what the project says to
    agents, read from the base commit. `wisdom`: whether agents are shown what earlier runs learned."""

    profile: Profile = "balanced"
    instructions: tuple[str, ...] = INSTRUCTION_FILES
    wisdom: bool = True


def _profile_alone(value: object) -> object:
    """`context: lean` for short."""
    return {"profile": value} if isinstance(value, str) else value


def _days(given: object) -> object:
    """`30d` as `gc --archive` takes it."""
    return given[:-1] if isinstance(given, str) and re.fullmatch(r"\d+d", given) else given


class RetentionRules(Record):
    """`days`: how long a run that has ended stays a branch before `gc` moves it to the archive; None: for good."""

    days: Annotated[Count | None, short_form(_days, {"type": "string", "pattern": r"^\d+d$"})] = None


_BRANCH = re.compile(
    r"(?!-|HEAD$)(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))"
    r"[^\x00-\x20\x7f~^:?*\[\\/.][^\x00-\x20\x7f~^:?*\[\\]*(?<![/.])"
)
"""What `git check-ref-format --branch` takes."""

_HubName = Annotated[str, form(r"(?!-)[^\x00-\x1f\x7f]*", "'{given}' is neither name nor URL of a remote")]


class Config(Record):
    """The whole configuration. A key that is not here is an error, never silently without effect."""

    engines: EnginesSection = EnginesSection()
    commands: CommandsSection = CommandsSection()
    worktree: WorktreeSection = WorktreeSection()
    routing: RoutingSection = RoutingSection()
    policy: PolicySection = PolicySection()
    secrets: SecretRules = SecretRules()
    hub: _HubName | None = None
    deploy: DeployRules = DeployRules()
    review: ReviewRules = ReviewRules()
    proof: ProofRules = ProofRules()
    budget: BudgetRules = BudgetRules()
    retention: RetentionRules = RetentionRules()
    context: Annotated[ContextSection, short_form(_profile_alone, {"enum": ["lean", "balanced", "heavy"]})] = (
        ContextSection()
    )
    durability: Literal["fast", "full"] = "fast"

    def __post_init__(self) -> None:
        # Stored runs may have what is refused here, and are read all the same.
        target = self.deploy.target
        if target is not None and not _BRANCH.fullmatch(target):
            raise MistakesError([Mistake(("deploy", "target"), f"'{target}' cannot be the name of a branch")])


def config_with(engines: Iterable[str] = ()) -> type[Config]:
    """The model of a configuration that has sections of these engines, by short name, beside the built-in ones'.
    Names of no engine are left out: they are an error wherever they stand."""
    return _model_of(tuple(sorted({*BUILT_IN, *filter(is_known, engines)})), tuple(sys.path))


@cache
def _model_of(engines: tuple[str, ...], path: tuple[str, ...]) -> type[Config]:
    """
    :param path: `sys.path`, where engines may come and go.
    """
    del path
    kinds = {name: _section_of(name) for name in engines}
    section = extended(EnginesSection, "EnginesSection", {name: (kind, kind()) for name, kind in kinds.items()})
    return extended(Config, "Config", {"engines": (section, section())})


def _section_of(name: str) -> type[EngineSection]:
    try:
        return adapter_of(name).configuration
    except BrokenEngineError:
        return UnreadSection


class CommandLine(Struct, frozen=True):
    """What the options of `start` say about engines; None: nothing."""

    engine: str | None = None
    mode: str | None = None
    model: str | None = None
    economy: bool = False


def load_config(team_file: str | None, git_config: Mapping[str, str], model: type[Config] | None = None) -> Config:
    """
    :param team_file: text of `.swarm/config.yaml`, None when there is none.
    :param git_config: entries below `swarm.`, by full name.
    :param model: None: with the engines that are mentioned.
    :raises SpecError: an unknown key or a bad value, with file and line or with the name git config uses.
    """
    merged: dict[str, Any] = {}
    source = parse_yaml(CONFIG_FILE, team_file) if team_file is not None and _says_anything(team_file) else None
    if model is None:
        model = config_with(_mentioned(source.data if source is not None else {}, git_config))
    if source is not None:
        try:
            _refuse_nul(source)
            _refuse_written_keys(source, validate(source, model))
        except SpecError as error:
            hint = error.hint or f"fix {CONFIG_FILE} and commit it: the base commit's counts"
            raise SpecError(error.problems, hint=hint) from error
        merged = deepcopy(source.data)
        if "context" in merged:
            merged = {**merged, "context": _profile_alone(merged["context"])}
    for name, value in git_config.items():
        put_personal(model, merged, name, entry_value(model, name, value))
    try:
        return model.from_plain(merged)
    except MistakesError as error:
        first = error.mistakes[0]
        name, key = entry_of(model, first.location, git_config)
        hint = f"git swarm config --unset {key}"
        location = takewhile(lambda part: isinstance(part, str), first.location)
        raise EntryError(name, ".".join(map(str, location)), first.what, hint=hint) from error


def _mentioned(team: object, git_config: Mapping[str, str]) -> set[str]:
    """Sections of engines in a configuration that nobody has looked at yet."""
    engines = team.get("engines") if isinstance(team, dict) else None
    sections = {name for name in engines if isinstance(name, str)} if isinstance(engines, dict) else set()
    entries = (name.split(".") for name in git_config)
    return (sections | {words[2] for words in entries if words[1] == "engines" and len(words) > 3}) - _PLAIN_KEYS


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


def freeze_settings(
    config: Config, env: Mapping[str, str], options: CommandLine, *, scripted: bool
) -> FrozenSettings:
    """Everything decided once, above the runner.

    :raises UsageError: an engine or mode that does not exist.
    """
    mode = "stub" if scripted else options.mode
    if scripted and options.mode not in (None, "stub"):
        raise UsageError(f"--script needs mode stub, not '{options.mode}'", hint="leave out --mode or --script")

    chosen: dict[str, EngineChoice] = {}

    def choice(name: str) -> EngineChoice:
        short = short_of(name)
        if short not in chosen:
            chosen[short] = _choice(config, env, short, options, mode)
        return chosen[short]

    default = choice(options.engine or config.engines.default)
    flows = {} if options.engine else {key: choice(name) for key, name in config.engines.flows.items()}
    steps = {} if options.engine else {key: choice(name) for key, name in config.engines.steps.items()}
    return FrozenSettings(
        model=options.model,
        economy=options.economy,
        context=config.context.profile,
        default_engine=default,
        flow_engines=flows,
        step_engines=steps,
        commands={name: getattr(config.commands, name) for name in KNOWN_COMMANDS},
        test_suites=config.commands.tests,
        copy_patterns=config.worktree.copy_,
        setup=config.worktree.setup,
        setup_timeout_s=config.worktree.setup_timeout,
        worktree_paths=config.worktree.paths or (),
        navigator_timeout_s=config.routing.navigator_timeout,
        policy=PolicyRules(**{name: getattr(config.policy, name) for name in PolicyRules.__struct_fields__}),
        secrets=config.secrets,
        deploy=config.deploy,
        review=config.review,
        proof=config.proof,
        budget=config.budget,
        engines={name: _frozen(config, name) for name in sorted(chosen)},
    )


def _choice(
    config: Config, env: Mapping[str, str], short: str, options: CommandLine, mode: str | None
) -> EngineChoice:
    """
    :raises UsageError: there is no such engine.
    """
    try:
        adapter = adapter_of(short)
    except BrokenEngineError:  # refused when a step of a run would ask it
        return EngineChoice(engine=id_of(short), mode=mode or STUB, provider="none", model=options.model)
    section = config.engines.sections.get(short) or adapter.configuration()
    return adapter.choose(section, mode, options.model, env)


def _frozen(config: Config, short: str) -> dict[str, JsonValue]:
    section = config.engines.sections.get(short)
    try:
        return adapter_of(short).frozen(section) if section is not None else {}
    except BrokenEngineError:
        return {}


def engine_access(config: Config, env: Mapping[str, str]) -> dict[str, EngineAccess]:
    """How the engines are reached from here, by engine. It holds keys: it is frozen in no run."""
    found = {}
    for name, section in config.engines.sections.items():
        with contextlib.suppress(BrokenEngineError):
            found[id_of(name)] = adapter_of(name).access(section, env)
    return found


def _refuse_written_keys(source: YamlSource, config: Config) -> None:
    """
    :raises SpecError: a key stands in a file that is committed.
    """
    for engine, section in config.engines.sections.items():
        own = section.env if isinstance(section, ProgramSection) else {}
        for name, value in own.items():
            if KEY_NAME.search(name) and not VARIABLE.search(value):
                what = f"engines.{engine}.env.{name}: a key does not belong in a committed file"
                raise SpecError(
                    [source.problem(("engines", engine, "env", name), what)],
                    hint=f'{name}: "${{{name}}}" takes it from your environment',
                )


def _refuse_nul(source: YamlSource) -> None:
    """
    :raises SpecError: a text that no command, path or variable can hold.
    """
    wrong = [source.problem(place, f"{'.'.join(map(str, place))}: a NUL byte") for place in has_nul(source.data)]
    if wrong:
        raise SpecError(wrong)


def worktree_folder(config: Config, home: Path) -> Path | None:
    """The user's own folder for worktrees, or None."""
    if not config.worktree.dir:
        return None
    folder = config.worktree.dir
    return home / folder[2:] if folder.startswith("~/") else Path(folder)
