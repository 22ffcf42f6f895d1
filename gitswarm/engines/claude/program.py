"""The `claude` program: where it is, and whether it is new enough."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from gitswarm.engines.adapter import Program
from gitswarm.engines.base import EngineAccess
from gitswarm.processes import CommandLimits, Ending, run_shell

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
            how = "unset SWARM_CLAUDE_CLI, or correct engines.claude.cli"
            return Program(None, problem=f"there is no program at {access.cli}", advice=how)
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


def has_sdk() -> bool:
    return importlib.util.find_spec("claude_agent_sdk") is not None


def sdk_version() -> str:
    """Of the Agent SDK, without importing it; "" where it is not installed."""
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
    asked = run_shell(f"exec {shlex.quote(str(path))} --version", cwd=path.parent, env=env, limits=limits)
    if asked.ending is not Ending.EXITED:
        return Program(None, problem=f"{path} does not print its version ({asked.error})", advice=_OTHERWISE)
    found = _VERSION.search(asked.output)
    if found is None or asked.exit_code != 0:
        told = " ".join(asked.output.split())[:80]
        how = f"exit code {asked.exit_code}, {told!r}"
        return Program(None, problem=f"{path} does not print its version ({how})", advice=_OTHERWISE)
    version = ".".join(found.groups())
    if tuple(int(part) for part in found.groups()) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        what = f"{path} is claude {version}, and {needed} or newer is needed"
        return Program(path, version, what, advice="claude update")
    return Program(path, version)
