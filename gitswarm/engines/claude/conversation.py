"""Turns what a session says into transcript, events and tool calls; counts what it uses, answer by answer."""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import JsonValue

from gitswarm.engines.base import Emit
from gitswarm.engines.claude.ending import LastWords
from gitswarm.engines.claude.gate import Gate
from gitswarm.engines.claude.said import (
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
from gitswarm.engines.encodable import encodable, encodable_input
from gitswarm.engines.recorder import OpenCall, Recorder, ToolOutcome
from gitswarm.records.event import Event, EventKind
from gitswarm.records.policy import Deny, Rewrite, Verdict
from gitswarm.records.receipt import Tokens
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

    def count(self, said: AnswerUsage) -> None:
        name = said.id or self._newest.get(said.parent)
        if name is None:
            return
        self._newest[said.parent] = name
        before = self._answers.get(name)
        after = said if before is None else _later(before, said)
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


def _later(before: AnswerUsage, said: AnswerUsage) -> AnswerUsage:
    """The same answer, of which more is known."""
    return replace(
        before,
        prompt=max(before.prompt, said.prompt),
        billed=max(before.billed, said.billed),
        completion=max(before.completion, said.completion),
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

    def take(self, said: Said) -> None:
        said = encodable(said)
        match said:
            case Began():
                self.session, self.model = said.session, said.model or self.model
                self.meter.begin()
            case AnswerUsage():
                self.meter.count(said)
            case Spoke():
                self._speak(said)
            case Called():
                self._begin(said)
            case Returned():
                self._end(said)
            case CallRefused():
                self._refused[said.id] = said.reason
            case Retrying() if said.status == _WRONG_KEY:
                self.last = replace(self.last, refused=said.status)
            case Retrying():
                self.emit(
                    retry_event(said.attempt, said.of, said.wait_s, f"{said.status or ''} {said.error}".strip())
                )
            case Switched():
                self.model = said.model
                self.recorder.note("system", f"{said.model} answers from here on")
            case _:
                self._remember(said)

    def _remember(self, said: Faulted | Limited | Ended | Gone) -> None:
        """What tells how the session ended."""
        match said:
            case Faulted():
                self.last = replace(self.last, fault=said)
                self.recorder.note("system", said.text)
            case Limited():
                self.last = replace(self.last, limit=said)
            case Ended():
                self.last = replace(self.last, ended=said)
            case Gone():
                self.last = replace(self.last, gone=said)

    def close(self) -> None:
        """Calls that never returned are over: whatever carried them out has been ended."""
        for call in self._open.values():
            self.recorder.end(
                call, ToolOutcome(success=False, output="no result: the session ended during this call")
            )
        self._open.clear()

    def _speak(self, said: Spoke) -> None:
        self.has_spoken = True
        if said.role == "user":
            self.recorder.note("user", said.text)
            return
        self.text = said.text
        if self.is_told:
            self.recorder.say(said.text)
        else:
            self.recorder.note("assistant", said.text)

    def _begin(self, said: Called) -> None:
        self.has_spoken = True
        if said.tool == RESULT_TOOL:
            self.recorder.note("assistant", json.dumps(dict(said.given), ensure_ascii=False))
            return
        starter = self._open.get(said.parent or "")
        agent = None if said.parent is None else _kind_of(starter)
        self._open[said.id] = self.recorder.begin(said.tool, said.given, agent)

    def _end(self, said: Returned) -> None:
        call = self._open.pop(said.id, None)
        if call is None:
            if not said.success:
                self.recorder.note("user", said.output)  # why the handoff was not taken
            return
        if said.success and said.id not in self.gate.verdicts:
            self.last = replace(self.last, unjudged=call.tool)
        verdict = self._verdict(said, call)
        output = verdict.told if isinstance(verdict, Deny) else said.output
        self.recorder.end(call, ToolOutcome(said.success, output), verdict)

    def _verdict(self, said: Returned, call: OpenCall) -> Verdict | None:
        """What kept the call from being carried out, or changed it: the policy, else the CLI's own rules."""
        verdict = self.gate.verdicts.get(said.id)
        if isinstance(verdict, Deny):
            return None if said.success else verdict
        if not said.success and said.id in self._refused:
            return Deny("claude", cut(self._refused[said.id], _REASON_CHARS), "")
        if verdict is None and not said.success and said.output.startswith(_HOOK_FAILED):
            return Deny("policy", cut(said.output, _REASON_CHARS), "continue without this call")
        if not isinstance(verdict, Rewrite):
            return None
        executed = encodable_input(verdict.input)
        return replace(verdict, input=executed) if executed != dict(call.given) else None


def _kind_of(starter: OpenCall | None) -> str:
    kind = starter.given.get("subagent_type") if starter is not None else None
    return kind if isinstance(kind, str) and kind else "subagent"


def retry_event(attempt: int, of: int, wait_s: float, reason: str) -> Event:
    told: dict[str, JsonValue] = {"attempt": attempt, "of": of, "wait_s": round(wait_s, 1), "reason": reason}
    return Event(EventKind.ENGINE_RETRY, told)
