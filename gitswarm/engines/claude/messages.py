"""The SDK's messages as what a session says. Imported only where the SDK is used: it takes half a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    RateLimitEvent,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from pydantic import JsonValue

from gitswarm.engines.claude.said import Called, Ended, Faulted, Limited, Returned, Said, Spoke
from gitswarm.engines.claude.wire import counted, flat, streamed, system, usage
from gitswarm.engines.encodable import as_input


def read(message: Message) -> Iterator[Said]:
    if isinstance(message, SystemMessage):
        yield from system({**message.data, "subtype": message.subtype})
    elif isinstance(message, AssistantMessage):
        yield from _assistant(message)
    elif isinstance(message, UserMessage):
        yield from _user(message)
    elif isinstance(message, StreamEvent):
        yield from streamed(message.event, message.parent_tool_use_id)
    elif isinstance(message, RateLimitEvent):
        if message.rate_limit_info.status == "rejected":
            yield Limited(message.rate_limit_info.resets_at)
    elif isinstance(message, ResultMessage):
        yield _result(message)


def _assistant(message: AssistantMessage) -> Iterator[Said]:
    answer = {"id": message.message_id, "model": message.model, "usage": message.usage}
    yield from counted(answer, message.parent_tool_use_id)
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            yield Called(block.id, block.name, as_input(block.input), message.parent_tool_use_id)
        elif isinstance(block, TextBlock) and message.error is not None:
            yield Faulted(message.error, block.text)
        elif isinstance(block, TextBlock) and message.parent_tool_use_id is None:
            yield Spoke("assistant", block.text)


def _user(message: UserMessage) -> Iterator[Said]:
    content = [TextBlock(message.content)] if isinstance(message.content, str) else message.content
    for block in content:
        if isinstance(block, ToolResultBlock):
            yield Returned(
                block.tool_use_id, flat(cast("JsonValue", block.content)), success=block.is_error is not True
            )
        elif isinstance(block, TextBlock) and message.parent_tool_use_id is None:
            yield Spoke("user", block.text)


def _result(message: ResultMessage) -> Ended:
    models = cast("list[dict[str, JsonValue]]", list((message.model_usage or {}).values()))
    return Ended(
        subtype=message.subtype,
        is_error=message.is_error,
        terminal_reason=message.terminal_reason,
        stop_reason=message.stop_reason,
        text=message.result or "",
        errors=tuple(message.errors or ()),
        status=message.api_error_status,
        structured=message.structured_output,
        usage=usage(message.usage or {}, models, message.total_cost_usd),
    )
