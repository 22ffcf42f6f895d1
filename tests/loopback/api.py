"""What a scripted model is asked over the wire, and what it answers (Anthropic's Messages API)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from gitswarm.records.json_value import JsonValue

RESULT_TOOL = "StructuredOutput"
"""Name of the tool by which the real CLI asks for structured output."""
_ENFORCED = "[structured-output-enforce]"
"""How its own words begin when the work ended without it."""


class Text(Struct, frozen=True):
    text: str


class Use(Struct, frozen=True):
    """A tool call. `id` None: one is made. `given` is an object, unless the model makes a mistake."""

    tool: str
    given: Mapping[str, JsonValue] | JsonValue
    id: str | None = None


class Reply(Struct, frozen=True):
    """One answer of the model, or of something in between.

    `status` other than 200: an API error. `hang_s`: how long nothing is said before anything else. `cut`: the
    connection is closed in the middle of the stream. `overloaded`: an error event in the middle of the stream.
    """

    blocks: tuple[Text | Use, ...] = ()
    stop_reason: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    cut: bool = False
    overloaded: bool = False
    tokens_in: int = 100
    tokens_out: int = 20

    @property
    def stopped_by(self) -> str:
        used = any(isinstance(block, Use) for block in self.blocks)
        return self.stop_reason or ("tool_use" if used else "end_turn")


def say(*texts: str) -> Reply:
    return Reply(tuple(Text(text) for text in texts))


def use(tool: str, **given: JsonValue) -> Reply:
    return Reply((Use(tool, given),))


class ApiRequest(Struct, frozen=True):
    """One request to the model. `number` counts those of its scenario from 1."""

    scenario: str
    number: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def turn(self) -> int:
        """How often the model has spoken in this conversation: the same for a request that is made again."""
        return sum(1 for message in self.body.get("messages", ()) if message["role"] == "assistant")

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(tool["name"] for tool in self.body.get("tools", ()) if "name" in tool)

    @property
    def wants_result(self) -> bool:
        """The handoff was asked for: nothing else is left to do, or the CLI's own words want it."""
        return self.tools == (RESULT_TOOL,) or any(text.startswith(_ENFORCED) for text in self.said)

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def system(self) -> str:
        system = self.body.get("system", "")
        return system if isinstance(system, str) else "\n".join(part.get("text", "") for part in system)

    @property
    def said(self) -> list[str]:
        """Every text that the user's side sent, in order, results of tools included."""
        found = []
        for message in self.body.get("messages", ()):
            if message["role"] == "user":
                found.extend(_texts(message["content"]))
        return found

    @property
    def answers(self) -> list[Mapping[str, Any]]:
        """The results of tools since the model spoke; some models are sent a word of the system behind them."""
        messages = self.body["messages"]
        spoke = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        parts = [part for message in messages[spoke + 1 :] for part in message["content"]]
        return [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_result"]


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    found: list[str] = []
    for part in content if isinstance(content, list) else ():
        if part.get("type") == "text":
            found.append(part["text"])
        elif part.get("type") == "tool_result":
            found.extend(_texts(part.get("content")))
    return found


Model = Callable[[ApiRequest], Reply]


def message(asked: ApiRequest, reply: Reply) -> dict[str, Any]:
    """A whole answer, as it is given without streaming."""
    blocks: list[dict[str, Any]] = []
    for index, block in enumerate(reply.blocks):
        if isinstance(block, Text):
            blocks.append({"type": "text", "text": block.text})
        else:
            use_id = block.id or f"toolu_{asked.scenario.replace('/', '_')}_{asked.number}_{index}"
            given = dict(block.given) if isinstance(block.given, Mapping) else block.given
            blocks.append({"type": "tool_use", "id": use_id, "name": block.tool, "input": given})
    return {
        "id": f"msg_{asked.number}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": blocks,
        "stop_reason": reply.stopped_by,
        "stop_sequence": None,
        "usage": {"input_tokens": reply.tokens_in, "output_tokens": reply.tokens_out},
    }


def stream(asked: ApiRequest, reply: Reply) -> list[bytes]:
    """The same as server-sent events."""
    whole = message(asked, reply)
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                **whole,
                "content": [],
                "stop_reason": None,
                "usage": {**whole["usage"], "output_tokens": 1},
            },
        }
    ]
    for index, block in enumerate(whole["content"]):
        events += _block_events(index, block)
    if reply.cut:
        events = events[: max(2, len(events) // 2)]
    elif reply.overloaded:
        events.append({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    else:
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": reply.tokens_out}})
        events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        start: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error_body(reply: Reply) -> dict[str, Any]:
    kind = _ERRORS.get(reply.status, "api_error")
    texts = [block.text for block in reply.blocks if isinstance(block, Text)]
    return {"type": "error", "error": {"type": kind, "message": texts[0] if texts else f"scripted {reply.status}"}}
