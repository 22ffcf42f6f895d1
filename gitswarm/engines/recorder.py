"""Collects what happens inside a step: tool calls, transcript lines, events, in one order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from gitswarm.engines.base import Emit
from gitswarm.records.event import Event, EventKind, Message, ToolResult, ToolUse, TranscriptLine
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Tokens, ToolCall, ToolSource
from gitswarm.records.record import Clock, timestamp
from gitswarm.records.safety import Allow, Decide, Deny, Rewrite, Scrub, Verdict
from gitswarm.records.text import usd
from gitswarm.specs.compile import Prompt
from gitswarm.specs.context import cut

EVENT_OUTPUT_CHARS = 2_000
"""Events are for following a run; more of the output stands in the transcript."""

EVENT_TEXT_CHARS = 4_000

TRANSCRIPT_OUTPUT_CHARS = 50_000


Given = Mapping[str, JsonValue]
"""The input of a tool call."""


class ToolOutcome(Struct, frozen=True):
    success: bool = True
    output: str = ""


class OpenCall(Struct, frozen=True):
    """A tool call that has begun. `agent`: the kind of the subagent that made it."""

    tool: str
    given: Given
    began: float
    agent: str | None = None


class Observed(Protocol):
    """What is recorded of: a step, or a session that only answers."""

    @property
    def worktree(self) -> Path: ...

    @property
    def decide(self) -> Decide: ...

    @property
    def scrub(self) -> Scrub: ...


class Recorder:
    def __init__(self, request: Observed, clock: Clock, emit: Emit, source: ToolSource) -> None:
        self._request = request
        self._clock = clock
        self._emit = emit
        self._source = source
        self._worktree = str(request.worktree)
        self._lines: list[TranscriptLine] = []
        self._calls: list[ToolCall] = []
        self._outputs: list[str] = []
        self._open: list[OpenCall] = []

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
        self.note("system", prompt.system)
        self.note("user", prompt.user)

    def note(self, role: Literal["system", "user", "assistant"], content: str) -> None:
        """A line of the transcript that is no news for whoever follows the run."""
        self._lines.append(Message(timestamp=self._now(), role=role, content=self._placeless(content)))

    def say(self, text: str) -> None:
        """What the agent says."""
        self.note("assistant", text)
        content = cut(self._request.scrub(self._placeless(text)), EVENT_TEXT_CHARS)
        self._emit(Event(EventKind.MESSAGE, {"role": "assistant", "text": content}))

    def used(self, tokens: Tokens, cost_usd: float | None) -> None:
        """All that this execution has used so far, in US dollars; None: what it costs is not known."""
        self._emit(Event(EventKind.USAGE, {"tokens": tokens.to_plain(), "cost_usd": usd(cost_usd)}))

    def call(self, tool: str, given: Given, act: Callable[[Given], ToolOutcome]) -> ToolOutcome:
        """Records a tool call, and has `act` carry it out if the policy allows it, with the input that it allows."""
        call = self.begin(tool, given)
        verdict = self._request.decide(tool, given)
        executed = verdict.input if isinstance(verdict, Rewrite) else given
        outcome = ToolOutcome(success=False, output=verdict.message) if isinstance(verdict, Deny) else act(executed)
        self.end(call, outcome, verdict)
        return outcome

    def begin(self, tool: str, given: Given, agent: str | None = None) -> OpenCall:
        """A tool call begins, whoever carries it out."""
        call = OpenCall(tool, self._placeless_input(given), time.monotonic(), agent)
        self._open.append(call)
        self._lines.append(ToolUse(timestamp=self._now(), tool=tool, input=dict(call.given)))
        self._emit(Event(EventKind.TOOL_START, {"tool": tool, "input": dict(call.given), **_by(agent)}))
        return call

    def end(self, call: OpenCall, outcome: ToolOutcome, verdict: Verdict | None = None) -> None:
        """Ends a call. `verdict` None: the policy was not asked."""
        self._emit(_end_event(self._record(call, outcome, verdict or Allow())))

    def close(self) -> None:
        """Calls that never returned are over: whatever carried them out has been ended."""
        for call in tuple(self._open):
            self.end(call, ToolOutcome(success=False, output="no result: the session ended during this call"))

    def abandon(self, why: str) -> None:
        """The step broke: calls that are open are over, and nobody who follows the run is told."""
        for call in tuple(self._open):
            self._record(call, ToolOutcome(success=False, output=why), Allow())

    def _record(self, call: OpenCall, outcome: ToolOutcome, verdict: Verdict) -> ToolCall:
        self._open = [other for other in self._open if other is not call]
        output = self._placeless(outcome.output)
        self._outputs.append(output)
        content = self._request.scrub(output)
        kept = cut(content, TRANSCRIPT_OUTPUT_CHARS)
        self._lines.append(ToolResult(timestamp=self._now(), tool=call.tool, success=outcome.success, output=kept))
        done = ToolCall(
            tool_name=call.tool,
            input=dict(call.given),
            executed_input=self._placeless_input(verdict.input) if isinstance(verdict, Rewrite) else None,
            source=self._source,
            success=outcome.success,
            blocked=isinstance(verdict, Deny),
            blocked_reason=self._placeless(f"{verdict.rule}: {verdict.reason}")
            if isinstance(verdict, Deny)
            else None,
            output=content[-EVENT_OUTPUT_CHARS:],
            duration_ms=int((time.monotonic() - call.began) * 1000),
            agent=call.agent,
        )
        self._calls.append(done)
        return done

    def _placeless(self, text: str) -> str:
        """Evidence moves between machines: it names no folder of this one."""
        return text.replace(self._worktree, "$WORKTREE")

    def _placeless_input(self, given: Given) -> dict[str, JsonValue]:
        return {name: self._placeless_value(value) for name, value in given.items()}

    def _placeless_value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self._placeless(value)
        if isinstance(value, list):
            return [self._placeless_value(item) for item in value]
        return self._placeless_input(value) if isinstance(value, dict) else value

    def _now(self) -> str:
        return timestamp(self._clock())


def _by(agent: str | None) -> dict[str, JsonValue]:
    return {"agent": agent} if agent else {}


def _end_event(call: ToolCall) -> Event:
    blocked = {"blocked": True, "blocked_reason": call.blocked_reason} if call.blocked else {}
    done: dict[str, JsonValue] = {"tool": call.tool_name, "success": call.success, "output": call.output}
    return Event(EventKind.TOOL_END, {**done, **blocked, **_by(call.agent)})
