from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Literal

from gitswarm.records.base import Record
from gitswarm.records.routing import RoutingMode

RUN_ID = re.compile(r"run-\d{8}-\d{6}-[0-9a-f]{6}")

BRANCH_PREFIX = "shadow/"


def new_run_id(now: datetime, entropy: bytes) -> str:
    """`run-YYYYMMDD-HHMMSS-xxxxxx` in UTC. The first three x are 1/4096 s, so that ids sort by creation; the
    others come from `entropy` (2 bytes).
    """
    moment = now.astimezone(UTC)
    fraction = moment.microsecond * 4096 // 1_000_000
    chance = int.from_bytes(entropy[:2]) % 4096
    return f"run-{moment:%Y%m%d-%H%M%S}-{fraction:03x}{chance:03x}"


class EngineChoice(Record):
    """Which engine executes, in which mode, with which model (None: the station's or the mode's own)."""

    engine: str
    mode: str
    provider: str
    model: str | None = None


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
    allow_stub: bool
    scripted: bool
    initiator: str
    settings: FrozenSettings

    @property
    def branch(self) -> str:
        return BRANCH_PREFIX + self.run_id
