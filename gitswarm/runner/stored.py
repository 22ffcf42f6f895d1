"""What commits of a run hold, read again: envelopes and evidence of steps, what is open, texts of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import intern

from msgspec import Struct, field

from gitswarm.evidence.declarations import CaseCounts, TextChange, compare_cases, is_test_file
from gitswarm.git.object_reader import DIRECTORY
from gitswarm.git.objects import EXECUTABLE, FILE, Objects
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import OpenConcern, StepRecord
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Concern, DiffSummary, Evidence
from gitswarm.runner.session import Session


def envelope_of(session: Session, record: StepRecord) -> Envelope | None:
    """
    :raises GarbledError: it is not what git-swarm wrote there.
    """
    content = session.repository.objects.file(record.tree, record.execution.envelope)
    if content is None:
        return None
    return parsed(Envelope.from_json, content, session.layout, _where(record, record.execution.envelope))


def evidence_of(session: Session, record: StepRecord) -> Evidence | None:
    """
    :raises GarbledError: as `envelope_of`.
    """
    content = session.repository.objects.file(record.tree, record.execution.evidence)
    if content is None:
        return None
    return parsed(Evidence.from_json, content, session.layout, _where(record, record.execution.evidence))


def _where(record: StepRecord, path: str) -> str:
    return f"{record.commit[:12]}:{path}"


def open_concerns(session: Session, state: RunState, *, blocking: bool = False) -> tuple[Concern, ...]:
    """The oldest first.

    :param blocking: only those that keep the run from being proven.
    """
    chosen = state.blocking if blocking else state.concerns
    return tuple(told_concern(session, concern) for concern in chosen)


def told_concern(session: Session, concern: OpenConcern) -> Concern:
    """What the evidence of the step that opened it says of a concern."""
    evidence = evidence_of(session, concern.opened_by)
    for each in evidence.opened if evidence is not None else ():
        if each.id == concern.id:
            return each
    return Concern(id=concern.id, flag=concern.id.partition("@")[0], blocking=concern.blocking, fact="")


_MOST_CHARS = 3_000_000
_OURS = ".swarm"
_WORD = re.compile(r"\w+")


class StoredTests(Struct):
    """The project's Python tests by tree. Only folders and files that changed since the tree before are read."""

    objects: Objects
    _folders: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=dict)
    """By path: its tree, and (path, blob id) of the test files below it."""
    _words: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """By blob id: characters, and the words in them."""

    def naming(self, names: frozenset[str], tree: str) -> Iterator[str]:
        """Texts in which one of the names stands, among the first three million characters in the order of paths."""
        left, before, self._words = _MOST_CHARS, self._words, {}
        for _path, blob_id in self._below(tree, ""):
            chars, words = self._words[blob_id] = before.get(blob_id) or _read(self._text(blob_id))
            left -= chars
            if left < 0:
                return
            if not names.isdisjoint(words):
                yield self._text(blob_id)

    def _text(self, blob_id: str) -> str:
        return self.objects.read_blob(blob_id).decode(errors="replace")

    def _below(self, tree: str, folder: str) -> tuple[tuple[str, str], ...]:
        known, found = self._folders.get(folder, ("", ()))
        if known != tree:
            found = tuple(self._listed(tree, folder))
            self._folders[folder] = (tree, found)
        return found

    def _listed(self, tree: str, folder: str) -> Iterator[tuple[str, str]]:
        for name, (object_id, mode) in self.objects.entries(tree).items():
            path = f"{folder}{name}"
            if mode == DIRECTORY and path != _OURS:
                yield from self._below(object_id, f"{path}/")
            elif mode in (FILE, EXECUTABLE) and name.endswith(".py") and is_test_file(path):
                yield path, object_id


def _read(text: str) -> tuple[int, frozenset[str]]:
    return len(text), frozenset(map(intern, _WORD.findall(text)))


def cases_between(objects: Objects, before: str, after: str, diff: DiffSummary) -> CaseCounts:
    """Declared test cases of the files in `diff`, which is the difference of these two trees."""
    return compare_cases(text_changes(objects, before, after, diff))


def text_changes(objects: Objects, before: str, after: str, diff: DiffSummary) -> Iterator[TextChange]:
    """Binary files are left out."""
    for changed in diff.files:
        if changed.insertions is not None:
            old = text_of(objects, before, changed.old_path or changed.path)
            yield TextChange(changed.path, old, text_of(objects, after, changed.path), changed.old_path)


def text_of(objects: Objects, tree: str, path: str) -> str | None:
    """None: there is no such file."""
    content = objects.file(tree, path)
    return content.decode(errors="replace") if content is not None else None
