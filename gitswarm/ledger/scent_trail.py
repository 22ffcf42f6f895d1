"""The scent trail: what runs taught, as `refs/swarm/wisdom` holds it, and what the edits of a proposal make of files.
One commit per change, by compare-and-swap, for several runs may end at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import CorruptError, NotFoundError, RefMovedError
from gitswarm.git.object_reader import NewCommit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import HUMAN, KERNEL, agent_identity
from gitswarm.ledger.message import CommitMessage
from gitswarm.records.execution import RUN_ID
from gitswarm.records.guidance import Edit, Learning, RunWisdom, ScentTrail, Settled, SharedLesson, SpecProposal
from gitswarm.records.record import Clock
from gitswarm.records.safety import Scrubber, scrubbed_record
from gitswarm.records.text import listed, shorten

if TYPE_CHECKING:
    from gitswarm.git.repository import Repository


WISDOM_REF = "refs/swarm/wisdom"
MOST_LESSONS = 12
"""Shown to the next run: each costs room in its prompts."""

_SUFFIX = ".json"
_SHORT = 6


class Wisdom(Struct, frozen=True):
    """Everything in the ref. `runs`: the newest run first; `unreadable`: names of files that are not what we wrote,
    which nothing is taken from."""

    runs: tuple[RunWisdom, ...] = ()
    unreadable: tuple[str, ...] = ()


class Offer(Struct, frozen=True):
    """A proposal of a run. `id`: `<run short>/WP-001`; `settled` None: it is open."""

    id: str
    run: RunWisdom
    proposal: SpecProposal
    settled: Settled | None


def wisdom_file(run_id: str) -> str:
    return f"{run_id}{_SUFFIX}"


def read_wisdom(repository: RepositoryReader) -> Wisdom:
    """
    :raises CorruptError: the ref leads to something else than our commits.
    """
    tip = repository.refs.read(WISDOM_REF)
    return wisdom_at(repository, tip) if tip is not None else Wisdom()


def wisdom_at(repository: RepositoryReader, commit: str) -> Wisdom:
    """`read_wisdom` at one commit of the trail."""
    try:
        tree = repository.objects.commit(commit).tree
        names = sorted(repository.objects.entries(tree), reverse=True)
        contents = repository.objects.files_of([(tree, name) for name in names])
    except CorruptError as error:
        hint = f"git update-ref -d {WISDOM_REF}   (what earlier runs taught goes with it)"
        raise CorruptError(f"{WISDOM_REF}: {error.message}", hint=hint) from error
    runs = [(name, _parsed(name, content)) for name, content in zip(names, contents, strict=True)]
    return Wisdom(
        tuple(run for _name, run in runs if run is not None),
        tuple(name for name, run in runs if run is None),
    )


def read_entry(repository: RepositoryReader, commit: str, run_id: str) -> RunWisdom | None:
    """What a commit of the ref has of one run; None: nothing that we wrote."""
    name = wisdom_file(run_id)
    return _parsed(name, repository.objects.file(repository.objects.commit(commit).tree, name))


def _parsed(name: str, content: bytes | None) -> RunWisdom | None:
    try:
        found = RunWisdom.from_json(content or b"")
    except ValueError:
        return None
    return found if wisdom_file(found.run_id) == name and RUN_ID.fullmatch(found.run_id) else None


def scent_trail(runs: Sequence[RunWisdom]) -> ScentTrail:
    """Lessons of the same kind, scope and words are one, however many runs learned it.

    :param runs: the newest first.
    """
    found: dict[tuple[object, ...], SharedLesson] = {}
    for run in runs:
        own: dict[tuple[object, ...], Learning] = {}
        for learning in run.lessons:
            own.setdefault(_key(learning), learning)
        for key, learning in own.items():
            known = found.get(key)
            own_words = {name: getattr(learning, name) for name in ("kind", "confidence", "scope", "lesson")}
            first = SharedLesson(run=run.run_id, runs=1, **own_words)
            found[key] = replace(known, runs=known.runs + 1) if known is not None else first
    return ScentTrail(lessons=tuple(found.values())[:MOST_LESSONS])


def _key(learning: Learning) -> tuple[object, ...]:
    words = " ".join(learning.lesson.casefold().split()).rstrip(".! ")
    return learning.kind, frozenset(each.casefold() for each in learning.scope), words


def offers(wisdom: Wisdom) -> list[Offer]:
    """Every proposal, the newest run's first."""
    short = _short_names([run.run_id for run in wisdom.runs])
    return [
        Offer(f"{short[run.run_id]}/{each.id}", run, each, run.settlement(each.id))
        for run in wisdom.runs
        for each in run.offered
    ]


def _short_names(runs: Sequence[str]) -> dict[str, str]:
    """The end of a run's id; the whole id where another run has the same end."""
    ends = [run[-_SHORT:] for run in runs]
    return {run: run if ends.count(run[-_SHORT:]) > 1 else run[-_SHORT:] for run in runs}


def find_offer(wisdom: Wisdom, text: str) -> Offer:
    """The proposal that a person means: `<a part of the run's id>/WP-001`, or `WP-001` where only one is called that.

    :raises NotFoundError: none, or several.
    """
    run, _slash, name = text.rpartition("/")
    found = [each for each in offers(wisdom) if each.proposal.id == name and run in each.run.run_id]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFoundError(f"no run proposed '{text}'", hint="git swarm wisdom list --all")
    ids = ", ".join(each.id for each in found[:4])
    raise NotFoundError(
        f"'{text}' matches {len(found)} proposals: {ids}", hint=f"git swarm wisdom show {found[0].id}"
    )


_QUOTED = 40


class EditedFile(Struct, frozen=True):
    """`old` None: the file is new."""

    path: str
    old: bytes | None
    new: bytes


class Misfit(Struct, frozen=True):
    """An edit that does not fit, and what was found in its place."""

    path: str
    found: str


def edited_files(edits: Iterable[Edit], read: Callable[[str], bytes | None]) -> list[EditedFile] | Misfit:
    """Every file as all edits leave it, each edit on what the ones before it made; or the first that does not fit.

    :param read: content of a file by its path; None: there is none.
    """
    files: dict[str, EditedFile] = {}
    for edit in edits:
        known = files.get(edit.path)
        before = read(edit.path) if known is None else known.new
        misfit = _misfit(edit, before)
        if misfit is not None:
            return Misfit(edit.path, misfit)
        after = edit.new.encode() if before is None else before.replace(edit.old.encode(), edit.new.encode())
        files[edit.path] = EditedFile(edit.path, before if known is None else known.old, after)
    return list(files.values())


def _misfit(edit: Edit, before: bytes | None) -> str | None:
    """Why an edit does not fit; None: it does."""
    if not edit.old:
        return None if before is None else "should be a new file, and is there already"
    if before is None:
        return "there is no such file"
    lines = list(_lines_of(before, edit.old.encode()))
    if len(lines) == 1:
        return None
    quoted = f"'{shorten(edit.old, _QUOTED)}'"
    if lines:
        return f"{quoted} occurs {len(lines)} times: lines {listed([str(line) for line in lines])}"
    applied = edit.new and before.count(edit.new.encode()) == 1
    return f"{quoted} is not in the file" + ("; what it should become does" if applied else "")


def _lines_of(content: bytes, text: bytes) -> Iterator[int]:
    """The lines where a text begins, overlapping ones too."""
    at = content.find(text)
    while at >= 0:
        yield content.count(b"\n", 0, at) + 1
        at = content.find(text, at + 1)


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
        """What a run taught, in place of its earlier entry; repeating it changes nothing. What people did
        with proposals stays with those that stay the same."""
        clean = scrubbed_record(entry, self.scrubber)

        def change(earlier: RunWisdom | None) -> RunWisdom:
            if earlier is None:
                return clean
            whole = replace(clean, settled=_still_settled(clean, earlier))
            is_known = replace(whole, date=earlier.date) == earlier
            return earlier if is_known else whole

        summary = f"{len(clean.lessons)} learned, {len(clean.offered)} proposed"
        return self._write(clean.run_id, KERNEL, summary, change)

    def settle(self, run_id: str, settled: Settled) -> Written:
        """What a person did with a proposal, in place of the earlier settlement.

        :raises NotFoundError: nothing of the run is there any more.
        """
        clean = scrubbed_record(settled, self.scrubber)

        def change(earlier: RunWisdom | None) -> RunWisdom:
            if earlier is None:
                raise NotFoundError(f"{WISDOM_REF} has no entry for {run_id} any more", hint="git swarm wisdom list")
            others = tuple(each for each in earlier.settled if each.proposal != clean.proposal)
            return replace(earlier, settled=(*others, clean))

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
