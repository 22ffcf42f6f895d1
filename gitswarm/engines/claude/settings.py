"""What can be configured about Claude: `engines.claude`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gitswarm.engines.adapter import ProgramSection
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
