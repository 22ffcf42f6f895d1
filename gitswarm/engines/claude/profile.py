"""What is the same for all sessions of a run: configuration, the `claude` program, provider, access, environment."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import Field

from gitswarm.engines.adapter import Prices, Program, ProgramSection
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude.direct import DirectAccess
from gitswarm.engines.claude.said import AnswerUsage
from gitswarm.processes import CommandLimits, Ending, run_shell
from gitswarm.records.base import WrittenSection


class ClaudeSettings(WrittenSection):
    """How sessions of Claude are held. `setting_sources`: which of Claude Code's own settings are read (CLAUDE.md,
    hooks and permissions with them); none: the session is told only what git-swarm tells it. `step_timeout`: seconds
    that one step may take. `attempts`: how often a step is tried while the provider fails in a way that may pass."""

    setting_sources: tuple[Literal["user", "project", "local"], ...] = ()
    fallback_model: str | None = None
    step_timeout: float = Field(default=3600, gt=0)
    attempts: int = Field(default=3, ge=1, le=20)


class ClaudeSection(ProgramSection, ClaudeSettings):
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
        version_line = " ".join(asked.output.split())[:80]
        how = f"exit code {asked.exit_code}, {version_line!r}"
        return Program(None, problem=f"{path} does not print its version ({how})", advice=_OTHERWISE)
    version = ".".join(found.groups())
    if tuple(int(part) for part in found.groups()) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        what = f"{path} is claude {version}, and {needed} or newer is needed"
        return Program(path, version, what, advice="claude update")
    return Program(path, version)


_UNLESS_SAID = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # Of one request; with fewer than 2 the CLI never gets to its fallback model.
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "API_TIMEOUT_MS": "300000",
}
_ALWAYS = {
    # A subagent in the background goes on when the session is over, and answers to nobody.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # The policy judges each line from the top of the worktree.
    "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1",
    # A session knows what its prompt says: nothing that Claude Code remembers of other work in this folder, …
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_ORG_MEMORY": "1",
    # … and no git status with the user's name and the subjects of earlier steps.
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
}
_ISOLATED = {
    # A company's too, which no setting source switches off.
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
}
"""Where no settings of Claude Code's own are read."""
_PROVIDERS = (
    ("ANTHROPIC_BEDROCK_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "https://bedrock-runtime.{region}.amazonaws.com"),
    ("ANTHROPIC_VERTEX_BASE_URL", "CLAUDE_CODE_USE_VERTEX", "https://{region}-aiplatform.googleapis.com"),
    ("ANTHROPIC_BASE_URL", "", "https://api.anthropic.com"),
)
"""Variable with the address, the one that chooses the provider, and where it is without the first."""
_OFF = ("", "0", "false")
_NEVER = frozenset(
    {
        "CLAUDECODE",  # says that the caller is a session of Claude Code itself
        # Each takes hooks or permission checks away, and with them our policy.
        "CLAUDE_CODE_SIMPLE",
        "CLAUDE_CODE_SAFE_MODE",
        "CLAUDE_CODE_PERSONAL_HOOKS_OFF",
        "CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS",
    }
)
"""Sessions never get these, whoever sets them."""

_ADDITIONS = (
    "its preset claude_code; definitions of the tools; working directory, whether that is a git repository, "
    "platform, shell, system version; name, id and knowledge cutoff of the model; today's date; tokens left; "
    "with a login the account's email address"
)


class ClaudeProfile(Struct, frozen=True):
    """`retry_wait_s`: before the second attempt; it doubles with each further one. `decision_s`: how long the policy
    may take for one call; what is not decided then is denied."""

    provider: str
    settings: ClaudeSettings
    access: EngineAccess
    prices: Prices = lambda _model: None
    retry_wait_s: float = 2.0
    decision_s: float = 20.0

    @property
    def is_isolated(self) -> bool:
        """Whether sessions read none of Claude Code's own settings."""
        return not self.settings.setting_sources

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """
        :param env: the agent's; what the caller set for Claude is in it, and the profile's own comes before that.
        """
        variables = {**_UNLESS_SAID, **env, **self.access.env, **_ALWAYS, **(_ISOLATED if self.is_isolated else {})}
        return {name: value for name, value in variables.items() if name not in _NEVER}

    def hosts(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Where its sessions ask their model, as `host:port`.

        :param env: the agent's.
        """
        env = self.environment(env)
        for name, switch, usual in _PROVIDERS:
            if switch == "" or env.get(switch, "") not in _OFF:
                region = env.get("AWS_REGION") or env.get("CLOUD_ML_REGION") or "us-east-1"
                url = urlsplit(env.get(name) or usual.format(region=region))
                return (f"{_bracketed(url.hostname or '')}:{url.port or (80 if url.scheme == 'http' else 443)}",)
        return ()

    def elsewhere(self, env: Mapping[str, str]) -> str | None:
        """The variable that sends sessions to another provider's own API, with its own login.

        :param env: of a session.
        """
        return next((each for _name, each, _usual in _PROVIDERS if each and env.get(each, "") not in _OFF), None)

    def base_url(self, env: Mapping[str, str]) -> str:
        """Of the API that speaks Anthropic's protocol.

        :param env: of a session.
        """
        return env.get("ANTHROPIC_BASE_URL") or _PROVIDERS[-1][2]

    def direct(self, env: Mapping[str, str]) -> DirectAccess | None:
        """Anthropic's own API, without a program between; None: there is no key for it, or somebody else answers.

        :param env: the agent's.
        """
        env = self.environment(env)
        key = env.get("ANTHROPIC_API_KEY", "")
        if not key or self.elsewhere(env) or self.provider != "anthropic":
            return None
        return DirectAccess(self.base_url(env), key, self.prices, self.retry_wait_s)

    def additions(self, version: str) -> str:
        """What a program of this version adds to our prompt without being asked (docs/engines.md)."""
        own = self.settings.setting_sources
        read = f" It also reads the settings and instructions of: {', '.join(own)}." if own else ""
        return f"Claude Code {version} adds: {_ADDITIONS}.{read}"

    def lacking(self, env: Mapping[str, str]) -> tuple[str, str] | None:
        """What keeps sessions from reaching their provider, and what to do; None: nothing that can be seen here.

        :param env: the caller's.
        """
        if self.provider != "anthropic_compat" or not self.is_isolated:
            return None
        if self.environment(env).get("ANTHROPIC_BASE_URL"):
            return None
        return (
            "provider anthropic_compat has no address",
            "export ANTHROPIC_BASE_URL=https://…, or engines.claude.env in .swarm/config.yaml",
        )

    def unkept(self, env: Mapping[str, str]) -> Path | None:
        """The folder where the program keeps its conversations, if it cannot: none of them could be gone on with.

        :param env: the caller's.
        """
        env = self.environment(env)
        places, home = env.get("CLAUDE_CONFIG_DIR"), env.get("HOME")
        if not places and not home:
            return None
        folder = Path(places) if places else Path(home or "") / ".claude"
        return None if _can_write(folder / "projects") else folder

    def cost(self, reported: float | None, model: str, tokens: tuple[int, int]) -> float | None:
        """What a session cost. The CLI computes with Anthropic's list prices, which say nothing of another provider.

        :param tokens: in and out.
        """
        if self.provider != "anthropic_compat":
            return reported
        price = self.prices(model)
        return None if price is None else (tokens[0] * price[0] + tokens[1] * price[1]) / 1_000_000

    def price(self, answer: AnswerUsage) -> float | None:
        """What an answer cost, before the CLI says what the session did."""
        price = self.prices(answer.model)
        if price is None:
            return None
        sent = answer.prompt if self.provider == "anthropic_compat" else answer.billed
        return (sent * price[0] + answer.completion * price[1]) / 1_000_000


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _can_write(folder: Path) -> bool:
    """Whether files can be made in it, or it can be made."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
