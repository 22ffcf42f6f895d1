"""Writes a run: commits, `next`, notes, branch, without secrets. The order of the calls is the guarantee (design
section 4).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import asdict

from gitswarm.git.notes import Prepared
from gitswarm.git.object_reader import NewCommit
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import events_path
from gitswarm.ledger.layout import KERNEL, RunLayout, agent_identity
from gitswarm.ledger.message import FORMAT, CommitMessage, Kind, parse_message
from gitswarm.ledger.reading import Entry, parse_note, render_entry
from gitswarm.ledger.state import RunState, first_parents, replay
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import Clock, pretty_json, timestamp
from gitswarm.records.routing import Choice, Decision, RoutingMode, Superseded, Supersedes
from gitswarm.records.safety import Scrubber, scrubbed_record

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def scrubbed(path: str, content: bytes, scrubber: Scrubber) -> bytes:
    """A file as it may be stored; the same bytes when there is no secret in it.

    What is no text is read letter by letter (latin-1): a secret in it goes too, which may break such a file.
    """
    try:
        if path.endswith(".json"):
            return _json(content, scrubber)
        if path.endswith(".jsonl"):
            return _json_lines(content, scrubber)
    except (ValueError, RecursionError):
        pass  # not what its name promises
    return _text(content, scrubber.scrub)


def _json(content: bytes, scrubber: Scrubber) -> bytes:
    value: JsonValue = json.loads(content)
    clean = scrubber.scrub_json(value)
    return content if clean is value else pretty_json(clean)


def _json_lines(content: bytes, scrubber: Scrubber) -> bytes:
    values: list[JsonValue] = [json.loads(line) for line in content.splitlines() if line.strip()]
    clean = scrubber.scrub_json(values)
    if clean is values or not isinstance(clean, list):
        return content
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in clean)


def _text(content: bytes, scrub: Callable[[str], str]) -> bytes:
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = "latin-1", content.decode("latin-1")
    clean = scrub(text)
    return content if clean == text else clean.encode(encoding)


class StagedCommit(Struct, frozen=True):
    """A commit whose blobs and trees are stored. What `code_tree` has in `.swarm/runs` does not count; `files` go
    into RUN_BASE: path → blob id, None: the file goes. `contents`: of those that the worktree lacks, or has with a
    secret: path → content. `make`: makes the object in place of the store, for one that is signed; its id."""

    message: CommitMessage
    author: str
    code_tree: str
    files: Mapping[str, str | None]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    make: Callable[[NewCommit], str] | None = None


class RunStore:
    """One run's storage. A single writer: the run's owner. No secret gets through it."""

    def __init__(self, repository: Repository, layout: RunLayout, clock: Clock, scrubber: Scrubber) -> None:
        self._repository = repository
        self._objects = repository.objects
        self._refs = repository.refs
        self._clock = clock
        self._scrubber = scrubber
        self._committer = repository.committer()
        self.layout = layout
        self._events_notes = repository.notes(layout.events_notes)
        self._routing_notes = repository.notes(layout.routing_notes)

    def create(self, parent: str, staged: StagedCommit) -> None:
        """The `run` commit and the branch. Before the branch exists there is no run, and nothing of it.

        :raises RefMovedError: the run id is taken.
        """
        commit_id = self._write(staged, parent)
        self._refs.swap(self.layout.branch, None, commit_id, why="run created")
        self.complete_creation(replay(self._repository, self.layout))

    def complete_creation(self, state: RunState) -> None:
        """The refs that follow from the `run` commit; a crash may have come between the branch and them."""
        found = self._refs.read(self.layout.base_ref)
        if found != state.bases.root:
            self._refs.swap(self.layout.base_ref, found, state.bases.root, why="as the chain says")
        if self._events_notes.blob_of(state.run_commit) is None:
            tree = self._objects.commit(state.run_commit).tree
            events = self._objects.entry(tree, self.layout.run_events)
            if events is not None:
                self._note_events(state.run_commit, events)

    def rebuild_events_notes(self, state: RunState) -> int:
        """Makes the events notes of the chain what its trees say, and says how many were not."""
        noted = self._events_notes.blobs()
        made = 0
        for commit, message in first_parents(self._repository, state.tip):
            if message is None or message.trailers.get("Swarm-Run") != self.layout.run_id:
                break
            events = self._objects.entry(commit.tree, events_path(self.layout, message.trailers))
            if events is not None and noted.get(commit.id) != events:
                self._note_events(commit.id, events)
                made += 1
        return made

    def commit(self, state: RunState, staged: StagedCommit) -> RunState:
        """Steps 5 to 7 of the protocol: object, `next`, events note, branch; then `next` goes.

        :raises RefMovedError: the branch is not where the state says.
        """
        commit_id = self._write(staged, state.tip)
        after, noted = self._prepared(state, commit_id)
        stale = self._refs.read(self.layout.next_ref)
        self._refs.swap(self.layout.next_ref, stale, commit_id, why="step finished")
        return self._publish(state, after, noted)

    def commit_parallel(self, fork: str, step: str, staged: StagedCommit) -> str:
        """The commit of a parallel step, on the commit of the fork; its id.

        One that was made there earlier stays, under a numbered name.
        """
        commit_id = self._write(staged, fork)
        name = self.layout.sibling_ref(fork, step)
        earlier = self._refs.read(name)
        if earlier is not None:
            number = 1 + len(self._refs.list(f"{name}@"))
            self._refs.swap(f"{name}@{number}", None, earlier, why="executed once more")
        self._refs.swap(name, earlier, commit_id, why="finished beside others")
        return commit_id

    def finish_next(self, state: RunState) -> RunState:
        """Brings a commit home that was finished but not published when its owner died; drops a stale `next`."""
        pending = self._refs.read(self.layout.next_ref)
        if pending is None:
            return state
        if self._objects.commit(pending).parents[:1] == (state.tip,):
            return self._publish(state, *self._prepared(state, pending))
        self._refs.swap(self.layout.next_ref, pending, None, why="stale")
        return state

    def decide(self, tip: str, choice: Choice, routing: DecisionOrigin) -> Decision:
        """Appends a decision to the routing note of `tip`."""
        taken = Decision(
            **(asdict(choice) | {"to_flow": choice.to_flow if choice.to_flow != routing.flow else None}),
            seq=self._next_seq(tip),
            ts=timestamp(self._clock()),
            flow_key=routing.flow,
            from_step=routing.from_step,
            iteration=routing.iteration,
            routing_mode=routing.mode,
            supersedes=routing.supersedes,
            elapsed_us=routing.elapsed_us,
        )
        decision = scrubbed_record(taken, self._scrubber)
        self._append(tip, decision)
        return decision

    def supersede(self, commit_id: str, superseded_by: str, reason: str) -> None:
        """Marks the decisions after a commit as not holding any more; `superseded_by` keeps what followed them."""
        ts = timestamp(self._clock())
        seq = self._next_seq(commit_id)
        entry = Superseded(seq=seq, ts=ts, superseded_by=superseded_by, reason=self._scrubber.scrub(reason))
        self._append(commit_id, entry)

    def _next_seq(self, commit_id: str) -> int:
        return len(parse_note(self._routing_notes.read(commit_id) or b"")) + 1

    def _append(self, commit_id: str, entry: Entry) -> None:
        before = self._routing_notes.read(commit_id) or b""
        if before and not before.endswith(b"\n"):
            before += b"\n"  # a person's editor may have left the last line open
        note = before + render_entry(entry)
        blob_id = self._objects.write_blob(note)
        self._routing_notes.write(commit_id, blob_id, by=self._committer, when=self._clock())

    def stage(self, message: CommitMessage, code_tree: str, files: Mapping[str, bytes]) -> StagedCommit:
        """A commit of git-swarm itself; `files` go into RUN_BASE."""
        contents = self.scrubbed(files)
        return StagedCommit(message, KERNEL, code_tree, self.write_blobs(contents), contents)

    def scrubbed(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Contents as they may be stored, without their secrets."""
        return {path: scrubbed(path, content, self._scrubber) for path, content in files.items()}

    def write_blobs(self, contents: Mapping[str, bytes]) -> dict[str, str]:
        """Stores contents that hold no secret; no filter of git's applies. Path → blob id."""
        return {path: self._objects.write_blob(content) for path, content in contents.items()}

    def set_aside(self, state: RunState, tree: str, title: str, trailers: Mapping[str, str]) -> str:
        """Keeps work that is about to be undone: `rollback/<n>` with parents [tip, notes tips]. Returns the ref."""
        notes = [tip for tip in (self._events_notes.tip, self._routing_notes.tip) if tip]
        plain = CommitMessage(title, "", {"Swarm-Run": self.layout.run_id, **trailers})
        message = plain.scrubbed(self._scrubber).render()
        when = self._clock()
        new = NewCommit(tree, (state.tip, *notes), message, self._committer, self._committer, when)
        number = max((_number(name) for name in self._kept_refs()), default=0) + 1
        name = f"{self.layout.rollback_prefix}{number}"
        self._refs.swap(name, None, self._objects.write_commit(new), why=self._scrubber.scrub(title))
        return name

    def move_branch(self, old: str, new: str, why: str) -> None:
        """Moves the shadow branch to a commit that exists already: rollback and its opposite.

        :raises RefMovedError: it is not at `old`.
        """
        self._refs.swap(self.layout.branch, old, new, why=why)

    def note_tips(self) -> dict[str, str | None]:
        return {notes.ref: notes.tip for notes in (self._events_notes, self._routing_notes)}

    def bring_notes_back(self, tips: Mapping[str, str | None]) -> list[str]:
        """Refs of notes that lost what they held at these tips, and hold it again; a remark that was added stays."""
        lost = [notes for notes in (self._events_notes, self._routing_notes) if not notes.holds(tips[notes.ref])]
        for notes in lost:
            self._refs.swap(notes.ref, notes.tip, tips[notes.ref], why="notes were deleted or rewritten")
        return [notes.ref for notes in lost]

    def copy_notes(self, copies: Mapping[str, str]) -> None:
        """Gives copies of commits the notes of what they were made from.

        :param copies: commit → its copy.
        """
        for notes in (self._events_notes, self._routing_notes):
            noted = notes.blobs()
            wanted = {copy: noted[commit_id] for commit_id, copy in copies.items() if commit_id in noted}
            notes.write_all(wanted, by=self._committer, when=self._clock())

    def kept_work(self) -> list[tuple[str, Mapping[str, str]]]:
        """Ref and trailers of everything that was set aside, oldest first."""
        found: list[tuple[str, Mapping[str, str]]] = []
        for name in sorted(self._kept_refs(), key=_number):
            commit_id = self._refs.read(name)
            text = self._objects.commit(commit_id).message if commit_id else ""
            pairs = (line.partition(": ") for line in text.split("\n"))
            found.append((name, {key: value for key, colon, value in pairs if colon}))
        return found

    def _kept_refs(self) -> list[str]:
        """The refs under `rollback/` that are ours: a person may have put one of another name there."""
        names = self._refs.list(self.layout.rollback_prefix)
        return [name for name in names if name.removeprefix(self.layout.rollback_prefix).isdecimal()]

    def code(self, tree: str) -> str:
        """`tree` without `.swarm/runs`."""
        return self._objects.with_subtree(tree, RUNS_FOLDER, None)

    def with_run_files(self, code_tree: str, parent_tree: str, files: Mapping[str, str | None]) -> str:
        """`code_tree` with the parent's runs folder and `files` over it: what was staged there never counts."""
        runs = self._objects.entry(parent_tree, RUNS_FOLDER)
        return self._objects.with_files(self._objects.with_subtree(code_tree, RUNS_FOLDER, runs), files)

    def _write(self, staged: StagedCommit, parent: str) -> str:
        parent_tree = self._objects.commit(parent).tree
        tree = self.with_run_files(staged.code_tree, parent_tree, staged.files)
        clean = staged.message.scrubbed(self._scrubber)
        before = self._prev_notes(parent)
        trailers = {"Swarm-Format": self._format(parent), **clean.trailers, "Swarm-Prev-Notes": before}
        message = CommitMessage(clean.subject, clean.body, trailers).render()
        author = agent_identity(staged.author)
        new = NewCommit(tree, (parent,), message, author, self._committer, self._clock())
        return staged.make(new) if staged.make is not None else self._objects.write_commit(new)

    def _format(self, parent: str) -> str:
        """A run's own, as the commit before has it; its first one says it itself."""
        message = parse_message(self._objects.commit(parent).message)
        return message.trailers.get("Swarm-Format", "") if message is not None else str(FORMAT)

    def _prev_notes(self, parent: str) -> str:
        """Blob ids of the parent's notes as they are now; a changed note betrays itself later."""
        ids = (self._events_notes.blob_of(parent), self._routing_notes.blob_of(parent))
        return " ".join(found or "-" for found in ids) if any(ids) else ""

    def _prepared(self, state: RunState, commit_id: str) -> tuple[RunState, Prepared]:
        """The state with a commit, and its events note: made before a ref moves, so that one pack holds both."""
        commit = self._objects.commit(commit_id)
        message = parse_message(commit.message)
        if message is None:
            raise ValueError(f"{commit_id} is not a commit of ours")
        after = state.with_commits([(commit, message)])
        events = self._objects.entry(commit.tree, after.tip_events)
        noted = {commit_id: events} if events is not None else {}
        return after, self._events_notes.prepare(noted, by=self._committer, when=self._clock())

    def _publish(self, state: RunState, after: RunState, noted: Prepared) -> RunState:
        self._events_notes.publish(noted)
        subject = self._objects.commit(after.tip).message.partition("\n")[0]
        self._refs.swap(self.layout.branch, state.tip, after.tip, why=subject)
        self._refs.swap(self.layout.next_ref, after.tip, None, why="published")
        return after

    def _note_events(self, commit_id: str, blob_id: str) -> None:
        self._events_notes.write(commit_id, blob_id, by=self._committer, when=self._clock())


def _number(name: str) -> int:
    return int(name.rpartition("/")[2])


class DecisionOrigin(Struct, frozen=True):
    """Where a decision is taken: after which execution, in which mode, instead of which other one; how long it
    took, in microseconds."""

    flow: str
    from_step: str | None
    iteration: int | None
    mode: RoutingMode
    supersedes: Supersedes | None = None
    elapsed_us: int | None = None


def end_trailers(layout: RunLayout, status: str, number: int, seq: int) -> dict[str, str]:
    return {
        "Swarm-Kind": Kind.END,
        "Swarm-Run": layout.run_id,
        "Swarm-Iteration": str(number),
        "Swarm-Result": status,
        "Swarm-Seq": str(seq),
    }
