"""Gemini CLI, as git-swarm finds it and opens it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gitswarm.engines.adapter import EngineSetup, KeyedProgramAdapter, Program, ProgramSection, SessionSettings
from gitswarm.engines.base import SESSION_WORK

if TYPE_CHECKING:
    from gitswarm.engines.gemini.engine import GeminiEngine


KEY = "GEMINI_API_KEY"
MINIMUM = (0, 61)
"""The oldest version whose hooks were tried; they let a call through in ways that changed before."""
CAPABILITIES = replace(SESSION_WORK, output_format=False, project_context=True, max_context_tokens=1_048_576)
_INSTALL = "npm install -g @google/gemini-cli"


class GeminiAdapter(KeyedProgramAdapter):
    short_name = "gemini"
    key = KEY
    modes = {"cli": CAPABILITIES}
    providers = ("gemini",)
    section = ProgramSection
    settings = SessionSettings
    inherits = ("GEMINI_", "GOOGLE_")
    advised = "cli"
    install = _INSTALL
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


def find_program(cli: str | None, env: Mapping[str, str]) -> Program:
    """
    :param cli: as it was configured; None: the one on PATH.
    """
    path = ADAPTER.chosen(cli, env)
    if isinstance(path, Program):
        return path
    version = _version(path.resolve())
    if version is None:
        return Program(None, problem=f"{path} is not Gemini CLI of npm", advice=_INSTALL)
    if tuple(int(part) for part in version.split(".")[:2]) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        return Program(path, version, f"{path} is gemini {version}, and {needed} or newer is needed", _INSTALL)
    if shutil.which("node", path=env.get("PATH")) is None:
        return Program(path, version, "gemini needs node, which is not on PATH", "install Node.js 20 or newer")
    return Program(path, version)


def _version(program: Path) -> str | None:
    """The version of the npm package that the program is in: to ask the program itself takes a second.

    :param program: without symbolic links.
    """
    for folder in program.parents[:3]:
        try:
            package = json.loads((folder / "package.json").read_bytes())
            if package["name"] == "@google/gemini-cli":
                return str(package["version"]) if str(package["version"])[:1].isdigit() else None
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None


ADAPTER = GeminiAdapter()
