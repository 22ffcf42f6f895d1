"""Builds the engines that a run may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitswarm.engines.base import Engine, EngineAccess
from gitswarm.engines.claude.cli import CliTransport
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.engines.claude.sdk import SdkTransport
from gitswarm.engines.command import CommandEngine
from gitswarm.engines.stub import StubEngine
from gitswarm.errors import EngineMissingError, UsageError
from gitswarm.records.base import Clock
from gitswarm.records.run_spec import EngineChoice, FrozenSettings
from gitswarm.specs.model_policy import ModelFacts, ModelPolicy
from gitswarm.specs.script import Script
from gitswarm.specs.yaml_source import nearest

CLAUDE = "claude-step"
SESSION_ENGINES = (CLAUDE, "gemini-step")

Engines = Mapping[tuple[str, str], Engine]
"""By engine and mode (`EngineChoice.key`)."""


def build_engines(script: Script | None, clock: Clock, claude: ClaudeProfile) -> Engines:
    engines: list[Engine] = [StubEngine(engine_id, script, clock) for engine_id in SESSION_ENGINES]
    engines += [ClaudeEngine(transport, claude, clock) for transport in (SdkTransport(), CliTransport())]
    engines.append(CommandEngine(script, clock))
    return {(engine.engine_id, engine.mode): engine for engine in engines}


def claude_profile(
    settings: FrozenSettings, policy: ModelPolicy | None, access: Mapping[str, EngineAccess]
) -> ClaudeProfile:
    """
    :param policy: knows prices; None: nobody will be asked for any.
    """

    def price(model: str) -> tuple[float, float] | None:
        facts = policy.facts(model) if policy is not None else ModelFacts()
        return None if facts.input is None or facts.output is None else (facts.input, facts.output)

    chosen = next((choice for choice in choices(settings) if choice.engine == CLAUDE), None)
    provider = chosen.provider if chosen is not None else "anthropic"
    return ClaudeProfile(provider, settings.claude, access.get(CLAUDE, EngineAccess()), price)


def choices(settings: FrozenSettings) -> Iterable[EngineChoice]:
    """Every engine that a run of these settings may ask."""
    return (settings.default_engine, *settings.flow_engines.values(), *settings.step_engines.values())


def refuse_impossible(settings: FrozenSettings, engines: Engines, env: Mapping[str, str]) -> None:
    """
    :raises UsageError: a chosen engine or mode does not exist in this version.
    :raises EngineMissingError: what it needs is not on this machine.
    """
    for choice in dict.fromkeys(choices(settings)):
        _refuse_choice(choice, engines)
        engine = engines[choice.key]
        if isinstance(engine, ClaudeEngine):
            _refuse_missing(engine, env)
            if settings.policy.network == "none":
                what = f"policy.network is none: {choice.engine} could not reach its model"
                raise UsageError(what, hint="policy.network: engine in .swarm/config.yaml")


def provider_hosts(engine: Engine, env: Mapping[str, str]) -> tuple[str, ...]:
    """Where the model of an engine is asked, as `host:port`.

    :param env: of its programs.
    """
    return engine.profile.hosts(env) if isinstance(engine, ClaudeEngine) else ()


def _refuse_choice(choice: EngineChoice, engines: Engines) -> None:
    modes = [mode for engine, mode in engines if engine == choice.engine]
    if not modes:
        raise UsageError(
            f"unknown engine '{choice.engine}' (known: {', '.join(SESSION_ENGINES)})",
            hint="git swarm start FLOW --engine claude-step",
        )
    if choice.mode not in modes:
        near = nearest(choice.mode, modes)
        meant = f" (did you mean '{near}'?)" if near else ""
        raise UsageError(
            f"{choice.engine} has no mode '{choice.mode}' in this version (it has: {', '.join(modes)}){meant}",
            hint=f"git swarm start FLOW --mode {near or modes[0]}",
        )


def _refuse_missing(engine: ClaudeEngine, env: Mapping[str, str]) -> None:
    program = engine.find_program(env)
    if program.problem is not None:
        raise EngineMissingError(program.problem, hint=program.advice)
    lacking = engine.profile.lacking(env)
    if lacking is not None:
        raise EngineMissingError(lacking[0], hint=lacking[1])
