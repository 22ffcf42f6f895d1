"""`export`: a run as plain files, in the layout that other tools read, as a script, or as Chrome trace events."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import err, out, out_json, plural
from gitswarm.cli.live_events import events_so_far, step_label
from gitswarm.cli.runs import JsonFlag, Opened, open_run
from gitswarm.errors import UsageError
from gitswarm.git.object_reader import DIRECTORY
from gitswarm.ledger.overview import overview
from gitswarm.records.event import TERMINAL_KINDS, EventKind, LoggedEvent
from gitswarm.records.json_value import JsonValue

Traced = dict[str, JsonValue]

_NO_NAMES = ("", ".", "..", ".git")
_FILES = (0o100644, 0o100755)
_LEFT_OUT = frozenset({".gitattributes", "specs", "events"})
"""In RUN_BASE: what only git or a run needs."""
_OF_FLOWS = "events"
"""Below a flow: events of its executions, which are in `events.jsonl`."""


def export(
    run: Annotated[str, Argument(metavar="RUN", help="An id or a part of it.")],
    folder: Annotated[
        str, Argument(metavar="DIR", help="A new or empty folder; with --trace or --script a new file.")
    ],
    trace: Annotated[
        bool, Option("--trace", help="Steps and tool calls as a Chrome trace, in the file DIR: for ui.perfetto.dev.")
    ] = False,
    script: Annotated[
        bool,
        Option("--script", help="What each step left and claimed, as a script in the file DIR: for start --script."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a run as plain files: meta.json, spec.json, events.jsonl, and a folder for each flow."""
    if trace and script:
        raise UsageError("--trace and --script are two files", hint=f"git swarm export {run} FILE --script")
    if trace:
        _write_trace(run, Path(folder), as_json=as_json)
        return
    if script:
        _write_script(run, Path(folder), as_json=as_json)
        return
    target = Path(os.path.abspath(folder))  # noqa: PTH100 - a link at its end is refused, not followed
    if target.is_file() or target.is_symlink() or (target.is_dir() and any(target.iterdir())):
        raise UsageError(
            f"{folder} is there already, and not an empty folder", hint=f"git swarm export {run} NEW_DIR"
        )
    opened = open_run(run)
    if opened.repository.common_dir in (target, *target.parent.resolve().parents, target.parent.resolve()):
        raise UsageError(f"{folder} is in the repository's own folder", hint=f"git swarm export {run} NEW_DIR")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", hint=f"git swarm export {run} NEW_DIR") from error
    partial = target.parent / f".{target.name or 'export'}.{os.getpid()}"
    try:
        count, skipped = _write(opened, partial)
        if target.is_dir():
            target.rmdir()
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for path in skipped:
        err(f"left out   {path}: it is not a plain file")
    if as_json:
        left_out: list[JsonValue] = list(skipped)
        out_json({"run_id": opened.layout.run_id, "folder": str(target), "files": count, "left_out": left_out})
    else:
        out(f"{opened.layout.run_id}: {plural(count, 'file')} in {folder}")


def _write_trace(run: str, file: Path, *, as_json: bool) -> None:
    opened = open_run(run)
    trace = trace_events(events_so_far(opened))
    _write_file(file, json.dumps({"traceEvents": trace, "displayTimeUnit": "ms"}), f"{run} NEW_FILE --trace")
    _say_written(opened.layout.run_id, file, "event", len(trace), as_json=as_json)


def _write_script(run: str, file: Path, *, as_json: bool) -> None:
    from gitswarm.cli.invocation import repository_here  # noqa: PLC0415 - other exports read with git alone
    from gitswarm.runner.recorded_script import recorded_script, to_yaml  # noqa: PLC0415

    opened = open_run(run)
    recorded = recorded_script(repository_here(), opened.state)
    _write_file(file, to_yaml(recorded.script), f"{run} NEW_FILE --script")
    by_people = [f"{record.name}: a person's step" for record in opened.state.steps if record.by_human]
    for line in (*recorded.left_out, *by_people):
        err(f"left out   {line}")
    steps = sum(map(len, recorded.script.steps.values()))
    _say_written(opened.layout.run_id, file, "step", steps, as_json=as_json)


def _write_file(file: Path, text: str, again: str) -> None:
    """
    :raises UsageError: the file is there already, or cannot be written.
    """
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", hint=f"git swarm export {again}") from error


def _say_written(run: str, file: Path, what: str, count: int, *, as_json: bool) -> None:
    if as_json:
        out_json({"run_id": run, "file": str(file), f"{what}s": count})
    else:
        out(f"{run}: {plural(count, what)} in {file}")


def _write(opened: Opened, folder: Path) -> tuple[int, list[str]]:
    """The number of files, and what is none."""
    events = events_so_far(opened)
    meta = json.dumps(_meta(opened, events), indent=2, ensure_ascii=False).encode() + b"\n"
    own = [("meta.json", meta), ("events.jsonl", b"".join(event.to_line() for event in events))]
    count, skipped = 0, []
    for path, content in chain(own, _stored(opened)):
        if content is None:
            skipped.append(path)
            continue
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        count += 1
    return count, skipped


def _meta(opened: Opened, events: list[LoggedEvent]) -> dict[str, JsonValue]:
    """How the run stands, without what belongs to this machine."""
    found = overview(opened.repository, opened.layout, opened.state).to_plain()
    ended = next((event.ts for event in reversed(events) if event.kind in TERMINAL_KINDS), None)
    flows: list[JsonValue] = list(dict.fromkeys(record.flow for record in opened.state.steps))
    times = {"created_at": events[0].ts if events else None, "completed_at": ended}
    return {
        **{name: value for name, value in found.items() if name not in ("worktree", "hint")},
        **times,
        "flows": flows,
    }


def _stored(opened: Opened) -> Iterator[tuple[str, bytes | None]]:
    """Files of RUN_BASE at the tip, by their path in it; None: no plain file, or a name that git refuses."""
    objects, base = opened.repository.objects, opened.layout.base
    top = objects.entry(opened.state.tip_tree, base)
    waiting = [("", top)] if top is not None else []
    while waiting:
        folder, tree = waiting.pop()
        for name, (object_id, mode) in sorted(objects.entries(tree).items()):
            path = f"{folder}{name}"
            if path in _LEFT_OUT or (name == _OF_FLOWS and folder.count("/") == 1):
                continue
            if name.lower() in _NO_NAMES or "/" in name:
                yield path, None
                continue
            if mode == DIRECTORY:
                waiting.append((f"{path}/", object_id))
            else:
                yield path, objects.file(opened.state.tip_tree, f"{base}/{path}") if mode in _FILES else None


_BEGINS = {EventKind.STEP_START, EventKind.TOOL_START}
_ENDS = {
    EventKind.STEP_END: EventKind.STEP_START,
    EventKind.STEP_ERROR: EventKind.STEP_START,
    EventKind.TOOL_END: EventKind.TOOL_START,
}


def trace_events(events: Iterable[LoggedEvent]) -> list[Traced]:
    """Each flow is a process and each step a thread of it. What has not ended is left out."""
    begun: dict[tuple[str, EventKind], list[LoggedEvent]] = {}
    rows: dict[tuple[str, str], Traced] = {}
    found: list[Traced] = []
    for event in events:
        name = step_label(event.flow_key, event.step_id, event.iteration)
        where = _row(rows, event.flow_key or "run", event.step_id or "run")
        if event.kind in _BEGINS:
            begun.setdefault((name, event.kind), []).append(event)
        elif event.kind in _ENDS:
            start = begun.get((name, _ENDS[event.kind]), [])
            if start:
                found.append({**where, **_bar(start.pop(), event, name)})
        elif event.kind is EventKind.ROUTE_DECISION:
            title = f"{event.payload.get('decision')} {event.payload.get('to_step') or ''}".strip()
            found.append({**where, "ph": "i", "s": "g", "name": title, "ts": _microseconds(event), "cat": "decision"})
    return [*_names(rows), *found]


def _row(rows: dict[tuple[str, str], Traced], flow: str, step: str) -> Traced:
    """Where a step is drawn: the format wants numbers."""
    flows = list(dict.fromkeys([*(known for known, _step in rows), flow]))
    return rows.setdefault((flow, step), {"pid": flows.index(flow) + 1, "tid": len(rows) + 1})


def _names(rows: dict[tuple[str, str], Traced]) -> Iterator[Traced]:
    for (flow, step), where in rows.items():
        yield {**where, "ph": "M", "name": "process_name", "args": {"name": flow}}
        yield {**where, "ph": "M", "name": "thread_name", "args": {"name": step}}


def _bar(start: LoggedEvent, end: LoggedEvent, name: str) -> Traced:
    is_call = start.kind is EventKind.TOOL_START
    begin = _microseconds(start)
    return {
        "ph": "X",
        "name": str(start.payload.get("tool")) if is_call else name,
        "cat": "tool" if is_call else "step",
        "ts": begin,
        "dur": max(_microseconds(end) - begin, 0),
        "args": dict(start.payload if is_call else end.payload),
    }


def _microseconds(event: LoggedEvent) -> int:
    return int(datetime.fromisoformat(event.ts).timestamp() * 1_000_000)
