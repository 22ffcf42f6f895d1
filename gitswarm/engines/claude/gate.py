"""The policy's side of a session: what its hooks ask, and the answers. What cannot be decided is denied."""

from __future__ import annotations

from msgspec import Struct, field

from gitswarm.engines.claude.messages import RESULT_TOOL, SUBAGENT_TOOLS
from gitswarm.engines.hook_server import Answer, Question, asked_call, judged, pre_tool_use_answer
from gitswarm.records.safety import Allow, Decide, Deny, Verdict


class Gate(Struct):
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
        asked = asked_call(question)
        if isinstance(asked, Deny):
            return asked
        tool, given = asked
        if tool == RESULT_TOOL:
            return Allow()
        if tool in SUBAGENT_TOOLS and question.get("agent_id"):
            # What a subagent of a subagent does is not in the CLI's stream: nobody could follow it.
            return Deny("tool", f"{tool}: a subagent starts no subagents", "do the work in this session")
        return judged(self.decide, tool, given, self.timeout_s)
