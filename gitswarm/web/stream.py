"""What is new of a run, as server-sent events: lines of open journals as they are written, and that git has moved.

Each message has as its id where the next one begins, so that a browser that comes back misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from gitswarm.cli.console import harmless
from gitswarm.cli.live_events import Stamp, stamp, step_label
from gitswarm.cli.transcript import line_of, retry_in_words
from gitswarm.git.owners import live_owners
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import journal_files, journal_folder, whole_lines
from gitswarm.ledger.journal import read_lines
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.execution import BRANCH_PREFIX
from gitswarm.records.json_value import JsonValue

POLL_S = 0.2
_KEEP_ALIVE_S = 15.0
_MOST_SHOWN = 2_000
"""Characters of one line."""


class Cursor(Struct, frozen=True):
    """Up to where a browser knows a run: its tip, and of each open journal how many bytes."""

    tip: str
    read: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return ";".join([self.tip, *(f"{name}={count}" for name, count in self.read.items())])

    @classmethod
    def of(cls, text: str) -> Cursor:
        """What a browser sends back; whatever is no position counts as the beginning."""
        tip, *rest = text.split(";")
        pairs = (each.rpartition("=") for each in rest)
        return cls(tip, {name: int(count) for name, _equals, count in pairs if count.isdecimal()})


class LiveLine(Struct, frozen=True):
    """An event of a step that executes, for a person. `id` is that of its element in the page."""

    id: str
    step: str
    time: str
    kind: str
    text: str


class Read(Struct, frozen=True):
    """What is new: up to where it is known now, the lines, each with the position behind it, and whether how the run
    stands has to be read again."""

    cursor: Cursor
    lines: list[tuple[LiveLine, Cursor]]
    is_moved: bool


def read_on(repository: RepositoryReader, layout: RunLayout, known: Cursor) -> Read:
    """Journals are read first: what is gone from them a moment later is in the chain by then."""
    found: dict[str, int] = {}
    lines: list[tuple[LiveLine, Cursor]] = []
    is_moved = False
    for journal in journal_files(journal_folder(repository, layout)):
        name = step_label(journal.flow, journal.step, journal.iteration)
        is_moved = is_moved or name not in known.read
        found[name] = known.read.get(name, 0)
        for written in whole_lines(journal.path, found[name]).splitlines(keepends=True):
            found[name] += len(written)
            events = read_lines(written)
            is_moved = is_moved or any(each.kind is EventKind.USAGE for each in events)
            lines += [(line, Cursor(known.tip, {**known.read, **found})) for line in live_lines(events)]
    tip = repository.refs.read(layout.branch) or ""
    return Read(Cursor(tip, found), lines, is_moved or tip != known.tip or set(known.read) != set(found))


def live_lines(events: Iterable[LoggedEvent]) -> list[LiveLine]:
    return [line for event in events if (line := _live_line(event)) is not None]


def _live_line(event: LoggedEvent) -> LiveLine | None:
    """The line of an event; None: it says nothing that a person follows."""
    name = step_label(event.flow_key, event.step_id, event.iteration)
    line = line_of(event)
    if line is None:
        return None
    if line.get("type") == "retry":
        kind, body = "retry", retry_in_words(line)
    else:
        kind = " ".join(str(each) for each in (line.get("role") or line.get("type"), line.get("tool")) if each)
        body = _text(line.get("content") or line.get("output") or line.get("input"))
    return LiveLine(f"line-{name}-{event.seq}", name, event.ts[11:19], kind, harmless(body[:_MOST_SHOWN]))


def _text(body: JsonValue) -> str:
    if isinstance(body, dict) and len(body) == 1:
        body = next(iter(body.values()))
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False) if body is not None else ""


def message(event: str, cursor: str, data: JsonValue) -> str:
    """One server-sent event; JSON has no line ends in it."""
    return f"event: {event}\nid: {cursor}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


async def run_messages(
    open_repository: Callable[[], RepositoryReader], layout: RunLayout, known: Cursor, is_over: Callable[[], bool]
) -> AsyncIterator[str]:
    """`line` for each line that a journal gets, `moved` when the page has to read git again.

    :param is_over: the server is about to end.
    """
    import anyio  # noqa: PLC0415 - of the extra, and a report is made without it

    yield "retry: 1000\n\n"
    before: Stamp | None = None
    repository = open_repository()
    quiet_s = 0.0
    while not is_over():
        now = await anyio.to_thread.run_sync(stamp, repository, layout)
        if now != before:
            new = await anyio.to_thread.run_sync(read_on, open_repository(), layout, known)
            is_moved = new.is_moved or (before is not None and now[0] != before[0])
            known = new.cursor
            for line, behind in new.lines:
                # Who comes back from here is owed the message that follows: no run has this tip.
                at = replace(behind, tip="") if is_moved else behind
                yield message("line", str(at), to_builtins(line))
            if is_moved:
                yield message("moved", str(known), {"tip": known.tip})
            before, quiet_s = now, 0.0
        elif quiet_s >= _KEEP_ALIVE_S:
            yield ": still there\n\n"
            quiet_s = 0.0
        await anyio.sleep(POLL_S)
        quiet_s += POLL_S


async def list_messages(
    open_repository: Callable[[], RepositoryReader], known: str, is_over: Callable[[], bool]
) -> AsyncIterator[str]:
    """`moved` when a run was begun, has moved, or is executed by somebody else."""
    import anyio  # noqa: PLC0415 - as above

    yield "retry: 1000\n\n"
    while not is_over():
        now = await anyio.to_thread.run_sync(list_stamp, open_repository())
        if now != known:
            yield message("moved", now, {})
            known = now
        await anyio.sleep(5 * POLL_S)


def list_stamp(repository: RepositoryReader) -> str:
    """A stamp that is the same as long as no run has moved."""
    tips = repository.refs.values(f"refs/heads/{BRANCH_PREFIX}").items()
    owners = sorted(f"{run}:{owner.pid}" for run, owner in live_owners(repository.common_dir))
    return f"{hash((*tips, *owners)) & 0xFFFFFFFFFFFF:x}"
