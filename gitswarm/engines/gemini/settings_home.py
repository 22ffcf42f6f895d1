"""What Gemini CLI takes for its user's home: settings, conversations, and beside it the system prompt and the socket.

Nothing of the user's own is read there: no login, no hooks, no extensions, no memory. It goes with the session.
From the sandbox an agent can write there: each process gets another one, with nothing but the conversation of the
former.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import Containment
from gitswarm.engines import hook_client
from gitswarm.engines.hook_server import HOOK_S, hook_command
from gitswarm.records.json_value import JsonValue

TOOLS: Mapping[str, str] = {
    "run_shell_command": "Bash",
    "write_file": "Write",
    "replace": "Edit",
    "read_file": "Read",
    "glob": "Glob",
    "list_directory": "LS",
    "grep_search": "Grep",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
}
"""Gemini's name of a tool → the one that stations and the policy know. It gets no others."""

_NEVER = frozenset(
    {
        # Each makes it trust the project, whose settings then come over ours: hooks switched off, servers started.
        "GEMINI_CLI_TRUST_WORKSPACE",
        "GEMINI_CLI_TRUSTED_FOLDERS_PATH",
        "GEMINI_CLI_INTEGRATION_TEST",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
    }
)
"""Sessions never get these, whoever sets them."""
_REFERENCE = re.compile(r'(?<!\\)@(?:"([^"]*)"|((?:\\.|[^\\\s,;!?()\[\]{}])+))')
"""What Gemini CLI takes for the name of a file whose content belongs into the prompt."""
_MOST_BYTES = 256 << 20
_PREFACE = "The task of this step:\n\n"
"""A prompt that begins with a slash would be one of its commands."""


class SettingsHome(Struct, frozen=True):
    """`folder` is the process's own, outside of the worktree. `program`: of Gemini CLI. `attempts`: of a request."""

    folder: Path
    program: Path
    attempts: int

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def system_file(self) -> Path:
        return self.folder / "system.md"

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """
        :param env: the agent's, with what the caller set for Gemini.
        """
        return {
            **{name: value for name, value in env.items() if name not in _NEVER},
            "GEMINI_CLI_HOME": str(self.home),
            # Otherwise the process that we know is only the parent of the one that works, and ignores SIGTERM.
            "GEMINI_CLI_NO_RELAUNCH": "1",
            "GEMINI_SYSTEM_MD": str(self.system_file),
            "GEMINI_SANDBOX": "false",
        }

    def contained(self, containment: Containment, env: Mapping[str, str]) -> Containment:
        """The same confinement, in which the program finds what it needs."""
        node = shutil.which("node", path=env.get("PATH")) or "node"
        program = self.program.resolve()
        needed = (self.folder, self.program.parent, program.parent, Path(hook_client.__file__), Path(node).resolve())
        return containment.opened(read=needed, write=(self.home,))

    def write(self, system: str, tools: Sequence[str], max_turns: int, socket: Path, depth: int) -> None:
        """All of it but a conversation.

        :param tools: as stations call them; none: it only answers.
        :param depth: of the containment.
        """
        self.system_file.write_text(system, encoding="utf-8")
        settings = self.home / ".gemini" / "settings.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        own: dict[str, JsonValue] = {
            # With an external login it does not look for one: it would read .gemini/.env of the project.
            "security": {
                "auth": {"selectedType": "gemini-api-key", "useExternal": True},
                "folderTrust": {"enabled": True},
            },
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                "maxAttempts": self.attempts,
            },
            "advanced": {"ignoreLocalEnv": True},
            "context": {
                "includeDirectoryTree": False,
                "fileFiltering": {"enableRecursiveFileSearch": False},
            },
            "model": {"maxSessionTurns": max_turns, "disableLoopDetection": True},
            "skills": {"enabled": False},
            "experimental": {"enableAgents": False},
            "tools": {
                # LS belongs to Glob.
                "core": [name for name, known in TOOLS.items() if {"LS": "Glob"}.get(known, known) in tools],
                "shell": {"enableInteractiveShell": False, "showColor": False},
            },
            "hooksConfig": {"enabled": True, "notifications": False},
            "hooks": {
                "BeforeTool": [_hook(".*", socket, depth)],
                # It alone says how a command ended that had printed something.
                "AfterTool": [_hook("run_shell_command", socket, depth)],
            },
        }
        settings.write_text(json.dumps(own), encoding="utf-8")

    def used(self) -> tuple[int, int]:
        """Tokens in and out of all answers in its conversations so far."""
        answers: dict[str, tuple[int, int]] = {}
        for conversation in self._conversations():
            for message in _objects(conversation):
                tokens = message.get("tokens")
                if message.get("type") == "gemini" and isinstance(tokens, dict):
                    sent = _number(tokens, "input") + _number(tokens, "tool")
                    answers[str(message.get("id"))] = sent, _number(tokens, "output") + _number(tokens, "thoughts")
        return sum(sent for sent, _made in answers.values()), sum(made for _sent, made in answers.values())

    def continued(self, folder: Path) -> SettingsHome:
        """Another one that has the conversations, and in them no result of a tool that stands there as a message,
        too: a process that continues it would send each of them twice, and the provider counts them."""
        new = replace(self, folder=folder)
        for conversation in self._conversations():
            kept = [json.dumps(message) for message in _objects(conversation) if not _is_result(message)]
            copy = new.home / conversation.relative_to(self.home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        return new

    def _conversations(self) -> list[Path]:
        """The conversations that lie here: an agent may have put a link, or what cannot be read, in their place."""
        here = self.home.resolve()
        found = self.home.glob(".gemini/tmp/*/chats/*.jsonl")
        return [path for path in found if path.resolve() == here / path.relative_to(self.home) and path.is_file()]


def arguments(program: Path, model: str | None, resume: str | None) -> list[str]:
    """The command line. The prompt comes by standard input: everybody can read a command line."""
    argv = [str(program), "--output-format", "stream-json", "--yolo", "--skip-trust", "--extensions", "none"]
    argv += ["--model", model] if model is not None else []
    return [*argv, "--resume", resume] if resume is not None else argv


def as_prompt(text: str, worktree: Path) -> str:
    """`text` as it is meant: what looks like the name of a file that is there brings no content, as the policy was
    not asked."""

    def escaped(found: re.Match[str]) -> str:
        name = found[1] if found[1] is not None else re.sub(r"\\(.)", r"\1", found[2])
        names = (name, name.rstrip("."))
        return f"\\{found[0]}" if any(each and _exists(worktree / each) for each in names) else found[0]

    return _PREFACE + _REFERENCE.sub(escaped, text)


def _exists(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def _hook(tool: str, socket: Path, depth: int) -> dict[str, JsonValue]:
    command = hook_command(socket, depth)
    hook: JsonValue = {"type": "command", "name": "swarm", "command": command, "timeout": HOOK_S * 1000}
    return {"matcher": tool, "hooks": [hook]}


def _objects(path: Path) -> list[dict[str, JsonValue]]:
    """The objects of a file with JSON lines, of which the last may be incomplete. An agent may change it meanwhile:
    no link is followed, no pipe waited for."""
    text, found = b"", []
    with suppress(OSError), os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        text = file.read(_MOST_BYTES)
    for line in text.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            found.append(message)
    return found


def _is_result(message: Mapping[str, JsonValue]) -> bool:
    parts = message.get("content")
    return (
        message.get("type") == "user"
        and isinstance(parts, list)
        and bool(parts)
        and all(isinstance(part, dict) and "functionResponse" in part for part in parts)
    )


def _number(counts: Mapping[str, JsonValue], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0
