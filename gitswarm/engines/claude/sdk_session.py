"""One session by the Agent SDK, and its messages as what a session says. Imported only where one is held: the SDK
takes
half a second.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    CLIConnectionError,
    CLINotFoundError,
    HookContext,
    HookInput,
    HookMatcher,
    Message,
    RateLimitEvent,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    query,
)
from claude_agent_sdk.types import HookJSONOutput
from msgspec import Struct

from gitswarm.engines.agent_process import last_lines, launched
from gitswarm.engines.claude.claude_code import LINE_BYTES, OnEvent, SessionOptions
from gitswarm.engines.claude.messages import JsonMessage, ProcessExit, SessionEvent, SessionResult, read_message
from gitswarm.engines.hook_server import HOOK_S, AnswersHooks


def read(message: Message) -> Iterator[SessionEvent]:
    """What a message of the SDK says: it is read as the line that the SDK made it of."""
    return read_message(_as_line(message))


def _as_line(message: Message) -> JsonMessage:
    line: dict[str, Any] = {}
    match message:
        case SystemMessage():
            line = {**message.data, "type": "system", "subtype": message.subtype}
        case AssistantMessage():
            answer = {"id": message.message_id, "model": message.model, "usage": message.usage}
            line = {"type": "assistant", "message": {**answer, "content": _blocks(message)}, "error": message.error}
        case UserMessage():
            line = {"type": "user", "message": {"content": _blocks(message)}}
        case StreamEvent():
            line = {"type": "stream_event", "event": message.event}
        case RateLimitEvent():
            limit = message.rate_limit_info
            line = {
                "type": "rate_limit_event",
                "rate_limit_info": {"status": limit.status, "resetsAt": limit.resets_at},
            }
        case ResultMessage():
            line = {**vars(message), "type": "result", "modelUsage": message.model_usage}
    parent = getattr(message, "parent_tool_use_id", None)
    return line if parent is None else {**line, "parent_tool_use_id": parent}


def _blocks(message: AssistantMessage | UserMessage) -> object:
    if isinstance(message.content, str):
        return message.content
    return [{**vars(block), "type": _TYPES.get(type(block))} for block in message.content]


_TYPES = {TextBlock: "text", ToolUseBlock: "tool_use", ToolResultBlock: "tool_result"}
"""Of the blocks of a message; the others say nothing."""


class Cancel(Struct):
    """Ends a session's task from another thread; nothing where it has not begun, or is over."""

    task: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        if self.task is not None:
            with suppress(RuntimeError):  # its loop is closed: it is over
                self.task.get_loop().call_soon_threadsafe(self.task.cancel)


def hold_in_sdk(options: SessionOptions, hooks: AnswersHooks, on_event: OnEvent, cancel: Cancel) -> None:
    """Holds the session until it is over, and tells how it ended."""
    # It would print on our terminal what we on_event as an outcome.
    logging.getLogger("claude_agent_sdk").setLevel(logging.CRITICAL)
    stderr = last_lines()
    has_ended = False
    loop = _Loop()

    def observe(message: SessionEvent) -> None:
        nonlocal has_ended
        has_ended = has_ended or isinstance(message, SessionResult)
        on_event(message)

    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_session(options, hooks, observe, stderr, cancel))
    except asyncio.CancelledError:
        on_event(ProcessExit(None))
    except CLINotFoundError as error:
        on_event(ProcessExit(None, str(error).splitlines()[0], missing=True))
    except Exception as error:  # noqa: BLE001 - the border to the SDK: whatever it raises ends the session
        # Behind an error result the SDK raises it once more.
        exit_code = getattr(error, "exit_code", None)
        if isinstance(error, CLIConnectionError):  # it wrote to a program that had ended, and does not say how
            exit_code = loop.exit_code()
        problem = "" if has_ended else " ".join(stderr).strip() or str(error).splitlines()[0]
        on_event(ProcessExit(exit_code if isinstance(exit_code, int) else None, problem))
    else:
        on_event(ProcessExit(0))


async def _session(
    options: SessionOptions, hooks: AnswersHooks, on_event: OnEvent, stderr: deque[str], cancel: Cancel
) -> None:
    cancel.task = asyncio.current_task()
    sdk_options = options_of(options, hooks, lambda line: stderr.append(line[:500]))
    try:
        async for message in query(prompt=options.prompt, options=sdk_options):
            for event in read(message):
                on_event(event)
    finally:
        await cast("_Loop", asyncio.get_running_loop()).close_pipes()


class _Loop(asyncio.SelectorEventLoop):
    """Remembers what it started: the SDK leaves the pipes of a program open that was ended for it."""

    def __init__(self) -> None:
        super().__init__()
        self._started: list[asyncio.BaseTransport] = []

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        started = await super().subprocess_exec(*args, **kwargs)
        self._started.append(started[0])
        return started

    def exit_code(self) -> int | None:
        """How the program ended that was started last; None: it runs, or none was started."""
        started = self._started[-1:]
        return cast("asyncio.SubprocessTransport", started[0]).get_returncode() if started else None

    async def close_pipes(self) -> None:
        for transport in self._started:
            transport.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # a transport closes its pipes in the next turn, and those their files in one more


def options_of(options: SessionOptions, hooks: AnswersHooks, complain: Any) -> ClaudeAgentOptions:
    async def ask(question: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        answer = await asyncio.to_thread(hooks.answer, cast("dict[str, Any]", question))
        return cast("HookJSONOutput", answer)

    settings = options.settings
    # Without on_failure a hook that raises, or returns nothing, lets the call through.
    matcher = HookMatcher(matcher=None, hooks=[ask], timeout=HOOK_S, on_failure="block")
    return ClaudeAgentOptions(
        cwd=options.cwd,
        cli_path=_launcher(options),
        env=dict(options.env),
        tools=list(options.tools),
        system_prompt=(
            {"type": "file", "path": str(options.system_file)}
            if options.bare
            else {"type": "preset", "preset": "claude_code"}
        ),
        extra_args={}
        if options.bare or not options.system
        else {"append-system-prompt-file": str(options.system_file)},
        settings=options.own_settings(),
        setting_sources=list(settings.setting_sources),
        strict_mcp_config=not settings.setting_sources,
        permission_mode="dontAsk",
        hooks={"PreToolUse": [matcher]},
        model=options.model,
        fallback_model=settings.fallback_model,
        max_turns=options.max_turns,
        max_budget_usd=options.max_cost_usd,
        output_format={"type": "json_schema", "schema": dict(options.schema)} if options.schema is not None else None,
        resume=options.resume,
        verbatim_prompts=True,
        # Without these the tokens of an answer, and answers of a subagent, are not told before the session ends.
        include_partial_messages=True,
        forward_subagent_text=True,
        max_buffer_size=LINE_BYTES,
        stderr=complain,
    )


def _launcher(options: SessionOptions) -> Path:
    """The program that the SDK takes for the CLI (see launch.py)."""
    path = options.folder / "claude"
    line = shlex.join(launched([str(options.program)], options.env, options.containment))
    path.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
    path.chmod(0o700)
    return path
