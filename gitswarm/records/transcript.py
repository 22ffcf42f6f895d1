from __future__ import annotations

import json
from typing import Literal

from pydantic import JsonValue

from gitswarm.records.base import Record


class Message(Record):
    timestamp: str
    role: Literal["system", "user", "assistant"]
    content: str


class ToolUse(Record):
    timestamp: str
    type: Literal["tool_use"] = "tool_use"
    tool: str
    input: dict[str, JsonValue]


class ToolResult(Record):
    timestamp: str
    type: Literal["tool_result"] = "tool_result"
    tool: str
    success: bool
    output: str


TranscriptLine = Message | ToolUse | ToolResult


def to_jsonl(lines: tuple[TranscriptLine, ...]) -> bytes:
    return b"".join(json.dumps(line.model_dump(mode="json"), ensure_ascii=False).encode() + b"\n" for line in lines)
