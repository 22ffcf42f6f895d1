"""The way from the tip of a run down to the commit that it branched off."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from gitswarm.errors import GarbledError
from gitswarm.git.sealed import SealedCommit, SealedObjects
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import FORMATS, CommitMessage, Kind, parse_message
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.link import link_name
from gitswarm.records.run_id import RUN_ID


class ChainCommit(Struct, frozen=True):
    """A commit of a run; `layout` is another run's where the chain is shared with it."""

    layout: RunLayout
    commit: SealedCommit
    message: CommitMessage


class Chain(Struct):
    """The commits of a run and of those that it was forked from, oldest first. `base`: what all of it branched off,
    None when the way there is broken.

    `copies`: commit → the one on the branch that was made from it, for another base; `bases`: commit → the base that
    its code is a change of.
    """

    layout: RunLayout
    commits: list[ChainCommit] = field(default_factory=list)
    findings: list[Mismatch] = field(default_factory=list)
    base: str | None = None
    copies: dict[str, str] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        return [*(item.commit.id for item in self.commits), *self.copies.values()]

    @property
    def own(self) -> list[ChainCommit]:
        return [item for item in self.commits if item.layout == self.layout]


def walk(objects: SealedObjects, layout: RunLayout, tip: str, base: str | None) -> Chain:
    """
    :param base: where the walk ends in any case.
    """
    chain = Chain(layout)
    run, cursor = layout, tip
    foreign: list[str] = []
    while cursor != base:
        commit = _commit(objects, cursor, chain)
        if commit is None:
            break
        message = parse_message(commit.message)
        if message is None or message.trailers.get("Swarm-Run") != run.run_id:
            foreign.append(commit.id)
            if not commit.parents:
                break
            cursor = commit.parents[0]
            continue
        chain.findings += _foreign(foreign)
        foreign = []
        item = ChainCommit(run, commit, message)
        chain.commits.append(item)
        chain.findings += _form(item)
        if not commit.parents:
            break
        cursor = commit.parents[0]
        if message.trailers.get("Swarm-Kind") == Kind.RUN:
            origin = _origin(item)
            if origin is None:
                chain.base = cursor
                break
            run = origin
    chain.commits.reverse()
    chain.findings += _formats(chain.commits)
    if chain.base is None:
        said = Mismatch(
            check="chain", message=f"the way down from {tip} does not reach the first commit of {run.run_id}"
        )
        chain.findings += [*_foreign(foreign[:1] if not chain.commits else []), said]
    return chain


def _commit(objects: SealedObjects, commit_id: str, chain: Chain) -> SealedCommit | None:
    try:
        return objects.commit(commit_id)
    except GarbledError as error:
        chain.findings.append(Mismatch(commit=commit_id, check="objects", message=error.message))
        return None


def _foreign(commits: list[str]) -> Iterator[Mismatch]:
    if commits:
        which = "a commit" if len(commits) == 1 else f"{len(commits)} commits, this one the newest,"
        yield Mismatch(commit=commits[0], check="chain", message=f"{which} that git-swarm did not write for this run")


def _form(item: ChainCommit) -> Iterator[Mismatch]:
    """A straight line of messages as git-swarm writes them."""
    commit, message = item.commit, item.message

    def finding(text: str) -> Mismatch:
        return Mismatch(commit=commit.id, step=link_name(message.trailers), check="chain", message=text)

    if len(commit.parents) != 1:
        yield finding(f"it has {len(commit.parents)} parents: a run is a straight line")
    trailers = "\n".join(f"{name}: {value}" for name, value in message.trailers.items())
    parts = (message.subject, message.body, trailers)
    if commit.message != "\n\n".join(part for part in parts if part) + "\n":
        yield finding("its message has lines that git-swarm did not write")
    forked_from = message.trailers.get("Swarm-Forked-From")
    if forked_from is not None and forked_from.split()[1:] != list(commit.parents):
        yield finding(f"Swarm-Forked-From says {forked_from}, its parent is another commit")


def _formats(commits: list[ChainCommit]) -> Iterator[Mismatch]:
    """A run keeps the format that it began with."""
    first = commits[0].message.trailers.get("Swarm-Format") if commits else None
    for item in commits:
        said = item.message.trailers.get("Swarm-Format")
        if said != first or said not in FORMATS:
            step = link_name(item.message.trailers)
            yield Mismatch(commit=item.commit.id, step=step, check="trailers", message=f"Swarm-Format says {said}")


def _origin(item: ChainCommit) -> RunLayout | None:
    """The run that this one was forked from."""
    run = item.message.trailers.get("Swarm-Forked-From", "").partition(" ")[0]
    return RunLayout(run) if RUN_ID.fullmatch(run) else None
