"""A transcript for reading: lines of a step's commit or of its events; a prompt or tool call in one line, output
in five.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher

from pydantic import JsonValue

from gitswarm.cli.console import duration, err, harmless, out_verbatim, plural
from gitswarm.cli.lines import hanging
from gitswarm.cli.live_events import place
from gitswarm.cli.opened import Opened, step_name, understood
from gitswarm.cli.short_ids import with_short_ids
from gitswarm.cli.terminal import text_width
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.evidence import extra_run_words
from gitswarm.records.text import columns, shorten

Line = Mapping[str, JsonValue]


def transcript_lines(opened: Opened, record: StepRecord) -> list[Line]:
    """As stored.

    :raises GarbledError: it is no transcript.
    """

    def parse(content: bytes) -> list[Line]:
        return [dict(json.loads(line)) for line in content.splitlines()]

    return understood(opened, record, record.execution.transcript(record.engine), parse)


def placed(line: Line, flow: str | None, step: str | None, iteration: int | None) -> Line:
    """A line of a transcript, and the execution that it belongs to."""
    return {"flow_key": flow, "step_id": step, "iteration": iteration, **line}


def line_of(event: LoggedEvent) -> Line | None:
    """What an event says was said or done, with its place; None: it tells of something else."""
    given = event.payload
    match event.kind:
        case EventKind.MESSAGE:
            line: Line = {"role": given["role"], "content": given["text"]}
        case EventKind.TOOL_START:
            line = {"type": "tool_use", "tool": given["tool"], "input": given["input"], **_by(given)}
        case EventKind.TOOL_END:
            done = {name: given[name] for name in ("tool", "success", "output")}
            line = {"type": "tool_result", **done, **_by(given)}
        case EventKind.EXTRA_RUN:
            line = {"role": "git-swarm", "content": extra_run_words(str(given["of"]))}
        case EventKind.ENGINE_RETRY:
            line = {"type": "retry", **{name: given[name] for name in ("attempt", "of", "wait_s", "reason")}}
        case _:
            return None
    return placed({"timestamp": event.ts, **line}, event.flow_key, event.step_id, event.iteration)


def _by(given: Line) -> Line:
    """The subagent that made the call, where one did."""
    return {"agent": given["agent"]} if given.get("agent") else {}


def in_words(line: Line) -> str:
    """`── time [place] who or what`, and below it the text, whole."""
    step, flow, iteration = line.get("step_id"), line.get("flow_key"), line.get("iteration")
    where = place(str(flow), str(step), int(str(iteration))) if step else ""
    agent = f"({line['agent']})" if line.get("agent") else ""
    kind = line.get("role") or line.get("type")
    title = " ".join(str(part) for part in (line.get("timestamp"), where, kind, line.get("tool"), agent) if part)
    if kind == "retry":
        return f"── {title}\n{retry_in_words(line)}"
    body = line.get("content") or line.get("output") or line.get("input") or ""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return f"── {title}\n{text.rstrip()}"


def retry_in_words(line: Line) -> str:
    """`2 of 3 in 4 s: reason`."""
    wait_s = line["wait_s"]
    wait = f"{wait_s:g}" if isinstance(wait_s, int | float) else wait_s
    return f"{line['attempt']} of {line['of']} in {wait} s: {line['reason']}"


def out_prompt(opened: Opened, record: StepRecord) -> None:
    """What the agent was told, for a person."""
    lines = list(prompt_lines(opened, record))
    for line in lines:
        out_verbatim(harmless(line))
    if not lines:
        err(f"{step_name(record)} has no prompt: {record.engine} executed it, no model was asked")


def prompt_lines(opened: Opened, record: StepRecord) -> Iterator[str]:
    """What the agent was told."""
    for line in transcript_lines(opened, record):
        if line.get("role") in ("system", "user"):
            yield f"── {line['role']}"
            yield str(line.get("content", ""))


_MOST = 5
"""Lines of an output, with the one that says how many are left out."""

_TIME = 8
_PLACES = ("$WORKTREE/", "./")
_NAMING = ("file_path", "path", "notebook_path", "command", "pattern", "url", "query", "description", "prompt")
"""What of a tool's input says most, the best first."""


def folded_lines(lines: Iterable[Line], whole: str, prompt: str) -> Iterator[str]:
    """
    :param whole: the command that shows everything.
    :param prompt: the command that shows the prompt.
    """
    folding = Folding(prompt)
    for line in lines:
        yield from folding.take(line)
    yield from folding.rest()
    if folding.is_cut:
        yield f"{'':{_TIME}}whole: {whole}"


class Folding:
    """Folds the transcript of one step line by line, also while it is written. `is_cut`: something is left out."""

    def __init__(self, prompt: str = "") -> None:
        """
        :param prompt: the command that shows the prompt; "": there is none yet.
        """
        self.is_cut = False
        self._prompt = prompt
        self._start: datetime | None = None
        self._held: list[Line] = []

    def take(self, line: Line) -> list[str]:
        """What to show of a line; of a prompt nothing before its end."""
        self._start = self._start or _moment(line)
        if line.get("role") in ("system", "user"):
            self._held.append(line)
            return []
        cut, lines = _told(line, _since(line, self._start))
        self.is_cut = self.is_cut or cut
        return [*self.rest(), *lines]

    def rest(self) -> list[str]:
        """A prompt with nothing behind it."""
        held, self._held = self._held, []
        return _prompt_lines(held, self._start, self._prompt) if held else []


def _prompt_lines(prompt: Sequence[Line], start: datetime | None, command: str) -> list[str]:
    """In one line where the command has room there: it is never broken."""
    count = sum(len(str(line.get("content", "")).splitlines()) for line in prompt)
    title = f"{_since(prompt[0], start)}prompt, {plural(count, 'line')}"
    if not command:
        return [title]
    title = f"{title}:"
    whole = f"{title} {command}"
    return [whole] if columns(with_short_ids(whole)) <= text_width() else [title, f"{'':{_TIME}}{command}"]


def _told(line: Line, first: str) -> tuple[bool, list[str]]:
    """Whether something is left out, and the lines."""
    agent = f" ({line['agent']})" if line.get("agent") else ""
    match line.get("role") or line.get("type"):
        case "tool_use":
            return False, hanging(first, f"{line.get('tool')}{agent} {_wanted(line.get('input'))}")
        case "tool_result":
            return _output(str(line.get("output", "")), is_bad=line.get("success") is False)
        case "retry":
            return False, hanging(first, f"retry {retry_in_words(line)}")
        case _:
            lines: list[str] = []
            for each in str(line.get("content", "")).strip().splitlines():
                indent = each[: len(each) - len(each.lstrip())].expandtabs()
                lines += hanging(f"{' ' * _TIME if lines else first}{indent}", each)
            return False, lines


def _output(output: str, *, is_bad: bool) -> tuple[bool, list[str]]:
    """Its first and last lines: what began, and what came of it."""
    lines = [line.expandtabs() for line in output.rstrip().splitlines()]
    left = len(lines) - _MOST
    if left > 0:
        head, rest = _MOST // 2, _MOST - _MOST // 2 - 1
        lines = [*lines[:head], f"… {left + 1} more lines", *lines[-rest:]]
    room = text_width() - _TIME - 2
    shown = [_cut(line, room) for line in lines]
    mark = "✗ " if is_bad else "  "
    shown_lines = [f"{'':{_TIME}}{mark if not index else '  '}{line}".rstrip() for index, line in enumerate(shown)]
    if is_bad and not shown_lines:
        shown_lines = [f"{'':{_TIME}}✗ no output"]
    return left > 0 or any(one != other for one, other in zip(shown, lines, strict=True)), shown_lines


def _cut(line: str, room: int) -> str:
    """With its indentation."""
    indent = len(line) - len(line.lstrip())
    return " " * indent + shorten(line, max(room - indent, 1)) if line.strip() else ""


def _wanted(given: JsonValue) -> str:
    """`src/x.py (+3 -1)`, or the first line of a command."""
    if not isinstance(given, Mapping):
        return ""
    named = next((str(given[name]) for name in _NAMING if given.get(name)), "")
    text = named or next((str(value) for value in given.values()), "")
    for prefix in _PLACES:
        text = text.removeprefix(prefix)
    first, *more = text.strip().splitlines() or [""]
    size = _size(given)
    return f"{first}{' …' if more else ''}{f' ({size})' if size else ''}"


def _size(given: Mapping[str, JsonValue]) -> str:
    edits = given.get("edits")
    each = edits if isinstance(edits, list) else [dict(given)]
    pairs = [(edit.get("old_string"), edit.get("new_string")) for edit in each if isinstance(edit, Mapping)]
    if "content" in given and "file_path" in given:
        pairs = [("", given["content"])]
    texts = [(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
    if not texts:
        return ""
    counts = [_lines_changed(old, new) for old, new in texts]
    return f"+{sum(added for added, _ in counts)} -{sum(gone for _, gone in counts)}"


def _lines_changed(old: str, new: str) -> tuple[int, int]:
    before, after = old.splitlines(), new.splitlines()
    same = sum(block.size for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks())
    return len(after) - same, len(before) - same


def _since(line: Line, start: datetime | None) -> str:
    """`+1.2s  `: since the first line."""
    moment = _moment(line)
    elapsed = "" if moment is None or start is None else f"+{duration(_milliseconds(start, moment))}"
    return f"{elapsed:<{_TIME - 1}} "


def _milliseconds(start: datetime, moment: datetime) -> int:
    return max(int((moment - start).total_seconds() * 1000), 0)


def _moment(line: Line) -> datetime | None:
    try:
        return datetime.fromisoformat(str(line.get("timestamp")))
    except ValueError:
        return None
