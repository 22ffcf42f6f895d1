from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import Field

from gitswarm.records.base import Record
from gitswarm.records.policy import PolicyRules
from gitswarm.records.routing import HumanPolicy, RoutingMode
from gitswarm.records.secrets import SecretRules

RUN_ID = re.compile(r"run-\d{8}-\d{6}-[0-9a-f]{6}")

BRANCH_PREFIX = "shadow/"


_TICKS = 4096  # per second


def new_run_id(now: datetime, entropy: bytes, newest: str | None = None) -> str:
    """`run-YYYYMMDD-HHMMSS-xxxxxx` in UTC. The first three x are 1/4096 s, so that ids sort by creation; the
    others come from `entropy` (2 bytes).

    :param newest: the newest id that there is. A clock that was set back does not go below it.
    """
    ticks = _ticks(now.astimezone(UTC))
    if newest is not None:
        ticks = max(ticks, _ticks(_created(newest)) + 1)
    moment = _EPOCH + timedelta(seconds=ticks // _TICKS)
    chance = int.from_bytes(entropy[:2]) % _TICKS
    return f"run-{moment:%Y%m%d-%H%M%S}-{ticks % _TICKS:03x}{chance:03x}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ticks(moment: datetime) -> int:
    seconds = (moment.replace(microsecond=0) - _EPOCH) // timedelta(seconds=1)
    return seconds * _TICKS + moment.microsecond * _TICKS // 1_000_000


def _created(run_id: str) -> datetime:
    """The moment that an id tells; the epoch for one that names no day of the calendar."""
    try:
        second = datetime.strptime(run_id[4:19], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return _EPOCH
    # Rounded up: the tick that it is turned into again is the same.
    return second + timedelta(microseconds=-(-int(run_id[20:23], 16) * 1_000_000 // _TICKS))


class EngineChoice(Record):
    """Which engine executes, in which mode, with which model (None: the station's or the mode's own)."""

    engine: str
    mode: str
    provider: str
    model: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Engine and mode: what one transport is known by."""
        return self.engine, self.mode


class ClaudeSettings(Record):
    """How sessions of Claude are held. `setting_sources`: which of Claude Code's own settings are read (CLAUDE.md,
    hooks and permissions with them); none: the session is told only what git-swarm tells it. `step_timeout`: seconds
    that one step may take. `attempts`: how often a step is tried while the provider fails in a way that may pass."""

    setting_sources: tuple[Literal["user", "project", "local"], ...] = ()
    fallback_model: str | None = None
    step_timeout: float = Field(default=3600, gt=0)
    attempts: int = Field(default=3, ge=1, le=20)


LandStrategy = Literal["squash", "merge", "evidence"]


class DeployRules(Record):
    """How approved code gets home. `target`: a local branch; None: the one that the run was started on."""

    target: str | None = None
    strategy: LandStrategy = "squash"
    push: bool = False
    require_signature: bool = False


class FrozenSettings(Record):
    """What configuration said when the run was created; edits after that change nothing in it.

    `model` None: the model policy decides, and with `economy` it takes its cheapest tier.
    """

    default_engine: EngineChoice
    model: str | None = None
    economy: bool = False
    context: Literal["lean", "balanced", "heavy"] = "balanced"
    flow_engines: dict[str, EngineChoice] = {}
    step_engines: dict[str, EngineChoice] = {}
    commands: dict[str, str | None] = {}
    command_timeout_s: int = 1800
    copy_patterns: tuple[str, ...] = ()
    setup: str | None = None
    setup_timeout_s: int = 600
    navigator_timeout_s: float = 120
    claude: ClaudeSettings = ClaudeSettings()
    policy: PolicyRules = PolicyRules()
    secrets: SecretRules = SecretRules()
    deploy: DeployRules = DeployRules()


class RunSpec(Record):
    """`spec.json`: what was asked for. Holds no absolute path, so that a run can move machines."""

    format: int = 1
    run_id: str
    created_at: str
    flows: tuple[str, ...]
    base: str
    base_ref: str | None
    task: str
    routing_mode: RoutingMode
    human: HumanPolicy = HumanPolicy.SUPERVISED
    allow_stub: bool
    scripted: bool
    initiator: str
    settings: FrozenSettings

    @property
    def branch(self) -> str:
        return BRANCH_PREFIX + self.run_id
