"""Whom sessions of Claude ask, and as whom: provider, prices and environment, the same for all sessions of a run. And
what Claude Code keeps of the user's: the login, of which a confined session gets a part, and conversations.

`claude auth status` says less of a login (it counts, however old it is), and writes into the folder that it is asked
about.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from gitswarm.engines.adapter import Prices
from gitswarm.engines.agent_session import host_and_port, token_cost
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude.claude_code import ClaudeSettings
from gitswarm.engines.claude.messages import AnswerUsage, Usage
from gitswarm.records.record import timestamp

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
        """The address of the API that speaks Anthropic's protocol.

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

    def missing_variable(self, env: Mapping[str, str]) -> tuple[str, str] | None:
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


_CREDENTIALS = ".credentials.json"
_LOGIN = "claudeAiOauth"
_RENEWS = "refreshToken"
_STATE = ".claude.json"
_KEY = "primaryApiKey"
_HELPER = "apiKeyHelper"
_VARIABLES = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")
"""As Claude Code takes them, the first one first; each comes before what is in a file."""
_NONE = "no login found: export ANTHROPIC_API_KEY=…, or log in with `claude`"


def config_folder(env: Mapping[str, str]) -> Path:
    """Where Claude Code keeps what is the user's."""
    return Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or "/nowhere") / ".claude")


def _state_file(env: Mapping[str, str]) -> Path:
    """Where Claude Code keeps, among much else, the key of a console login."""
    folder = config_folder(env)
    return (folder if env.get("CLAUDE_CONFIG_DIR") else folder.parent) / _STATE


def bring_login(env: Mapping[str, str], state: Path) -> None:
    """A login without what renews it: a session that did would leave the user's own with a token that is not valid
    any more, and an agent with one that is for months. The key of a console login is what ANTHROPIC_API_KEY would be.

    :param env: of a session that is not confined.
    """
    login = _mapping(_read(config_folder(env) / _CREDENTIALS).get(_LOGIN))
    key = _read(_state_file(env)).get(_KEY)
    if login:
        _write(state / _CREDENTIALS, {_LOGIN: {name: value for name, value in login.items() if name != _RENEWS}})
    elif key:
        _write(state / _STATE, {_KEY: key})


def _write(path: Path, content: Mapping[str, object]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)


def login_words(profile: ClaudeProfile, env: Mapping[str, str], now: datetime) -> str:
    """What sessions would use, never its value; "": not known.

    :param env: the caller's.
    """
    env = profile.environment(env)
    elsewhere = profile.elsewhere(env)
    given = elsewhere or next((name for name in _VARIABLES if env.get(name)), None)
    if given is not None:
        return given
    folder = config_folder(env)
    settings = folder / "settings.json"
    settings_read = _read(settings)
    in_settings = next(
        (
            name
            for name in (*_VARIABLES, _HELPER)
            if {**_mapping(settings_read.get("env")), **settings_read}.get(name)
        ),
        "",
    )
    reads = "user" in profile.settings.setting_sources
    if in_settings and reads:
        return f"{in_settings} in {settings}"
    login = _mapping(_read(folder / _CREDENTIALS).get(_LOGIN))
    if login.get("accessToken"):
        return f"the login in {folder}{_age(login, now)}"
    if _read(_state_file(env)).get(_KEY):
        return f"the key in {_state_file(env)}"
    if in_settings:
        return f"no login found: {in_settings} in {settings} needs engines.claude.setting_sources: [user]"
    return "" if sys.platform == "darwin" else _NONE  # there it is in the keychain, which asks


def _age(login: Mapping[str, object], now: datetime) -> str:
    """How long it is valid, where that is said."""
    expires = login.get("expiresAt")
    try:
        until = datetime.fromtimestamp(expires / 1000, UTC) if isinstance(expires, int | float) else None
    except (OverflowError, ValueError, OSError):  # no second of the calendar
        until = None
    if until is None:
        return ""
    if until > now:
        return f", valid until {timestamp(until)}"
    # A confined session does not get what renews it.
    advice = "start `claude` once, which renews it" if login.get(_RENEWS) else "log in with `claude`"
    return f", which expired at {timestamp(until)}: {advice}"


def _read(path: Path) -> Mapping[str, object]:
    """What is in a file of Claude Code's; nothing where it cannot be read."""
    try:
        return _mapping(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


_PROJECTS = "projects"
_USAGE = "usage.json"
_MOST_BYTES = 16 << 20
_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class StoredSession(Struct, frozen=True):
    """`id`: by which it is resumed. `usage`: what its processes used so far, as Claude Code adds it up."""

    id: str
    usage: Usage


def keep_session(config: Path, session: StoredSession, kept: Path) -> None:
    """
    :param config: where Claude Code keeps what is the user's; of a confined session its agent can write there.
    :param kept: a folder that is not there yet; nothing is made where nothing is remembered, or too much.
    """
    if _SESSION.fullmatch(session.id) is None:
        return
    files = [path for path in _own_files(config / _PROJECTS) if path.parts[1].removesuffix(".jsonl") == session.id]
    if sum((config / _PROJECTS / path).lstat().st_size for path in files) > _MOST_BYTES:
        return
    for path in files:
        target = kept / _PROJECTS / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(config / _PROJECTS / path, target, follow_symlinks=False)
    if files:
        (kept / _USAGE).write_bytes(msgspec.json.encode(session.usage))


def _own_files(folder: Path) -> Iterator[Path]:
    """Regular files in the folders of a folder. A link may lead to what its maker cannot read, and is none."""
    for above, folders, names in os.walk(folder) if not folder.is_symlink() else ():
        folders[:] = [name for name in folders if not Path(above, name).is_symlink()]
        for path in (Path(above, name) for name in names):
            if stat.S_ISREG(path.lstat().st_mode) and path.parent != folder:
                yield path.relative_to(folder)


def restore_session(kept: Path, config: Path) -> StoredSession:
    """Writes a kept conversation where Claude Code looks for it.

    Its id there is new: what comes in the conversation now is not in the kept one, nor in the user's own.

    :raises ValueError: somebody took it away.
    """
    (found,) = (kept / _PROJECTS).glob("*/*.jsonl")
    old, new = found.stem, str(uuid.uuid4())
    for path in _own_files(kept / _PROJECTS):
        target = config / _PROJECTS / path.as_posix().replace(old, new)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_bytes((kept / _PROJECTS / path).read_bytes().replace(old.encode(), new.encode()))
    return StoredSession(new, msgspec.json.decode((kept / _USAGE).read_bytes(), type=Usage))
