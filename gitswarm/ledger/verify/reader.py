"""Reads commits of runs for the checks. What cannot be read is a finding, and missing in what is handed on."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from gitswarm.errors import GarbledError
from gitswarm.git.commits import EMPTY_TREE
from gitswarm.git.sealed import GITLINK, SealedCommit, SealedObjects, TreeChange
from gitswarm.ledger.finding import events_path
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import CommitMessage, Kind, parse_message
from gitswarm.ledger.verify.finding import Check, Mismatch
from gitswarm.ledger.verify.link import Link, Seal, link_name, shown
from gitswarm.records.execution import Execution


class LinkReader(Struct):
    objects: SealedObjects
    findings: list[Mismatch] = field(default_factory=list)

    def read(
        self, layout: RunLayout, commit: SealedCommit, message: CommitMessage, *, beside: bool = False
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
        papers = reading.blobs(changes, {events, *reading.papers(kind, execution)})
        return Link(
            layout=layout,
            commit=commit,
            message=message,
            kind=kind,
            execution=execution,
            changes=changes,
            papers={path: content for path, content in papers.items() if content is not None},
            unreadable=frozenset(path for path, content in papers.items() if content is None),
            seal=reading.seal(),
            own_events=reading.entry(events),
            parent_events=reading.parent_events(parent_tree),
            beside=beside,
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

    def papers(self, kind: Kind, execution: Execution | None) -> Iterator[str]:
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
            return None  # said where the changes are read
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
