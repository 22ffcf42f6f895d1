"""Lines that Claude Code 2.1.330 wrote, shortened: both transports read the same from them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from claude_agent_sdk._internal.message_parser import parse_message

from gitswarm.engines.claude.messages import (
    AnswerUsage,
    ApiRetry,
    ModelFallback,
    PermissionDenied,
    ProviderError,
    SessionEvent,
    SessionInit,
    SessionResult,
    TextMessage,
    ToolEnd,
    ToolStart,
    Usage,
    UsageLimit,
    read_line,
)
from gitswarm.engines.claude.sdk_session import read
from gitswarm.engines.handoff import encodable

SESSION = '"session_id": "e585a5af-2db3-4ff4-93d3-da96e359cc7a", "uuid": "3d86aed8-70b1-42c8-90ea-237b95e06cc8"'
ASSISTANT = '"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": null'
TIMES = '"type": "result", "duration_ms": 308, "duration_api_ms": 77, "num_turns": 2'
COUNTS = '"cache_creation_input_tokens": 3, "cache_read_input_tokens": 4'
LIMIT = '"resetsAt": 1795301059, "rateLimitType": "five_hour", "isUsingOverage": false'


def assistant(content: str, more: str = '"parent_tool_use_id": null') -> str:
    return f'{{"type": "assistant", "message": {{{ASSISTANT}, "content": [{content}]}}, {more}, {SESSION}}}'


def user(content: str, parent: str = "null") -> str:
    message = f'{{"role": "user", "content": {content}}}'
    return f'{{"type": "user", "message": {message}, "parent_tool_use_id": {parent}, {SESSION}}}'


def streamed(event: str) -> str:
    return f'{{"type": "stream_event", "event": {event}, "parent_tool_use_id": null, {SESSION}}}'


USED = (
    '"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 23, '
    '"cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 20}'
)

LINES: dict[str, tuple[str, list[SessionEvent]]] = {
    "a session begins": (
        (
            '{"type": "system", "subtype": "init", "cwd": "/w", "model": "claude-sonnet-4-5", '
            f'"tools": ["Bash"], "claude_code_version": "2.1.330", {SESSION}}}'
        ),
        [SessionInit("e585a5af-2db3-4ff4-93d3-da96e359cc7a", "claude-sonnet-4-5")],
    ),
    "a tool call": (
        assistant('{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}'),
        [ToolStart("toolu_1", "Bash", {"command": "ls"})],
    ),
    "a tool call of a subagent": (
        assistant('{"type": "tool_use", "id": "t2", "name": "Bash", "input": {}}', '"parent_tool_use_id": "t1"'),
        [ToolStart("t2", "Bash", {}, "t1")],
    ),
    "the begin of an answer": (
        streamed(f'{{"type": "message_start", "message": {{{ASSISTANT}, "usage": {{{USED}, "output_tokens": 1}}}}}}'),
        [
            AnswerUsage(
                "msg_1", None, "claude-sonnet-4-5", prompt=37, billed=10 + 0.4 + 1.25 * 3 + 2 * 20, completion=1
            )
        ],
    ),
    "the end of an answer": (
        streamed('{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}'),
        [AnswerUsage(None, None, completion=20)],
    ),
    "a part of an answer": (
        streamed('{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "d"}}'),
        [],
    ),
    "an answer of a subagent": (
        assistant(
            '{"type": "text", "text": "done"}], "usage": {"input_tokens": 7, "output_tokens": 2}, "x": [',
            '"parent_tool_use_id": "t1"',
        ),
        [AnswerUsage("msg_1", "t1", "claude-sonnet-4-5", prompt=7, billed=7.0, completion=2)],
    ),
    "a text": (assistant('{"type": "text", "text": "done"}'), [TextMessage("assistant", "done")]),
    "a text of a subagent": (assistant('{"type": "text", "text": "done"}', '"parent_tool_use_id": "t1"'), []),
    "thinking": (assistant('{"type": "thinking", "thinking": "hm", "signature": "x"}'), []),
    "a tool's result": (
        user('[{"tool_use_id": "toolu_1", "type": "tool_result", "content": "a\\nb", "is_error": false}]'),
        [ToolEnd("toolu_1", "a\nb", success=True)],
    ),
    "a tool's result without a word about success": (
        user('[{"tool_use_id": "toolu_1", "type": "tool_result", "content": "Structured output provided"}]'),
        [ToolEnd("toolu_1", "Structured output provided", success=True)],
    ),
    "a tool's result in parts": (
        user(
            '[{"tool_use_id": "toolu_1", "type": "tool_result", "is_error": true, "content": '
            '[{"type": "text", "text": "a"}, {"type": "image", "source": {}}]}]'
        ),
        [ToolEnd("toolu_1", "a\n[image]", success=False)],
    ),
    "a tool's result with nothing in it": (
        user('[{"tool_use_id": "toolu_1", "type": "tool_result", "content": null}]'),
        [ToolEnd("toolu_1", "", success=True)],
    ),
    "what the CLI itself says": (
        user('[{"type": "text", "text": "[structured-output-enforce]"}]'),
        [TextMessage("user", "[structured-output-enforce]")],
    ),
    "what the CLI itself says, as a string": (user('"go on"'), [TextMessage("user", "go on")]),
    "the task of a subagent": (user('[{"type": "text", "text": "look"}]', '"t1"'), []),
    "a call that its own rules refuse": (
        (
            '{"type": "system", "subtype": "permission_denied", "tool_name": "Write", "tool_use_id": "toolu_1", '
            f'"decision_reason_type": "mode", "message": "Permission to use Write has been denied", {SESSION}}}'
        ),
        [PermissionDenied("toolu_1", "Permission to use Write has been denied")],
    ),
    "a request that is made again": (
        (
            '{"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 2, "retry_delay_ms": 1203, '
            f'"error_status": 401, "error": "authentication_failed", {SESSION}}}'
        ),
        [ApiRetry(2, 2, 1.203, 401, "authentication_failed")],
    ),
    "a request that had no answer": (
        (
            '{"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "retry_delay_ms": 600, '
            f'"error_status": null, "error": "unknown", {SESSION}}}'
        ),
        [ApiRetry(1, 2, 0.6, None, "unknown")],
    ),
    "another model": (
        (
            '{"type": "system", "subtype": "model_fallback", "trigger": "overloaded", "original_model": "x", '
            f'"fallback_model": "claude-haiku-4-5", "content": "Switched to Haiku 4.5", {SESSION}}}'
        ),
        [ModelFallback("claude-haiku-4-5")],
    ),
    "a limit": (
        f'{{"type": "rate_limit_event", "rate_limit_info": {{"status": "rejected", {LIMIT}}}, {SESSION}}}',
        [UsageLimit(1795301059)],
    ),
    "a limit that does not say when it resets": (
        f'{{"type": "rate_limit_event", "rate_limit_info": {{"status": "rejected"}}, {SESSION}}}',
        [UsageLimit(None)],
    ),
    "a limit that is near": (
        f'{{"type": "rate_limit_event", "rate_limit_info": {{"status": "allowed_warning", {LIMIT}}}, {SESSION}}}',
        [],
    ),
    "the provider fails": (
        assistant(
            '{"type": "text", "text": "Invalid API key · Fix external API key"}',
            '"parent_tool_use_id": null, "error": "authentication_failed", "api_error_status": 401',
        ),
        [ProviderError("authentication_failed", "Invalid API key · Fix external API key")],
    ),
    "the end": (
        (
            f'{{{TIMES}, "subtype": "success", "is_error": false, "terminal_reason": "completed", "stop_reason": '
            f'"end_turn", "total_cost_usd": 0.0012, "usage": {{"input_tokens": 200, {COUNTS}, "output_tokens": 40}}, '
            '"modelUsage": {"claude-sonnet-4-5": {"inputTokens": 300, "outputTokens": 60, "cacheReadInputTokens": 1, '
            '"cacheCreationInputTokens": 2}, "claude-haiku-4-5": {"inputTokens": 10, "outputTokens": 1}}, '
            f'"permission_denials": [], "api_error_status": null, "result": "done", {SESSION}}}'
        ),
        [
            SessionResult(
                subtype="success",
                is_error=False,
                terminal_reason="completed",
                stop_reason="end_turn",
                text="done",
                usage=Usage(own=247, prompt=313, completion=61, cost_usd=0.0012),
            )
        ],
    ),
    "the end with a handoff": (
        (
            f'{{{TIMES}, "subtype": "success", "is_error": false, "stop_reason": "tool_use", "total_cost_usd": 0, '
            '"usage": {"input_tokens": 100, "output_tokens": 20}, "modelUsage": {}, "result": "{}", '
            f'"structured_output": {{"status": "VERIFIED"}}, "terminal_reason": "completed", {SESSION}}}'
        ),
        [
            SessionResult(
                subtype="success",
                is_error=False,
                terminal_reason="completed",
                stop_reason="tool_use",
                text="{}",
                structured={"status": "VERIFIED"},
                usage=Usage(own=120, prompt=100, completion=20, cost_usd=0.0),
            )
        ],
    ),
    "the end of the turns": (
        (
            f'{{{TIMES}, "subtype": "error_max_turns", "is_error": true, "terminal_reason": "max_turns", '
            f'"usage": {{}}, "modelUsage": {{}}, "errors": ["Reached maximum number of turns (2)"], {SESSION}}}'
        ),
        [
            SessionResult(
                subtype="error_max_turns",
                is_error=True,
                terminal_reason="max_turns",
                errors=("Reached maximum number of turns (2)",),
            )
        ],
    ),
    "the end by an error": (
        (
            f'{{{TIMES}, "subtype": "success", "is_error": true, "terminal_reason": "api_error", "stop_reason": '
            f'"stop_sequence", "total_cost_usd": 0, "usage": {{}}, "modelUsage": {{}}, "api_error_status": 429, '
            f'"result": "Request rejected", {SESSION}}}'
        ),
        [
            SessionResult(
                subtype="success",
                is_error=True,
                terminal_reason="api_error",
                stop_reason="stop_sequence",
                text="Request rejected",
                status=429,
                usage=Usage(cost_usd=0.0),
            )
        ],
    ),
    "something new": (f'{{"type": "system", "subtype": "thinking_tokens", "tokens": 3, {SESSION}}}', []),
}


@pytest.mark.parametrize(("line", "said"), LINES.values(), ids=list(LINES))
def test_the_cli_s_line_says(line: str, said: list[SessionEvent]) -> None:
    assert list(read_line(line.encode())) == said


@pytest.mark.parametrize(("line", "said"), LINES.values(), ids=list(LINES))
def test_the_sdk_s_message_says_the_same(line: str, said: list[SessionEvent]) -> None:
    message = parse_message(json.loads(line))
    assert message is not None
    assert list(read(message)) == said


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"\xff\xfe{",
        b"[]",
        b"null",
        b"{}",
        b'{"type": "assistant"}',
        b'{"type": "assistant", "message": {"content": [1, null, "x"]}}',
        b'{"type": "user", "message": "x"}',
        b'{"type": "system"}',
        b'{"type": "rate_limit_event", "rate_limit_info": []}',
        b'{"type": "keep_alive"}',
    ],
)
def test_what_is_no_message_says_nothing(line: bytes) -> None:
    assert list(read_line(line)) == []


def test_a_result_without_anything_is_still_an_end() -> None:
    assert list(read_line(b'{"type": "result", "usage": 3, "modelUsage": [], "errors": "x"}')) == [
        SessionResult("", is_error=False)
    ]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (TextMessage("assistant", "half \ud83d end"), TextMessage("assistant", "half \ufffd end")),
        (TextMessage("assistant", "\ud83d\ude00 \U0001f600"), TextMessage("assistant", "\U0001f600 \U0001f600")),
        (ToolStart("1", "Bash", {"a\udc00": ["x\ud800", 1]}), ToolStart("1", "Bash", {"a\ufffd": ["x\ufffd", 1]})),
        (
            SessionResult("success", is_error=False, structured={"a": "\udfff"}),
            SessionResult("success", is_error=False, structured={"a": "\ufffd"}),
        ),
        (
            SessionResult("x", is_error=True, errors=("\ud800",)),
            SessionResult("x", is_error=True, errors=("\ufffd",)),
        ),
        (TextMessage("user", "\ufeffé"), TextMessage("user", "\ufeffé")),
    ],
)
def test_halves_of_characters_are_replaced(said: Any, stored: SessionEvent) -> None:
    assert encodable(said) == stored
