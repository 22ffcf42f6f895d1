"""Which engines there are, whether they can be used from here, and which executes which step of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict

from gitswarm.engines.adapter import EngineAdapter, EngineSetup, Prices, Program
from gitswarm.engines.base import LOCAL_WORK, Capabilities, Engine
from gitswarm.engines.command import CommandEngine
from gitswarm.engines.names import STUB
from gitswarm.engines.registry import MissingEngine, adapter_of, adapters
from gitswarm.errors import EngineMissingError, NoSuchModeError, SpecError, SwarmError, UsageError
from gitswarm.records.json_value import JsonValue
from gitswarm.records.run_spec import EngineChoice, FrozenSettings
from gitswarm.records.text import nearest
from gitswarm.specs.flow import Flow, Step
from gitswarm.specs.library import Library
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.script import Script
from gitswarm.specs.sidequest import NODE_PREFIX, SIDEQUEST_PREFIX, Sidequest

if TYPE_CHECKING:
    from gitswarm.runner.run_context import RunContext

Engines = Mapping[tuple[str, str], Engine]
"""By engine and mode (`EngineChoice.key`)."""

LOCAL = EngineChoice(engine="command", mode="local", provider="none", model="none")
OWN = EngineChoice(engine="kernel", mode="local", provider="none", model="none")
"""Of steps that git-swarm carries out itself."""


def choice_of(settings: FrozenSettings, flow: str, step: Step) -> EngineChoice:
    """Step over flow over the run's default; steps of commands and of git-swarm itself have their own engines."""
    if step.is_command or step.is_kernel:
        return LOCAL if step.is_command else OWN
    by_step = settings.step_engines.get(f"{flow}/{step.id}") or settings.step_engines.get(step.id)
    return by_step or flow_choice(settings, flow)


def flow_choice(settings: FrozenSettings, flow: str) -> EngineChoice:
    """The engine of a flow's sessions that belong to no step with an engine of its own."""
    return settings.flow_engines.get(flow) or settings.default_engine


def without_effect(library: Library, settings: FrozenSettings) -> Iterator[str]:
    """Entries of `engines.flows` and `engines.steps` that name nothing that an agent executes, a sentence each."""
    for name in settings.flow_engines:
        if name not in library.flow_ids:
            yield f"engines.flows.{name} has no effect: there is no such flow{_or_is_it(name, library.flow_ids)}"
    if not settings.step_engines:
        return
    steps = set[str]()
    try:
        for flow_id in library.flow_ids:
            flow = library.flow(flow_id).flow
            steps |= {name for step in flow.steps if step.station for name in (step.id, f"{flow_id}/{step.id}")}
        steps |= {name for quest in library.sidequest_ids for name in library.sidequest(quest).step_names}
    except SpecError:  # told where that file is looked at; it may have the step
        return
    for name in settings.step_engines:
        if name not in steps and not name.rpartition("/")[2].startswith((SIDEQUEST_PREFIX, NODE_PREFIX)):
            what = f"engines.steps.{name} has no effect: no flow has such a step that an agent executes"
            yield what + _or_is_it(name, sorted(steps))


def _or_is_it(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f" (did you mean '{near}'?)" if near else ""


def choices(settings: FrozenSettings) -> Iterable[EngineChoice]:
    """Every engine that some run of these settings may ask."""
    return (settings.default_engine, *settings.flow_engines.values(), *settings.step_engines.values())


def engine_setup(
    adapter: EngineAdapter, choice: EngineChoice, settings: FrozenSettings, machine: RunContext, prices: Prices
) -> EngineSetup:
    """What an engine is opened with in a run of these settings."""
    access = machine.access.get(choice.engine) or adapter.access(adapter.configuration(), machine.env)
    frozen = settings.engines.get(adapter.short_name, {})
    return EngineSetup(choice.provider, machine.clock, frozen, access, prices)


def prices_of(policy: ModelPolicy, adapter: EngineAdapter) -> Prices:
    """Prices of models: the policy's, else those that the engine itself knows."""

    def price(model: str) -> tuple[float, float] | None:
        facts = policy.facts(model)
        own = None if facts.input is None or facts.output is None else (facts.input, facts.output)
        return own or adapter.prices.get(model)

    return price


def build_engines(
    settings: FrozenSettings, policy: ModelPolicy, script: Script | None, machine: RunContext
) -> Engines:
    """Every engine that the run may ask, and the project's commands."""
    found: dict[tuple[str, str], Engine] = {LOCAL.key: CommandEngine(script, machine.clock)}
    for choice in choices(settings):
        if choice.key not in found:
            found[choice.key] = _opened(choice, settings, policy, script, machine)
    return found


def _opened(
    choice: EngineChoice, settings: FrozenSettings, policy: ModelPolicy, script: Script | None, machine: RunContext
) -> Engine:
    try:
        adapter = _adapter_with(choice)
    except SwarmError as error:
        return MissingEngine(choice.engine, choice.mode, error.message)
    if choice.mode == STUB:
        return adapter.stub(script, machine.clock)
    setup = engine_setup(adapter, choice, settings, machine, prices_of(policy, adapter))
    return adapter.open(choice.mode, setup)


def engines_of(
    settings: FrozenSettings, flows: Iterable[Flow], sidequests: Iterable[Sidequest]
) -> list[EngineChoice]:
    """The engines that execute the steps of agents.

    :param flows, sidequests: that it may enter; of a sidequest count the steps that have an engine of their own.
    """
    found = [choice_of(settings, flow.id, step) for flow in flows for step in flow.steps if step.station is not None]
    detour_steps = [name for quest in sidequests for name in quest.step_names]
    found += [settings.step_engines[name] for name in detour_steps if name in settings.step_engines]
    return list({choice.key: choice for choice in found}.values())


def notices(settings: FrozenSettings, choices: Sequence[EngineChoice], machine: RunContext) -> list[str]:
    """What the engines of a run tell people before it, each line once."""
    found = []
    for choice in choices:
        if choice.mode != STUB:
            adapter = _adapter_with(choice)
            setup = engine_setup(adapter, choice, settings, machine, lambda _model: None)
            found.append(adapter.notice(setup, machine.env))
    return [line for line in dict.fromkeys(found) if line]


def refuse_impossible(
    settings: FrozenSettings, choices: Sequence[EngineChoice], engines: Engines, machine: RunContext
) -> list[str]:
    """What a person should know of the programs that the run can be executed with, each line once.

    :param choices: where there is none, the default mode has to exist all the same.
    :raises UsageError: an engine or mode that does not exist in this version.
    :raises EngineMissingError: what it needs is not on this machine.
    """
    if not choices:
        _adapter_with(settings.default_engine)
    newer = []
    for choice in choices:
        adapter = _adapter_with(choice)
        if choice.mode == STUB:
            continue
        setup = engine_setup(adapter, choice, settings, machine, lambda _model: None)
        program = adapter.usable(choice.mode, setup, machine.env)
        if program.problem is not None:
            raise EngineMissingError(program.problem, hint=program.advice)
        if settings.policy.network == "none" and engines[choice.key].hosts(machine.env):
            what = f"policy.network is none: {choice.engine} could not reach its model"
            raise UsageError(what, hint="policy.network: engine in .swarm/config.yaml")
        newer.append(adapter.newer(program))
    return [line for line in dict.fromkeys(newer) if line]


def _adapter_with(choice: EngineChoice) -> EngineAdapter:
    """
    :raises UsageError: there is no such engine, or it has no such mode.
    :raises BrokenEngineError: it cannot be used.
    """
    adapter = adapter_of(choice.engine)
    modes = [STUB, *adapter.modes]
    if choice.mode not in modes:
        near = nearest(choice.mode, modes)
        meant = f" (did you mean '{near}'?)" if near else ""
        what = f"{choice.engine} has no mode '{choice.mode}' in this version (it has: {', '.join(modes)}){meant}"
        raise NoSuchModeError(what, near or modes[0])
    return adapter


class EngineHere(Struct, frozen=True):
    """An engine in one of its modes. `program`: what its sessions run here, and why that cannot be used. `login`:
    what it reaches its provider with, "" where that is not seen. `is_configured`: a run that is started here may ask
    it."""

    engine: str
    mode: str
    capabilities: Capabilities
    is_configured: bool
    program: Program = field(default_factory=partial(Program, None))
    login: str = ""

    @property
    def problem(self) -> str | None:
        """And what to do about it."""
        return self.program.message or None

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "engine": self.engine,
            "mode": self.mode,
            "available": self.problem is None,
            "configured": self.is_configured,
            "program": str(self.program.path) if self.program.path else None,
            "version": self.program.version or None,
            "sdk": self.program.library.rpartition(" ")[2] or None,
            "login": self.login or None,
            "problem": self.problem,
            "capabilities": asdict(self.capabilities),
        }


def survey_engines(settings: FrozenSettings, machine: RunContext) -> Iterator[EngineHere]:
    """
    :param settings: of a run that would be started here.
    """
    by_key = {choice.key: choice for choice in choices(settings)}
    for adapter in adapters():
        stub = adapter.stub(None, machine.clock)
        yield EngineHere(adapter.engine_id, STUB, stub.capabilities, (adapter.engine_id, STUB) in by_key)
        for mode, capabilities in adapter.modes.items():
            key = (adapter.engine_id, mode)
            asked_for = EngineChoice(engine=adapter.engine_id, mode=mode, provider=adapter.providers[0])
            setup = engine_setup(adapter, by_key.get(key, asked_for), settings, machine, lambda _model: None)
            program = adapter.usable(mode, setup, machine.env)
            login = adapter.login(setup, machine.env)
            yield EngineHere(adapter.engine_id, mode, capabilities, key in by_key, program, login)
    yield EngineHere(LOCAL.engine, LOCAL.mode, LOCAL_WORK, is_configured=True)


class OfferedModel(Struct, frozen=True):
    """A model that the provider offers, or that the model policy names for the engine. `named`: where the policy
    does. `price`: US dollars for a million tokens in and out; None: not known."""

    engine: str
    model: str
    offered: bool
    named: tuple[str, ...]
    price: tuple[float, float] | None

    def to_json(self) -> dict[str, JsonValue]:
        return {**asdict(self), "named": [*self.named], "price": [*self.price] if self.price else None}


def survey_models(settings: FrozenSettings, policy: ModelPolicy, machine: RunContext) -> Iterator[OfferedModel]:
    """The models that the providers offer, of the engines that can be asked.

    :raises SwarmError: why one of them does not answer.
    """
    by_engine = {choice.engine: choice for choice in reversed([*choices(settings)])}
    for adapter in adapters():
        engine = adapter.engine_id
        choice = by_engine.get(engine) or EngineChoice(engine=engine, mode=STUB, provider=adapter.providers[0])
        prices = prices_of(policy, adapter)
        setup = engine_setup(adapter, choice, settings, machine, prices)
        unset = adapter.unset(setup)
        if unset is not None:
            raise EngineMissingError(unset.problem or "", hint=unset.advice)
        offered = adapter.models(setup, machine.env)
        if offered is not None:
            named = policy.named(engine)
            for model in dict.fromkeys([*offered, *named]):
                yield OfferedModel(engine, model, model in offered, named.get(model, ()), prices(model))
