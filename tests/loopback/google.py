"""The same scripted models over Google's wire (`streamGenerateContent`), as Gemini CLI speaks it.

Models are asked and answer as over Anthropic's: tools have the names that stations know, a request without tools is
one that wants a result, and a result is a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gitswarm.engines.gemini.settings_home import TOOLS
from tests.loopback.api import RESULT_TOOL, ApiRequest, Reply, Text

METHOD = ":streamGenerateContent"
_NAMES = {known: name for name, known in TOOLS.items()}
_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}


def as_messages(body: Mapping[str, Any], model: str) -> dict[str, Any]:
    """A request by the names of Anthropic's; whole under `google`."""
    declared = [each for tool in body.get("tools", ()) for each in tool.get("functionDeclarations", ())]
    tools = [{"name": TOOLS.get(each["name"], each["name"])} for each in declared] or [{"name": RESULT_TOOL}]
    return {
        "model": model,
        "system": "\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
        "tools": tools,
        "messages": [
            {
                "role": "assistant" if said["role"] == "model" else "user",
                "content": [_block(part) for part in said["parts"]],
            }
            for said in body["contents"]
        ],
        "google": dict(body),
    }


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    if "functionResponse" in part:
        told = json.dumps(part["functionResponse"].get("response"), ensure_ascii=False)
        return {"type": "tool_result", "content": [{"type": "text", "text": told}]}
    if "functionCall" in part:
        return {"type": "tool_use", **part["functionCall"]}
    return {"type": "text", "text": part.get("text", "")}


def stream(asked: ApiRequest, reply: Reply) -> list[bytes]:
    """An answer as server-sent events; a call of the tool for results is a text."""
    parts: list[dict[str, Any]] = []
    for block in reply.blocks:
        if isinstance(block, Text):
            parts.append({"text": block.text})
        elif block.tool == RESULT_TOOL:
            parts.append({"text": json.dumps(block.given)})
        else:
            parts.append({"functionCall": {"name": _NAMES.get(block.tool, block.tool), "args": block.given}})
    used = {
        "promptTokenCount": reply.tokens_in,
        "candidatesTokenCount": reply.tokens_out,
        "totalTokenCount": reply.tokens_in + reply.tokens_out,
    }
    events: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts
    ]
    if not reply.cut:
        last = {"finishReason": reply.stop_reason or "STOP", "index": 0}
        events.append({"candidates": [last], "usageMetadata": used, "modelVersion": asked.model})
    return [f"data: {json.dumps(event)}\r\n\r\n".encode() for event in events]


def error_body(reply: Reply) -> dict[str, Any]:
    texts = [block.text for block in reply.blocks if isinstance(block, Text)]
    message = texts[0] if texts else f"scripted {reply.status}"
    status = _STATUSES.get(reply.status, "INTERNAL")
    return {"error": {"code": reply.status, "message": message, "status": status, "details": []}}
