"""Gemini: in this version only its stub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from gitswarm.engines.adapter import EngineAdapter, EngineSection, EngineSetup
from gitswarm.errors import UsageError


class GeminiSection(EngineSection):
    """`mode`: in this version only `stub`."""


class GeminiAdapter(EngineAdapter):
    short_name = "gemini"
    providers = ("gemini",)
    section = GeminiSection
    variables = {"SWARM_GEMINI_STUB": "1: Gemini in mode stub"}

    def open(self, mode: str, setup: EngineSetup) -> NoReturn:
        del setup
        raise UsageError(f"{self.engine_id} has no mode '{mode}'", hint="git swarm engines")

    def mode_from_env(self, env: Mapping[str, str]) -> str | None:
        """As the seeds name it."""
        return {"0": "cli", "1": "stub"}.get(env.get("SWARM_GEMINI_STUB", ""))


ADAPTER = GeminiAdapter()
