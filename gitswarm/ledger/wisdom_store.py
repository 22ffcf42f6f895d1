"""Writes the scent trail: one commit per change, by compare-and-swap, for several runs may end at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from gitswarm.errors import NotFoundError, RefMovedError
from gitswarm.git.object_reader import NewCommit
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import HUMAN, KERNEL, agent_identity
from gitswarm.ledger.message import CommitMessage
from gitswarm.ledger.store import scrubbed_record
from gitswarm.ledger.wisdom import WISDOM_REF, read_entry, wisdom_file
from gitswarm.records.base import Clock
from gitswarm.records.guidance import RunWisdom, Settled
from gitswarm.records.safety import Scrubber

MOST_RUNS = 200
_ATTEMPTS = 100
"""Each one that is lost is another writer's that was won."""

_Change = Callable[[RunWisdom | None], RunWisdom]
"""What a run's entry becomes; None: there is none yet."""


class Written(Struct, frozen=True):
    """`commit`: of the ref, with the change in it; `is_new` False: it was there already."""

    commit: str
    is_new: bool


class WisdomStore(Struct, frozen=True):
    """No secret gets through it."""

    repository: Repository
    clock: Clock
    scrubber: Scrubber

    def add(self, entry: RunWisdom) -> Written:
        """What a run taught, in place of what it said before; the same once more changes nothing. What people did
        with proposals stays with those that stay the same."""
        clean = scrubbed_record(entry, self.scrubber)

        def change(earlier: RunWisdom | None) -> RunWisdom:
            if earlier is None:
                return clean
            whole = clean.model_copy(update={"settled": _still_settled(clean, earlier)})
            is_known = whole.model_copy(update={"date": earlier.date}) == earlier
            return earlier if is_known else whole

        summary = f"{len(clean.lessons)} learned, {len(clean.offered)} proposed"
        return self._write(clean.run_id, KERNEL, summary, change)

    def settle(self, run_id: str, settled: Settled) -> Written:
        """What a person did with a proposal, in place of what was said about it before.

        :raises NotFoundError: nothing of the run is there any more.
        """
        clean = scrubbed_record(settled, self.scrubber)

        def change(earlier: RunWisdom | None) -> RunWisdom:
            if earlier is None:
                raise NotFoundError(f"{WISDOM_REF} has no entry for {run_id} any more", hint="git swarm wisdom list")
            others = tuple(each for each in earlier.settled if each.proposal != clean.proposal)
            return earlier.model_copy(update={"settled": (*others, clean)})

        return self._write(run_id, HUMAN, f"{clean.proposal} {clean.state}", change)

    def _write(self, run_id: str, by: str, summary: str, change: _Change) -> Written:
        """
        :raises RefMovedError: the ref is moved faster than we can write.
        """
        subject = f"wisdom of {run_id}: {summary}"
        for attempt in range(_ATTEMPTS):
            tip = self.repository.refs.read(WISDOM_REF)
            earlier = read_entry(self.repository, tip, run_id) if tip is not None else None
            entry = change(earlier)
            if tip is not None and entry == earlier:
                return Written(tip, is_new=False)
            commit = self._commit(tip, entry, by, subject)
            try:
                self.repository.refs.swap(WISDOM_REF, tip, commit, why=subject)
            except RefMovedError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return Written(commit, is_new=True)
        raise AssertionError("unreachable")

    def _commit(self, tip: str | None, entry: RunWisdom, by: str, subject: str) -> str:
        objects = self.repository.objects
        before = objects.commit(tip).tree if tip is not None else None
        tree = objects.with_files(before, {wisdom_file(entry.run_id): objects.write_blob(entry.to_json())})
        tree = objects.with_files(tree, dict.fromkeys(_expired(objects.entries(tree))))
        message = CommitMessage(subject, "", {}).render()
        author, committer = agent_identity(by), self.repository.committer()
        parents = (tip,) if tip is not None else ()
        return objects.write_commit(NewCommit(tree, parents, message, author, committer, self.clock()))


def _still_settled(entry: RunWisdom, earlier: RunWisdom) -> tuple[Settled, ...]:
    same = {each.id for each in entry.proposals if each in earlier.proposals}
    return tuple(each for each in earlier.settled if each.proposal in same)


def _expired(names: Iterable[str]) -> list[str]:
    """Files of all but the newest runs, whose ids sort by creation."""
    return sorted(names, reverse=True)[MOST_RUNS:]
