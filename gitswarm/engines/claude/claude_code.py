"""Claude Code: where it is, its configuration, and what a session of it is started with."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from gitswarm.containment import UNCONTAINED, Containment, Uncontained
from gitswarm.engines.adapter import Program, ProgramSection
from gitswarm.engines.base import SESSION_WORK, EngineAccess
from gitswarm.engines.claude.messages import SessionEvent
from gitswarm.processes import CommandLimits, Ending, run_shell
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import Record


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


CAPABILITIES = replace(SESSION_WORK, project_context=True, max_context_tokens=200_000)
"""Of both transports: the seeds' matrix says less of the CLI, which is not true any more (docs/engines.md)."""


class SessionOptions(Struct, frozen=True):
    """`folder` is the session's own, outside of the worktree. `system` is appended to Claude Code's own prompt, or,
    with `bare`, stands in its place. `tools` empty: none. `schema`: of the structured output that it ends with; None:
    it ends when the model has nothing more to say. `resume`: the session whose conversation it continues. `env` is
    complete. `model` None: the CLI's own choice. `max_cost_usd`, `max_tokens`: of all sessions of the step together.
    `containment`: of the program and everything that it starts."""

    prompt: str
    cwd: Path
    folder: Path
    env: Mapping[str, str]
    settings: ClaudeSettings
    program: Path
    tools: tuple[str, ...] = ()
    system: str = ""
    bare: bool = False
    model: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    schema: Mapping[str, JsonValue] | None = None
    resume: str | None = None
    containment: Containment = UNCONTAINED

    @property
    def system_file(self) -> Path:
        return self.folder / "system.md"

    def write_system(self) -> None:
        """A file, as everybody can read a command line; it may also be too long for one."""
        self.system_file.write_text(self.system, encoding="utf-8")

    def own_settings(self, hooks: Mapping[str, JsonValue] | None = None) -> str:
        """JSON for `--settings`, which comes before every other source."""
        # Agents make no commits: what Claude Code would have them write into messages is noise.
        # A user's or a project's settings may switch all hooks off, ours with them.
        settings: dict[str, JsonValue] = {"includeCoAuthoredBy": False, "disableAllHooks": False}
        if not isinstance(self.containment, Uncontained):
            # Claude Code's own cannot be nested in ours; a user's settings may ask for it.
            settings["sandbox"] = {"enabled": False}
        return json.dumps(settings | ({"hooks": dict(hooks)} if hooks else {}))


OnEvent = Callable[[SessionEvent], None]
LINE_BYTES = 64 << 20
"""What is longer comes in pieces."""
