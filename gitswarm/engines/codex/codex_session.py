"""What a session of Codex asks by its hook and says in its events, judged and recorded in one order."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gitswarm.engines.adapter import Prices
from gitswarm.engines.agent_process import AgentProcess
from gitswarm.engines.agent_session import token_cost, used_up
from gitswarm.engines.base import StepRequest
from gitswarm.engines.hook_server import Answer, Question, hook_call, judged, pre_tool_use_answer, undecided
from gitswarm.engines.recorder import Given, OpenCall, Recorder, ToolOutcome
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import OutcomeKind, Tokens
from gitswarm.records.safety import Allow, Deny, Rewrite, Verdict

_TAIL_BYTES = 1 << 18
_HEADER = re.compile(r"^\s*\*\*\* (Add File|Update File|Delete File|Move to): (.+?)\s*$")
_TOOLS = {"Add File": "Write", "Update File": "Edit", "Delete File": "Delete", "Move to": "Write"}
"""What the parts of a patch are called in the policy."""
_PATCH_IN_SHELL = re.compile(r"(^|[;&|({!])\s*apply_?patch\b", re.MULTILINE)
_SHELL, _PATCH = "Bash", "apply_patch"
_SEARCHERS = frozenset({"grep", "rg"})
_READERS = frozenset({"cat", "head", "tail", "nl", "wc", "ls"}) | _SEARCHERS
_SPECIAL = re.compile(r"[;&|<>$`(){}*?\[\]~\n\\!#]")
_OPTION = re.compile(r"-[0-9A-Za-dg-z]+")
"""Without `e` and `f`: what follows them is no file, or one that is read besides."""
_LINES = re.compile(r"\d+(,\d+)?p")

Judged = tuple[OpenCall, Verdict]


class CodexSession:
    """`answer` is called from other threads than `read_line`. `home`: where the program keeps its records.

    `thread`: what it is resumed by. `text`: the last that the agent said. `model`: who answers, as far as that is
    known. `finished`: its turn came to an end; `failure`: why it failed. `over`: outcome and reason, where we ended
    it; `broken`: what the recorder raised. `agent`: its process.
    """

    def __init__(self, request: StepRequest, recorder: Recorder, prices: Prices, home: Path) -> None:
        self.thread: str | None = None
        self.text = ""
        self.failure: str | None = None
        self.finished = False
        self.over: tuple[OutcomeKind, str] | None = None
        self.broken: Exception | None = None
        self.is_handing_over = False
        self.agent: AgentProcess | None = None
        self.tokens = Tokens()
        self.model = request.model
        self._request = request
        self.recorder = recorder
        self._prices = prices
        self._home = home
        self._asked = 0
        self._open: list[tuple[str, str, list[Judged]]] = []
        self._lock = threading.RLock()

    @property
    def cost_usd(self) -> float | None:
        return token_cost(self._prices(self.model), self.tokens.prompt, self.tokens.completion)

    @property
    def has_shell(self) -> bool:
        """Where a station has none, lines that only read files are calls of `Read`: there is no other way to read."""
        return not self._request.terms.tools or _SHELL in self._request.terms.tools

    @property
    def has_spoken(self) -> bool:
        """Whether its model has said or asked anything."""
        return bool(self.text) or self._asked > 0

    @property
    def ran_out(self) -> bool:
        """Whether it asked for more tool calls than it had turns."""
        return self._asked > self._request.terms.max_turns

    # --- its hook

    def answer(self, question: Question) -> Answer:
        """Answers codex's hook before a tool call. Never raises."""
        with self._lock:
            try:
                self.model = str(question.get("model") or self.model)
                self._count()
                verdict: Verdict
                match hook_call(question):
                    case Deny() as verdict:
                        pass
                    case tool, given:
                        verdict = self._decided(tool, self._from(question.get("cwd"), tool, given))
            except Exception as error:  # noqa: BLE001 - raised again by who waits for the session
                self.broken = error
                verdict = undecided("what happens cannot be recorded")
        if self.agent is not None and (self.over or self.broken):
            self.agent.deadline = 0.0  # nobody listens to it any more
        # An `allow` that changes nothing is a failed hook to codex.
        return {} if isinstance(verdict, Allow) else pre_tool_use_answer(verdict)

    def _decided(self, tool: str, given: Given) -> Verdict:
        refusal = self._refusal(tool, given)
        reads = _reads(str(given.get("command"))) if tool == _SHELL and not self.has_shell else []
        parts = reads or _parts(tool, given)
        calls: list[Judged] = []
        for name, part in parts:
            call = self.recorder.begin(name, part)
            calls.append((call, refusal or judged(self._request.decide, name, part)))
        denied = next((verdict for _call, verdict in calls if isinstance(verdict, Deny)), None)
        changed = [
            (part, verdict.input)
            for (_name, part), (_call, verdict) in zip(parts, calls, strict=True)
            if isinstance(verdict, Rewrite)
        ]
        whole = denied or (_rewritten(tool, given, changed) if changed else Allow())
        if isinstance(whole, Deny):
            for call, verdict in calls:
                own = verdict if isinstance(verdict, Deny) else whole
                self.recorder.end(call, ToolOutcome(success=False, output=own.message), own)
        else:
            executed = whole.input if isinstance(whole, Rewrite) else given
            self._open.append((tool, str(executed.get("command")), calls))
        return whole

    def _from(self, folder: JsonValue, tool: str, given: Given) -> Given:
        """The policy judges each line from the top of the worktree; the model may have named another folder."""
        at_top = not isinstance(folder, str) or Path(folder).resolve() == self._request.worktree.resolve()
        if tool != _SHELL or at_top:
            return given
        return {**given, "command": f"cd {shlex.quote(str(folder))} && {given.get('command')}"}

    def _refusal(self, tool: str, given: Given) -> Deny | None:
        """What the policy need not be asked about."""
        self._asked += 1
        if self.over is not None or self.is_handing_over:
            return Deny("tool", "the work of this step is over", "hand over")
        if self.ran_out:
            return Deny("max_turns", "no turns are left", "say in a few words what you did")
        if tool not in (_SHELL, _PATCH) or not isinstance(given.get("command"), str):
            return Deny("tool", f"{tool} is not one of the tools of this session", "use the shell, or apply_patch")
        if tool == _SHELL and _PATCH_IN_SHELL.search(str(given["command"])):
            return Deny("tool", "a patch in a shell", "use the tool apply_patch")
        return None

    # --- its events

    def read_line(self, line: str) -> None:
        """Reads one line of its standard output."""
        if self.broken is not None:
            raise self.broken
        try:
            event = json.loads(line)
            kind, item = event["type"], event.get("item") or {}
            part = item.get("type")
        except (ValueError, KeyError, TypeError, AttributeError):
            self.recorder.note("assistant", f"(not understood) {line}")
            return
        with self._lock:
            self._receive(kind, event, part, item)

    def _receive(self, kind: str, event: Mapping[str, Any], part: str | None, item: Mapping[str, Any]) -> None:
        match kind, part:
            case "thread.started", _:
                self.thread = event.get("thread_id")
            case "turn.completed", _:
                self.finished = True
                self._used(event.get("usage") or {})
            case "turn.failed", _:
                self.failure = str((event.get("error") or {}).get("message") or "no reason given")
            case "error", _:
                self.recorder.note("system", f"codex: {event.get('message')}")
            case _, "command_execution" | "file_change":
                self._carried_out(kind, item)
            case "item.completed", "agent_message":
                self.text = str(item.get("text") or "")
                self.recorder.say(self.text)
            case "item.completed", "error" | "reasoning":
                self.recorder.note("system", f"codex: {item.get('message') or item.get('text')}")

    def _carried_out(self, kind: str, item: Mapping[str, Any]) -> None:
        """A call begins or ends that the hook was asked about."""
        shell = _command_in(item) if item["type"] == "command_execution" else None
        ours = [each for each in self._open if each[0] == (_SHELL if shell is not None else _PATCH)]
        found = next((each for each in ours if each[1] == shell), ours[0] if ours else None)
        if found is None:
            self.over = ("killed", f"codex did not ask before it carried out {shell or 'a patch'!r:.200}")
        elif kind == "item.completed":
            self._open.remove(found)
            done = item.get("status") == "completed"
            output = item.get("aggregated_output")
            if output is None:
                output = "\n".join(f"{each.get('kind')} {each.get('path')}" for each in item.get("changes") or ())
            for call, verdict in found[2]:
                self.recorder.end(call, ToolOutcome(success=done, output=str(output)), verdict)

    def close(self) -> None:
        """The program has ended: what it was allowed to do and did not report, it did not do."""
        with self._lock:
            if not self.finished:
                self._count()
            for _tool, _command, calls in self._open:
                for call, verdict in calls:
                    self.recorder.end(call, ToolOutcome(success=False, output="codex reported no end of it"), verdict)
            self._open.clear()

    # --- what it uses

    def _count(self) -> None:
        """Its events tell what it used when a turn is over; its own record, after each answer of the model."""
        record = next(self._home.glob("sessions/*/*/*/rollout-*.jsonl"), None)
        for line in reversed(_tail(record) if record is not None else []):
            if b'"token_count"' in line:
                try:
                    self._used(json.loads(line)["payload"]["info"]["total_token_usage"])
                except (ValueError, KeyError, TypeError):
                    return
                return

    def _used(self, usage: Mapping[str, Any]) -> None:
        tokens = Tokens.of(int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0))
        if tokens == self.tokens:
            return
        self.tokens, terms = tokens, self._request.terms
        self.recorder.used(tokens, self.cost_usd)
        if self.finished or self.over is not None:
            return
        if (why := used_up(tokens.total, terms.max_tokens)) is not None:
            self.over = ("budget", why)
        elif terms.max_cost_usd is not None and (self.cost_usd or 0.0) >= terms.max_cost_usd:
            self.over = ("budget", f"${self.cost_usd:.4f} spent of ${terms.max_cost_usd:.4f} that were left")


def _reads(command: str) -> list[tuple[str, Given]]:
    """A line that only reads files, as the policy knows that; nothing: it may do something else."""
    if _SPECIAL.search(command):
        return []
    try:
        program, *words = shlex.split(command) or [""]
    except ValueError:
        return []
    if program == "sed":  # it can write and execute, too
        only_shows = len(words) == 3 and words[0] == "-n" and _LINES.fullmatch(words[1])
        return [("Read", {"file_path": words[2]})] if only_shows else []
    if program not in _READERS or any(word.startswith("-") and not _OPTION.fullmatch(word) for word in words):
        return []
    names = [word for word in words if not word.startswith("-")]
    if program in _SEARCHERS:
        return [("Grep", {"pattern": names[0], "path": path}) for path in names[1:] or ["."]] if names else []
    return [("Read", {"file_path": path}) for path in names or ["."]]


def _parts(tool: str, given: Given) -> list[tuple[str, Given]]:
    """A tool call as the policy knows it: a patch is one call for each file."""
    if tool != _PATCH or not isinstance(given.get("command"), str):
        return [(tool, given)]
    parts: list[tuple[str, str, list[str]]] = []
    for line in _patch_lines(given):
        if header := _HEADER.match(line):
            parts.append((header[1], header[2], []))
        elif parts and not line.startswith("*** "):
            parts[-1][2].append(line)
    return [(_TOOLS[part], {"file_path": path, **_body(part, body)}) for part, path, body in parts] or [(tool, given)]


def _patch_lines(given: Given) -> list[str]:
    """The lines of a patch as codex splits them: `splitlines` would end one, and the path in it, also at a CR or
    U+2028."""
    return [line.removesuffix("\r") for line in str(given["command"]).split("\n")]


def _body(part: str, lines: Sequence[str]) -> Given:
    if part == "Add File":
        return {"content": "".join(f"{line[1:]}\n" for line in lines)}
    return {"patch": "\n".join(lines)} if lines else {}


def _rewritten(tool: str, given: Given, changed: Sequence[tuple[Given, Given]]) -> Verdict:
    """The call as it may be carried out. In a patch only the paths of files can be others.

    :param changed: parts of it, and what the policy makes of them.
    """
    if tool != _PATCH:
        return Rewrite({**given, "command": changed[0][1]["command"]}, "the policy")
    paths = {part["file_path"]: new["file_path"] for part, new in changed}
    if any({**part, "file_path": paths[part["file_path"]]} != new for part, new in changed):
        return undecided("the patch would have another content")
    lines = _patch_lines(given)
    for number, line in enumerate(lines):
        if (header := _HEADER.match(line)) and header[2] in paths:
            lines[number] = f"*** {header[1]}: {paths[header[2]]}"
    return Rewrite({**given, "command": "\n".join(lines)}, "the policy")


def _command_in(item: Mapping[str, Any]) -> str:
    """What the shell of an event was given: `/bin/bash -c '…'`."""
    command = str(item.get("command") or "")
    try:
        return shlex.split(command)[-1]
    except (ValueError, IndexError):
        return command


def _tail(path: Path) -> list[bytes]:
    """The last lines of a file that an agent may write to as well: no link is followed, and no pipe waited for."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            about = os.fstat(file.fileno())
            file.seek(max(0, about.st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).splitlines() if stat.S_ISREG(about.st_mode) else []
    except OSError:
        return []
