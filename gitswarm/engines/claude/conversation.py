"""Turns what a session says into transcript, events and tool calls; counts what it uses, answer by answer."""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.agent_session import retry_event
from gitswarm.engines.base import Emit
from gitswarm.engines.claude.gate import Gate
from gitswarm.engines.claude.messages import (
    RESULT_TOOL,
    AnswerUsage,
    Began,
    Called,
    CallRefused,
    Ended,
    Faulted,
    Gone,
    Limited,
    Retrying,
    Returned,
    Said,
    Spoke,
    Switched,
    Usage,
)
from gitswarm.engines.claude.session_outcome import LastWords
from gitswarm.engines.handoff import encodable, encodable_input
from gitswarm.engines.recorder import OpenCall, Recorder, ToolOutcome
from gitswarm.records.receipt import Tokens
from gitswarm.records.safety import Deny, Rewrite, Verdict
from gitswarm.records.text import usd
from gitswarm.specs.context import cut

Price = Callable[[AnswerUsage], float | None]
"""US dollars for an answer; None: not known."""

Tell = Callable[[Tokens, float | None], None]
"""Is told all that was used so far, and what it cost in US dollars; None: not known."""


class Meter(Struct):
    """What one execution used: all its phases and attempts."""

    price: Price
    tell: Tell
    _answers: dict[str, AnswerUsage] = field(default_factory=dict)
    _newest: dict[str | None, str] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """The cost is unknown as long as nothing was answered: what a request takes that is under way nobody says."""
        answers = self._answers.values()
        prompt, completion = sum(each.prompt for each in answers), sum(each.completion for each in answers)
        cost = usd(*map(self.price, answers)) if answers else None
        return Usage(own=prompt + completion, prompt=prompt, completion=completion, cost_usd=cost)

    def begin(self) -> None:
        """A session begins."""
        if not self._answers:
            self._report()

    def count(self, usage: AnswerUsage) -> None:
        name = usage.id or self._newest.get(usage.parent)
        if name is None:
            return
        self._newest[usage.parent] = name
        before = self._answers.get(name)
        after = usage if before is None else _later(before, usage)
        if after != before:
            self._answers[name] = after
            self._report()

    def since(self, earlier: Usage) -> Usage:
        """What was used after the meter said `earlier`."""
        now = self.usage
        if now.own == earlier.own:
            return Usage()
        cost = usd(now.cost_usd, -(earlier.cost_usd or 0.0))
        return Usage(now.own - earlier.own, now.prompt - earlier.prompt, now.completion - earlier.completion, cost)

    def _report(self) -> None:
        used = self.usage
        self.tell(Tokens.of(used.prompt, used.completion), used.cost_usd)


def _later(before: AnswerUsage, usage: AnswerUsage) -> AnswerUsage:
    """The same answer, of which more is known."""
    return replace(
        before,
        prompt=max(before.prompt, usage.prompt),
        billed=max(before.billed, usage.billed),
        completion=max(before.completion, usage.completion),
    )


_HOOK_FAILED = "PreToolUse:"
"""How the CLI's own words begin where a hook gave no verdict."""

_REASON_CHARS = 200

_WRONG_KEY = 401
"""HTTP status that the same key gets again. The CLI asks once more all the same, but not after a 403."""


class Conversation(Struct):
    """One process of a session, while it is listened to. `is_told`: what the agent says is news for who follows the
    run. `has_spoken`: there is something to go on with."""

    recorder: Recorder
    gate: Gate
    emit: Emit
    meter: Meter
    is_told: bool = True
    session: str | None = None
    model: str | None = None
    has_spoken: bool = False
    last: LastWords = field(default_factory=LastWords)
    text: str = ""
    _open: dict[str, OpenCall] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)

    def take(self, message: Said) -> None:
        message = encodable(message)
        match message:
            case Began():
                self.session, self.model = message.session, message.model or self.model
                self.meter.begin()
            case AnswerUsage():
                self.meter.count(message)
            case Spoke():
                self._speak(message)
            case Called():
                self._begin(message)
            case Returned():
                self._end(message)
            case CallRefused():
                self._refused[message.id] = message.reason
            case Retrying() if message.status == _WRONG_KEY:
                self.last = replace(self.last, refused=message.status)
            case Retrying():
                self.emit(
                    retry_event(
                        message.attempt, message.of, message.wait_s, f"{message.status or ''} {message.error}".strip()
                    )
                )
            case Switched():
                self.model = message.model
                self.recorder.note("system", f"{message.model} answers from here on")
            case _:
                self._remember(message)

    def _remember(self, message: Faulted | Limited | Ended | Gone) -> None:
        """What tells how the session ended."""
        match message:
            case Faulted():
                self.last = replace(self.last, fault=message)
                self.recorder.note("system", message.text)
            case Limited():
                self.last = replace(self.last, limit=message)
            case Ended():
                self.last = replace(self.last, ended=message)
            case Gone():
                self.last = replace(self.last, gone=message)

    def close(self) -> None:
        """Calls that never returned are over: whatever carried them out has been ended."""
        for call in self._open.values():
            self.recorder.end(
                call, ToolOutcome(success=False, output="no result: the session ended during this call")
            )
        self._open.clear()

    def _speak(self, message: Spoke) -> None:
        self.has_spoken = True
        if message.role == "user":
            self.recorder.note("user", message.text)
            return
        self.text = message.text
        if self.is_told:
            self.recorder.say(message.text)
        else:
            self.recorder.note("assistant", message.text)

    def _begin(self, message: Called) -> None:
        self.has_spoken = True
        if message.tool == RESULT_TOOL:
            self.recorder.note("assistant", json.dumps(dict(message.given), ensure_ascii=False))
            return
        starter = self._open.get(message.parent or "")
        agent = None if message.parent is None else _kind_of(starter)
        self._open[message.id] = self.recorder.begin(message.tool, message.given, agent)

    def _end(self, message: Returned) -> None:
        call = self._open.pop(message.id, None)
        if call is None:
            if not message.success:
                self.recorder.note("user", message.output)  # why the handoff was not taken
            return
        if message.success and message.id not in self.gate.verdicts:
            self.last = replace(self.last, unjudged=call.tool)
        verdict = self._verdict(message, call)
        output = verdict.told if isinstance(verdict, Deny) else message.output
        self.recorder.end(call, ToolOutcome(message.success, output), verdict)

    def _verdict(self, message: Returned, call: OpenCall) -> Verdict | None:
        """What kept the call from being carried out, or changed it: the policy, else the CLI's own rules."""
        verdict = self.gate.verdicts.get(message.id)
        if isinstance(verdict, Deny):
            return None if message.success else verdict
        if not message.success and message.id in self._refused:
            return Deny("claude", cut(self._refused[message.id], _REASON_CHARS), "")
        if verdict is None and not message.success and message.output.startswith(_HOOK_FAILED):
            return Deny("policy", cut(message.output, _REASON_CHARS), "continue without this call")
        if not isinstance(verdict, Rewrite):
            return None
        executed = encodable_input(verdict.input)
        return replace(verdict, input=executed) if executed != dict(call.given) else None


def _kind_of(starter: OpenCall | None) -> str:
    kind = starter.given.get("subagent_type") if starter is not None else None
    return kind if isinstance(kind, str) and kind else "subagent"
