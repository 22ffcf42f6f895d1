"""What is stored for a run and its steps, as models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.git.object_reader import Commit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.events import read_lines
from gitswarm.ledger.finding import events_path, journal_folder, parsed
from gitswarm.ledger.journal import OpenJournal, open_journals
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.routing_note import Entry, parse, standing
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import LoggedEvent
from gitswarm.records.evidence import Evidence
from gitswarm.records.routing import Decision
from gitswarm.records.run_spec import RunSpec


def live_journals(repository: RepositoryReader, layout: RunLayout) -> list[OpenJournal]:
    return open_journals(journal_folder(repository, layout))


def run_spec(repository: RepositoryReader, state: RunState) -> RunSpec:
    """
    :raises GarbledError: the run's first commit lacks its spec, or holds something else in its place.
    """
    tree = repository.objects.commit(state.run_commit).tree
    content = repository.objects.file(tree, state.layout.spec) or b""
    return parsed(RunSpec.from_json, content, state.layout, f"{state.run_commit[:12]}:{state.layout.spec}")


def routing_entries(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> list[Entry]:
    """Everything in the routing note of a commit, oldest first."""
    return parse(repository.notes(layout.routing_notes).read(commit_id) or b"")


def decisions(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> list[Decision]:
    """What was decided after a commit, oldest first, also what does not hold any more."""
    return [entry for entry in routing_entries(repository, layout, commit_id) if isinstance(entry, Decision)]


def standing_decision(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> Decision | None:
    """What is to happen after a commit; None when that is not decided, or not any more."""
    return standing(routing_entries(repository, layout, commit_id))


def stored_events(repository: RepositoryReader, state: RunState, *, after: str | None = None) -> list[LoggedEvent]:
    """Events of the chain, oldest first; with `after`, only those of the commits behind that one."""
    files = event_files(repository, state, after=after)
    found = [read_lines(repository.objects.file(commit.tree, path) or b"") for commit, path in files]
    return [event for events in reversed(found) for event in events]


def event_files(
    repository: RepositoryReader, state: RunState, *, after: str | None = None
) -> Iterator[tuple[Commit, str]]:
    """The commits of the chain, newest first, and where each keeps its events."""
    cursor = state.tip
    while cursor != after:
        commit = repository.objects.commit(cursor)
        message = parse_message(commit.message)
        if message is None:
            break
        yield commit, events_path(state.layout, message.trailers)
        if message.trailers["Swarm-Kind"] == Kind.RUN:
            break
        cursor = commit.parents[0]


class StepFiles(Struct, frozen=True):
    """None: the step's commit has no such file. `name`: `flow/step@2`."""

    record: StepRecord
    envelope: Envelope | None
    evidence: Evidence | None
    receipt: JsonValue

    @property
    def name(self) -> str:
        execution = self.record.execution
        return f"{execution.flow}/{execution.step}" + (f"@{execution.iteration}" if execution.iteration > 1 else "")

    @property
    def why(self) -> str:
        """Why its status is what it is, where that is not the agent's own word."""
        return (self.envelope.status_reason if self.envelope is not None else None) or ""


def step_files(repository: RepositoryReader, state: RunState) -> list[StepFiles]:
    """
    :raises GarbledError: one of them is not what git-swarm wrote there.
    """
    steps = state.steps
    envelopes = _read(repository, state, [step.execution.envelope for step in steps], Envelope.from_json)
    evidences = _read(repository, state, [step.execution.evidence for step in steps], Evidence.from_json)
    receipts = _read(repository, state, [step.execution.receipt for step in steps], json.loads)
    return [StepFiles(*each) for each in zip(steps, envelopes, evidences, receipts, strict=True)]


T = TypeVar("T")


def _read(
    repository: RepositoryReader, state: RunState, paths: list[str], parse: Callable[[bytes], T]
) -> list[T | None]:
    places = [(step.tree, path) for step, path in zip(state.steps, paths, strict=True)]
    contents = repository.objects.files_of(places)
    return [
        None if content is None else parsed(parse, content, state.layout, f"{step.commit[:12]}:{path}")
        for step, path, content in zip(state.steps, paths, contents, strict=True)
    ]
