"""A session of Claude: what it says becomes transcript, events and tool calls, its hooks are answered by the policy,
what its answers use is counted, and it is tried again while failures may pass."""

from __future__ import annotations

import json
import math
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.agent_process import Backlog
from gitswarm.engines.agent_session import CONTINUE, SessionLimits, retry_event, used_up, waited_for_next
from gitswarm.engines.base import SESSION_MARKER, Emit
from gitswarm.engines.claude.claude_code import SessionOptions
from gitswarm.engines.claude.messages import (
    NOTHING,
    RESULT_TOOL,
    SUBAGENT_TOOLS,
    AnswerUsage,
    ApiRetry,
    ModelFallback,
    PermissionDenied,
    ProcessExit,
    ProviderError,
    SessionEvent,
    SessionInit,
    SessionResult,
    TextMessage,
    ToolEnd,
    ToolStart,
    Usage,
    UsageLimit,
)
from gitswarm.engines.claude.session_outcome import FinalState, Phase, outcome_of
from gitswarm.engines.claude.transports import Transport
from gitswarm.engines.handoff import encodable, encodable_input
from gitswarm.engines.hook_server import Answer, Question, hook_call, judged, pre_tool_use_answer
from gitswarm.engines.recorder import OpenCall, Recorder, ToolOutcome
from gitswarm.process_table import end_processes_with
from gitswarm.records.budget import time_words
from gitswarm.records.receipt import Tokens
from gitswarm.records.safety import Allow, Decide, Deny, Rewrite, Verdict
from gitswarm.records.text import usd
from gitswarm.specs.context import cut

_HOOK_FAILED = "PreToolUse:"
"""How the CLI's own words begin where a hook gave no verdict."""

_REASON_CHARS = 200

_WRONG_KEY = 401
"""HTTP status that the same key gets again. The CLI asks once more all the same, but not after a 403."""


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


class Conversation(Struct):
    """One process of a session, while it is listened to. `is_told`: what the agent says is news for who follows the
    run. `has_spoken`: there is something to continue."""

    recorder: Recorder
    hooks: HookPolicy
    emit: Emit
    meter: Meter
    is_told: bool = True
    session: str | None = None
    model: str | None = None
    has_spoken: bool = False
    state: FinalState = field(default_factory=FinalState)
    text: str = ""
    _open: dict[str, OpenCall] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)

    def receive(self, message: SessionEvent) -> None:
        message = encodable(message)
        match message:
            case SessionInit():
                self.session, self.model = message.session, message.model or self.model
                self.meter.begin()
            case AnswerUsage():
                self.meter.count(message)
            case TextMessage():
                self._speak(message)
            case ToolStart():
                self._begin(message)
            case ToolEnd():
                self._end(message)
            case PermissionDenied():
                self._refused[message.id] = message.reason
            case ApiRetry() if message.status == _WRONG_KEY:
                self.state.refused = message.status
            case ApiRetry():
                reason = f"{message.status or ''} {message.error}".strip()
                self.emit(retry_event(message.attempt, message.of, message.wait_s, reason))
            case ModelFallback():
                self.model = message.model
                self.recorder.note("system", f"{message.model} answers from here on")
            case _:
                self._remember(message)

    def _remember(self, message: ProviderError | UsageLimit | SessionResult | ProcessExit) -> None:
        """What tells how the session ended."""
        match message:
            case ProviderError():
                self.state.fault = message
                self.recorder.note("system", message.text)
            case UsageLimit():
                self.state.limit = message
            case SessionResult():
                self.state.ended = message
            case ProcessExit():
                self.state.exit = message

    def _speak(self, message: TextMessage) -> None:
        self.has_spoken = True
        if message.role == "user":
            self.recorder.note("user", message.text)
            return
        self.text = message.text
        if self.is_told:
            self.recorder.say(message.text)
        else:
            self.recorder.note("assistant", message.text)

    def _begin(self, message: ToolStart) -> None:
        self.has_spoken = True
        if message.tool == RESULT_TOOL:
            self.recorder.note("assistant", json.dumps(dict(message.given), ensure_ascii=False))
            return
        starter = self._open.get(message.parent or "")
        agent = None if message.parent is None else _kind_of(starter)
        self._open[message.id] = self.recorder.begin(message.tool, message.given, agent)

    def _end(self, message: ToolEnd) -> None:
        call = self._open.pop(message.id, None)
        if call is None:
            if not message.success:
                self.recorder.note("user", message.output)  # why the handoff was not taken
            return
        if message.success and message.id not in self.hooks.verdicts:
            self.state.unjudged = call.tool
        verdict = self._verdict(message, call)
        output = verdict.message if isinstance(verdict, Deny) else message.output
        self.recorder.end(call, ToolOutcome(message.success, output), verdict)

    def _verdict(self, message: ToolEnd, call: OpenCall) -> Verdict | None:
        """What kept the call from being carried out, or changed it: the policy, else the CLI's own rules."""
        verdict = self.hooks.verdicts.get(message.id)
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


class HookPolicy(Struct):
    """Asked from other threads than the session's. `timeout_s`: for one decision; they take milliseconds.
    `verdicts`: by the id of the call."""

    decide: Decide
    timeout_s: float
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def answer(self, question: Question) -> Answer:
        """The answer to a PreToolUse hook. Never raises, never takes longer than `timeout_s`."""
        verdict = self._verdict(question)
        call = question.get("tool_use_id")
        if isinstance(call, str):
            # An agent may ask here as well, later and about calls that were carried out: that changes no record.
            self.verdicts.setdefault(call, verdict)
        return pre_tool_use_answer(verdict)

    def _verdict(self, question: Question) -> Verdict:
        call = hook_call(question)
        if isinstance(call, Deny):
            return call
        tool, given = call
        if tool == RESULT_TOOL:
            return Allow()
        if tool in SUBAGENT_TOOLS and question.get("agent_id"):
            # What a subagent of a subagent does is not in the CLI's stream: nobody could follow it.
            return Deny("tool", f"{tool}: a subagent starts no subagents", "do the work in this session")
        return judged(self.decide, tool, given, self.timeout_s)


_LINGER_S = 10.0
"""How long a process may take to go when it has said its result."""


def run_session(
    transport: Transport, options: SessionOptions, conversation: Conversation, limits: SessionLimits
) -> None:
    """
    :raises StepEndedError: nobody waits for it any more.
    """
    events: Backlog[SessionEvent] = Backlog(limits.deadline, limits.ended)
    state = conversation.state
    with transport.hold(options, conversation.hooks, events.put):
        try:
            for message in _listen(events, limits.deadline):
                conversation.receive(message)
                if isinstance(message, ToolEnd):  # between two requests: what was used is known
                    state.over = used_up(conversation.meter.usage.own, options.max_tokens)
                if state.unjudged is not None or state.over is not None or state.refused is not None:
                    break
        finally:
            events.close()
            # The process, the shells of its tools, and what those left in the background: in sessions of their own.
            end_processes_with(SESSION_MARKER, options.env[SESSION_MARKER])
    if state.ended is None and state.exit is None:
        state.timeout_s = limits.timeout_s
        if state.over is None and limits.set_by:
            state.over = f"ended after {time_words(limits.timeout_s)} by {limits.set_by}"
    conversation.recorder.close()


def _listen(events: Backlog[SessionEvent], deadline: float) -> Iterator[SessionEvent]:
    """Everything that is said, until the process is gone or the time is over."""
    with suppress(TimeoutError):
        for message in events.received():
            yield message
            if isinstance(message, ProcessExit):
                return
            linger_s = _LINGER_S if isinstance(message, SessionResult) else math.inf
            events.deadline = min(deadline, time.monotonic() + linger_s)


_LONGEST_WAIT_S = 60.0
_LEAST_USD = 0.01
"""Of a handoff, after work that used all there was: without it the work could not be judged."""


class Phases(Struct, frozen=True):
    """`start` begins what one process of a session says. `attempts` at most; `wait_s` before the second."""

    transport: Transport
    start: Callable[[], Conversation]
    attempts: int
    wait_s: float

    def run(self, options: SessionOptions, limits: SessionLimits, earlier: Usage = NOTHING) -> Phase:
        """
        :param earlier: what the session used before that this phase continues.
        :raises StepEndedError: nobody waits for it any more.
        """
        usage, attempt = earlier, 0
        while True:
            attempt += 1
            phase, conversation = self._attempt(options, limits, usage)
            outcome, usage = replace(phase.outcome, attempts=attempt), phase.usage
            # Siblings of a fork that fail together do not come back together.
            jitter_s = random.uniform(0, self.wait_s / 2)  # noqa: S311 - no secret
            wait_s = min(_LONGEST_WAIT_S, self.wait_s * 2 ** (attempt - 1)) + jitter_s
            if not waited_for_next(outcome, self.attempts, wait_s, limits, conversation.emit):
                return replace(phase, outcome=outcome)
            options = _resumed(options, conversation)

    def _attempt(self, options: SessionOptions, limits: SessionLimits, earlier: Usage) -> tuple[Phase, Conversation]:
        conversation = self.start()
        counted = conversation.meter.usage
        marked = replace(
            _with_remaining_budget(options, counted), env={**options.env, SESSION_MARKER: secrets.token_hex(8)}
        )
        run_session(self.transport, marked, conversation, limits)
        ended = conversation.state.ended
        usage = ended.usage.after(earlier) if ended else earlier.plus(conversation.meter.since(counted))
        phase = Phase(
            outcome=outcome_of(conversation.state),
            session=conversation.session or options.resume,
            has_spoken=conversation.has_spoken or options.resume is not None,
            model=conversation.model,
            text=conversation.text,
            structured=ended.structured if ended else None,
            usage=usage,
        )
        return phase, conversation


def _with_remaining_budget(options: SessionOptions, counted: Usage) -> SessionOptions:
    """A process knows only what it costs itself."""
    if options.max_cost_usd is None:
        return options
    return replace(options, max_cost_usd=max(_LEAST_USD, round(options.max_cost_usd - (counted.cost_usd or 0.0), 6)))


def _resumed(options: SessionOptions, conversation: Conversation) -> SessionOptions:
    """The next attempt: in the same conversation, where there is one."""
    if conversation.session is None or not conversation.has_spoken:
        return options
    conversation.recorder.note("user", CONTINUE)
    return replace(options, prompt=CONTINUE, resume=conversation.session)
