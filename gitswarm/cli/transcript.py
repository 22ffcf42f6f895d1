"""`transcript`: what was said and done in a step, also while it executes; whole, or folded: a prompt or tool call in
one line, output in five."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import Annotated

from msgspec.structs import replace

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import (
    duration,
    err,
    hanging,
    harmless,
    line_counts,
    out_json,
    out_json_line,
    out_lines,
    out_verbatim,
    plural,
    with_short_ids,
)
from gitswarm.cli.live_events import events_as_they_come, hint_at_resume, open_steps, step_label
from gitswarm.cli.runs import Opened, RunOption, StepArgument, open_run, step_outcome, understood
from gitswarm.cli.terminal import text_width
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.ledger.finding import find_step, is_named
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.overview import overview
from gitswarm.ledger.state import replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.evidence import extra_run_words
from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import columns, shorten


def transcript(
    step: StepArgument = None,
    run: RunOption = None,
    follow: Annotated[bool, Option("--follow", "-f", help="The step that executes now, and those after it.")] = False,
    full: Annotated[bool, Option("--full", help="Every line whole, with its time.")] = False,
    prompt: Annotated[bool, Option("--prompt", help="Only the prompt.")] = False,
    as_json: Annotated[bool, Option("--json", help="One JSON document; with --follow one per line.")] = False,
) -> None:
    """Every message and tool call of a step."""
    opened = open_run(run)
    if prompt and (full or follow or as_json):
        again = " ".join(["git swarm transcript", *([step] if step else []), "--prompt --run", opened.layout.run_id])
        raise UsageError("--prompt stands alone", hint=again)
    if follow:
        followed = _followed(opened, step)
        if full or as_json:
            _print_lines(followed, as_json=as_json)
        else:
            out_lines(_folded(opened, followed))
        return
    record = find_step(opened.repository, opened.state, step)
    if prompt:
        out_prompt(opened, record)
        return
    lines = all_lines(opened, record)
    if as_json:
        out_json(lines)
    elif full:
        _print_lines(lines, as_json=False)
    else:
        this = f"git swarm transcript {record.number} --run {opened.layout.run_id}"
        out_lines(folded_lines(lines, f"{this} --full", f"{this} --prompt"))


def all_lines(opened: Opened, record: StepRecord) -> list[Line]:
    """The stored lines of a step; behind those of a step of git-swarm's own, in which nobody talks, what was done."""
    lines = transcript_lines(opened, record)
    return [*lines, _done(opened, record)] if record.engine == KERNEL else lines


def _done(opened: Opened, record: StepRecord) -> Line:
    execution = record.execution
    envelope = understood(opened, record, execution.envelope, json.loads)
    evidence = understood(opened, record, execution.evidence, json.loads)
    lines = [f"{step_outcome(record)}: {record.summary}"]
    lines += [
        f"{file['change']}: {file['path']} ({line_counts(file['insertions'], file['deletions'])})"
        for file in evidence.get("diff", {}).get("files") or ()
    ]
    for kind in ("observations", "concerns", "blockers", "artifacts"):
        lines += [f"{kind[:-1]}: {item}" for item in envelope.get(kind) or ()]
    for name, value in (evidence.get("operation") or {}).items():
        lines += [f"{name}: {value}"] if isinstance(value, str | int | float) and value else []
    started = understood(opened, record, execution.receipt, Timing.from_json).started_at
    return {"timestamp": started, "role": execution.agent, "content": "\n".join(lines)}


def _folded(opened: Opened, lines: Iterable[Line]) -> Iterator[str]:
    """The lines of each step, folded by themselves below its name; a step is named again where others spoke in
    between."""
    foldings: dict[str, Folding] = {}
    last = ""
    for line in lines:
        name = step_label(str(line["flow_key"]), str(line["step_id"]), int(str(line["iteration"])))
        shown = foldings.setdefault(name, Folding()).take(line)
        if shown and name != last:
            yield f"── {name}"
            last = name
        yield from shown
    for name, folding in foldings.items():
        if rest := folding.rest():
            yield from (f"── {name}", *rest)
        if folding.is_cut:
            yield f"whole: git swarm transcript {name} --full --run {opened.layout.run_id}"


def _print_lines(lines: Iterable[Line], *, as_json: bool) -> None:
    for line in lines:
        if as_json:
            out_json_line(line)
        else:
            out_verbatim(harmless(in_words(line)))


def _followed(opened: Opened, step: str | None) -> Iterator[Line]:
    """The transcript of a step that is in a commit; else what is said in the steps behind the tip, as they execute.

    :raises NotFoundError: there is no such step, and nobody is there to execute it.
    """
    is_live = overview(opened.repository, opened.layout).state is RunStatus.RUNNING
    opened = replace(opened, state=replay(opened.repository, opened.layout))
    executing = open_steps(opened)
    if step is not None:
        executing = [each for each in executing if is_named(step, each.flow, each.step, each.iteration)]
    if executing or (is_live and step is None):
        yield from _live(opened, step)
    elif step is None:
        if opened.state.steps:
            yield from _stored(opened, opened.state.steps[-1])
        if opened.state.end is None:
            hint_at_resume(opened)
    else:
        try:
            record = find_step(opened.repository, opened.state, step)
        except NotFoundError:
            if not is_live:
                raise
            err(f"waiting for {step}")
            yield from _live(opened, step)
        else:
            yield from _stored(opened, record)


def _stored(opened: Opened, record: StepRecord) -> Iterator[Line]:
    for line in all_lines(opened, record):
        yield placed(line, record.flow, record.step, record.execution.iteration)


def _live(opened: Opened, step: str | None) -> Iterator[Line]:
    """What is said behind the tip; with `step` only in that one, up to its end."""
    for event in events_as_they_come(opened, opened.state.tip):
        if step is not None and not _is_of(event, step):
            continue
        if (line := line_of(event)) is not None:
            yield line
        if step is not None and event.kind in (EventKind.STEP_END, EventKind.STEP_ERROR):
            return


def _is_of(event: LoggedEvent, step: str) -> bool:
    flow, name, iteration = event.flow_key, event.step_id, event.iteration
    return flow is not None and name is not None and iteration is not None and is_named(step, flow, name, iteration)


Line = Mapping[str, JsonValue]


def transcript_lines(opened: Opened, record: StepRecord) -> list[Line]:
    """The lines of a transcript as stored.

    :raises CorruptError: it is no transcript.
    """
    path = record.execution.transcript(record.engine)
    return understood(opened, record, path, lambda content: [dict(json.loads(each)) for each in content.splitlines()])


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
    where = step_label(str(flow), str(step), int(str(iteration))) if step else ""
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
    lines = list(prompt_lines(opened, record))
    for line in lines:
        out_verbatim(harmless(line))
    if not lines:
        err(f"{record.name} has no prompt: {record.engine} executed it, no model was asked")


def prompt_lines(opened: Opened, record: StepRecord) -> Iterator[str]:
    """The prompt that the agent got, behind `── system` and `── user`."""
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
        cut, lines = _line_text(line, _since(line, self._start))
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
    whole = f"{title}: {command}"
    return [whole] if columns(with_short_ids(whole)) <= text_width() else [f"{title}:", f"{'':{_TIME}}{command}"]


def _line_text(line: Line, first: str) -> tuple[bool, list[str]]:
    """Whether something is left out, and the lines."""
    agent = f" ({line['agent']})" if line.get("agent") else ""
    match line.get("role") or line.get("type"):
        case "tool_use":
            return False, hanging(first, f"{line.get('tool')}{agent} {_call_text(line.get('input'))}")
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
    lines = [line.expandtabs() for line in output.rstrip().splitlines()] or ["no output"] * is_bad
    left = len(lines) - _MOST
    if left > 0:
        head, rest = _MOST // 2, _MOST - _MOST // 2 - 1
        lines = [*lines[:head], f"… {left + 1} more lines", *lines[-rest:]]
    room = text_width() - _TIME - 2
    shown = [cut_line(line, room) for line in lines]
    mark = "✗ " if is_bad else "  "
    marked = [f"{'':{_TIME}}{mark if not index else '  '}{line}".rstrip() for index, line in enumerate(shown)]
    return left > 0 or shown != lines, marked


def cut_line(line: str, room: int) -> str:
    """A line cut to the width of the terminal, its indentation kept."""
    indent = len(line) - len(line.lstrip())
    return " " * indent + shorten(line, max(room - indent, 1)) if line.strip() else ""


def _call_text(given: JsonValue) -> str:
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
    counts = [_lines_changed(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
    return f"+{sum(added for added, _ in counts)} -{sum(gone for _, gone in counts)}" if counts else ""


def _lines_changed(old: str, new: str) -> tuple[int, int]:
    before, after = old.splitlines(), new.splitlines()
    same = sum(block.size for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks())
    return len(after) - same, len(before) - same


def _since(line: Line, start: datetime | None) -> str:
    """`+1.2s  `: since the first line."""
    moment = _moment(line)
    if moment is None or start is None:
        return " " * _TIME
    elapsed_ms = max(int((moment - start).total_seconds() * 1000), 0)
    return f"+{duration(elapsed_ms):<{_TIME - 2}} "


def _moment(line: Line) -> datetime | None:
    try:
        return datetime.fromisoformat(str(line.get("timestamp")))
    except ValueError:
        return None
