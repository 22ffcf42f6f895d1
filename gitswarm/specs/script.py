"""The script that the stub plays (design section 6), so that every path can be driven without a model."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from gitswarm.records.base import Record
from gitswarm.records.envelope import YesNo
from gitswarm.records.outcome import Status
from gitswarm.records.routing import RoutingSignal


class ScriptTokens(Record):
    prompt: int = Field(default=0, ge=0)
    completion: int = Field(default=0, ge=0)


class ScriptEntry(Record):
    """What one execution of a step does.

    Order of effects: `delay_ms`, `hang`, `write`, `delete`, `run`, then `fail` or the handoff.
    `tokens` and `cost_usd` are used from the begin; a cost that is null is unknown.
    What the step's station promises and the entry does not write is filled in, but for what it `leaves_out`.
    `route` is a navigator's answer after the step, given `route_delay_ms` late; `routing` the agent's own wish.
    A path that starts with `RUN_BASE/` lies in the run's evidence folder, any other in the worktree.
    """

    status: Status | None = None
    summary: str | None = None
    can_further_iteration_help: YesNo | None = None
    concerns: tuple[str, ...] | None = None
    blockers: tuple[str, ...] | None = None
    write: dict[str, str] = {}
    delete: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    delay_ms: int = Field(default=0, ge=0)
    hang: bool = False
    fail: str | None = None
    output: str | None = None
    envelope: dict[str, JsonValue] | None = None
    route: dict[str, JsonValue] | str | None = None
    route_delay_ms: int = Field(default=0, ge=0)
    routing: RoutingSignal | None = None
    tokens: ScriptTokens = ScriptTokens()
    cost_usd: float | None = Field(default=0.0, ge=0)

    def over(self, default: ScriptEntry) -> ScriptEntry:
        """This entry, with what it does not say taken from `default`."""
        said = {name: getattr(self, name) for name in self.model_fields_set}
        return default.model_copy(update=said)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, dict) else value


Entries = Annotated[tuple[ScriptEntry, ...], BeforeValidator(_as_list), Field(min_length=1)]


class Script(Record):
    default: ScriptEntry = ScriptEntry(status=Status.VERIFIED, summary="ok")
    steps: dict[str, Entries] = {}

    def entry(self, flow: str, step: str, execution: int) -> ScriptEntry:
        """What the `execution`-th (from 0) committed execution of a step plays.

        Executions that were interrupted before their commit do not use up an entry.
        """
        entries = self.steps.get(f"{flow}/{step}") or self.steps.get(step)
        if not entries:
            return self.default
        return entries[min(execution, len(entries) - 1)].over(self.default)
