"""One commit of a run with all that is needed to judge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gitswarm.errors import GarbledError
from gitswarm.git.objects import EMPTY_TREE
from gitswarm.git.sealed import GITLINK, SealedCommit, SealedObjects, TreeChange
from gitswarm.ledger.layout import RUNS_FOLDER, Execution, RunLayout
from gitswarm.ledger.message import Kind, Message, parse_message
from gitswarm.ledger.reading import events_path
from gitswarm.ledger.verify.finding import Check, Finding


@dataclass(frozen=True, slots=True)
class Seal:
    """What `Swarm-Prev-Notes` says of the parent's notes: blob ids, None for `-`; `routing` is that blob."""

    events_id: str | None
    routing_id: str | None
    routing: bytes | None


@dataclass(frozen=True, slots=True)
class Link:
    """A commit of the run `layout`, of kind `kind`. `execution`: of a step.

    `changes` are against the first parent; `papers` the files in RUN_BASE that it wrote or has to have, path →
    content. `own_events`, `parent_events`: blob ids of the events files in its tree and in that of its parent, if
    that is of the same run. `beside`: it is not on the branch, but the commit of a step that was executed beside
    others.
    """

    layout: RunLayout
    commit: SealedCommit
    message: Message
    kind: Kind
    execution: Execution | None
    parent_tree: str
    changes: tuple[TreeChange, ...]
    papers: Mapping[str, bytes]
    seal: Seal | None
    own_events: str | None = None
    parent_events: str | None = None
    beside: bool = False
    unreadable: frozenset[str] = field(default=frozenset())

    @property
    def id(self) -> str:
        return self.commit.id

    @property
    def said(self) -> Mapping[str, str]:
        return self.message.trailers

    @property
    def parent(self) -> str | None:
        return self.commit.parents[0] if self.commit.parents else None

    @property
    def is_failed(self) -> bool:
        return self.said.get("Swarm-Result") == "failed"

    @property
    def replays(self) -> str | None:
        """The commit beside the branch that this one brought onto it."""
        return self.said.get("Swarm-Fork-Commit")

    @property
    def events(self) -> str:
        return events_path(self.layout, self.said)

    @property
    def name(self) -> str:
        return link_name(self.said)

    def finding(self, check: Check, message: str, path: str | None = None) -> Finding:
        return Finding(commit=self.id, step=self.name, check=check, path=path, message=message)

    def warning(self, check: Check, message: str, path: str | None = None) -> Finding:
        return self.finding(check, message, path).model_copy(update={"severity": "warning"})


def link_name(said: Mapping[str, str]) -> str:
    """`flow/step@n`, `run`, `end@n`."""
    iteration = said.get("Swarm-Iteration", "?")
    if said.get("Swarm-Kind") == Kind.STEP:
        return f"{said.get('Swarm-Flow', '?')}/{said.get('Swarm-Step', '?')}@{iteration}"
    return f"end@{iteration}" if said.get("Swarm-Kind") == Kind.END else "run"


@dataclass(slots=True)
class LinkReader:
    """Reads commits of runs as links. What cannot be read is a finding, and missing in the link."""

    objects: SealedObjects
    findings: list[Finding] = field(default_factory=list)

    def read(self, layout: RunLayout, commit: SealedCommit, message: Message, *, beside: bool = False) -> Link | None:
        """None when its trailers do not even say what it is."""
        said = message.trailers
        try:
            kind = Kind(said["Swarm-Kind"])
            execution = _execution(layout, said) if kind is Kind.STEP else None
            own_events = events_path(layout, said)
        except (KeyError, ValueError) as error:
            self._add(commit, said, "trailers", f"its trailers do not say which commit it is: {error}")
            return None
        parent_tree = self._parent_tree(commit, said)
        changes = self._changes(commit, said, parent_tree)
        expected = {own_events, *_own_papers(layout, execution, said)}
        papers, unreadable = self._papers(layout, commit, said, changes, expected)
        return Link(
            layout=layout,
            commit=commit,
            message=message,
            kind=kind,
            execution=execution,
            parent_tree=parent_tree,
            changes=changes,
            papers=papers,
            seal=self._seal(commit, said),
            own_events=self._entry(commit, own_events),
            parent_events=self._parent_events(layout, commit, parent_tree),
            beside=beside,
            unreadable=unreadable,
        )

    def blob(self, blob_id: str, where: Finding) -> bytes | None:
        """Content of a blob; None: it is a finding."""
        try:
            return self.objects.read(blob_id, "blob")
        except GarbledError as error:
            self.findings.append(where.model_copy(update={"message": error.message}))
            return None

    def _parent_tree(self, commit: SealedCommit, said: Mapping[str, str]) -> str:
        if not commit.parents:
            return EMPTY_TREE
        try:
            tree = self.objects.commit(commit.parents[0]).tree
            self.objects.tree(tree)
        except GarbledError as error:
            self._add(commit, said, "objects", error.message)
            return commit.tree
        return tree

    def _changes(self, commit: SealedCommit, said: Mapping[str, str], before: str) -> tuple[TreeChange, ...]:
        try:
            return tuple(self.objects.changes(before, commit.tree))
        except GarbledError as error:
            self._add(commit, said, "objects", error.message)
            return ()

    def _papers(
        self,
        layout: RunLayout,
        commit: SealedCommit,
        said: Mapping[str, str],
        changes: tuple[TreeChange, ...],
        expected: set[str],
    ) -> tuple[Mapping[str, bytes], frozenset[str]]:
        """Content of what it has to have and of what it wrote in RUN_BASE. The code is only hashed."""
        found: dict[str, bytes] = {}
        unreadable: set[str] = set()
        wanted = {change.path: change.after.id for change in changes if change.after and change.after.mode != GITLINK}
        for path in sorted(expected - wanted.keys()):
            entry = self._entry(commit, path)
            wanted |= {path: entry} if entry else {}
        for path, blob_id in wanted.items():
            where = Finding(commit=commit.id, step=link_name(said), check="objects", path=shown(path), message="")
            content = self.blob(blob_id, where)
            if content is None:
                unreadable.add(path)
            elif path.startswith(f"{layout.base}/"):
                found[path] = content
        return found, frozenset(unreadable)

    def _entry(self, commit: SealedCommit, path: str) -> str | None:
        try:
            entry = self.objects.entry(commit.tree, path)
        except GarbledError:
            return None  # said already
        return entry.id if entry and not entry.is_folder and entry.mode != GITLINK else None

    def _seal(self, commit: SealedCommit, said: Mapping[str, str]) -> Seal | None:
        text = said.get("Swarm-Prev-Notes")
        if text is None:
            return None
        events_id, _blank, routing_id = text.partition(" ")
        routing = None
        if routing_id not in ("", "-"):
            where = Finding(commit=commit.id, step=link_name(said), check="notes", message="")
            routing = self.blob(routing_id, where)
        return Seal(_unless_dash(events_id), _unless_dash(routing_id), routing)

    def _parent_events(self, layout: RunLayout, commit: SealedCommit, parent_tree: str) -> str | None:
        """Id of the events file in the parent's tree, whoever's commit that is."""
        if not commit.parents:
            return None
        try:
            message = parse_message(self.objects.commit(commit.parents[0]).message)
            if message is None or message.trailers.get("Swarm-Run") != layout.run_id:
                return None
            entry = self.objects.entry(parent_tree, events_path(layout, message.trailers))
        except (GarbledError, KeyError, ValueError):
            return None
        return entry.id if entry else None

    def _add(self, commit: SealedCommit, said: Mapping[str, str], check: Check, message: str) -> None:
        self.findings.append(Finding(commit=commit.id, step=link_name(said), check=check, message=message))


def _execution(layout: RunLayout, said: Mapping[str, str]) -> Execution:
    iteration = int(said["Swarm-Iteration"])
    return Execution(layout, said["Swarm-Flow"], said["Swarm-Step"], iteration, said["Swarm-Agent"])


def _own_papers(layout: RunLayout, execution: Execution | None, said: Mapping[str, str]) -> Iterator[str]:
    if execution is not None:
        yield from (execution.receipt, execution.envelope, execution.evidence)
        yield execution.transcript(said.get("Swarm-Engine", "").partition("/")[0])
    elif said["Swarm-Kind"] == Kind.RUN:
        yield from (layout.spec, layout.attributes)


def _unless_dash(text: str) -> str | None:
    return text if text not in ("", "-") else None


def in_runs(path: str) -> bool:
    return path == RUNS_FOLDER or path.startswith(f"{RUNS_FOLDER}/")


def shown(path: str) -> str:
    """A path as JSON can hold it."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
