"""A model that does what a stub's script says: the same script, through the real CLI."""

from __future__ import annotations

import json
import re
import threading

from msgspec import Struct, field

from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.specs.script import Script, ScriptEntry
from tests.loopback.api import ApiRequest, Reply, Text, Use, say, use

_STEP = re.compile(r"^# Step (\S+) of flow (\S+)", re.MULTILINE)
_LEFT = re.compile(r"^# Where does the run go on after (\S+)/(\S+)\?", re.MULTILINE)


class ScriptedModel(Struct):
    """Plays one entry per session; which execution of its step it is, it counts by the sessions it has seen.

    A navigator is answered with the `route` of the newest execution of the step that it is asked about.
    `reads_first`: each file is read before it is written, which Claude Code wants of one that is there already.
    """

    script: Script
    reads_first: bool = False
    sessions: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: ApiRequest) -> Reply:
        left = next((match for text in asked.said if (match := _LEFT.search(text))), None)
        if left is not None:
            return _route(asked, self._newest(left[1], left[2]))
        entry = self._entry(asked)
        if asked.wants_result:
            return use("StructuredOutput", **handed_over(entry))
        if entry.fail is not None:
            return Reply((Text(entry.fail),), status=400)
        acts = tool_uses(entry, reads_first=self.reads_first)
        if asked.turn < len(acts):
            return Reply((acts[asked.turn],))
        return say(entry.output or entry.summary or "ok")

    def _entry(self, asked: ApiRequest) -> ScriptEntry:
        session = json.loads(asked.body["metadata"]["user_id"])["session_id"]
        with self._lock:
            if session not in self.sessions:
                found = next(match for text in asked.said if (match := _STEP.search(text)))
                flow, step = found[2], found[1]
                earlier = sum(1 for known in self.sessions.values() if known[:2] == (flow, step))
                self.sessions[session] = (flow, step, earlier)
            flow, step, execution = self.sessions[session]
        return self.script.entry(flow, step, execution)

    def _newest(self, flow: str, step: str) -> ScriptEntry:
        with self._lock:
            executions = sum(1 for known in self.sessions.values() if known[:2] == (flow, step))
        return self.script.entry(flow, step, executions - 1)


def _route(asked: ApiRequest, entry: ScriptEntry) -> Reply:
    """Text where the script has none: a navigator that was asked has to say something."""
    if isinstance(entry.route, dict):
        return use("StructuredOutput", **entry.route) if asked.wants_result else say(json.dumps(entry.route))
    return say(entry.route or "I do not know.")


def tool_uses(entry: ScriptEntry, *, reads_first: bool) -> list[Use]:
    acts: list[Use] = []
    for name, content in entry.write.items():
        acts += [Use("Read", {"file_path": name})] if reads_first else []
        acts.append(Use("Write", {"file_path": name, "content": content}))
    acts += [Use("Bash", {"command": f"rm -f {name}"}) for name in entry.delete]
    return acts + [Use("Bash", {"command": line}) for line in entry.run]


def handed_over(entry: ScriptEntry) -> dict[str, JsonValue]:
    if entry.envelope is not None:
        return dict(entry.envelope)
    handoff = Handoff(
        status=entry.status or Status.VERIFIED,
        summary=entry.summary or "ok",
        can_further_iteration_help=entry.can_further_iteration_help,
        concerns=entry.concerns or (),
        blockers=entry.blockers or (),
        routing=entry.routing,
    )
    return {name: value for name, value in handoff.to_plain().items() if value is not None}
