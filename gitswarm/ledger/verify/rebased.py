"""Copies of commits on another base: each against the one that it was made from, which is judged in its place."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.errors import GarbledError
from gitswarm.git.sealed import SealedCommit, SealedObjects
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.rebase import REBASED, REBASED_FROM, RunBase, copied_message
from gitswarm.ledger.verify.chain import Chain, ChainCommit
from gitswarm.ledger.verify.finding import Check, Mismatch
from gitswarm.ledger.verify.link import link_name
from gitswarm.ledger.verify.notes import RunNotes
from gitswarm.records.execution import RUNS_FOLDER


def executed_chain(objects: SealedObjects, chain: Chain) -> Chain:
    """The chain with the commits that executing its steps made in place of their copies.

    Its base is the one that the run began on.
    """
    if not any(REBASED_FROM in item.message.trailers for item in chain.commits):
        return _with_bases(chain)
    found = Chain(chain.layout, base=chain.base)
    before: str | None = None
    for item in chain.commits:
        origin = _origin(objects, item, found)
        found.commits.append(origin)
        if origin is not item:
            found.copies[origin.commit.id] = item.commit.id
            found.findings += _differences(objects, item, origin)
        if before is not None and _executed(objects, origin.commit.parents) != before:
            found.findings.append(_finding(origin, "chain", "its parent is not the step before it"))
        before = origin.commit.id
    found.findings += _tested_code(objects, chain, found)
    first = found.commits[0]
    if first.message.trailers.get("Swarm-Kind") == Kind.RUN and first.commit.parents:
        found.base = first.commit.parents[0]
    return _with_bases(found)


def check_copied_notes(chain: Chain, notes: RunNotes) -> Iterator[Mismatch]:
    """A copy has the notes of its commit; what was decided after it may follow."""
    for item in chain.commits:
        executed, copy = item.commit.id, chain.copies.get(item.commit.id)
        if copy is None:
            continue
        events = {(notes.events or {}).get(name) for name in (executed, copy)} - {None}
        if len(events) > 1:
            yield _finding(item, "notes", f"the events note of its copy {copy[:12]} is another one")
        routing = notes.routing or {}
        if not routing.get(copy, b"").startswith(routing.get(executed, b"")):
            yield _finding(item, "notes", f"the routing note of its copy {copy[:12]} begins otherwise")


def _origin(objects: SealedObjects, item: ChainCommit, found: Chain) -> ChainCommit:
    """What a copy was made from; itself, if it is none or that cannot be read."""
    name = item.message.trailers.get(REBASED_FROM)
    if name is None:
        return item
    try:
        commit = objects.commit(name)
    except (GarbledError, ValueError) as error:
        found.findings.append(_finding(item, "objects", f"{REBASED_FROM} names {name}: {error}"))
        return item
    message = parse_message(commit.message)
    if message is None or message.trailers.get("Swarm-Run") != item.layout.run_id:
        found.findings.append(_finding(item, "chain", f"{REBASED_FROM} names {name}, no commit of the run"))
        return item
    return ChainCommit(item.layout, commit, message)


def _differences(objects: SealedObjects, copy: ChainCommit, origin: ChainCommit) -> Iterator[Mismatch]:
    one, other = copy.commit, origin.commit
    if one.message != copied_message(other.message, other.id):
        yield _finding(copy, "trailers", f"its message is not that of {other.id}")
    if (one.author, one.committer) != (other.author, other.committer):
        yield _finding(copy, "chain", f"its author or committer is not that of {other.id}")
    folder = copy.layout.base
    try:
        entries = [objects.entry(commit.tree, folder) for commit in (one, other)]
    except GarbledError as error:
        yield _finding(copy, "objects", error.message)
        return
    if entries[0] != entries[1]:
        yield Mismatch(
            commit=one.id,
            step=link_name(copy.message.trailers),
            check="paths",
            path=folder,
            message=f"is not as in {other.id}",
        )


def _tested_code(objects: SealedObjects, chain: Chain, found: Chain) -> Iterator[Mismatch]:
    """The copy of the step that ended the rebase has the code that was tested."""
    copies = {copy: executed for executed, copy in found.copies.items()}
    ends = (item for item in reversed(chain.commits) if item.commit.id in copies)
    newest = next((item for item in ends if REBASED in item.message.trailers), None)
    if newest is None or newest.message.trailers[REBASED].partition(" ")[0] != chain.base:
        return
    try:
        origin = objects.commit(copies[newest.commit.id])
        codes = {objects.with_folder(commit.tree, RUNS_FOLDER, None) for commit in (newest.commit, origin)}
    except GarbledError as error:
        yield _finding(newest, "objects", error.message)
        return
    if len(codes) > 1:
        yield _finding(newest, "paths", f"its code is not that of {origin.id}")


def _executed(objects: SealedObjects, parents: tuple[str, ...]) -> str | None:
    """The commit that executing a parent's step made."""
    try:
        commit: SealedCommit = objects.commit(parents[0])
    except (GarbledError, IndexError):
        return None
    message = parse_message(commit.message)
    return message.trailers.get(REBASED_FROM, commit.id) if message is not None else commit.id


def _with_bases(chain: Chain) -> Chain:
    """With the base that each of the commits was about."""
    if chain.base is not None:
        ground = RunBase(chain.base, chain.base)
        for item in chain.commits:
            ground = ground.after(item.message.trailers)
            chain.bases[item.commit.id] = ground.base
    return chain


def _finding(item: ChainCommit, check: Check, message: str) -> Mismatch:
    return Mismatch(commit=item.commit.id, step=link_name(item.message.trailers), check=check, message=message)
