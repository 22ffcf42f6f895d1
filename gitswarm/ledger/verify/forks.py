"""Steps that were executed beside others: what came onto the branch is what was committed beside it."""

from __future__ import annotations

from collections.abc import Container, Iterator

from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.link import Link
from gitswarm.records.envelope import Envelope

_OWN = ("Swarm-Fork-Commit", "Swarm-Prev-Notes", "Swarm-Status")
"""Trailers that differ between the two commits of a step."""

_TOLD_OF_CONFLICT = {"status", "claimed_status", "status_reason", "concerns"}


def check_start(link: Link, earlier: Container[str]) -> Iterator[Mismatch]:
    """A step beside others started from a commit of the chain.

    :param earlier: the commits of the chain that this one may have started from.
    """
    start = link.said.get("Swarm-Fork")
    if start is not None and start not in earlier:
        yield link.finding("forks", f"Swarm-Fork names {start}, which is not an earlier commit of the run")
    if link.beside and start != link.parent:
        yield link.finding("forks", f"its parent is not the fork {start}")


def check_replay(link: Link, sibling: Link | None) -> Iterator[Mismatch]:
    """A commit on the branch against the step's own commit."""
    if sibling is None:
        yield link.warning("forks", f"its own commit {link.replays} is not here, and cannot be compared")
        return
    names = {*link.said, *sibling.said} - {*_OWN}
    for name in sorted(names):
        if link.said.get(name) != sibling.said.get(name):
            yield link.finding("forks", f"{name} is not as in its own commit {sibling.id[:12]}")
    execution = link.execution
    if execution is None or sibling.execution is None:
        return
    engine = link.said.get("Swarm-Engine", "").partition("/")[0]
    for path in (execution.receipt, execution.evidence, execution.events, execution.transcript(engine)):
        if link.papers.get(path) != sibling.papers.get(path):
            yield link.finding("forks", f"is not as in its own commit {sibling.id[:12]}", path)
    if not _is_same_envelope(link.papers.get(execution.envelope), sibling.papers.get(execution.envelope)):
        yield link.finding("forks", f"is not as in its own commit {sibling.id[:12]}", execution.envelope)


def _is_same_envelope(content: bytes | None, original: bytes | None) -> bool:
    """The same, or with what became of code that conflicted."""
    if content == original:
        return True
    try:
        envelopes = [Envelope.from_json(found or b"") for found in (content, original)]
    except ValueError:
        return False
    plain = [envelope.model_dump(exclude=_TOLD_OF_CONFLICT) for envelope in envelopes]
    return plain[0] == plain[1]
