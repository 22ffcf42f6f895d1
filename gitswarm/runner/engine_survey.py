"""Which engines there are, what they can do, and whether they can be used from here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import Struct, field
from msgspec.structs import asdict
from pydantic import JsonValue

from gitswarm.engines.adapter import Program
from gitswarm.engines.base import LOCAL_WORK, Capabilities
from gitswarm.engines.names import STUB
from gitswarm.engines.registry import adapters
from gitswarm.records.run_spec import EngineChoice, FrozenSettings
from gitswarm.runner.engines import LOCAL, EngineContext, choices, engine_setup


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
        return self.program.told or None

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "engine": self.engine,
            "mode": self.mode,
            "available": self.problem is None,
            "configured": self.is_configured,
            "program": str(self.program.path) if self.program.path else None,
            "version": self.program.version or None,
            "sdk": self.program.library.rpartition(" ")[2] or None,
            "problem": self.problem,
            "capabilities": asdict(self.capabilities),
        }


def survey_engines(settings: FrozenSettings, machine: EngineContext) -> Iterator[EngineHere]:
    """
    :param settings: of a run that would be started here.
    """
    by_key = {choice.key: choice for choice in choices(settings)}
    for adapter in adapters():
        stub = adapter.stub(None, machine.clock)
        yield EngineHere(adapter.engine_id, STUB, stub.capabilities, (adapter.engine_id, STUB) in by_key)
        for mode, capabilities in adapter.modes.items():
            key = (adapter.engine_id, mode)
            said = EngineChoice(engine=adapter.engine_id, mode=mode, provider=adapter.providers[0])
            setup = engine_setup(adapter, by_key.get(key, said), settings, machine, lambda _model: None)
            program = adapter.usable(mode, setup, machine.env)
            login = adapter.login(setup, machine.env)
            yield EngineHere(adapter.engine_id, mode, capabilities, key in by_key, program, login)
    yield EngineHere(LOCAL.engine, LOCAL.mode, LOCAL_WORK, is_configured=True)
