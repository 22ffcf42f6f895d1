"""What a session of Claude says while it works and when it ends: the same values for both transports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field
from pydantic import JsonValue

from gitswarm.records.text import usd

RESULT_TOOL = "StructuredOutput"
"""The tool by which the CLI takes structured output; it is ours, not the agent's."""
SUBAGENT_TOOLS = ("Agent", "Task")
"""The tool by which a subagent is started: today's name, and that of older versions."""


class Began(Struct, frozen=True):
    """`session`: its id, by which it is resumed. It may come more than once."""

    session: str
    model: str


class Spoke(Struct, frozen=True):
    """A text. `role` user: the CLI itself put it into the conversation."""

    role: Literal["assistant", "user"]
    text: str


class Called(Struct, frozen=True):
    """A tool call. `parent`: the call that started the subagent which makes this one; None for the agent itself."""

    id: str
    tool: str
    given: Mapping[str, JsonValue]
    parent: str | None = None


class Returned(Struct, frozen=True):
    id: str
    output: str
    success: bool


class CallRefused(Struct, frozen=True):
    """The CLI itself does not let a call through, by its own rules."""

    id: str
    reason: str


class Retrying(Struct, frozen=True):
    """The CLI makes a request again, by itself. `status` None: there was no answer."""

    attempt: int
    of: int
    wait_s: float
    status: int | None
    error: str


class Limited(Struct, frozen=True):
    """A usage limit was reached. `resets_at`: seconds since the epoch."""

    resets_at: int | None


class Switched(Struct, frozen=True):
    """Another model answers from here on."""

    model: str


class Faulted(Struct, frozen=True):
    """The provider failed for good. `kind` is the CLI's word: `rate_limit`, `authentication_failed` …"""

    kind: str
    text: str


class AnswerUsage(Struct, frozen=True):
    """What a request used, as far as the provider says: more than once for one answer, its number of output tokens
    last. `id` None: the newest answer of this `parent`, and what is 0 here stays. `billed`: input in units of the
    price of plain input, as a provider of Anthropic's bills what its cache writes and reads."""

    id: str | None
    parent: str | None
    model: str = ""
    prompt: int = 0
    billed: float = 0.0
    completion: int = 0


class Usage(Struct, frozen=True):
    """What a process and, where the CLI remembers them, the earlier ones of its session used, subagents included.

    `own`: tokens of this process's own conversation alone: by them one sees whether it remembered. `cost_usd` in US
    dollars, None: it did not say.
    """

    own: int = 0
    prompt: int = 0
    completion: int = 0
    cost_usd: float | None = None

    def after(self, earlier: Usage) -> Usage:
        """This process and the earlier ones of its session together."""
        remembers = self.prompt + self.completion >= earlier.prompt + earlier.completion + self.own
        if remembers:
            return self
        return Usage(
            own=self.own,
            prompt=earlier.prompt + self.prompt,
            completion=earlier.completion + self.completion,
            cost_usd=usd(self.cost_usd, earlier.cost_usd),
        )

    def without(self, earlier: Usage) -> Usage:
        """What was used after `earlier`, of the same session."""
        cost = None if earlier.cost_usd is None else usd(self.cost_usd, -earlier.cost_usd)
        return Usage(self.own, self.prompt - earlier.prompt, self.completion - earlier.completion, cost)


class Ended(Struct, frozen=True):
    """The last result of a session. Names and values are the CLI's. `structured` None: there is no structured
    output, whatever else the result says."""

    subtype: str
    is_error: bool
    terminal_reason: str | None = None
    stop_reason: str | None = None
    text: str = ""
    errors: tuple[str, ...] = ()
    status: int | None = None
    structured: JsonValue = None
    usage: Usage = field(default_factory=Usage)


class Gone(Struct, frozen=True):
    """The process is over, or could not be started. `exit_code` negative: the signal; None: unknown."""

    exit_code: int | None
    problem: str = ""
    missing: bool = False


Said = (
    Began
    | Spoke
    | Called
    | Returned
    | AnswerUsage
    | CallRefused
    | Retrying
    | Limited
    | Switched
    | Faulted
    | Ended
    | Gone
)
