"""Programs that are coding agents themselves: what such a one does, no policy of ours sees."""

from __future__ import annotations

import re
from itertools import pairwise

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.values import Command, Word

_AGENTS = listed("""
    claude claude-code gemini gemini-cli codex aider aider-chat opencode opencode-ai cursor-agent copilot amp qwen
    qwen-code auggie openhands openhands-ai gptme mini-swe-agent cline goose
""")
"""Names of programs, and of the packages that `npx` and `uvx` start."""
_GOOSE = listed("run session web recipe acp project schedule")
"""What the agent understands; another `goose` migrates databases."""
_INSTALLED = re.compile(
    r"@(anthropic-ai/claude-code|google/gemini-cli|openai/codex|github/copilot|sourcegraph/amp|qwen-code/qwen-code)\b"
    r"|/claude/versions/"
)
"""Where they lie: started by their file, or by an interpreter."""
_INTERPRETERS = listed("node nodejs bun deno tsx")
_PYTHON = re.compile(r"python[\d.]*")
_VERSION = re.compile(r"[@\[=<>~!].*")
_TELLS = frozenset({"--version", "-v", "-V", "--help", "-h"})


def is_agent(word: Word) -> bool:
    """Whether a program's name, its path or its package (`@anthropic-ai/claude-code@latest`) means an agent."""
    text = word.known or ""
    name = _VERSION.sub("", text.rpartition("/")[2]).removesuffix(".exe").removesuffix(".cmd")
    return name in _AGENTS or _INSTALLED.search(text) is not None


def agent_problem(command: Command) -> Deny | None:
    """Another agent that is started; `claude --version` only tells."""
    if len(command.arguments) == 1 and command.arguments[0].known in _TELLS:
        return None
    starts = _is_started(command) or _is_interpreted(command)
    return deny("nested-agent", " ".join(word.shown for word in command.words)) if starts else None


def _is_started(command: Command) -> bool:
    if not command.words or not is_agent(command.words[0]):
        return False
    plain = [word.shown for word in command.arguments if not word.shown.startswith("-")]
    return command.name != "goose" or not plain or plain[0] in _GOOSE


def _is_interpreted(command: Command) -> bool:
    """`node …/@anthropic-ai/claude-code/cli.js`, `python -m aider`."""
    name, words = command.name or "", command.arguments
    if name in _INTERPRETERS:
        return any(_INSTALLED.search(word.shown) for word in words if not word.shown.startswith("-"))
    modules = pairwise(words)
    return _PYTHON.fullmatch(name) is not None and any(
        option.known == "-m" and (module.known or "").partition(".")[0].replace("_", "-") in _AGENTS
        for option, module in modules
    )
