"""Reads the commits of a run for the checks of `verify`. What cannot be read is a finding, and left out of the
result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from msgspec import Struct, field

from gitswarm.errors import GarbledError
from gitswarm.git.object_reader import EMPTY_TREE, GITLINK
from gitswarm.git.sealed import SealedCommit, SealedObjects, TreeChange
from gitswarm.ledger.finding import events_path
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import CommitMessage, Kind, parse_message
from gitswarm.records.base import Record
from gitswarm.records.execution import RUNS_FOLDER, Execution

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
    routing: bytes | None


class Link(Struct, frozen=True):
    """A commit of the run `layout`, of kind `kind`. `execution`: of a step.

    `changes` are against the first parent; `files` those in RUN_BASE that it wrote or has to have, path →
    content, but for the `unreadable`. `own_events`, `parent_events`: blob ids of the events files in its tree and in
    that of its parent, if that is of the same run. `parallel`: the commit of a parallel step, not on the
    branch.
    """

    layout: RunLayout
    commit: SealedCommit
    message: CommitMessage
    kind: Kind
    execution: Execution | None
    changes: tuple[TreeChange, ...]
    files: Mapping[str, bytes]
    unreadable: frozenset[str]
    seal: Seal | None
    own_events: str | None
    parent_events: str | None
    parallel: bool

    @property
    def id(self) -> str:
        return self.commit.id

    @property
    def trailers(self) -> Mapping[str, str]:
        return self.message.trailers

    @property
    def parent(self) -> str | None:
        return self.commit.parents[0] if self.commit.parents else None

    @property
    def is_failed(self) -> bool:
        return self.trailers.get("Swarm-Result") == "failed"

    @property
    def replays(self) -> str | None:
        """The commit of a parallel step that this one brought onto the branch."""
        return self.trailers.get("Swarm-Fork-Commit")

    @property
    def events(self) -> str:
        return events_path(self.layout, self.trailers)

    @property
    def name(self) -> str:
        return link_name(self.trailers)

    def finding(self, check: Check, message: str, path: str | None = None) -> Mismatch:
        return Mismatch(commit=self.id, step=self.name, check=check, path=path, message=message)

    def warning(self, check: Check, message: str, path: str | None = None) -> Mismatch:
        return self.finding(check, message, path).model_copy(update={"severity": "warning"})


def link_name(trailers: Mapping[str, str]) -> str:
    """`flow/step@n`, `run`, `end@n`."""
    iteration = trailers.get("Swarm-Iteration", "?")
    if trailers.get("Swarm-Kind") == Kind.STEP:
        return f"{trailers.get('Swarm-Flow', '?')}/{trailers.get('Swarm-Step', '?')}@{iteration}"
    return f"end@{iteration}" if trailers.get("Swarm-Kind") == Kind.END else "run"


def in_runs(path: str) -> bool:
    return path == RUNS_FOLDER or path.startswith(f"{RUNS_FOLDER}/")


def shown(path: str) -> str:
    """A path as JSON can hold it."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


class LinkReader(Struct):
    objects: SealedObjects
    findings: list[Mismatch] = field(default_factory=list)

    def read(
        self, layout: RunLayout, commit: SealedCommit, message: CommitMessage, *, parallel: bool = False
    ) -> Link | None:
        """None when its trailers do not even say what it is."""
        reading = _CommitReading(self, layout, commit, message)
        try:
            kind = Kind(message.trailers["Swarm-Kind"])
            execution = reading.execution() if kind is Kind.STEP else None
            events = events_path(layout, message.trailers)
        except (KeyError, ValueError) as error:
            reading.add("trailers", f"its trailers do not identify the commit: {error}")
            return None
        parent_tree = reading.parent_tree()
        changes = reading.changes(parent_tree)
        files = reading.blobs(changes, {events, *reading.files(kind, execution)})
        return Link(
            layout=layout,
            commit=commit,
            message=message,
            kind=kind,
            execution=execution,
            changes=changes,
            files={path: content for path, content in files.items() if content is not None},
            unreadable=frozenset(path for path, content in files.items() if content is None),
            seal=reading.seal(),
            own_events=reading.entry(events),
            parent_events=reading.parent_events(parent_tree),
            parallel=parallel,
        )

    def blob(self, blob_id: str, where: Mismatch) -> bytes | None:
        """Content of a blob; None: why not is a finding at this place."""
        try:
            return self.objects.read(blob_id, "blob")
        except GarbledError as error:
            self.findings.append(where.model_copy(update={"message": error.message}))
            return None


class _CommitReading(Struct, frozen=True):
    """One commit that is being read."""

    reader: LinkReader
    layout: RunLayout
    commit: SealedCommit
    message: CommitMessage

    def add(self, check: Check, message: str) -> None:
        self.reader.findings.append(self._where(check, None).model_copy(update={"message": message}))

    def execution(self) -> Execution:
        """
        :raises KeyError, ValueError: the trailers do not say.
        """
        return Execution.of_trailers(self.layout.run_id, self.message.trailers)

    def files(self, kind: Kind, execution: Execution | None) -> Iterator[str]:
        """Files that such a commit has, besides its events."""
        if execution is not None:
            engine = self.message.trailers.get("Swarm-Engine", "").partition("/")[0]
            yield from (execution.receipt, execution.envelope, execution.evidence, execution.transcript(engine))
        elif kind is Kind.RUN:
            yield from (self.layout.spec, self.layout.attributes)

    def parent_tree(self) -> str:
        """Of a parent that cannot be read, the commit's own: nothing is known to have changed."""
        objects = self.reader.objects
        try:
            return objects.commit(self.commit.parents[0]).tree if self.commit.parents else EMPTY_TREE
        except GarbledError as error:
            self.add("objects", error.message)
            return self.commit.tree

    def changes(self, before: str) -> tuple[TreeChange, ...]:
        try:
            return tuple(self.reader.objects.changes(before, self.commit.tree))
        except GarbledError as error:
            self.add("objects", error.message)
            return ()

    def blobs(self, changes: tuple[TreeChange, ...], expected: set[str]) -> dict[str, bytes | None]:
        """Content of files in RUN_BASE that changed or are expected, None: it cannot be read. The code that changed
        is only hashed."""
        wanted = {change.path: change.after.id for change in changes if change.after and change.after.mode != GITLINK}
        for path in expected - wanted.keys():
            found = self.entry(path)
            wanted |= {path: found} if found else {}
        contents = {
            path: self.reader.blob(wanted[path], self._where("objects", shown(path))) for path in sorted(wanted)
        }
        return {path: content for path, content in contents.items() if path.startswith(f"{self.layout.base}/")}

    def entry(self, path: str) -> str | None:
        """Id of a file in the tree."""
        try:
            found = self.reader.objects.entry(self.commit.tree, path)
        except GarbledError:
            return None  # a finding where the changes are read
        return found.id if found and not found.is_folder and found.mode != GITLINK else None

    def seal(self) -> Seal | None:
        text = self.message.trailers.get("Swarm-Prev-Notes")
        if text is None:
            return None
        events_id, routing_id = (name if name != "-" else None for name in [*text.split(" "), "-"][:2])
        routing = self.reader.blob(routing_id, self._where("notes", None)) if routing_id else None
        return Seal(events_id, routing_id, routing)

    def parent_events(self, parent_tree: str) -> str | None:
        """Id of the events file in the parent's tree, if that is a commit of the same run."""
        objects = self.reader.objects
        try:
            message = parse_message(objects.commit(self.commit.parents[0]).message)
            if message is None or message.trailers.get("Swarm-Run") != self.layout.run_id:
                return None
            found = objects.entry(parent_tree, events_path(self.layout, message.trailers))
        except (GarbledError, LookupError, ValueError):
            return None
        return found.id if found else None

    def _where(self, check: Check, path: str | None) -> Mismatch:
        name = link_name(self.message.trailers)
        return Mismatch(commit=self.commit.id, step=name, check=check, path=path, message="")
