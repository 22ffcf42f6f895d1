"""The policy's side of a session: what its hooks ask, and the answers. What cannot be decided is denied."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from msgspec import Struct, field
from pydantic import JsonValue

from gitswarm.engines.claude.said import RESULT_TOOL, SUBAGENT_TOOLS
from gitswarm.records.policy import Allow, Decide, Deny, Rewrite, Verdict

HOOK_S = 60
"""When the CLI gives its hook up; longer than everything in it, so that the hook itself can say no."""

Question = Mapping[str, JsonValue]
Answer = dict[str, JsonValue]


class Gate(Struct):
    """Asked from other threads than the session's. `timeout_s`: for one decision; they take milliseconds.
    `verdicts`: by the id of the call."""

    decide: Decide
    timeout_s: float
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def answer(self, question: Question) -> Answer:
        """The answer to a PreToolUse hook. Never raises, never takes longer than `timeout_s`."""
        tool = question.get("tool_name")
        given = question.get("tool_input")
        if not isinstance(tool, str) or not isinstance(given, dict):
            verdict: Verdict = _failed("a question without a tool")
        elif tool == RESULT_TOOL:
            verdict = Allow()
        elif tool in SUBAGENT_TOOLS and question.get("agent_id"):
            # What a subagent of a subagent does is not in the CLI's stream: nobody could follow it.
            verdict = Deny("tool", f"{tool}: a subagent starts no subagents", "do the work in this session")
        else:
            verdict = self._decided(tool, given)
        call = question.get("tool_use_id")
        if isinstance(call, str):
            # An agent may ask here as well, later and about calls that were carried out: that changes no record.
            self.verdicts.setdefault(call, verdict)
        return _hook_answer(verdict)

    def _decided(self, tool: str, given: Mapping[str, JsonValue]) -> Verdict:
        """In a thread of its own: a policy that hangs must not take the session with it."""
        decided: Future[Verdict] = Future()

        def work() -> None:
            try:
                decided.set_result(_checked(self.decide(tool, given)))
            except Exception as error:  # noqa: BLE001 - whatever goes wrong in a policy is a no
                decided.set_result(_failed(f"{type(error).__name__}: {error}"))

        threading.Thread(target=work, daemon=True).start()
        try:
            return decided.result(self.timeout_s)
        except TimeoutError:
            return _failed(f"no decision within {self.timeout_s:g} s")


def _checked(verdict: object) -> Verdict:
    return verdict if isinstance(verdict, Allow | Deny | Rewrite) else _failed(f"it says {verdict!r:.80}")


def _failed(why: str) -> Deny:
    return Deny("policy", f"the policy could not decide ({why})", "continue without this call")


def _hook_answer(verdict: Verdict) -> Answer:
    said: Answer = {"hookEventName": "PreToolUse"}
    match verdict:
        case Allow():
            said |= {"permissionDecision": "allow"}
        case Rewrite():
            said |= {"permissionDecision": "allow", "updatedInput": dict(verdict.input)}
        case Deny():
            said |= {"permissionDecision": "deny", "permissionDecisionReason": verdict.told}
    return {"hookSpecificOutput": said}
