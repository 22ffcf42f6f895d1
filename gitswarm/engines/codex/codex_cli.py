"""OpenAI's Codex CLI, as git-swarm finds it."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gitswarm.engines.adapter import EngineSetup, Program, chosen_program
from gitswarm.engines.base import SESSION_WORK
from gitswarm.processes import CommandLimits, run_shell

KEY = "OPENAI_API_KEY"
_MINIMUM = (0, 169, 0)
"""The oldest version that was tried: its hooks deny and rewrite each call, those of patches and of scripts too."""
_VERSION = re.compile(r"^codex-cli (\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_VERSION_S = 20.0
INSTALL = "npm install -g @openai/codex"

CAPABILITIES = replace(SESSION_WORK, max_context_tokens=272_000)


def find_codex(setup: EngineSetup, env: Mapping[str, str]) -> Program:
    """The program itself, and its version."""
    chosen = chosen_program("codex", setup.access.cli, env, INSTALL)
    if isinstance(chosen, Program):
        return chosen
    path = _native(chosen)
    line = f"exec {shlex.quote(str(path))} --version"
    with tempfile.TemporaryDirectory() as home:  # it writes into its home even to say that
        run = run_shell(line, cwd=Path(home), env={**env, "CODEX_HOME": home}, limits=CommandLimits(_VERSION_S))
    found = _VERSION.search(run.output)
    if run.exit_code != 0 or found is None:
        return Program(path, problem=f"{path} does not say which version of codex it is", advice=INSTALL)
    version = ".".join(found.groups())
    if tuple(map(int, found.groups())) < _MINIMUM:
        oldest = ".".join(map(str, _MINIMUM))
        return Program(path, version, f"codex {version} is too old: {oldest} is needed", INSTALL)
    return Program(path, version)


def _native(path: Path) -> Path:
    """The `codex` of npm is a script that starts a binary of another package, which lies in or beside its own."""
    real = path.resolve()
    if real.suffix != ".js":
        return real
    package = real.parent.parent
    pattern = "codex-*/vendor/*/bin/codex"
    return next(
        (each for at in (package / "node_modules/@openai", package.parent) for each in at.glob(pattern)), real
    )
