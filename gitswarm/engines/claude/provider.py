"""What is the same for all sessions of a run: configuration, the `claude` program, provider, access, environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from gitswarm.engines.adapter import Prices
from gitswarm.engines.agent_session import host_and_port, token_cost
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude.claude_code import ClaudeSettings
from gitswarm.engines.claude.config_folder import config_folder
from gitswarm.engines.claude.messages import AnswerUsage

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


@dataclass(frozen=True, slots=True)
class DirectAccess:
    """Where the API is, the key to it, and what it asks for its models. `wait_s`: before a second attempt."""

    base_url: str
    key: str = field(repr=False)
    prices: Prices = lambda _model: None
    wait_s: float = 2.0


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
                return (host_and_port(env.get(name) or usual.format(region=region)),)
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
        if not (env.get("CLAUDE_CONFIG_DIR") or env.get("HOME")):
            return None
        folder = config_folder(env)
        return None if _can_write(folder / "projects") else folder

    def cost(self, reported: float | None, model: str, tokens: tuple[int, int]) -> float | None:
        """What a session cost. The CLI computes with Anthropic's list prices, which say nothing of another provider.

        :param tokens: in and out.
        """
        if self.provider != "anthropic_compat":
            return reported
        return token_cost(self.prices(model), *tokens)

    def price(self, answer: AnswerUsage) -> float | None:
        """What an answer cost, before the CLI says what the session did."""
        sent = answer.prompt if self.provider == "anthropic_compat" else answer.billed
        return token_cost(self.prices(answer.model), sent, answer.completion)


def _can_write(folder: Path) -> bool:
    """Whether files can be made in it, or it can be made."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
