"""OpenAI's Codex as an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gitswarm.engines.adapter import EngineSetup, KeyedProgramAdapter, Program, ProgramSection, SessionSettings
from gitswarm.engines.codex.codex_cli import CAPABILITIES, INSTALL, KEY, find_codex
from gitswarm.records.json_value import JsonValue

if TYPE_CHECKING:
    from gitswarm.engines.codex.engine import CodexEngine


class CodexAdapter(KeyedProgramAdapter):
    short_name = "codex"
    key = KEY
    modes = {"cli": CAPABILITIES}
    providers = ("openai",)
    section = ProgramSection
    settings = SessionSettings
    inherits = ("OPENAI_",)
    advised = "cli"
    install = INSTALL
    tested = {"codex": "0.169.0"}
    variables = {
        "OPENAI_*": "given to Codex's own processes",
        "SWARM_CODEX_STEP_ENGINE_MODE": "the mode of Codex, before any configuration",
        "SWARM_CODEX_CLI": "the program of Codex",
    }

    def open(self, mode: str, setup: EngineSetup) -> CodexEngine:
        from gitswarm.engines.codex.engine import CodexEngine  # noqa: PLC0415 - a rehearsal needs none of it

        return CodexEngine(setup, SessionSettings.from_plain(setup.settings), self.engine_id, mode)

    def find(self, mode: str, setup: EngineSetup, env: Mapping[str, str]) -> Program:
        del mode
        env = setup.environment(env)
        program = find_codex(setup, env)
        if program.problem is None and not env.get(KEY):
            return replace(program, problem=f"codex has no {KEY}", advice=f"export {KEY}=…")
        return program

    def own_files(self, settings: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """A person's own Codex reads them where the project is trusted; ours never does."""
        del settings
        return (".codex/**",)


ADAPTER = CodexAdapter()
