"""Today's notes against what the commits sealed of them, and against the trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind
from gitswarm.ledger.reading import Entry, RoutingNote
from gitswarm.ledger.verify.commit_reader import Link, Mismatch, Seal
from gitswarm.ledger.verify.run_files import CommitFiles
from gitswarm.records.event import EventKind
from gitswarm.records.routing import Decision


class RunNotes(Struct, frozen=True):
    """The notes of a run as they are today. `events`: commit → blob id; `routing`: commit → note, of those that can
    be read; None: there is no such ref here. `forks`: every decision in them that is about a fork."""

    events: Mapping[str, str] | None
    routing: Mapping[str, RoutingNote] | None
    forks: tuple[Decision, ...] = ()


def missing_notes(layout: RunLayout, today: RunNotes) -> Iterator[Mismatch]:
    """Refs that are not here at all."""
    for ref, there in ((layout.events_notes, today.events), (layout.routing_notes, today.routing)):
        if there is None:
            message = f"{ref} is missing: the run's notes cannot be compared"
            yield Mismatch(check="notes", message=message, severity="warning")


def check_notes(link: Link, today: RunNotes) -> Iterator[Mismatch]:
    """The events note is the file in the tree; the parent's notes begin with what this commit sealed of them."""
    if today.events is not None and not link.parallel:
        yield from _events(link, today.events.get(link.id))
    if today.routing is not None and not link.parallel and link.id in today.routing:
        yield from _routing(link, today.routing[link.id])
    if link.kind is not Kind.RUN:
        yield from _sealed(link, link.seal, today.routing)


def _sealed(link: Link, seal: Seal | None, today: Mapping[str, RoutingNote] | None) -> Iterator[Mismatch]:
    if seal is None:
        if link.parent_events is not None:
            yield link.finding("notes", "Swarm-Prev-Notes is missing")
        return
    if link.parent_events is not None and seal.events_id != link.parent_events:
        yield link.finding("notes", "Swarm-Prev-Notes names other events than the parent's tree has")
    if seal.routing_id is None and link.trailers.get("Swarm-By") != "command":
        # A command that a person typed out of band may stand on an end, after which nothing was decided.
        yield link.finding("notes", "Swarm-Prev-Notes names no decision that led here")
    elif seal.routing is not None and today is not None:
        found = today.get(link.parent or "")
        if found is None:
            message = f"the routing note of {link.parent} is missing; git cat-file -p {seal.routing_id} has it"
            yield link.warning("notes", message)
        elif not found.content.startswith(seal.routing.content):
            message = f"the routing note of {link.parent} is not what it was when this was committed"
            yield link.finding("notes", message)


def _events(link: Link, note: str | None) -> Iterator[Mismatch]:
    if note is None and link.own_events is not None:
        yield link.warning("notes", "the events note is missing; the tree has what it said", link.events)
    elif note != link.own_events:
        yield link.finding("notes", "the events note is not the file in the tree", link.events)


def _routing(link: Link, note: RoutingNote) -> Iterator[Mismatch]:
    if note.is_corrupt:
        yield link.finding("notes", "its routing note has a line that is not a decision")
    elif any(entry.seq != number for number, entry in enumerate(note.entries, start=1)):
        yield link.finding("notes", "the decisions in its routing note do not count from 1 without gaps")
    elif not note.holds_only_entries:
        yield link.warning("notes", "its routing note has more than its decisions: somebody added to it")


def check_decision(link: Link, files: CommitFiles, today: RunNotes) -> Iterator[Mismatch]:
    """The decision that the events begin with is the last one that the parent's note had then; of a
    parallel step, one about that fork."""
    first = files.events[0] if files.events else None
    if link.kind is Kind.RUN or first is None or first.kind is not EventKind.ROUTE_DECISION:
        return
    start = link.trailers.get("Swarm-Fork")
    known: Sequence[Entry]
    if start is not None and today.routing is not None:
        known = [decision for decision in today.forks if decision.fork and decision.fork.commit == start]
    elif start is None and link.seal is not None and link.seal.routing is not None:
        known = link.seal.routing.entries[-1:]
    else:
        return
    if not any(isinstance(each, Decision) and _is_logged_as(each, first.payload) for each in known):
        yield link.finding("events", "the decision that led there is not the one in the routing note", link.events)


def _is_logged_as(decision: Decision, payload: Mapping[str, JsonValue]) -> bool:
    """Each target of a fork logs it as the decision that leads there."""
    logged = decision.audit_fields()
    targets = [decision.to_step, *(decision.fork.pending if decision.fork else ())]
    return any({**logged, "to_step": target} == payload for target in targets)
