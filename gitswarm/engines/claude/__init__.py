"""Sessions of Claude Code, by its CLI or by the Agent SDK, on the same rails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gitswarm.engines.adapter import EngineAdapter, EngineSetup, Program
from gitswarm.engines.claude.claude_code import CAPABILITIES, INSTALL_CLAUDE, ClaudeSection, ClaudeSettings, located
from gitswarm.records.json_value import JsonValue

if TYPE_CHECKING:
    from gitswarm.engines.claude.engine import ClaudeEngine

_READ_BY_ITSELF = (".claude/**", ".mcp.json")


class ClaudeAdapter(EngineAdapter):
    short_name = "claude"
    modes = {"sdk": CAPABILITIES, "cli": CAPABILITIES}
    providers = ("anthropic", "anthropic_compat")
    section = ClaudeSection
    settings = ClaudeSettings
    inherits = ("ANTHROPIC_", "CLAUDE_")
    advised = "cli"
    install = INSTALL_CLAUDE
    tested = {"claude": "2.1.332", "claude-agent-sdk": "0.2.189"}
    variables = {
        "ANTHROPIC_*, CLAUDE_*": "given to Claude's own processes",
        "SWARM_CLAUDE_STEP_ENGINE_MODE": "the mode of Claude, before any configuration",
        "SWARM_CLAUDE_CLI": "the program of Claude",
    }

    def open(self, mode: str, setup: EngineSetup) -> ClaudeEngine:
        from gitswarm.engines.claude.engine import ClaudeEngine  # noqa: PLC0415 - a rehearsal needs none of it
        from gitswarm.engines.claude.provider import ClaudeProfile  # noqa: PLC0415
        from gitswarm.engines.claude.transports import CliTransport, SdkTransport  # noqa: PLC0415

        settings = ClaudeSettings.from_plain(setup.settings)
        profile = ClaudeProfile(setup.provider, settings, setup.access, setup.prices)
        return ClaudeEngine(SdkTransport() if mode == "sdk" else CliTransport(), profile, setup.clock)

    def find(self, mode: str, setup: EngineSetup, env: Mapping[str, str]) -> Program:
        engine = self.open(mode, setup)
        program = engine.find_program(env)
        missing_variable = engine.profile.missing_variable(env)
        if program.problem is not None or missing_variable is None:
            return program
        return replace(program, problem=missing_variable[0], advice=missing_variable[1])

    def located(self, env: Mapping[str, str]) -> Path | None:
        path = self.program_from_env(env)
        return Path(path) if path else located(env, bundled_first=False)

    def login(self, setup: EngineSetup, env: Mapping[str, str]) -> str:
        from gitswarm.engines.claude.provider import login_words  # noqa: PLC0415 - see `open`

        return login_words(self.open("cli", setup).profile, env, setup.clock())

    def models(self, setup: EngineSetup, env: Mapping[str, str]) -> list[str]:
        from gitswarm.engines.claude.anthropic_api import offered_models  # noqa: PLC0415 - asked for by few

        return offered_models(self.open("cli", setup).profile, env)

    def notice(self, setup: EngineSetup, env: Mapping[str, str]) -> str:
        from gitswarm.engines.claude.anthropic_api import NOT_INSTALLED, is_installed  # noqa: PLC0415 - see `open`

        engine = self.open("cli", setup)
        return "" if engine.profile.direct(env) is None or is_installed() else NOT_INSTALLED

    def own_files(self, settings: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """Where sessions read the project's own settings: the next one would execute what they say."""
        reads = {"project", "local"} & set(ClaudeSettings.from_plain(settings).setting_sources)
        return _READ_BY_ITSELF if reads else ()


ADAPTER = ClaudeAdapter()
