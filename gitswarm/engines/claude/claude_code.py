"""Claude Code, as git-swarm finds it and opens it."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from gitswarm.engines.adapter import EngineAdapter, EngineSetup, Program, ProgramSection
from gitswarm.engines.base import SESSION_WORK, EngineAccess
from gitswarm.processes import CommandLimits, Ending, run_shell
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import Record

if TYPE_CHECKING:
    from gitswarm.engines.claude.engine import ClaudeEngine


class ClaudeSettings(Record):
    """How sessions of Claude are held. `setting_sources`: which of Claude Code's own settings are read (CLAUDE.md,
    hooks and permissions with them); none: the session is told only what git-swarm tells it. `step_timeout`: seconds
    that one step may take. `attempts`: how often a step is tried while the provider fails in a way that may pass."""

    setting_sources: tuple[Literal["user", "project", "local"], ...] = ()
    fallback_model: str | None = None
    step_timeout: Annotated[float, Meta(gt=0)] = 3600.0
    attempts: Annotated[int, Meta(ge=1, le=20)] = 3


class ClaudeSection(ProgramSection):
    """`env`: for Claude's own processes only; `${NAME}` in a value is the caller's variable. `cli`: path of its
    program. The rest is described in `ClaudeSettings`."""

    provider: Literal["anthropic", "anthropic_compat"] = "anthropic"


MINIMUM = (2, 1, 295)
"""The oldest version that was tried and found to deny when its hook fails; 2.1.290 lets the call through then."""

_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)\b", re.MULTILINE)
_VERSION_S = 20.0
_OTHERWISE = "is it Claude Code? SWARM_CLAUDE_CLI=PATH and engines.claude.cli say where another one is"
INSTALL_CLAUDE = "npm install -g @anthropic-ai/claude-code"
_SDK = "pip install '.[claude]'"
INSTALL_SDK = f"{_SDK}   (in the checkout of git-swarm; or --mode cli)"
_INSTALL = f"{INSTALL_CLAUDE}   (or {_SDK} in the checkout of git-swarm; another one: SWARM_CLAUDE_CLI=PATH)"


def find_program(access: EngineAccess, env: Mapping[str, str], *, bundled_first: bool) -> Program:
    """
    :param bundled_first: whether the SDK's own binary comes before the one on PATH.
    """
    if access.cli is not None:
        path = Path(access.cli).expanduser().absolute()  # sessions stand in another folder
        if not path.is_file():
            advice = "unset SWARM_CLAUDE_CLI, or correct engines.claude.cli"
            return Program(None, problem=f"there is no program at {access.cli}", advice=advice)
        return _checked(path, env)
    path_found = located(env, bundled_first=bundled_first)
    if path_found is None:
        return Program(None, problem="claude is not installed", advice=_INSTALL)
    return _checked(path_found, env)


def located(env: Mapping[str, str], *, bundled_first: bool) -> Path | None:
    """Where a `claude` is, unchecked."""
    on_path = shutil.which("claude", path=env.get("PATH"))
    found = [_bundled(), Path(on_path) if on_path else None]
    return next((path for path in (found if bundled_first else reversed(found)) if path is not None), None)


def sdk_version() -> str:
    """The version of the Agent SDK, without importing it; "" where it is not installed."""
    import importlib.metadata  # noqa: PLC0415 - five thousandths of a second

    try:
        return importlib.metadata.version("claude-agent-sdk")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _bundled() -> Path | None:
    """The binary in the SDK's wheel; its source distribution has none."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "_bundled" / "claude"
    return path if path.is_file() else None


def _checked(path: Path, env: Mapping[str, str]) -> Program:
    limits = CommandLimits(_VERSION_S, output_bytes=4_000)
    run = run_shell(f"exec {shlex.quote(str(path))} --version", cwd=path.parent, env=env, limits=limits)
    if run.ending is not Ending.EXITED:
        return Program(None, problem=f"{path} does not print its version ({run.error})", advice=_OTHERWISE)
    found = _VERSION.search(run.output)
    if found is None or run.exit_code != 0:
        version_line = " ".join(run.output.split())[:80]
        output = f"exit code {run.exit_code}, {version_line!r}"
        return Program(None, problem=f"{path} does not print its version ({output})", advice=_OTHERWISE)
    version = ".".join(found.groups())
    if tuple(int(part) for part in found.groups()) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        what = f"{path} is claude {version}, and {needed} or newer is needed"
        return Program(path, version, what, advice="claude update")
    return Program(path, version)


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
