"""A sidequest: a short detour that evidence can call for, and where the run continues after it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gitswarm.records.record import Record
from gitswarm.specs.flow import Identifier
from gitswarm.specs.station import Tier

SIDEQUEST_PREFIX = "sq-"
NODE_PREFIX = "node-"
"""Steps of sidequests and injected nodes are named so in a run, and no step of a flow is."""


class PathTrigger(Record):
    """The step changed a file that one of these globs names (`**` crosses folders)."""

    kind: Literal["paths"]
    patterns: tuple[str, ...] = Field(min_length=1)


class StallTrigger(Record):
    """So many passes of a loop in a row, the first included, made no progress.

    `same_failure`: only when they left the same test failures, or only when they left none; None: either.
    """

    kind: Literal["stall"]
    count: int = Field(default=3, ge=2)
    same_failure: bool | None = None


class ConditionTrigger(Record):
    """A CEL expression over receipt, envelope, evidence, run and history."""

    kind: Literal["condition"]
    if_: str = Field(alias="if")


class IterationTrigger(Record):
    """The step has been executed at least so often."""

    kind: Literal["iterations"]
    at_least: int = Field(ge=2)


Trigger = Annotated[
    PathTrigger | StallTrigger | ConditionTrigger | IterationTrigger,
    Field(discriminator="kind"),
]


class Return(Record):
    """Where the run goes on. `resume`: as it would have without the sidequest, and with the interrupted step itself
    when that failed or is BLOCKED; `bounce_to`: with another step; `advance`: with the step behind the interrupted
    one; `halt`: it waits for a person.

    `conditional` takes `then` when the CEL expression `if` holds, else `otherwise`.
    """

    mode: Literal["resume", "bounce_to", "advance", "halt", "conditional"] = "resume"
    target: Identifier | None = None
    if_: str | None = Field(default=None, alias="if")
    then: Literal["resume", "advance", "halt"] | None = None
    otherwise: Literal["resume", "advance", "halt"] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Return:
        if (self.mode == "bounce_to") != (self.target is not None):
            raise ValueError("'target' belongs to mode 'bounce_to', and only to that")
        conditional = (self.if_, self.then, self.otherwise)
        if (self.mode == "conditional") != all(conditional) or (self.mode != "conditional" and any(conditional)):
            raise ValueError("'if', 'then' and 'otherwise' belong to mode 'conditional', and all of them")
        return self


class SidequestStep(Record):
    """`on_blocked`: what a BLOCKED step does to the whole sidequest."""

    id: Identifier
    station: str
    objective: str = ""
    on_blocked: Literal["halt", "continue"] = "halt"
    max_turns: int | None = Field(default=None, ge=1)
    tier: Tier | None = None


class Sidequest(Record):
    """`flows/sidequests/<id>.yaml`. `priority`: higher comes first; `match`: whether any or all triggers must hold;
    `nested`: it may be taken inside another sidequest, or inside itself.

    A person's own ones lie in `.swarm/sidequests/`.
    """

    id: Identifier
    title: str = Field(min_length=1)
    triggers: tuple[Trigger, ...] = Field(min_length=1)
    match: Literal["any", "all"] = "any"
    priority: int = Field(default=50, ge=0, le=100)
    cost: Literal["low", "medium", "high"] = "medium"
    max_uses_per_run: int = Field(default=3, ge=1, le=100)
    steps: tuple[SidequestStep, ...] = Field(min_length=1)
    returns: Return = Return()
    nested: bool = False

    def step_name(self, index: int) -> str:
        """What a step of it is called in a run, where the flow's own steps are."""
        return f"{SIDEQUEST_PREFIX}{self.id}-{self.steps[index].id}"

    @model_validator(mode="after")
    def _step_ids_are_unique(self) -> Sidequest:
        names = [step.id for step in self.steps]
        if len(set(names)) < len(names):
            raise ValueError("two steps have the same id")
        return self
