"""The policy's side of a session: what its hooks ask, and the answers. What cannot be decided is denied."""

from __future__ import annotations

from msgspec import Struct, field

from gitswarm.engines.claude.messages import RESULT_TOOL, SUBAGENT_TOOLS
from gitswarm.engines.hook_server import Answer, Question, judged, undecided
from gitswarm.records.safety import Allow, Decide, Deny, Rewrite, Verdict


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
            verdict: Verdict = undecided("a question without a tool")
        elif tool == RESULT_TOOL:
            verdict = Allow()
        elif tool in SUBAGENT_TOOLS and question.get("agent_id"):
            # What a subagent of a subagent does is not in the CLI's stream: nobody could follow it.
            verdict = Deny("tool", f"{tool}: a subagent starts no subagents", "do the work in this session")
        else:
            verdict = judged(self.decide, tool, given, self.timeout_s)
        call = question.get("tool_use_id")
        if isinstance(call, str):
            # An agent may ask here as well, later and about calls that were carried out: that changes no record.
            self.verdicts.setdefault(call, verdict)
        return _hook_answer(verdict)


def _hook_answer(verdict: Verdict) -> Answer:
    answer: Answer = {"hookEventName": "PreToolUse"}
    match verdict:
        case Allow():
            answer |= {"permissionDecision": "allow"}
        case Rewrite():
            answer |= {"permissionDecision": "allow", "updatedInput": dict(verdict.input)}
        case Deny():
            answer |= {"permissionDecision": "deny", "permissionDecisionReason": verdict.told}
    return {"hookSpecificOutput": answer}
