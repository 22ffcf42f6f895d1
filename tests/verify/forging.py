"""Rewrites the commits of a run with plumbing, as somebody who wants to change what it says."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ObjectType

from gitswarm.git.object_reader import Person
from gitswarm.git.repository import Repository, open_repository
from gitswarm.ledger.finding import events_path
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.verify.commit_reader import Mismatch, Report, link_name
from gitswarm.ledger.verify.verifier import verify_run
from tests.conftest import Project
from tests.forking import trailers

ZERO = datetime.fromtimestamp(0, UTC)
FORGER = Person("Forger", "forger@example.org")


@dataclass
class Forged:
    """A commit as it is to become: its message, and what it wrote in RUN_BASE; paths from there, None: removed."""

    name: str
    message: str
    files: dict[str, bytes | None]
    author: str

    def change(self, path: str, old: bytes, new: bytes) -> None:
        content = self.files[path]
        assert content is not None
        assert old in content, (path, old, content)
        self.files[path] = content.replace(old, new, 1)

    def say(self, old: str, new: str) -> None:
        assert old in self.message, self.message
        self.message = self.message.replace(old, new, 1)


Edit = Callable[[Forged], None]


@dataclass(frozen=True)
class Run:
    """A run in a repository of its own, to be tampered with."""

    project: Project
    run: str

    @cached_property
    def repository(self) -> Repository:
        return open_repository(self.project.root, self.project.env)

    @property
    def layout(self) -> RunLayout:
        return RunLayout(self.run)

    @property
    def branch(self) -> str:
        return self.layout.branch

    @property
    def tip(self) -> str:
        return self.project.git("rev-parse", self.branch)

    def copy(self, folder: Path) -> Run:
        root = folder / "copy"
        shutil.copytree(self.project.root, root, symlinks=True)
        return Run(replace(self.project, root=root), self.run)

    def commits(self) -> list[str]:
        """Oldest first."""
        base = self.project.git("rev-parse", self.layout.base_ref)
        return self.project.git("rev-list", "--reverse", f"{base}..{self.branch}").splitlines()

    def named(self) -> dict[str, str]:
        """Name of each commit (`flow/step@n`) → its id."""
        return {link_name(trailers(self.project, commit)): commit for commit in self.commits()}

    def verified(self, tip: str | None = None) -> Report:
        return verify_run(self.repository, self.layout, tip)

    def found(self, tip: str | None = None) -> list[str]:
        return [line(self, finding) for finding in self.verified(tip).findings]

    def show(self, commit: str, path: str) -> bytes:
        objects = self.repository.objects
        return objects.file(objects.commit(commit).tree, f"{self.layout.base}/{path}") or b""

    def note(self, kind: str, commit: str) -> bytes:
        return self.repository.notes(f"refs/notes/swarm/{self.run}/{kind}").read(commit) or b""

    def put_note(self, kind: str, commit: str, content: bytes) -> None:
        repository = self.repository
        notes = repository.notes(f"refs/notes/swarm/{self.run}/{kind}")
        notes.write(commit, repository.objects.write_blob(content), by=FORGER, when=ZERO)

    def drop_note(self, kind: str, commit: str) -> None:
        self.project.git("notes", f"--ref=refs/notes/swarm/{self.run}/{kind}", "remove", commit)

    def rewrite(self, edit: Edit, *, whole: bool = False) -> dict[str, str]:
        """Makes every commit anew, edited, on top of its rewritten parent, and moves the branch; old id → new id.

        :param whole: also ids in later files, messages and notes, so that the run agrees with itself again.
        """
        renamed: dict[str, str] = {}
        carried: dict[str, tuple[str, str | None]] = {}
        for commit in self.commits():
            renamed[commit] = self._rewritten(commit, edit, renamed, carried, whole=whole)
        if whole:
            self._move_notes(renamed)
        self.project.git("update-ref", self.branch, list(renamed.values())[-1])
        return renamed

    def _rewritten(
        self,
        commit: str,
        edit: Edit,
        renamed: Mapping[str, str],
        carried: dict[str, tuple[str, str | None]],
        *,
        whole: bool,
    ) -> str:
        repository, base = self.repository, self.layout.base
        objects = repository.objects
        store = pygit2.Repository(str(self.project.root))
        head, _gap, message = store.read(commit)[1].decode().partition("\n\n")
        tree, parent = objects.commit(commit).tree, objects.commit(commit).parents[0]
        before = dict(objects.files(objects.commit(parent).tree, base))
        own = {path: blob for path, blob in objects.files(tree, base) if before.get(path) != blob}
        files = {path.removeprefix(f"{base}/"): objects.read_blob(blob) for path, blob in own.items()}
        author = re.findall(r"^author (.*) \d+ [+-]\d+$", head, re.MULTILINE)[0]
        name = link_name(trailers(self.project, commit))
        forged = Forged(name, message, dict(files), author)
        edit(forged)
        if whole:
            forged.files = {path: swapped(content, renamed) for path, content in forged.files.items()}
            forged.message = self._resealed(swapped_text(forged.message, renamed), renamed)
        changed = {
            posixpath.normpath(f"{base}/{path}"): None if content is None else objects.write_blob(content)
            for path, content in forged.files.items()
            if path not in files or content != files[path]
        }
        for path, blob in changed.items():
            carried[path] = (own.get(path, ""), blob)
        listed = dict(objects.files(tree, base))
        kept = {
            path: blob
            for path, (earlier, blob) in carried.items()
            if path not in own and path not in changed and listed.get(path, "") == earlier
        }
        new_tree = objects.with_files(tree, {**kept, **changed})
        lines = head.replace(f"tree {tree}", f"tree {new_tree}").replace(
            f"author {author}", f"author {forged.author}"
        )
        if parent in renamed:
            lines = lines.replace(f"parent {parent}", f"parent {renamed[parent]}")
        return str(store.write(ObjectType.COMMIT, f"{lines}\n\n{forged.message}".encode()))

    def _resealed(self, message: str, renamed: Mapping[str, str]) -> str:
        """With the ids that the parent's notes get."""
        found = re.search(r"^Swarm-Prev-Notes: (\S+) (\S+)$", message, re.MULTILINE)
        if not found:
            return message
        objects = self.repository.objects
        parent = list(renamed)[-1]
        layout, said = self.layout, trailers(self.project, renamed[parent])
        events = objects.entry(objects.commit(renamed[parent]).tree, events_path(layout, said))
        routing = found[2]
        if routing != "-":
            routing = objects.write_blob(swapped(objects.read_blob(routing), renamed) or b"")
        return message.replace(found[0], f"Swarm-Prev-Notes: {events} {routing}")

    def _move_notes(self, renamed: Mapping[str, str]) -> None:
        repository = self.repository
        for kind in ("events", "routing"):
            ref = f"refs/notes/swarm/{self.run}/{kind}"
            old = {commit: repository.notes(ref).read(commit) for commit in renamed}
            self.project.git("update-ref", "-d", ref)
            for commit, content in old.items():
                if content is None:
                    continue
                new = swapped(content, renamed) or b""
                if kind == "events":
                    path = events_path(self.layout, trailers(self.project, renamed[commit]))
                    tree = repository.objects.commit(renamed[commit]).tree
                    new = repository.objects.file(tree, path) or b""
                self.put_note(kind, renamed[commit], new)


def swapped(content: bytes | None, renamed: Mapping[str, str]) -> bytes | None:
    for old, new in renamed.items():
        content = content.replace(old.encode(), new.encode()) if content is not None else None
    return content


def swapped_text(text: str, renamed: Mapping[str, str]) -> str:
    for old, new in renamed.items():
        text = text.replace(old, new)
    return text


def line(run: Run, finding: Mismatch) -> str:
    """`step check path: message`, without the ids of objects and runs, which differ from run to run."""
    path = f"{finding.path.removeprefix(run.layout.base + '/')}: " if finding.path else ""
    mark = "(warning) " if finding.severity == "warning" else ""
    text = f"{finding.step or '-'} {finding.check} {mark}{path}{finding.message}"
    text = re.sub(r"it is no JSON: .*", "it is no JSON", text)
    text = re.sub(r"\b[0-9a-f]{12,41}\b", "ID", text.replace(run.run, "RUN"))
    return re.sub(r"\brun-\d[\d-]+-[0-9a-f]{6}\b", "OTHER", re.sub(r"_ms \d+, the files say \d+", "_ms", text))


def only(name: str, edit: Callable[[Forged], Any]) -> Edit:
    """An edit of one commit."""
    return lambda forged: edit(forged) if forged.name == name else None
