"""OpenAI's Codex CLI, as git-swarm finds it and opens it."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gitswarm.engines.adapter import EngineSetup, KeyedProgramAdapter, Program, ProgramSection, SessionSettings
from gitswarm.engines.base import SESSION_WORK
from gitswarm.processes import CommandLimits, run_shell
from gitswarm.records.json_value import JsonValue

if TYPE_CHECKING:
    from gitswarm.engines.codex.engine import CodexEngine


KEY = "OPENAI_API_KEY"
_MINIMUM = (0, 169, 0)
"""The oldest version that was tried: its hooks deny and rewrite each call, those of patches and of scripts too."""
_VERSION = re.compile(r"^codex-cli (\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_VERSION_S = 20.0

CAPABILITIES = replace(SESSION_WORK, max_context_tokens=272_000)


class CodexAdapter(KeyedProgramAdapter):
    short_name = "codex"
    key = KEY
    modes = {"cli": CAPABILITIES}
    providers = ("openai",)
    section = ProgramSection
    settings = SessionSettings
    inherits = ("OPENAI_",)
    advised = "cli"
    install = "npm install -g @openai/codex"
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


def find_codex(setup: EngineSetup, env: Mapping[str, str]) -> Program:
    """The program itself, and its version."""
    chosen = ADAPTER.chosen(setup.access.cli, env)
    if isinstance(chosen, Program):
        return chosen
    path = _native(chosen)
    line = f"exec {shlex.quote(str(path))} --version"
    with tempfile.TemporaryDirectory() as home:  # it writes into its home even to say that
        run = run_shell(line, cwd=Path(home), env={**env, "CODEX_HOME": home}, limits=CommandLimits(_VERSION_S))
    found = _VERSION.search(run.output)
    if run.exit_code != 0 or found is None:
        return Program(path, problem=f"{path} does not say which version of codex it is", advice=CodexAdapter.install)
    version = ".".join(found.groups())
    if tuple(map(int, found.groups())) < _MINIMUM:
        oldest = ".".join(map(str, _MINIMUM))
        return Program(path, version, f"codex {version} is too old: {oldest} is needed", CodexAdapter.install)
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


ADAPTER = CodexAdapter()
