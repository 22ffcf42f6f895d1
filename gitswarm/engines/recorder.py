"""Collects what happens inside a step: tool calls, transcript lines, events, in one order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from gitswarm.engines.base import Emit
from gitswarm.records.base import Clock, timestamp
from gitswarm.records.event import Event, EventKind
from gitswarm.records.receipt import ToolCall
from gitswarm.records.secrets import Scrub
from gitswarm.records.transcript import Message, ToolResult, ToolUse, TranscriptLine
from gitswarm.specs.compile import Prompt
from gitswarm.specs.context import cut

EVENT_OUTPUT_CHARS = 2_000
"""Events are for following a run; more of the output stands in the transcript."""

TRANSCRIPT_OUTPUT_CHARS = 50_000


@dataclass(slots=True)
class ToolOutcome:
    """Filled in by whoever carries the tool call out."""

    success: bool = True
    output: str = ""


class Recorder:
    def __init__(self, clock: Clock, emit: Emit, source: Literal["script", "command"], scrub: Scrub = str) -> None:
        self._clock = clock
        self._emit = emit
        self._source = source
        self._scrub = scrub
        self._lines: list[TranscriptLine] = []
        self._calls: list[ToolCall] = []
        self._outputs: list[str] = []

    @property
    def transcript(self) -> tuple[TranscriptLine, ...]:
        return tuple(self._lines)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(self._calls)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What each tool call said, whole."""
        return tuple(self._outputs)

    def prompt(self, prompt: Prompt) -> None:
        self.say("system", prompt.system)
        self.say("user", prompt.user)

    def say(self, role: Literal["system", "user", "assistant"], content: str) -> None:
        self._lines.append(Message(timestamp=self._now(), role=role, content=content))

    @contextmanager
    def tool(self, tool: str, given: Mapping[str, JsonValue]) -> Iterator[ToolOutcome]:
        """Records a tool call around the block that carries it out."""
        started = time.monotonic()
        self._lines.append(ToolUse(timestamp=self._now(), tool=tool, input=dict(given)))
        self._emit(Event(EventKind.TOOL_START, {"tool": tool, "input": dict(given)}))
        outcome = ToolOutcome()
        yield outcome
        self._outputs.append(outcome.output)
        said = self._scrub(outcome.output)
        kept = cut(said, TRANSCRIPT_OUTPUT_CHARS)
        self._lines.append(ToolResult(timestamp=self._now(), tool=tool, success=outcome.success, output=kept))
        shown = said[-EVENT_OUTPUT_CHARS:]
        self._emit(Event(EventKind.TOOL_END, {"tool": tool, "success": outcome.success, "output": shown}))
        self._calls.append(
            ToolCall(
                tool=tool,
                input=dict(given),
                source=self._source,
                success=outcome.success,
                output=shown,
                duration_ms=int((time.monotonic() - started) * 1000),
            )
        )

    def _now(self) -> str:
        return timestamp(self._clock())
