"""Sessions of Gemini CLI, held to git-swarm's policy and handoff from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gitswarm.engines.adapter import EngineSetup, KeyedProgramAdapter, Program, ProgramSection, SessionSettings
from gitswarm.engines.gemini.gemini_cli import CAPABILITIES, INSTALL, KEY, find_program

if TYPE_CHECKING:
    from gitswarm.engines.gemini.engine import GeminiEngine


class GeminiAdapter(KeyedProgramAdapter):
    short_name = "gemini"
    key = KEY
    modes = {"cli": CAPABILITIES}
    providers = ("gemini",)
    section = ProgramSection
    settings = SessionSettings
    inherits = ("GEMINI_", "GOOGLE_")
    advised = "cli"
    install = INSTALL
    tested = {"gemini": "0.61.0"}
    variables = {
        "GEMINI_*, GOOGLE_*": "given to Gemini's own processes",
        "SWARM_GEMINI_STUB": "1: Gemini in mode stub; 0: in mode cli",
        "SWARM_GEMINI_CLI": "the program of Gemini",
    }

    def open(self, mode: str, setup: EngineSetup) -> GeminiEngine:
        from gitswarm.engines.gemini.engine import GeminiEngine  # noqa: PLC0415 - a rehearsal needs none of it

        return GeminiEngine(setup, SessionSettings.from_plain(setup.settings), mode)

    def find(self, mode: str, setup: EngineSetup, env: Mapping[str, str]) -> Program:
        del mode
        env = setup.environment(env)
        program = find_program(setup.access.cli, env)
        if program.problem is None and not env.get(KEY):
            what = f"{KEY} is not set, and a login of Gemini CLI is not used"
            return replace(program, problem=what, advice=f"export {KEY}=…")
        return program

    def mode_from_env(self, env: Mapping[str, str]) -> str | None:
        """As the seeds name it, too."""
        named = {"0": "cli", "1": "stub"}.get(env.get("SWARM_GEMINI_STUB", ""))
        return named or super().mode_from_env(env)


ADAPTER = GeminiAdapter()
