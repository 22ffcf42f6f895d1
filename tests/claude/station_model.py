"""A model that keeps what stations promise, with what its prompt says and its session offers, and nothing else.

It reads the inputs that the prompt names, writes what the station owes, and runs the commands that it owes, and every
one of git that its prompt mentions.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitswarm.records.json_value import JsonValue
from gitswarm.specs.flow import Flow
from gitswarm.specs.library import Library
from gitswarm.specs.station import RunArtifact, Station, parse_artifact, promised_artifacts
from tests.claude.artifacts import Files, Known, artifact
from tests.loopback.api import ApiRequest, Reply, Text, Use, say, use

_STEP = re.compile(r"^# Step (\S+) of flow (\S+)", re.MULTILINE)
_COMMAND = re.compile(r"^- the project's command \w+ \(`(.*)`\)", re.MULTILINE)
_GIT = re.compile(r"`(git [^`]+)`")
_NUMBER = re.compile(r"^ *\d+[→\t]", re.MULTILINE)
_HELPER = "Count the files at the top of this project."
_NOT_THERE = "File does not exist"


@dataclass(slots=True)
class StationModel:
    """`edits`: of the code, by `flow/step`. `complaints`: promises that could not be kept, and why. `unread`: inputs
    in RUN_BASE that were not there, by step."""

    library: Library
    known: Known
    edits: Mapping[str, Files]
    complaints: list[str] = field(default_factory=list)
    unread: dict[str, set[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: ApiRequest) -> Reply:
        prompt = next((text for text in asked.said if _STEP.search(text)), None)
        if prompt is None:
            return say("Three.")  # a helper
        task = self._task(prompt, asked.system)
        try:
            return self._answer(task, asked)
        except Exception as error:  # noqa: BLE001 - nobody would see it: this is a thread of the server
            self._complain(task, [repr(error)])
            return Reply((Text(repr(error)),), status=400)

    def _answer(self, task: Task, asked: ApiRequest) -> Reply:
        if asked.wants_result:
            return use("StructuredOutput", **task.handoff())
        calls = _called(asked)
        self._note(task, calls, {answer["tool_use_id"] for answer in asked.answers})
        read = {call.path: call.said for call in calls if call.use.tool == "Read" and not call.failed}
        if asked.turn > 1:
            return say("The work is done.")
        uses = task.looks() if asked.turn == 0 else [*task.writes(read), *task.runs()]
        lacking = {each.tool for each in uses}.difference(asked.tools)
        self._complain(task, (f"there is no tool {name}" for name in lacking))
        return Reply(tuple(uses))

    def _task(self, prompt: str, system: str) -> Task:
        found = _STEP.search(prompt)
        assert found is not None
        flow = self.library.flow(found[2]).flow
        station = flow.step(found[1]).station
        assert station is not None
        who = self.library.station(station).station
        told = f"{system.partition(f'# {who.title}')[2]}\n{prompt}"  # without what Claude Code tells by itself
        task = Task(flow, found[1], who, told, self.edits.get(f"{flow.id}/{found[1]}", {}), self.known)
        self._complain(task, (f"its prompt does not name {path}" for path in task.owed if path not in task.named))
        return task

    def _note(self, task: Task, calls: Iterable[Call], newest: set[str]) -> None:
        """What came of the newest calls."""
        for call in calls:
            if call.failed and call.id in newest:
                if call.use.tool == "Read" and _NOT_THERE in call.said:
                    if call.path in task.inputs:
                        self.unread.setdefault(task.name, set()).add(call.path)
                elif not call.may_fail:
                    self._complain(task, [f"{call.use.tool} {json.dumps(call.use.given)[:200]}: {call.said[:300]}"])

    def _complain(self, task: Task, problems: Iterable[str]) -> None:
        with self._lock:
            self.complaints += (f"{task.name}: {problem}" for problem in problems)


@dataclass(frozen=True, slots=True)
class Task:
    """One step. `prompt`: both halves of it, as they were sent."""

    flow: Flow
    step: str
    station: Station
    prompt: str
    edits: Files
    known: Known

    @property
    def name(self) -> str:
        return f"{self.flow.id}/{self.step}"

    @property
    def owed(self) -> tuple[str, ...]:
        """Artifacts that the station promises."""
        return promised_artifacts(self.flow, self.station)

    @property
    def inputs(self) -> list[str]:
        return self._artifacts("Inputs")

    @property
    def named(self) -> list[str]:
        """Outputs that the prompt names."""
        return self._artifacts("Outputs")

    @property
    def outputs(self) -> list[str]:
        return list(dict.fromkeys((*self.owed, *self.named)))

    def _artifacts(self, section: str) -> list[str]:
        found = re.search(rf"^## {section}\n\n((?:- .*\n?)+)", self.prompt, re.MULTILINE)
        names = [line.removeprefix("- ") for line in found[1].splitlines()] if found else []
        parsed = (parse_artifact(name, self.flow.id) for name in names)
        return [each.path for each in parsed if isinstance(each, RunArtifact)]

    def looks(self) -> list[Use]:
        """Claude Code writes to a file that is there only when it was read."""
        paths = dict.fromkeys((*self.inputs, *self.outputs))
        names = (*(f"RUN_BASE/{path}" for path in paths), *self.edits)
        order = {"description": "count files", "subagent_type": "general-purpose", "prompt": _HELPER}
        helpers = [Use("Agent", order)] if "Agent" in self.station.tools else []
        return [*(Use("Read", {"file_path": name}) for name in names), *helpers]

    def writes(self, read: Files) -> list[Use]:
        files = {f"RUN_BASE/{path}": artifact(path, read, self.known) for path in self.outputs} | dict(self.edits)
        return [Use("Write", {"file_path": name, "content": text}) for name, text in files.items()]

    def runs(self) -> list[Use]:
        """Spelled as the prompt spells them. What every step is told of a shell is for those who have one."""
        lines = [*_COMMAND.findall(self.prompt), *_GIT.findall(self.station_text)]
        lines += _GIT.findall(self.prompt) if "Bash" in self.station.tools else []
        return [Use("Bash", {"command": line.replace("STEP", "1")}) for line in dict.fromkeys(lines)]

    @property
    def station_text(self) -> str:
        return "\n".join((self.station.identity, *self.station.invariants))

    def handoff(self) -> dict[str, JsonValue]:
        fields: dict[str, JsonValue] = {
            "status": "VERIFIED",
            "summary": f"{self.name} is done",
            "can_further_iteration_help": "no",
        }
        return {name: fields[name] for name in self.station.handoff.required}


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the conversation, with its result."""

    id: str
    use: Use
    said: str
    failed: bool

    @property
    def may_fail(self) -> bool:
        """A command that was run: tests are red at first, and git is named without arguments."""
        given: Any = self.use.given
        return self.said.startswith("Exit code") and not str(given["command"]).startswith("git swarm ")

    @property
    def path(self) -> str:
        """In RUN_BASE."""
        given: Any = self.use.given
        return str(given.get("file_path", "")).partition("RUN_BASE/")[2]


def _called(asked: ApiRequest) -> list[Call]:
    results, uses = {}, {}
    for message in asked.body["messages"]:
        parts = message["content"] if isinstance(message["content"], list) else []
        for part in parts:
            if part["type"] == "tool_use":
                uses[part["id"]] = Use(part["name"], part["input"])
            elif part["type"] == "tool_result":
                results[part["tool_use_id"]] = part
    return [
        Call(name, uses[name], _text(part["content"]), bool(part.get("is_error"))) for name, part in results.items()
    ]


def _text(content: Any) -> str:
    """Without the numbers that Claude Code gives to lines."""
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return _NUMBER.sub("", "\n".join(texts)).partition("\n<system-reminder>")[0]
