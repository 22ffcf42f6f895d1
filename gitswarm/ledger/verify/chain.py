"""The chain of a run, from its tip to its base: parents, counts, steps of a fork, and copies on another base.

A copy is compared with the commit that it was made from, which is judged in its place.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from msgspec import Struct, field

from gitswarm.errors import CorruptError
from gitswarm.git.sealed import SealedCommit, SealedObjects
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import FORMATS, SCISSORS, Kind, parse_message
from gitswarm.ledger.state import REBASED, REBASED_FROM, RunBase, copied_message
from gitswarm.ledger.verify.commit_reader import ChainCommit, Link, Mismatch
from gitswarm.ledger.verify.run_files import CommitFiles
from gitswarm.records.envelope import Envelope
from gitswarm.records.execution import RUN_ID, RUNS_FOLDER

StepKey = tuple[str, str]
"""Flow and step."""

_OWN = ("Swarm-Fork-Commit", "Swarm-Prev-Notes", "Swarm-Status")
"""Trailers that differ between the two commits of a step."""

_CONFLICT_FIELDS = {"status", "claimed_status", "status_reason", "concerns"}


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
        return [*(item.id for item in self.commits), *self.copies.values()]

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
        try:
            commit = objects.commit(cursor)
        except CorruptError as error:
            chain.findings.append(Mismatch(commit=cursor, check="objects", message=error.message))
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
            origin = message.trailers.get("Swarm-Forked-From", "").partition(" ")[0]
            if not RUN_ID.fullmatch(origin):
                chain.base = cursor
                break
            run = RunLayout(origin)
    chain.commits.reverse()
    chain.findings += _formats(chain.commits)
    if chain.base is None:
        message_of_end = f"the way down from {tip} does not reach the first commit of {run.run_id}"
        chain.findings += _foreign(foreign[:1] if not chain.commits else [])
        chain.findings.append(Mismatch(check="chain", message=message_of_end))
    return chain


def _foreign(commits: Sequence[str]) -> Iterator[Mismatch]:
    if commits:
        which = "a commit" if len(commits) == 1 else f"{len(commits)} commits, this one the newest,"
        yield Mismatch(commit=commits[0], check="chain", message=f"{which} that git-swarm did not write for this run")


def _form(item: ChainCommit) -> Iterator[Mismatch]:
    """A straight line of messages as git-swarm writes them."""
    commit, message = item.commit, item.message
    if len(commit.parents) != 1:
        yield item.finding("chain", f"it has {len(commit.parents)} parents: a run is a straight line")
    trailers = "\n".join(f"{name}: {value}" for name, value in message.trailers.items())
    parts = (message.subject, message.body, trailers)
    if commit.message != "\n\n".join(part for part in parts if part) + "\n":
        yield item.finding("chain", "its message has lines that git-swarm did not write")
    if SCISSORS in commit.message:
        yield item.finding("trailers", f"git takes a line of its message for the end of it: {SCISSORS}")
    forked_from = message.trailers.get("Swarm-Forked-From")
    if forked_from is not None and forked_from.split()[1:] != list(commit.parents):
        yield item.finding("chain", f"Swarm-Forked-From says {forked_from}, its parent is another commit")


def _formats(commits: Sequence[ChainCommit]) -> Iterator[Mismatch]:
    """A run keeps the format that it began with."""
    first = commits[0].message.trailers.get("Swarm-Format") if commits else None
    for item in commits:
        name = item.trailers.get("Swarm-Format")
        if name != first or name not in FORMATS:
            yield item.finding("trailers", f"Swarm-Format says {name}")


class ChainCounts(Struct, frozen=True):
    """What the chain had so far: steps, ends of its own, highest iteration of each step, steps that did not fail."""

    steps: int = 0
    ends: int = 0
    iterations: Mapping[StepKey, int] = field(default_factory=dict)
    completed: frozenset[StepKey] = frozenset()

    def after(self, link: Link) -> ChainCounts:
        if link.kind is Kind.RUN:
            return ChainCounts(self.steps, 0, self.iterations, self.completed)
        if link.execution is None:
            return ChainCounts(self.steps, self.ends + 1, self.iterations, self.completed)
        key = (link.execution.flow, link.execution.step)
        highest = max(self.iterations.get(key, 0), link.execution.iteration)
        completed = self.completed if link.is_failed else self.completed | {key}
        return ChainCounts(self.steps + 1, self.ends, {**self.iterations, key: highest}, completed)


def check_numbers(
    link: Link, files: CommitFiles, before: ChainCounts, elsewhere: Mapping[StepKey, int] | None
) -> Iterator[Mismatch]:
    """
    :param elsewhere: highest iterations of executions without a commit on the branch: they leave gaps. None:
        that is not known here.
    """
    if link.kind is Kind.END:
        yield from _end(link, files, before)
    elif link.execution is not None:
        execution = link.execution
        key = (execution.flow, execution.step)
        last = before.iterations.get(key, 0)
        if execution.iteration <= last:
            yield link.finding("numbers", f"iteration {execution.iteration} comes after iteration {last}")
        elif elsewhere is not None and execution.iteration > max(last, elsewhere.get(key, 0)) + 1:
            yield link.finding("numbers", f"iteration {execution.iteration} comes after {last}: one is missing")


def _end(link: Link, files: CommitFiles, before: ChainCounts) -> Iterator[Mismatch]:
    if link.trailers.get("Swarm-Iteration") != str(before.ends + 1):
        yield link.finding("numbers", f"it is the end number {before.ends + 1} of the run")
    payload = files.events[-1].payload if files.events else {}
    for name, count in (("total_steps_executed", before.steps), ("steps_completed", len(before.completed))):
        if name in payload and payload[name] != count:
            yield link.finding("numbers", f"{name} is {payload[name]}, the chain has {count}", link.events)


def check_start(link: Link, earlier: Container[str]) -> Iterator[Mismatch]:
    """A parallel step started from a commit of the chain.

    :param earlier: the commits of the chain that this one may have started from.
    """
    start = link.trailers.get("Swarm-Fork")
    if start is not None and start not in earlier:
        yield link.finding("forks", f"Swarm-Fork names {start}, which is not an earlier commit of the run")


def check_replay(link: Link, sibling: Link | None) -> Iterator[Mismatch]:
    """A commit on the branch against the step's own commit."""
    if sibling is None:
        yield link.warning("forks", f"its own commit {link.replays} is not here, and cannot be compared")
        return
    names = {*link.trailers, *sibling.trailers} - {*_OWN}
    for name in sorted(names):
        if link.trailers.get(name) != sibling.trailers.get(name):
            yield link.finding("forks", f"{name} is not as in its own commit {sibling.id[:12]}")
    execution = link.execution
    if execution is None or sibling.execution is None:
        return
    engine = link.trailers.get("Swarm-Engine", "").partition("/")[0]
    for path in (execution.receipt, execution.evidence, execution.events, execution.transcript(engine)):
        if link.files.get(path) != sibling.files.get(path):
            yield link.finding("forks", f"is not as in its own commit {sibling.id[:12]}", path)
    if not _is_same_envelope(link.files.get(execution.envelope), sibling.files.get(execution.envelope)):
        yield link.finding("forks", f"is not as in its own commit {sibling.id[:12]}", execution.envelope)


def _is_same_envelope(content: bytes | None, original: bytes | None) -> bool:
    """Whether an envelope is the same, or differs only by the outcome of code that conflicted."""
    if content == original:
        return True
    try:
        envelopes = [Envelope.from_json(found or b"") for found in (content, original)]
    except ValueError:
        return False
    plain = [envelope.to_plain(_CONFLICT_FIELDS) for envelope in envelopes]
    return plain[0] == plain[1]


def executed_chain(objects: SealedObjects, chain: Chain) -> Chain:
    """The chain with the commits that executing its steps made in place of their copies.

    Its base is the one that the run began on.
    """
    if not any(REBASED_FROM in item.trailers for item in chain.commits):
        return _with_bases(chain)
    found = Chain(chain.layout, base=chain.base)
    before: str | None = None
    for item in chain.commits:
        origin = _copied_from(objects, item, found)
        found.commits.append(origin)
        if origin is not item:
            found.copies[origin.id] = item.id
            found.findings += _differences(objects, item, origin)
        if before is not None and _executed(objects, origin.commit.parents) != before:
            found.findings.append(origin.finding("chain", "its parent is not the step before it"))
        before = origin.id
    found.findings += _tested_code(objects, chain, found)
    first = found.commits[0]
    if first.trailers.get("Swarm-Kind") == Kind.RUN and first.commit.parents:
        found.base = first.commit.parents[0]
    return _with_bases(found)


def _copied_from(objects: SealedObjects, item: ChainCommit, found: Chain) -> ChainCommit:
    """What a copy was made from; itself, if it is none or that cannot be read."""
    name = item.trailers.get(REBASED_FROM)
    if name is None:
        return item
    try:
        commit = objects.commit(name)
    except (CorruptError, ValueError) as error:
        found.findings.append(item.finding("objects", f"{REBASED_FROM} names {name}: {error}"))
        return item
    message = parse_message(commit.message)
    if message is None or message.trailers.get("Swarm-Run") != item.layout.run_id:
        found.findings.append(item.finding("chain", f"{REBASED_FROM} names {name}, no commit of the run"))
        return item
    return ChainCommit(item.layout, commit, message)


def _differences(objects: SealedObjects, copy: ChainCommit, origin: ChainCommit) -> Iterator[Mismatch]:
    one, other = copy.commit, origin.commit
    if one.message != copied_message(other.message, other.id):
        yield copy.finding("trailers", f"its message is not that of {other.id}")
    if (one.author, one.committer) != (other.author, other.committer):
        yield copy.finding("chain", f"its author or committer is not that of {other.id}")
    folder = copy.layout.base
    try:
        entries = [objects.entry(commit.tree, folder) for commit in (one, other)]
    except CorruptError as error:
        yield copy.finding("objects", error.message)
        return
    if entries[0] != entries[1]:
        yield copy.finding("paths", f"is not as in {other.id}", folder)


def _tested_code(objects: SealedObjects, chain: Chain, found: Chain) -> Iterator[Mismatch]:
    """The copy of the step that ended the rebase has the code that was tested."""
    copies = {copy: executed for executed, copy in found.copies.items()}
    ends = (item for item in reversed(chain.commits) if item.id in copies)
    newest = next((item for item in ends if REBASED in item.trailers), None)
    if newest is None or newest.trailers[REBASED].partition(" ")[0] != chain.base:
        return
    try:
        origin = objects.commit(copies[newest.id])
        codes = {objects.with_folder(commit.tree, RUNS_FOLDER, None) for commit in (newest.commit, origin)}
    except CorruptError as error:
        yield newest.finding("objects", error.message)
        return
    if len(codes) > 1:
        yield newest.finding("paths", f"its code is not that of {origin.id}")


def _executed(objects: SealedObjects, parents: tuple[str, ...]) -> str | None:
    """The commit that executing a parent's step made."""
    try:
        commit: SealedCommit = objects.commit(parents[0])
    except (CorruptError, IndexError):
        return None
    message = parse_message(commit.message)
    return message.trailers.get(REBASED_FROM, commit.id) if message is not None else commit.id


def _with_bases(chain: Chain) -> Chain:
    """The commits, each with the base that it was about."""
    if chain.base is not None:
        ground = RunBase(chain.base, chain.base)
        for item in chain.commits:
            ground = ground.after(item.trailers)
            chain.bases[item.id] = ground.base
    return chain
