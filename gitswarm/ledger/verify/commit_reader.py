"""The commits of a run as the checks of `verify` read them: each object once. What cannot be read is a finding, and
left out of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.errors import CorruptError
from gitswarm.git.object_reader import EMPTY_TREE, GITLINK
from gitswarm.git.sealed import SealedCommit, SealedObjects, TreeChange
from gitswarm.ledger.finding import events_path
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import CommitMessage, Kind, parse_message
from gitswarm.ledger.reading import RoutingNote
from gitswarm.records.execution import Execution, Result
from gitswarm.records.record import Record

Check = Literal["objects", "chain", "schemas", "trailers", "events", "numbers", "notes", "paths", "forks", "approval"]
CHECKS: tuple[Check, ...] = get_args(Check)


class Mismatch(Record):
    """Something that is not as git-swarm makes it. `step`: `flow/step@n`, `run`, `end@n`; None: no commit of the run.

    A `warning` is about what cannot be looked at here, or can be made anew: nothing contradicts the run.
    """

    commit: str | None = None
    step: str | None = None
    check: Check
    path: str | None = None
    message: str
    severity: Literal["error", "warning"] = "error"


class Report(Record):
    """`verify --json`. `trusted`: the commit that was relied on; `commits`: how many were looked through, those
    that are not on the branch too; `checks`: how often each check was made."""

    run_id: str
    tip: str
    trusted: str | None
    commits: int
    findings: tuple[Mismatch, ...]
    checks: dict[Check, int]

    @property
    def is_sound(self) -> bool:
        return all(finding.severity == "warning" for finding in self.findings)


class Seal(Struct, frozen=True):
    """What `Swarm-Prev-Notes` says of the parent's notes: blob ids, None for `-`; `routing` is that blob."""

    events_id: str | None
    routing_id: str | None
    routing: RoutingNote | None


class ChainCommit(Struct, frozen=True):
    """A commit of a run; `layout` is another run's where the chain is shared with it."""

    layout: RunLayout
    commit: SealedCommit
    message: CommitMessage

    @property
    def id(self) -> str:
        return self.commit.id

    @property
    def trailers(self) -> Mapping[str, str]:
        return self.message.trailers

    @property
    def parent(self) -> str | None:
        return self.commit.parents[0] if self.commit.parents else None

    def finding(self, check: Check, message: str, path: str | None = None) -> Mismatch:
        return Mismatch(commit=self.id, step=link_name(self.trailers), check=check, path=path, message=message)

    def warning(self, check: Check, message: str, path: str | None = None) -> Mismatch:
        return replace(self.finding(check, message, path), severity="warning")


class Link(ChainCommit, frozen=True):
    """A commit of kind `kind`, read. `execution`: of a step.

    `changes` are against the first parent; `files` those in RUN_BASE that it wrote or has to have, path →
    content, but for the `unreadable`. `events`: where its events are. `own_events`, `parent_events`: blob ids of the
    events files in its tree and in that of its parent, if that is of the same run. `parallel`: the commit of a
    parallel step, not on the branch.
    """

    kind: Kind
    execution: Execution | None
    changes: Sequence[TreeChange]
    files: Mapping[str, bytes]
    unreadable: frozenset[str]
    events: str
    own_events: str | None
    parent_events: str | None
    seal: Seal | None
    parallel: bool

    @property
    def engine(self) -> str:
        return self.trailers.get("Swarm-Engine", "").partition("/")[0]

    @property
    def is_failed(self) -> bool:
        return self.trailers.get("Swarm-Result") == Result.FAILED

    @property
    def replays(self) -> str | None:
        """The commit of a parallel step that this one brought onto the branch."""
        return self.trailers.get("Swarm-Fork-Commit")


def link_name(trailers: Mapping[str, str]) -> str:
    """`flow/step@n`, `run`, `end@n`."""
    iteration = trailers.get("Swarm-Iteration", "?")
    if trailers.get("Swarm-Kind") == Kind.STEP:
        return f"{trailers.get('Swarm-Flow', '?')}/{trailers.get('Swarm-Step', '?')}@{iteration}"
    return f"end@{iteration}" if trailers.get("Swarm-Kind") == Kind.END else "run"


def shown(path: str) -> str:
    """A path as JSON can hold it."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


class LinkReader(Struct):
    """Reads commits, and notes; what cannot be read is in `findings`."""

    objects: SealedObjects
    findings: list[Mismatch] = field(default_factory=list)
    _events: dict[tuple[RunLayout, str], str | None] = field(default_factory=dict)
    _notes: dict[str, RoutingNote] = field(default_factory=dict)

    def read(self, item: ChainCommit, *, parallel: bool = False) -> Link | None:
        """None when its trailers do not even say what it is."""
        layout, trailers = item.layout, item.trailers
        try:
            kind = Kind(trailers["Swarm-Kind"])
            execution = Execution.of_trailers(layout.run_id, trailers) if kind is Kind.STEP else None
            events = events_path(layout, trailers)
        except (KeyError, ValueError) as error:
            self.findings.append(item.finding("trailers", f"its trailers do not identify the commit: {error}"))
            return None
        changes = self._changes(item)
        blobs = {each.path: each.after.id for each in changes if each.after and each.after.mode != GITLINK}
        for path in {events, *_expected(item, kind, execution)} - blobs.keys():
            found = self._file(item, path)
            blobs |= {path: found} if found else {}
        self._events[layout, item.id] = blobs.get(events)
        files, unreadable = self._files(item, blobs)
        return Link(
            layout=layout,
            commit=item.commit,
            message=item.message,
            kind=kind,
            execution=execution,
            changes=changes,
            files=files,
            unreadable=frozenset(unreadable),
            events=events,
            own_events=blobs.get(events),
            parent_events=self._parent_events(item),
            seal=self._seal(item),
            parallel=parallel,
        )

    def note(self, blob_id: str, where: Callable[[str], Mismatch]) -> RoutingNote | None:
        """A routing note; None: why it cannot be read is a finding at this place."""
        try:
            known = self._notes.get(blob_id)
            if known is None:
                known = self._notes[blob_id] = RoutingNote.of(self.objects.read(blob_id, "blob"))
        except CorruptError as error:
            self.findings.append(where(error.message))
        return known

    def _changes(self, item: ChainCommit) -> Sequence[TreeChange]:
        try:
            before = self.objects.commit(item.parent).tree if item.parent else EMPTY_TREE
            return self.objects.changes(before, item.commit.tree)
        except CorruptError as error:
            self.findings.append(item.finding("objects", error.message))
            return ()

    def _file(self, item: ChainCommit, path: str) -> str | None:
        """Id of a file in the commit's tree."""
        try:
            found = self.objects.entry(item.commit.tree, path)
        except CorruptError:
            return None  # a finding where the changes are read
        return found.id if found and not found.is_folder and found.mode != GITLINK else None

    def _files(self, item: ChainCommit, blobs: Mapping[str, str]) -> tuple[dict[str, bytes], set[str]]:
        """Contents of the files in RUN_BASE, and the paths that cannot be read. The code is only hashed."""
        files, unreadable = dict[str, bytes](), set[str]()
        for path in sorted(blobs):
            try:
                content = self.objects.read(blobs[path], "blob")
            except CorruptError as error:
                self.findings.append(item.finding("objects", error.message, shown(path)))
                unreadable.add(path)
                continue
            if path.startswith(f"{item.layout.base}/"):
                files[path] = content
        return files, unreadable

    def _seal(self, item: ChainCommit) -> Seal | None:
        text = item.trailers.get("Swarm-Prev-Notes")
        if text is None:
            return None
        events_id, routing_id = (name if name != "-" else None for name in [*text.split(" "), "-"][:2])
        routing = self.note(routing_id, partial(item.finding, "notes")) if routing_id else None
        return Seal(events_id, routing_id, routing)

    def _parent_events(self, item: ChainCommit) -> str | None:
        """Id of the events file in the parent's tree, if that is a commit of the same run."""
        layout, objects, parent = item.layout, self.objects, item.parent
        if parent is None:
            return None
        if (layout, parent) not in self._events:
            try:
                commit = objects.commit(parent)
                message = parse_message(commit.message)
                if message is None or message.trailers.get("Swarm-Run") != layout.run_id:
                    return None
                found = objects.entry(commit.tree, events_path(layout, message.trailers))
            except (CorruptError, LookupError, ValueError):
                return None
            self._events[layout, parent] = found.id if found else None
        return self._events[layout, parent]


def step_files(execution: Execution, engine: str) -> tuple[str, ...]:
    """Files that every step has, besides its events."""
    return execution.receipt, execution.envelope, execution.evidence, execution.transcript(engine)


def _expected(item: ChainCommit, kind: Kind, execution: Execution | None) -> Sequence[str]:
    """Files that such a commit has, besides its events."""
    if execution is not None:
        return step_files(execution, item.trailers.get("Swarm-Engine", "").partition("/")[0])
    return (item.layout.spec, item.layout.attributes) if kind is Kind.RUN else ()
