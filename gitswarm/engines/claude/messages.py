"""What a session of Claude says, and what it has used, as values that are the same for both transports, read from the
CLI's `stream-json`.

Whatever the reader does not know is noise (docs/engines.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from gitswarm.engines.handoff import as_input, as_text
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import usd

RESULT_TOOL = "StructuredOutput"
"""The tool by which the CLI takes structured output; it is ours, not the agent's."""
SUBAGENT_TOOLS = ("Agent", "Task")
"""The tool by which a subagent is started: today's name, and that of older versions."""


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
        return earlier.plus(self)

    def plus(self, cut_off: Usage) -> Usage:
        """The sum with what a process used that returned no result."""
        return Usage(
            own=cut_off.own,
            prompt=self.prompt + cut_off.prompt,
            completion=self.completion + cut_off.completion,
            cost_usd=usd(self.cost_usd, cut_off.cost_usd),
        )

    def without(self, earlier: Usage) -> Usage:
        """What was used after `earlier`, of the same session."""
        cost = None if earlier.cost_usd is None else usd(self.cost_usd, -earlier.cost_usd)
        return Usage(self.own, self.prompt - earlier.prompt, self.completion - earlier.completion, cost)


NOTHING = Usage(cost_usd=0.0)


class SessionInit(Struct, frozen=True):
    """`session`: its id, by which it is resumed. It may come more than once."""

    session: str
    model: str


class TextMessage(Struct, frozen=True):
    """A text. `role` user: the CLI itself put it into the conversation."""

    role: Literal["assistant", "user"]
    text: str


class ToolStart(Struct, frozen=True):
    """A tool call. `parent`: the call that started the subagent which makes this one; None for the agent itself."""

    id: str
    tool: str
    given: Mapping[str, JsonValue]
    parent: str | None = None


class ToolEnd(Struct, frozen=True):
    id: str
    output: str
    success: bool


class PermissionDenied(Struct, frozen=True):
    """The CLI itself does not let a call through, by its own rules."""

    id: str
    reason: str


class ApiRetry(Struct, frozen=True):
    """The CLI makes a request again, by itself. `status` None: there was no answer."""

    attempt: int
    of: int
    wait_s: float
    status: int | None
    error: str


class UsageLimit(Struct, frozen=True):
    """A usage limit was reached. `resets_at`: seconds since the epoch."""

    resets_at: int | None


class ModelFallback(Struct, frozen=True):
    """Another model answers from here on."""

    model: str


class ProviderError(Struct, frozen=True):
    """The provider failed for good. `kind` is the CLI's word: `rate_limit`, `authentication_failed` …"""

    kind: str
    text: str


class SessionResult(Struct, frozen=True):
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


class ProcessExit(Struct, frozen=True):
    """The process is over, or could not be started. `exit_code` negative: the signal; None: unknown."""

    exit_code: int | None
    problem: str = ""
    missing: bool = False


SessionEvent = (
    SessionInit
    | TextMessage
    | ToolStart
    | ToolEnd
    | AnswerUsage
    | PermissionDenied
    | ApiRetry
    | UsageLimit
    | ModelFallback
    | ProviderError
    | SessionResult
    | ProcessExit
)


JsonMessage = Mapping[str, JsonValue]

_NO_MODEL = "<synthetic>"
"""What the CLI names as the model of its own messages."""

_READ, _WRITTEN, _WRITTEN_FOR_LONG = 0.1, 1.25, 2.0
"""Prices of tokens in the cache (read, kept for five minutes, for an hour) where plain input is 1."""


def read_line(line: bytes) -> Iterator[SessionEvent]:
    """What one line of the stream says; nothing for a line that is no JSON object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return
    if isinstance(message, dict):
        yield from read_message(message)


def read_message(message: JsonMessage) -> Iterator[SessionEvent]:
    match message.get("type"):
        case "system":
            yield from _system(message)
        case "assistant":
            yield from _assistant(message)
        case "user":
            yield from _user(message)
        case "stream_event":
            yield from _streamed(_object(message.get("event")), message.get("parent_tool_use_id"))
        case "rate_limit_event":
            limit = _object(message.get("rate_limit_info"))
            if limit.get("status") == "rejected":
                yield UsageLimit(_integer(limit.get("resetsAt")))
        case "result":
            yield _result(message)


def _system(message: JsonMessage) -> Iterator[SessionEvent]:
    subtype = message.get("subtype")
    if subtype == "init":
        yield SessionInit(as_text(message.get("session_id")), as_text(message.get("model")))
    elif subtype == "api_retry":
        yield ApiRetry(
            attempt=_integer(message.get("attempt")) or 1,
            of=_integer(message.get("max_retries")) or 1,
            wait_s=_number(message.get("retry_delay_ms")) / 1000,
            status=_integer(message.get("error_status")),
            error=as_text(message.get("error")),
        )
    elif subtype == "permission_denied":
        yield PermissionDenied(as_text(message.get("tool_use_id")), as_text(message.get("message")))
    elif subtype == "model_fallback":
        yield ModelFallback(as_text(message.get("fallback_model")))


def _assistant(message: JsonMessage) -> Iterator[SessionEvent]:
    parent = message.get("parent_tool_use_id")
    content = _object(message.get("message"))
    yield from _counted(content, parent)
    error = message.get("error")
    for block in _objects(content.get("content")):
        if block.get("type") == "tool_use":
            given = as_input(block.get("input"))
            where = parent if isinstance(parent, str) else None
            yield ToolStart(as_text(block.get("id")), as_text(block.get("name")), given, where)
        elif block.get("type") == "text" and error is not None:
            yield ProviderError(as_text(error), as_text(block.get("text")))
        elif block.get("type") == "text" and parent is None:
            yield TextMessage("assistant", as_text(block.get("text")))


def _streamed(event: JsonMessage, parent: JsonValue) -> Iterator[AnswerUsage]:
    """What an event of the provider's own stream says about tokens: at the begin of an answer, and at its end."""
    if event.get("type") == "message_start":
        yield from _counted(_object(event.get("message")), parent)
    elif event.get("type") == "message_delta":
        yield _counts(None, "", _object(event.get("usage")), parent)


def _counted(answer: JsonMessage, parent: JsonValue) -> Iterator[AnswerUsage]:
    """What a whole answer, or its begin, says about tokens; nothing where the CLI itself speaks."""
    used, name = _object(answer.get("usage")), as_text(answer.get("id"))
    if used and name and answer.get("model") != _NO_MODEL:
        yield _counts(name, as_text(answer.get("model")), used, parent)


def _counts(name: str | None, model: str, used: JsonMessage, parent: JsonValue) -> AnswerUsage:
    plain, read, written = (_sum([used], f"{kind}input_tokens") for kind in ("", "cache_read_", "cache_creation_"))
    for_long = _sum([_object(used.get("cache_creation"))], "ephemeral_1h_input_tokens")
    return AnswerUsage(
        id=name,
        parent=parent if isinstance(parent, str) else None,
        model=model,
        prompt=plain + read + written,
        billed=plain + _READ * read + _WRITTEN * (written - for_long) + _WRITTEN_FOR_LONG * for_long,
        completion=_sum([used], "output_tokens"),
    )


def _user(message: JsonMessage) -> Iterator[SessionEvent]:
    """Results of tools, and what the CLI itself says to the model; a subagent's task stands in the call already."""
    content = _object(message.get("message")).get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in _objects(content):
        if block.get("type") == "tool_result":
            output = _flat(block.get("content"))
            yield ToolEnd(as_text(block.get("tool_use_id")), output, success=block.get("is_error") is not True)
        elif block.get("type") == "text" and message.get("parent_tool_use_id") is None:
            yield TextMessage("user", as_text(block.get("text")))


def _result(message: JsonMessage) -> SessionResult:
    errors = message.get("errors")
    models = [_object(each) for each in _object(message.get("modelUsage")).values()]
    return SessionResult(
        subtype=as_text(message.get("subtype")),
        is_error=message.get("is_error") is True,
        terminal_reason=as_text(message.get("terminal_reason")) or None,
        stop_reason=as_text(message.get("stop_reason")) or None,
        text=as_text(message.get("result")),
        errors=tuple(as_text(error) for error in errors) if isinstance(errors, list) else (),
        status=_integer(message.get("api_error_status")),
        structured=message.get("structured_output"),
        usage=_usage(_object(message.get("usage")), models, message.get("total_cost_usd")),
    )


def _usage(own: JsonMessage, models: Sequence[JsonMessage], cost: JsonValue) -> Usage:
    """
    :param own: tokens of this process, as the API names them.
    :param models: tokens of the whole session by model, as the CLI names them.
    """
    own_prompt = _sum([own], "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    own_completion = _sum([own], "output_tokens")
    return Usage(
        own=own_prompt + own_completion,
        prompt=_sum(models, "inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens") or own_prompt,
        completion=_sum(models, "outputTokens") or own_completion,
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
    )


def _sum(counts: Sequence[JsonMessage], *names: str) -> int:
    return sum(_integer(each.get(name)) or 0 for each in counts for name in names)


def _flat(content: JsonValue) -> str:
    """What a tool returned, as text; pictures and the like by their kind."""
    if isinstance(content, list):
        parts = [_object(part) for part in content]
        return "\n".join(as_text(part.get("text")) or f"[{as_text(part.get('type'))}]" for part in parts)
    return as_text(content)


def _object(value: JsonValue) -> JsonMessage:
    return value if isinstance(value, dict) else {}


def _objects(value: JsonValue) -> list[JsonMessage]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _integer(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
