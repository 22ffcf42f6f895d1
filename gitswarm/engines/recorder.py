"""Collects what happens inside a step: tool calls, transcript lines, events, in one order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from gitswarm.engines.base import Emit, StepRequest
from gitswarm.records.base import Clock, timestamp
from gitswarm.records.event import Event, EventKind
from gitswarm.records.policy import Deny, Rewrite
from gitswarm.records.receipt import ToolCall
from gitswarm.records.transcript import Message, ToolResult, ToolUse, TranscriptLine
from gitswarm.specs.compile import Prompt
from gitswarm.specs.context import cut

EVENT_OUTPUT_CHARS = 2_000
"""Events are for following a run; more of the output stands in the transcript."""

TRANSCRIPT_OUTPUT_CHARS = 50_000


Given = Mapping[str, JsonValue]
"""The input of a tool call."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    success: bool = True
    output: str = ""


class Recorder:
    def __init__(self, request: StepRequest, clock: Clock, emit: Emit, source: Literal["script", "command"]) -> None:
        self._request = request
        self._clock = clock
        self._emit = emit
        self._source = source
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

    def call(self, tool: str, given: Given, act: Callable[[Given], ToolOutcome]) -> ToolOutcome:
        """Records a tool call, and has `act` carry it out if the policy allows it, with the input that it allows."""
        started = time.monotonic()
        self._lines.append(ToolUse(timestamp=self._now(), tool=tool, input=dict(given)))
        self._emit(Event(EventKind.TOOL_START, {"tool": tool, "input": dict(given)}))
        verdict = self._request.decide(tool, given)
        executed = verdict.input if isinstance(verdict, Rewrite) else given
        outcome = _denied(verdict) if isinstance(verdict, Deny) else act(executed)
        self._outputs.append(outcome.output)
        said = self._request.scrub(outcome.output)
        kept = cut(said, TRANSCRIPT_OUTPUT_CHARS)
        self._lines.append(ToolResult(timestamp=self._now(), tool=tool, success=outcome.success, output=kept))
        done = ToolCall(
            tool=tool,
            input=dict(given),
            executed_input=self._placeless(verdict.input) if isinstance(verdict, Rewrite) else None,
            source=self._source,
            success=outcome.success,
            blocked=isinstance(verdict, Deny),
            blocked_reason=f"{verdict.rule}: {verdict.reason}" if isinstance(verdict, Deny) else None,
            output=said[-EVENT_OUTPUT_CHARS:],
            duration_ms=int((time.monotonic() - started) * 1000),
        )
        self._emit(_end_event(done))
        self._calls.append(done)
        return outcome

    def _placeless(self, given: Given) -> dict[str, JsonValue]:
        """Evidence moves between machines: it names no folder of this one."""
        worktree = str(self._request.worktree)
        return {
            name: value.replace(worktree, "$WORKTREE") if isinstance(value, str) else value
            for name, value in given.items()
        }

    def _now(self) -> str:
        return timestamp(self._clock())


def _denied(verdict: Deny) -> ToolOutcome:
    return ToolOutcome(success=False, output=f"denied ({verdict.rule}): {verdict.reason}\n{verdict.instead}\n")


def _end_event(call: ToolCall) -> Event:
    blocked = {"blocked": True, "blocked_reason": call.blocked_reason} if call.blocked else {}
    return Event(EventKind.TOOL_END, {"tool": call.tool, "success": call.success, "output": call.output, **blocked})
