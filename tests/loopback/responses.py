"""The same over OpenAI's Responses API: what the real Codex asks, and how a reply is put so that it understands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.loopback import api
from tests.loopback.api import Reply, Text, Use


class ApiRequest(api.ApiRequest, frozen=True):
    @property
    def turn(self) -> int:
        """How often the model has spoken since it was last spoken to by a person."""
        spoken = [_is_spoken(item) for item in self.body["input"]]
        return sum(spoken)

    @property
    def wants_result(self) -> bool:
        return "format" in self.body.get("text", {})

    @property
    def said(self) -> list[str]:
        items = (item for item in self.body["input"] if item.get("role") in ("user", "developer"))
        return [part["text"] for item in items for part in item.get("content", ()) if "text" in part]

    @property
    def outputs(self) -> list[str]:
        """What tools gave back."""
        found = (item["output"] for item in self.body["input"] if item["type"].endswith("_output"))
        return [each if isinstance(each, str) else "".join(part["text"] for part in each) for each in found]

    @property
    def in_script(self) -> bool:
        """Whether the model calls tools from a script of its own: the only way of most models."""
        return any(item["type"] == "additional_tools" for item in self.body["input"])


def _is_spoken(item: Mapping[str, Any]) -> bool:
    return item["type"].endswith("_call") or item.get("role") == "assistant"


def stream(asked: ApiRequest, reply: Reply) -> list[bytes]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": f"resp_{asked.number}"}}]
    events += [
        {"type": "response.output_item.done", "item": {"id": f"item_{asked.number}_{number}", **item}}
        for number, item in enumerate(_items(asked, reply))
    ]
    usage = {"input_tokens": reply.tokens_in, "output_tokens": reply.tokens_out}
    whole = {"id": f"resp_{asked.number}", "usage": {**usage, "total_tokens": sum(usage.values())}}
    if reply.overloaded:
        error = {"code": "server_is_overloaded", "message": "Overloaded"}
        events.append({"type": "response.failed", "response": {"id": whole["id"], "error": error}})
    elif not reply.cut:
        events.append({"type": "response.completed", "response": whole})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _items(asked: ApiRequest, reply: Reply) -> Iterator[dict[str, Any]]:
    for number, block in enumerate(reply.blocks):
        call = f"call_{asked.number}_{number}"
        if isinstance(block, Text) or block.tool == api.RESULT_TOOL:
            text = block.text if isinstance(block, Text) else json.dumps(block.given)
            content = [{"type": "output_text", "text": text}]
            yield {"type": "message", "role": "assistant", "content": content}
        elif asked.in_script:
            yield {"type": "custom_tool_call", "call_id": call, "name": "exec", "input": f"{_line(block)};"}
        elif block.tool == "Write":
            yield {"type": "custom_tool_call", "call_id": call, "name": "apply_patch", "input": patch(block)}
        else:
            name, given = _function(block)
            yield {"type": "function_call", "call_id": call, "name": name, "arguments": json.dumps(given)}


def _function(use: Use) -> tuple[str, Any]:
    if use.tool == "Bash" and isinstance(use.given, Mapping):
        return "exec_command", {**{k: v for k, v in use.given.items() if k != "command"}, "cmd": use.given["command"]}
    return use.tool, use.given


def _line(use: Use) -> str:
    name, given = ("apply_patch", patch(use)) if use.tool == "Write" else _function(use)
    return f"text(await tools.{name}({json.dumps(given)}))"


def patch(use: Use) -> str:
    """A file, as a patch that adds it; or the patch that is given."""
    assert isinstance(use.given, Mapping)
    if "patch" in use.given:
        return str(use.given["patch"])
    lines = "".join(f"+{line}\n" for line in str(use.given["content"]).splitlines())
    return f"*** Begin Patch\n*** Add File: {use.given['file_path']}\n{lines}*** End Patch"
