"""Which engines there are, what they can do, and whether they can be used from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from gitswarm.engines.base import Capabilities, Engine, EngineAccess
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.program import Program, sdk_version
from gitswarm.records.base import Clock
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.runner.engines import build_engines, choices, claude_profile
from gitswarm.runner.session import LOCAL


@dataclass(frozen=True, slots=True)
class EngineHere:
    """An engine in one of its modes. `program`, `version`: what its sessions run, "" where they run none or it is
    not there; `sdk`: version of the library that it needs besides. `problem`: why it cannot be used, and what to do;
    None: it can. `is_configured`: a run that is started here may ask it."""

    engine: str
    mode: str
    capabilities: Capabilities
    is_configured: bool
    program: str = ""
    version: str = ""
    sdk: str = ""
    problem: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "engine": self.engine,
            "mode": self.mode,
            "available": self.problem is None,
            "configured": self.is_configured,
            "program": self.program or None,
            "version": self.version or None,
            "sdk": self.sdk or None,
            "problem": self.problem,
            "capabilities": asdict(self.capabilities),
        }


def survey_engines(
    settings: FrozenSettings, access: Mapping[str, EngineAccess], env: Mapping[str, str], clock: Clock
) -> Iterator[EngineHere]:
    """
    :param env: the caller's.
    """
    configured = {LOCAL.key, *(choice.key for choice in choices(settings))}
    engines = build_engines(None, clock, claude_profile(settings, None, access))
    for key, engine in sorted(engines.items(), key=lambda entry: (entry[0] == LOCAL.key, entry[0][0])):
        yield _here(engine, env, is_configured=key in configured)


def _here(engine: Engine, env: Mapping[str, str], *, is_configured: bool) -> EngineHere:
    program, sdk = Program(None), ""
    if isinstance(engine, ClaudeEngine):
        program = engine.find_program(env)
        sdk = sdk_version() if engine.mode == "sdk" else ""
        lacking = engine.profile.lacking(env)
        if program.problem is None and lacking is not None and is_configured:
            program = Program(program.path, program.version, *lacking)
    return EngineHere(
        engine=engine.engine_id,
        mode=engine.mode,
        capabilities=engine.capabilities,
        is_configured=is_configured,
        program=str(program.path or ""),
        version=program.version,
        sdk=sdk,
        problem=program.told or None,
    )
