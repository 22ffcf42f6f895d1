"""Gemini CLI, as git-swarm finds it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gitswarm.engines.adapter import Program, chosen_program
from gitswarm.engines.base import SESSION_WORK

KEY = "GEMINI_API_KEY"
MINIMUM = (0, 61)
"""The oldest version whose hooks were tried; they let a call through in ways that changed before."""
CAPABILITIES = replace(SESSION_WORK, output_format=False, project_context=True, max_context_tokens=1_048_576)
INSTALL = "npm install -g @google/gemini-cli"


def find_program(cli: str | None, env: Mapping[str, str]) -> Program:
    """
    :param cli: as it was configured; None: the one on PATH.
    """
    path = chosen_program("gemini", cli, env, INSTALL)
    if isinstance(path, Program):
        return path
    version = _version(path.resolve())
    if version is None:
        return Program(None, problem=f"{path} is not Gemini CLI of npm", advice=INSTALL)
    if tuple(int(part) for part in version.split(".")[:2]) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        return Program(path, version, f"{path} is gemini {version}, and {needed} or newer is needed", INSTALL)
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
