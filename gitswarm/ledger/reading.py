"""What is stored for a run and its steps, as models: the decisions in its routing notes (one readable line and its
JSON each, append-only, at most 76 columns wide), its commits in order, the files of its steps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import TypeVar

from msgspec import Struct

from gitswarm.git.object_reader import Commit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import events_path, journal_folder, parsed
from gitswarm.ledger.journal import OpenJournal, open_journals, read_lines
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import CommitMessage, Kind, parse_message
from gitswarm.ledger.state import RunState, first_parents, step_record
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import folded
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import LoggedEvent
from gitswarm.records.evidence import Evidence
from gitswarm.records.execution import Execution, RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import Decision, Superseded
from gitswarm.records.run_spec import RunSpec
from gitswarm.records.text import shorten

_WIDTH = 76  # git log indents notes by four
_INDENT = "  "

T = TypeVar("T")

Entry = Decision | Superseded


def render_entry(entry: Entry) -> bytes:
    """One entry. The JSON is folded at spaces: joining its lines by one space gives it back exactly."""
    packed = json.dumps(entry.to_plain(), ensure_ascii=False)
    folded = "".join(f"{_INDENT}{line}\n" for line in _fold(packed, _WIDTH - len(_INDENT)))
    first = decision_line(entry) if isinstance(entry, Decision) else shorten(f"{entry.seq}. {entry.reason}", _WIDTH)
    return f"{first}\n{folded}".encode()


def decision_line(decision: Decision) -> str:
    start = decision.from_step or "start"
    end = decision.to_step or "end"
    line = f"{decision.seq}. {start} -> {end}: {decision.decision} ({decision.routing_source}): {decision.reason}"
    return shorten(line, _WIDTH)


def parse_note(note: bytes) -> list[Entry]:
    """The entries of a note, oldest first; anything else in it is skipped."""
    return [entry for entry in map(_entry, folded(note)) if entry is not None]


def is_corrupt(note: bytes) -> bool:
    """Whether something in it looks like an entry and is none."""
    return any(_entry(packed) is None for packed in folded(note))


class RoutingNote(Struct, frozen=True):
    """A note with its entries, oldest first. `is_corrupt`: something in it looks like an entry and is none;
    `holds_only_entries`: byte for byte, but for its last line end."""

    content: bytes
    entries: tuple[Entry, ...]
    is_corrupt: bool
    holds_only_entries: bool

    @classmethod
    def of(cls, content: bytes) -> RoutingNote:
        found = [_entry(packed) for packed in folded(content)]
        entries = tuple(entry for entry in found if entry is not None)
        rendered = b"".join(map(render_entry, entries))
        return cls(content, entries, len(entries) < len(found), rendered.rstrip(b"\n") == content.rstrip(b"\n"))


def _entry(packed: str) -> Entry | None:
    try:
        fields = json.loads(packed)
        is_superseding = isinstance(fields, dict) and "superseded_by" in fields
        return Superseded.from_plain(fields) if is_superseding else Decision.from_plain(fields)
    except (ValueError, RecursionError):
        return None


def effective_decision(entries: list[Entry]) -> Decision | None:
    """The decision that holds: the last one, unless it was superseded."""
    last = entries[-1] if entries else None
    return last if isinstance(last, Decision) else None


def _fold(text: str, width: int) -> list[str]:
    """Lines that are not wider, unless they are one word: joined by blanks they are the text."""
    lines = re.findall(rf"(.{{0,{width}}}(?= |\Z)|[^ ]+)(?: |\Z)", text, re.DOTALL)
    return lines if " ".join(lines) == text else lines[:-1]  # the end may be found twice


def live_journals(repository: RepositoryReader, layout: RunLayout) -> list[OpenJournal]:
    return open_journals(journal_folder(repository, layout))


def run_spec(repository: RepositoryReader, state: RunState) -> RunSpec:
    """
    :raises CorruptError: the run's first commit lacks its spec, or holds something else in its place.
    """
    tree = repository.objects.commit(state.run_commit).tree
    content = repository.objects.file(tree, state.layout.spec) or b""
    return parsed(RunSpec.from_json, content, state.layout, f"{state.run_commit[:12]}:{state.layout.spec}")


def routing_entries(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> list[Entry]:
    """Everything in the routing note of a commit, oldest first."""
    return parse_note(repository.notes(layout.routing_notes).read(commit_id) or b"")


def decisions(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> list[Decision]:
    """What was decided after a commit, oldest first, also what does not hold any more."""
    return [entry for entry in routing_entries(repository, layout, commit_id) if isinstance(entry, Decision)]


def current_decision(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> Decision | None:
    """What is to happen after a commit; None when that is not decided, or not any more."""
    return effective_decision(routing_entries(repository, layout, commit_id))


def stored_events(repository: RepositoryReader, state: RunState, *, after: str | None = None) -> list[LoggedEvent]:
    """Events of the chain, oldest first; with `after`, only those of the commits behind that one."""
    files = event_files(repository, state, after=after)
    found = [read_lines(repository.objects.file(commit.tree, path) or b"") for commit, path in files]
    return [event for events in reversed(found) for event in events]


def event_files(
    repository: RepositoryReader, state: RunState, *, after: str | None = None
) -> Iterator[tuple[Commit, str]]:
    """The commits of the chain, newest first, and where each keeps its events."""
    for commit, message in first_parents(repository, state.tip):
        if commit.id == after or message is None:
            return
        yield commit, events_path(state.layout, message.trailers)
        if message.trailers["Swarm-Kind"] == Kind.RUN:
            return


class StepFiles(Struct, frozen=True):
    """None: the step's commit has no such file."""

    record: StepRecord
    envelope: Envelope | None
    evidence: Evidence | None
    receipt: JsonValue

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def why(self) -> str:
        """Why its status is what it is, where that is not the agent's own word."""
        return (self.envelope.status_reason if self.envelope is not None else None) or ""


def step_files(
    repository: RepositoryReader, state: RunState, steps: Sequence[StepRecord] | None = None
) -> list[StepFiles]:
    """
    :param steps: some of the run's; None: all.
    :raises CorruptError: one of them is not what git-swarm wrote there.
    """
    steps = state.steps if steps is None else steps

    def read(path: Callable[[Execution], str], parse: Callable[[bytes], T]) -> list[T | None]:
        places = [(step.tree, path(step.execution)) for step in steps]
        return [
            None if content is None else parsed(parse, content, state.layout, f"{step.commit[:12]}:{place[1]}")
            for step, place, content in zip(steps, places, repository.objects.files_of(places), strict=True)
        ]

    envelopes = read(lambda execution: execution.envelope, Envelope.from_json)
    evidences = read(lambda execution: execution.evidence, Evidence.from_json)
    receipts = read(lambda execution: execution.receipt, json.loads)
    return [StepFiles(*each) for each in zip(steps, envelopes, evidences, receipts, strict=True)]


class RunEnd(Struct, frozen=True):
    """An `end` commit; a resumed run continues after it."""

    commit: str
    status: RunStatus
    reason: str


class HistoryEntry(Struct, frozen=True):
    """One commit of a run and the decision that holds after it; None: there is none, or not any more."""

    record: StepRecord | RunEnd
    decision: Decision | None


def history(repository: RepositoryReader, state: RunState) -> list[HistoryEntry]:
    """Oldest first. The first `state.shared` are steps of the run that this one was forked from."""
    chain = _chain(repository, state)
    return [HistoryEntry(each, current_decision(repository, state.layout, each.commit)) for each in chain]


def ends_after(repository: RepositoryReader, state: RunState, record: StepRecord) -> list[RunEnd]:
    """The ends directly behind a step, oldest first: what a person decides there is about the same step."""
    chain = _chain(repository, state)
    behind = chain[chain.index(record) + 1 :]
    return [end for end in takewhile(lambda each: isinstance(each, RunEnd), behind) if isinstance(end, RunEnd)]


def _chain(repository: RepositoryReader, state: RunState) -> list[StepRecord | RunEnd]:
    records = {record.commit: record for record in state.own_steps}
    found: list[StepRecord | RunEnd] = []
    for commit, message in first_parents(repository, state.tip):
        if commit.id == state.run_commit:
            break
        found.append(records.get(commit.id) or _end(commit, message))
    return [*state.steps[: state.shared], *reversed(found)]


def _end(commit: Commit, message: CommitMessage | None) -> RunEnd:
    if message is None:
        raise ValueError(f"{commit.id} is not a commit of ours")
    reason = message.body or message.subject.partition(": ")[2]
    return RunEnd(commit.id, RunStatus(message.trailers["Swarm-Result"]), reason)


def siblings(repository: RepositoryReader, layout: RunLayout, fork: str | None = None) -> list[StepRecord]:
    """Commits of parallel steps, of one step the newest first; `number` is 0: they are on no branch.

    :param fork: only those that started there.
    """
    prefix = layout.sibling_ref(fork, "") if fork else layout.fork_prefix
    found = []
    for name in repository.refs.list(prefix):
        commit_id = repository.refs.read(name)
        record = _sibling(repository, layout, commit_id) if commit_id else None
        if record is not None and (fork is None or record.fork == fork):
            found.append(record)
    return found


def _sibling(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> StepRecord | None:
    """None for what a person may have put there."""
    commit = repository.objects.commit(commit_id)
    message = parse_message(commit.message)
    if message is None or not commit.parents:
        return None
    try:
        record = step_record(layout, 0, commit, message)
    except (KeyError, ValueError):
        return None
    return record if record.fork == record.parent else None
