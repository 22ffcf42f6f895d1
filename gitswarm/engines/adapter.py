"""What an engine says about itself: the one object that git-swarm finds and opens (docs/adding-an-engine.md)."""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import NODEFAULT, Meta, Struct, field
from msgspec.structs import fields

from gitswarm.engines.base import Capabilities, Engine, EngineAccess
from gitswarm.engines.names import STUB, id_of
from gitswarm.engines.stub import StubEngine
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import Clock, Record, extended, one_of, short_form
from gitswarm.records.run_spec import EngineChoice
from gitswarm.specs.script import Script

Prices = Callable[[str], tuple[float, float] | None]
"""US dollars for a million tokens in and out of a model; None: not known."""

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""In a value of `env`: the caller's variable."""


class EngineSection(Record):
    """`engines.NAME` of the configuration. `mode`: one of the adapter's, or `stub`."""

    mode: str | None = None


def _texts(env: object) -> object:
    """`FLAG: 1` in YAML is a number."""
    if not isinstance(env, dict):
        return env
    return {name: str(value) if isinstance(value, int | float) else value for name, value in env.items()}


class ProgramSection(EngineSection):
    """The section of an engine with a program. `env`: for its own processes only; `${NAME}` in a value is the
    caller's variable. `cli`: path of the program."""

    env: Annotated[dict[str, str], short_form(_texts)] = {}
    cli: str | None = None


class NoSettings(Record):
    """The settings of an engine that has nothing to be frozen in a run."""


class SessionSettings(Record):
    """Of an engine whose sessions may be tried again. `step_timeout`: seconds that one step may take. `attempts`: how
    often a request or a turn is made while the provider fails in a way that may pass."""

    step_timeout: Annotated[float, Meta(gt=0)] = 3600.0
    attempts: Annotated[int, Meta(ge=1, le=10)] = 3


class Program(Struct, frozen=True):
    """What the sessions of an engine run. `problem`: why it cannot be used, and `advice` what to do about that; None:
    it can. `path` None: there is none. `version` empty: not known. `library`: name and version of a package that it
    needs besides."""

    path: Path | None
    version: str = ""
    problem: str | None = None
    advice: str = ""
    library: str = ""

    @property
    def message(self) -> str:
        return ": ".join(part for part in (self.problem, self.advice) if part)


class EngineSetup(Struct, frozen=True):
    """What an engine is opened with. `settings`: fields of the adapter's `settings`, as the run froze them; `access`:
    read anew by each process. `prices`: of the run's model policy, and the adapter's own."""

    provider: str
    clock: Clock
    settings: Mapping[str, JsonValue]
    access: EngineAccess = field(default_factory=EngineAccess)
    prices: Prices = lambda _model: None

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of the engine's own processes.

        :param env: the agent's, or the caller's.
        """
        return {**env, **self.access.env}


class EngineAdapter(ABC):
    """An engine, before it is opened. Importing the module of an adapter has to be cheap: what is heavy is imported
    by `open`.

    `short_name`: as people write it, the name of its entry point and of its section of the configuration.
    `modes`: by name, with what each can do; `stub` is not among them. `providers`: who may answer; the first one
    unless the section says another. `section`: keys of the configuration, beside those of `settings`, which are
    frozen in a run. `prices`: US dollars for a million tokens in and out, by model, where the model
    policy says none; a model in neither has an unknown price. `inherits`: beginnings of the names of variables that
    its processes get from the caller. `advised`: the mode that is recommended to who sees a rehearsal; "": none.
    `install`: a command that brings the program. `tested`: the newest version of each program and package that it was
    tested with, by name. `variables`: of the environment, and what each does.
    """

    short_name: ClassVar[str]
    modes: ClassVar[Mapping[str, Capabilities]] = {}
    providers: ClassVar[tuple[str, ...]] = ("none",)
    section: ClassVar[type[EngineSection]] = EngineSection
    settings: ClassVar[type[Record]] = NoSettings
    prices: ClassVar[Mapping[str, tuple[float, float]]] = {}
    inherits: ClassVar[tuple[str, ...]] = ()
    advised: ClassVar[str] = ""
    install: ClassVar[str] = ""
    tested: ClassVar[Mapping[str, str]] = {}
    variables: ClassVar[Mapping[str, str]] = {}

    @property
    def engine_id(self) -> str:
        """The engine's name in receipts and trailers."""
        return id_of(self.short_name)

    @abstractmethod
    def open(self, mode: str, setup: EngineSetup) -> Engine:
        """The engine in one of its own modes. Nothing is started yet."""

    def find(self, mode: str, setup: EngineSetup, env: Mapping[str, str]) -> Program:
        """Whether a mode can be used from here.

        :param env: the caller's.
        """
        del mode, setup, env
        return Program(None)

    def located(self, env: Mapping[str, str]) -> Path | None:
        """Where its program is, unchecked: for advice."""
        del env
        return None

    def login(self, setup: EngineSetup, env: Mapping[str, str]) -> str:
        """What it reaches its provider with, in words and as far as that is seen without asking; "": not known."""
        del setup, env
        return ""

    def models(self, setup: EngineSetup, env: Mapping[str, str]) -> list[str] | None:
        """Ids of the models that its provider offers, by asking it; None: it cannot be asked.

        :raises SwarmError: why there is no answer.
        """
        del setup, env
        return None

    def notice(self, setup: EngineSetup, env: Mapping[str, str]) -> str:
        """What a person should know before a run asks it, in one line; "": nothing."""
        del setup, env
        return ""

    def own_files(self, settings: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """Patterns of files in the worktree that tell its next session what to execute: no agent may write them."""
        del settings
        return ()

    def longest_s(self, settings: Mapping[str, JsonValue]) -> float | None:
        """How long one step may take, by its setting `step_timeout`; None: nothing but the budget bounds it."""
        found: float | None = getattr(self.settings.from_plain(settings), "step_timeout", None)
        return found

    def stub(self, script: Script | None, clock: Clock) -> Engine:
        """It, without a model."""
        return StubEngine(self.engine_id, script, clock)

    @property
    def stub_model(self) -> str:
        return f"{self.short_name}-{STUB}"

    def mode_from_env(self, env: Mapping[str, str]) -> str | None:
        """The mode that the environment names; it comes before any configuration."""
        return env.get(f"{_variable(self.engine_id)}_ENGINE_MODE") or None

    def program_from_env(self, env: Mapping[str, str]) -> str | None:
        """The path of the program that the environment names; it comes before any configuration."""
        return env.get(f"{_variable(self.short_name)}_CLI") or None

    # What follows from the rest.

    @property
    def configuration(self) -> type[EngineSection]:
        """`section`, with the keys of `settings`, whose mode is one of those that there are."""
        return _section_of(self.short_name, self.section, self.settings, (STUB, *self.modes))

    def choose(
        self, section: EngineSection, mode: str | None, model: str | None, env: Mapping[str, str]
    ) -> EngineChoice:
        """
        :param mode, model: what was asked for; None: as it is configured.
        """
        taken = mode or self.mode_from_env(env) or section.mode or STUB
        stub = self.stub_model if taken == STUB else None
        provider = getattr(section, "provider", self.providers[0])
        return EngineChoice(engine=self.engine_id, mode=taken, provider=provider, model=model or stub)

    def frozen(self, section: EngineSection) -> dict[str, JsonValue]:
        """What of a section is the run's, whatever is configured later."""
        plain = section.to_plain()
        return {name: plain[name] for name in self.settings.__struct_encode_fields__}

    def access(self, section: EngineSection, env: Mapping[str, str]) -> EngineAccess:
        """What is this machine's.

        :param env: the caller's.
        """
        given = {name: value for name, value in env.items() if self.inherits and name.startswith(self.inherits)}
        if not isinstance(section, ProgramSection):
            return EngineAccess(given, self.program_from_env(env))
        needed = [(found, name) for name, value in section.env.items() for found in VARIABLE.findall(value)]
        unset = next((each for each in needed if each[0] not in env), None)
        own = {name: VARIABLE.sub(lambda found: env.get(found[1], ""), value) for name, value in section.env.items()}
        return EngineAccess(given | own, self.program_from_env(env) or section.cli, unset)

    def newer(self, program: Program) -> str:
        """What of a program is newer than what was tested, by its first two numbers, in one line; "": nothing."""
        library, _space, of_library = program.library.rpartition(" ")
        found = {self.short_name: program.version, library: of_library}
        warnings = [
            f"{name} {found[name]} is newer than {tested}"
            for name, tested in self.tested.items()
            if _minor(found.get(name, "")) > _minor(tested)
        ]
        return f"{', '.join(warnings)}, the newest that git-swarm was tested with" if warnings else ""

    def usable(self, mode: str, setup: EngineSetup, env: Mapping[str, str]) -> Program:
        """The program that `find` finds, or a problem where a variable that the configuration names is not set.

        :param env: the caller's.
        """
        return self.unset(setup) or self.find(mode, setup, env)

    def unset(self, setup: EngineSetup) -> Program | None:
        """What the configuration names and nobody has set."""
        if setup.access.unset is None:
            return None
        variable, name = setup.access.unset
        what = f"engines.{self.short_name}.env.{name} needs the variable {variable}, which is not set"
        return Program(None, problem=what, advice=f"export {variable}=…")


@cache
def _section_of(
    name: str, section: type[EngineSection], settings: type[Record], modes: tuple[str, ...]
) -> type[EngineSection]:
    added: dict[str, Any] = {"mode": (Annotated[str, one_of(modes, "there is no mode '{given}'")] | None, None)}
    for each in fields(settings):
        made_by: Any = each.default_factory
        has_default = {"default": each.default} if made_by is NODEFAULT else {"default_factory": made_by}
        added[each.name] = (each.type, field(**has_default, name=each.encode_name))
    return extended(section, f"{name.title()}Section", added)


def _minor(version: str) -> tuple[int, ...]:
    """Its first two numbers; none where that is no version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()


def _variable(name: str) -> str:
    return "SWARM_" + name.upper().replace("-", "_")


class KeyedProgramAdapter(EngineAdapter):
    """An engine with a program of its short name on PATH, which asks its provider with an API key.

    `key`: the variable that holds it.
    """

    key: ClassVar[str]

    def located(self, env: Mapping[str, str]) -> Path | None:
        path = self.program_from_env(env) or shutil.which(self.short_name, path=env.get("PATH"))
        return Path(path) if path else None

    def login(self, setup: EngineSetup, env: Mapping[str, str]) -> str:
        return self.key if setup.environment(env).get(self.key) else ""


def chosen_program(short_name: str, cli: str | None, env: Mapping[str, str], install: str) -> Path | Program:
    """The program as it was configured, else the one of the engine's name on PATH; or what is missing.

    :param cli: as it was configured.
    :param install: a command that brings it.
    """
    found = cli or shutil.which(short_name, path=env.get("PATH"))
    if found is None:
        return Program(None, problem=f"{short_name} is not installed", advice=install)
    path = Path(found).expanduser().absolute()  # sessions stand in another folder
    if path.is_file():
        return path
    advice = f"unset {_variable(short_name)}_CLI, or correct engines.{short_name}.cli"
    return Program(None, problem=f"there is no program at {found}", advice=advice)
