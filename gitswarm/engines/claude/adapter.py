"""Claude Code, as git-swarm finds it and opens it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pydantic import JsonValue

from gitswarm.engines.adapter import EngineAdapter, EngineSetup, Program
from gitswarm.engines.base import SESSION_WORK
from gitswarm.engines.claude.profile import INSTALL_CLAUDE, ClaudeSection, ClaudeSettings, located

if TYPE_CHECKING:
    from gitswarm.engines.claude.engine import ClaudeEngine

_READ_BY_ITSELF = (".claude/**", ".mcp.json")

CAPABILITIES = replace(SESSION_WORK, project_context=True, max_context_tokens=200_000)
"""Of both transports: the seeds' matrix says less of the CLI, which is not true any more (docs/engines.md)."""


class ClaudeAdapter(EngineAdapter):
    short_name = "claude"
    modes = {"sdk": CAPABILITIES, "cli": CAPABILITIES}
    providers = ("anthropic", "anthropic_compat")
    section = ClaudeSection
    settings = ClaudeSettings
    inherits = ("ANTHROPIC_", "CLAUDE_")
    advised = "cli"
    install = INSTALL_CLAUDE
    tested = {"claude": "2.1.330", "claude-agent-sdk": "0.2.187"}
    variables = {
        "ANTHROPIC_*, CLAUDE_*": "given to Claude's own processes",
        "SWARM_CLAUDE_STEP_ENGINE_MODE": "the mode of Claude, before any configuration",
        "SWARM_CLAUDE_CLI": "the program of Claude",
    }

    def open(self, mode: str, setup: EngineSetup) -> ClaudeEngine:
        from gitswarm.engines.claude.cli import CliTransport  # noqa: PLC0415 - a rehearsal needs none of it
        from gitswarm.engines.claude.engine import ClaudeEngine  # noqa: PLC0415
        from gitswarm.engines.claude.profile import ClaudeProfile  # noqa: PLC0415
        from gitswarm.engines.claude.sdk import SdkTransport  # noqa: PLC0415

        settings = ClaudeSettings.model_validate(setup.settings)
        profile = ClaudeProfile(setup.provider, settings, setup.access, setup.prices)
        return ClaudeEngine(SdkTransport() if mode == "sdk" else CliTransport(), profile, setup.clock)

    def find(self, mode: str, setup: EngineSetup, env: Mapping[str, str]) -> Program:
        engine = self.open(mode, setup)
        program = engine.find_program(env)
        lacking = engine.profile.lacking(env)
        if program.problem is not None or lacking is None:
            return program
        return replace(program, problem=lacking[0], advice=lacking[1])

    def located(self, env: Mapping[str, str]) -> Path | None:
        path = self.program_from_env(env)
        return Path(path) if path else located(env, bundled_first=False)

    def login(self, setup: EngineSetup, env: Mapping[str, str]) -> str:
        from gitswarm.engines.claude.login import login_words  # noqa: PLC0415 - see `open`

        return login_words(self.open("cli", setup).profile, env, setup.clock())

    def models(self, setup: EngineSetup, env: Mapping[str, str]) -> list[str]:
        from gitswarm.engines.claude.models import offered_models  # noqa: PLC0415 - asked for by few

        return offered_models(self.open("cli", setup).profile, env)

    def notice(self, setup: EngineSetup, env: Mapping[str, str]) -> str:
        from gitswarm.engines.claude.direct import NOT_INSTALLED, is_installed  # noqa: PLC0415 - see `open`

        engine = self.open("cli", setup)
        return "" if engine.profile.direct(env) is None or is_installed() else NOT_INSTALLED

    def own_files(self, settings: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """Where sessions read the project's own settings: the next one would execute what they say."""
        reads = {"project", "local"} & set(ClaudeSettings.model_validate(settings).setting_sources)
        return _READ_BY_ITSELF if reads else ()

    def longest_s(self, settings: Mapping[str, JsonValue]) -> float:
        return ClaudeSettings.model_validate(settings).step_timeout


ADAPTER = ClaudeAdapter()
