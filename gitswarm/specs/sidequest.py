"""A sidequest: a short detour that evidence can call for, and where the run continues after it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from gitswarm.records.record import AtLeastOne, Record, Text
from gitswarm.specs.flow import Identifier
from gitswarm.specs.station import Tier

SIDEQUEST_PREFIX = "sq-"
NODE_PREFIX = "node-"
"""Steps of sidequests and injected nodes are named so in a run, and no step of a flow is."""


class PathTrigger(Record, tag_field="kind", tag="paths"):
    """The step changed a file that one of these globs names (`**` crosses folders)."""

    patterns: Annotated[tuple[str, ...], Meta(min_length=1)]


class StallTrigger(Record, tag_field="kind", tag="stall"):
    """So many passes of a loop in a row, the first included, made no progress.

    `same_failure`: only when they left the same test failures, or only when they left none; None: either.
    """

    count: Annotated[int, Meta(ge=2)] = 3
    same_failure: bool | None = None


class ConditionTrigger(Record, tag_field="kind", tag="condition"):
    """A CEL expression over receipt, envelope, evidence, run and history."""

    if_: str = field(name="if")


class IterationTrigger(Record, tag_field="kind", tag="iterations"):
    """The step has been executed at least so often."""

    at_least: Annotated[int, Meta(ge=2)]


Trigger = PathTrigger | StallTrigger | ConditionTrigger | IterationTrigger


class Return(Record):
    """Where the run continues. `resume`: as it would have without the sidequest, and with the interrupted step itself
    when that failed or is BLOCKED; `bounce_to`: with another step; `advance`: with the step behind the interrupted
    one; `halt`: it waits for a person.

    `conditional` takes `then` when the CEL expression `if` holds, else `otherwise`.
    """

    mode: Literal["resume", "bounce_to", "advance", "halt", "conditional"] = "resume"
    target: Identifier | None = None
    if_: str | None = field(default=None, name="if")
    then: Literal["resume", "advance", "halt"] | None = None
    otherwise: Literal["resume", "advance", "halt"] | None = None

    def __post_init__(self) -> None:
        if (self.mode == "bounce_to") != (self.target is not None):
            raise ValueError("'target' belongs to mode 'bounce_to', and only to that")
        conditional = (self.if_, self.then, self.otherwise)
        if (self.mode == "conditional") != all(conditional) or (self.mode != "conditional" and any(conditional)):
            raise ValueError("'if', 'then' and 'otherwise' belong to mode 'conditional', and all of them")


class SidequestStep(Record):
    """`on_blocked`: what a BLOCKED step does to the whole sidequest."""

    id: Identifier
    station: str
    objective: str = ""
    on_blocked: Literal["halt", "continue"] = "halt"
    max_turns: AtLeastOne | None = None
    tier: Tier | None = None


class Sidequest(Record):
    """`flows/sidequests/<id>.yaml`. `priority`: higher comes first; `match`: whether any or all triggers must hold;
    `nested`: it may be taken inside another sidequest, or inside itself.

    A person's own ones lie in `.swarm/sidequests/`.
    """

    id: Identifier
    title: Text
    triggers: Annotated[tuple[Trigger, ...], Meta(min_length=1)]
    match: Literal["any", "all"] = "any"
    priority: Annotated[int, Meta(ge=0, le=100)] = 50
    cost: Literal["low", "medium", "high"] = "medium"
    max_uses_per_run: Annotated[int, Meta(ge=1, le=100)] = 3
    steps: Annotated[tuple[SidequestStep, ...], Meta(min_length=1)]
    returns: Return = Return()
    nested: bool = False

    @property
    def step_names(self) -> list[str]:
        """What its steps are called in a run, where the flow's own steps are."""
        return [f"{SIDEQUEST_PREFIX}{self.id}-{step.id}" for step in self.steps]

    def step_of(self, name: str) -> SidequestStep:
        """The step that has this name in a run."""
        return self.steps[self.step_names.index(name)]

    def __post_init__(self) -> None:
        names = [step.id for step in self.steps]
        if len(set(names)) < len(names):
            raise ValueError("two steps have the same id")
