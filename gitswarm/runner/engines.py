"""Builds the engines that a run may use."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.engines.base import Engine
from gitswarm.engines.command import CommandEngine
from gitswarm.engines.stub import StubEngine
from gitswarm.errors import UsageError
from gitswarm.records.base import Clock
from gitswarm.records.run_spec import EngineChoice, FrozenSettings
from gitswarm.specs.script import Script

SESSION_ENGINES = ("claude-step", "gemini-step")


def build_engines(script: Script | None, clock: Clock) -> Mapping[str, Engine]:
    """Every engine by its id, in the modes that exist today."""
    engines: list[Engine] = [StubEngine(engine_id, script, clock) for engine_id in SESSION_ENGINES]
    engines.append(CommandEngine(script, clock))
    return {engine.engine_id: engine for engine in engines}


def refuse_impossible(settings: FrozenSettings, engines: Mapping[str, Engine]) -> None:
    """
    :raises UsageError: a chosen engine or mode does not exist in this version.
    """
    choices = [settings.default_engine, *settings.flow_engines.values(), *settings.step_engines.values()]
    for choice in choices:
        _refuse_choice(choice, engines)


def _refuse_choice(choice: EngineChoice, engines: Mapping[str, Engine]) -> None:
    engine = engines.get(choice.engine)
    if engine is None:
        raise UsageError(
            f"unknown engine '{choice.engine}' (known: {', '.join(SESSION_ENGINES)})",
            hint="git swarm start FLOW --engine claude-step",
        )
    if choice.mode not in engine.capabilities.modes:
        modes = ", ".join(engine.capabilities.modes)
        raise UsageError(
            f"{choice.engine} has no mode '{choice.mode}' in this version (it has: {modes})",
            hint=f"git swarm start FLOW --mode {engine.capabilities.modes[0]}",
        )
