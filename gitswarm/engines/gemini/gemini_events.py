"""What one process of Gemini CLI asks and says (its `stream-json`), as tool calls, transcript, events and an end."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.agent_session import died, may_pass
from gitswarm.engines.gemini.settings_home import TOOLS
from gitswarm.engines.handoff import as_input, as_text, encodable_input
from gitswarm.engines.hook_server import Answer, Question, hook_call, judged
from gitswarm.engines.recorder import Given, OpenCall, Recorder, ToolOutcome
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome
from gitswarm.records.safety import Allow, Decide, Deny, Rewrite, Verdict

_FAILED = re.compile(
    r"\n(Exit Code: [1-9]\d*|Signal: .*|Error: .*)(\n(Signal|Background PIDs|Process Group PGID): .*)*$"
)
"""At the end of what the model is told about a command, inside of a mark."""
_MARK = re.compile(r"\n</untrusted_context>\s*$")
_MAX_TURNS = 53
_FROM_TOP = "continue without dir_path: `cd FOLDER && …` in the command"
_WAIT_FOR_LIMIT = "wait, or use another key; then: git swarm resume"
_ADVICE = {
    400: "the same request fails again: check GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL and the model",
    401: "set GEMINI_API_KEY",
    403: "set GEMINI_API_KEY",
    404: "no such model, or no access: start with --model ID, or edit .swarm/flows/policy/models.yaml",
    429: _WAIT_FOR_LIMIT,
}
"""The next thing to do, by the HTTP status."""
_API_ERROR = re.compile(r"\[API Error: (.*)\]", re.DOTALL)
_STATUS = re.compile(r"\b([45]\d\d)\b")
_USUAL_STATUSES = (400, 401, 403, 404, 429, 500, 503)
_MOST_CHARS = 200


class GeminiHookPolicy(Struct):
    """The policy's side. A hook names no id of its call: `verdicts` are by tool and input, in the order of the
    questions. `failed`: commands that ended with an error, as the hook after them says."""

    decide: Decide
    verdicts: list[tuple[str, Given, Verdict]] = field(default_factory=list)
    failed: list[Given] = field(default_factory=list)

    def answer(self, question: Question) -> Answer:
        """Answers a hook. Never raises."""
        call = hook_call(question)
        if isinstance(call, Deny):
            return _hook_answer(call)
        tool, given = call
        if question.get("hook_event_name") != "BeforeTool":
            if _has_failed(question.get("tool_response")):
                self.failed.append(encodable_input(given))
            return {}
        verdict = self._verdict(tool, given)
        self.verdicts.append((tool, encodable_input(given), verdict))
        return _hook_answer(verdict)

    def _verdict(self, tool: str, given: Given) -> Verdict:
        known = TOOLS.get(tool)
        if known is None:
            return Deny("tool", f"{tool}: git-swarm does not know it", "continue without this call")
        if known == "Bash" and given.get("dir_path"):
            return Deny("tool", "a command begins at the top of the worktree", _FROM_TOP)
        verdict = judged(self.decide, known, as_known(known, given))
        if isinstance(verdict, Rewrite) and "path" in verdict.input and "path" not in given:
            changed = {("dir_path" if name == "path" else name): value for name, value in verdict.input.items()}
            return replace(verdict, input=changed)
        return verdict

    def taken(self, tool: str, given: Given) -> Verdict | None:
        """The verdict on a call that has ended; None: nobody asked."""
        for each in self.verdicts:
            if each[:2] == (tool, given):
                self.verdicts.remove(each)
                verdict = each[2]
                return (
                    replace(verdict, input=encodable_input(verdict.input))
                    if isinstance(verdict, Rewrite)
                    else verdict
                )
        return None

    def has_failed(self, given: Given, verdict: Verdict | None) -> bool:
        executed = dict(verdict.input) if isinstance(verdict, Rewrite) else dict(given)
        for each in (executed, dict(given)):
            if each in self.failed:
                self.failed.remove(each)
                return True
        return False


class EventReader(Struct):
    """One process, while its events are read. `text`: what it said since its last tool call. `unjudged`: the tool of
    a call that was carried out although the policy had not been asked, or had denied it. `is_over`: it said its
    result, and `tokens`, in and out, were used by then, most of them by `model`."""

    recorder: Recorder
    gate: GeminiHookPolicy
    session: str | None = None
    text: str = ""
    fault: str = ""
    is_over: bool = False
    succeeded: bool = False
    tokens: tuple[int, int] | None = None
    model: str | None = None
    unjudged: str | None = None
    _kind: str = ""
    _open: dict[str, tuple[str, Given, OpenCall]] = field(default_factory=dict)

    @property
    def is_between_answers(self) -> bool:
        """What it used has changed since it was read last, as far as that can be seen."""
        return self.is_over or self._kind in ("tool_use", "tool_result")

    def read(self, line: str) -> None:
        """One line; nothing where it is not one of the stream."""
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(parsed, dict):
            return
        message = encodable_input(parsed)
        self._kind = as_text(message.get("type"))
        match self._kind:
            case "init":
                self.session = as_text(message.get("session_id")) or None
            case "message" if message.get("role") == "assistant":
                self.text += as_text(message.get("content"))
            case "tool_use":
                self._begin(message)
            case "tool_result":
                self._end(message)
            case "error":
                self.fault = as_text(message.get("message"))
                self.recorder.note("system", self.fault)
            case "result":
                self._result(message)

    def speak(self) -> None:
        """Tells what it said up to here, and forgets it."""
        spoken, self.text = self.text.strip(), ""
        if spoken:
            self.recorder.say(spoken)

    def _begin(self, message: Given) -> None:
        self.speak()
        tool, given = as_text(message.get("tool_name")), as_input(message.get("parameters"))
        known = TOOLS.get(tool, tool)
        self._open[as_text(message.get("tool_id"))] = (
            tool,
            given,
            self.recorder.begin(known, as_known(known, given)),
        )

    def _end(self, message: Given) -> None:
        opened = self._open.pop(as_text(message.get("tool_id")), None)
        if opened is None:
            return
        tool, given, call = opened
        verdict = self.gate.taken(tool, given)
        success = message.get("status") == "success"
        if success and (verdict is None or isinstance(verdict, Deny)):
            self.unjudged, verdict = call.tool, None  # whoever ends a hook before it has answered
        if isinstance(verdict, Deny):
            self.recorder.end(call, ToolOutcome(success=False, output=verdict.message), verdict)
            return
        error = message.get("error")
        output = as_text(message.get("output")) or (as_text(error.get("message")) if isinstance(error, dict) else "")
        if call.tool == "Bash":
            success = not self.gate.has_failed(given, verdict) and success
        self.recorder.end(call, ToolOutcome(success, output), verdict)

    def _result(self, message: Given) -> None:
        self.is_over, self.succeeded = True, message.get("status") == "success"
        error, stats = message.get("error"), message.get("stats")
        if isinstance(error, dict):
            self.fault = as_text(error.get("message")) or self.fault
        if isinstance(stats, dict):
            total, sent = stats.get("total_tokens"), stats.get("input_tokens")
            if isinstance(total, int) and isinstance(sent, int):
                self.tokens = sent, max(0, total - sent)  # what it thought is part of the total alone
            models = stats.get("models")
            if isinstance(models, dict) and models:
                self.model = max(models, key=lambda name: _total(models[name]))


def process_outcome(reader: EventReader, exit_code: int | None, complaints: str) -> EngineOutcome:
    """How a process ended by itself; an exit code of 0 is no success."""
    if reader.unjudged is not None:
        what = f"{reader.unjudged} was carried out against the policy or without asking it, and the session was ended"
        why = "settings of Gemini CLI on this machine switch hooks off, or a program of the agent ended the hook"
        return EngineOutcome(kind="killed", detail=f"{what}: {why}")
    if exit_code == _MAX_TURNS:
        return EngineOutcome(kind="max_turns", detail="its turns are used up")
    if not reader.is_over:
        return died(exit_code, complaints[-_MOST_CHARS:])
    if reader.succeeded and exit_code == 0:
        return EngineOutcome(kind="ok")
    status = _status(reader.fault, exit_code or 0)
    reason = _words(reader.fault) or f"exit code {exit_code}"
    advice = _ADVICE.get(status or 0)
    return EngineOutcome(
        kind="api_error",
        detail=f"{reason} ({advice})" if advice else reason,
        status=status,
        retryable=status is not None and may_pass(status),
    )


def as_known(tool: str, given: Given) -> dict[str, JsonValue]:
    """An input by the keys that the policy knows."""
    if tool in ("Glob", "Grep") and "dir_path" in given:
        return {("path" if name == "dir_path" else name): value for name, value in given.items()}
    return dict(given)


def _hook_answer(verdict: Verdict) -> Answer:
    match verdict:
        case Allow():
            return {"decision": "allow"}
        case Rewrite():
            return {"decision": "allow", "hookSpecificOutput": {"tool_input": dict(verdict.input)}}
        case Deny():
            return {"decision": "deny", "reason": verdict.message}


def _has_failed(response: JsonValue) -> bool:
    content = response.get("llmContent") if isinstance(response, dict) else None
    return isinstance(content, str) and _FAILED.search(_MARK.sub("", content)) is not None


def _status(fault: str, exit_code: int) -> int | None:
    """The HTTP status that a fault names; the exit code is its lowest byte."""
    named = [int(each) for each in _STATUS.findall(fault)]
    return next((status for status in (*named, *_USUAL_STATUSES) if status & 0xFF == exit_code), None)


def _total(used: JsonValue) -> int:
    total = used.get("total_tokens") if isinstance(used, dict) else None
    return total if isinstance(total, int) else 0


def _words(fault: str) -> str:
    """What the provider said of a failure, in one line."""
    found = _API_ERROR.search(fault)
    words = found[1] if found else fault
    with suppress(ValueError, TypeError, LookupError):
        error = json.loads(words)["error"]
        words = f"{error['code']} {error['message']}"
    return " ".join(words.split())[:_MOST_CHARS]
