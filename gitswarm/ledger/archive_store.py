"""Puts runs into the archive, and takes them out: one compare-and-swap each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from gitswarm.errors import RefMovedError, SwarmError
from gitswarm.git.locks import Locks
from gitswarm.git.object_reader import NewCommit
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.repository import Repository
from gitswarm.ledger.archive import COMMITS, OVERVIEW, REFS, TITLE, TREES, printed_objects
from gitswarm.ledger.layout import KERNEL, RunLayout, agent_identity
from gitswarm.ledger.overview import RunOverview
from gitswarm.records.execution import BRANCH_PREFIX, RUNS_FOLDER
from gitswarm.records.record import Clock

_ATTEMPTS = 20
_LOCK_WAIT_S = 1.0
_MOST_COMMITS = 50_000
"""More do not belong to one run: somebody pointed a ref of it elsewhere."""


class PackedRun(Struct, frozen=True):
    """A run as it is stored. `boundary`: parents of its commits that are not stored with them."""

    layout: RunLayout
    files: Mapping[str, bytes]
    trees: str
    boundary: frozenset[str]


class ArchiveStore(Struct, frozen=True):
    """`chained`: each commit has the one before as a parent, so that a push finds out what the other side has."""

    repository: Repository
    clock: Clock
    chained: bool = False

    def put(self, *runs: PackedRun) -> None:
        """Stores runs in one move, each in place of what is there of it."""
        objects = self.repository.objects
        folders = {}
        for run in runs:
            files = objects.with_files(
                None, {name: objects.write_blob(content) for name, content in run.files.items()}
            )
            folders[run.layout.base] = objects.with_subtree(files, TREES, run.trees)

        def change(tree: str | None) -> str:
            changed = tree or objects.with_files(None, {})
            for path, folder in folders.items():
                changed = objects.with_subtree(changed, path, folder)
            return changed

        self._write(change, frozenset().union(*(run.boundary for run in runs)))

    def drop(self, layout: RunLayout) -> None:
        """Safe to repeat."""
        if self.repository.refs.read(ARCHIVE_REF) is not None:
            objects = self.repository.objects
            self._write(lambda tree: objects.with_subtree(tree or "", layout.base, None), frozenset())

    def packed(self, overview: RunOverview, refs: Mapping[str, str]) -> PackedRun:
        """A run with all that its refs reach.

        :param refs: all of the run, with their commits.
        :raises SwarmError: one of them is no commit, or leads far away.
        """
        git, layout = self.repository.git, RunLayout(overview.run_id)
        tips = sorted(set(refs.values()))
        stdin = "".join(f"{tip}\n" for tip in tips).encode()
        kinds = git.output("cat-file", "--batch-check=%(objecttype)", stdin=stdin).decode().split("\n")
        for tip, kind in zip(tips, kinds, strict=False):
            if kind != "commit":
                name = next(name for name, value in refs.items() if value == tip)
                raise SwarmError(f"{name} is not a commit but a {kind}", hint=f"git update-ref -d {name}")
        known = [refs[name] for name in (layout.base_ref, layout.upstream_ref) if name in refs]
        others = (f"--exclude={BRANCH_PREFIX}*", "--branches", "--remotes", "--tags")
        listed = git.output("rev-list", "--parents", f"--max-count={_MOST_COMMITS}", *tips, "--not", *known, *others)
        parents = {own: rest for own, *rest in (line.split() for line in listed.decode().splitlines())}
        if len(parents) >= _MOST_COMMITS:
            raise SwarmError(
                f"the refs of {layout.run_id} reach more than {_MOST_COMMITS:,} commits that no other ref has",
                hint=f"git for-each-ref refs/swarm/{layout.run_id}",
            )
        stdin = "".join(f"{commit_id}\n" for commit_id in parents).encode()
        printed = git.output("cat-file", "--batch", stdin=stdin) if parents else b""
        # Each begins with `tree ` and its id.
        trees = "".join(
            f"040000 tree {content[5:45].decode()}\t{own}\n" for own, content in printed_objects(printed).items()
        )
        tree = git.output("mktree", stdin=trees.encode())
        files = {
            OVERVIEW: json.dumps(overview.to_plain(), ensure_ascii=False, indent=1).encode() + b"\n",
            REFS: "".join(f"{commit_id} {name}\n" for name, commit_id in sorted(refs.items())).encode(),
            COMMITS: printed,
        }
        every = {*tips, *(parent for each in parents.values() for parent in each)}
        return PackedRun(layout, files, tree.decode().strip(), frozenset(every - parents.keys()))

    def _write(self, change: Callable[[str | None], str], boundary: frozenset[str]) -> None:
        """
        :param boundary: commits that the archive has to keep, too.
        :raises RefMovedError: somebody who does not know our lock moves the ref all the time.
        """
        with Locks(self.repository.common_dir).repository():
            self._remove_lock()
            for attempt in range(_ATTEMPTS):
                try:
                    self._try_write(change, boundary)
                except RefMovedError:
                    if attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return

    def _try_write(self, change: Callable[[str | None], str], boundary: frozenset[str]) -> None:
        objects = self.repository.objects
        tip = self.repository.refs.read(ARCHIVE_REF)
        before = objects.commit(tip) if tip is not None else None
        if tip is not None and before is not None and not before.message.startswith(TITLE):
            raise SwarmError(
                f"{ARCHIVE_REF} is at {tip[:12]}, which git-swarm did not make",
                hint=f"git branch kept {tip[:12]} && git update-ref -d {ARCHIVE_REF} {tip[:12]}",
            )
        tree = change(before.tree if before is not None else None)
        if before is not None and tree == before.tree:
            return
        count = len(objects.names(tree, RUNS_FOLDER))
        kept = () if before is None else (before.id,) if self.chained else before.parents
        parents = self._independent({*boundary, *kept})
        author, committer = agent_identity(KERNEL), self.repository.committer()
        message = f"{TITLE}, runs: {count}\n"
        commit = objects.write_commit(NewCommit(tree, parents, message, author, committer, self.clock()))
        self.repository.refs.swap(ARCHIVE_REF, tip, commit if count else None, why="archive")

    def _remove_lock(self) -> None:
        """That of a killed process: who holds the repository's lock is alone, but for git, which is done at once."""
        lock = self.repository.common_dir / f"{ARCHIVE_REF}.lock"
        deadline = time.monotonic() + _LOCK_WAIT_S
        while lock.exists():
            if time.monotonic() > deadline:
                lock.unlink(missing_ok=True)
            time.sleep(0.02)

    def _independent(self, commits: set[str]) -> tuple[str, ...]:
        """The commits that no other of them reaches."""
        if len(commits) < 2:
            return tuple(commits)
        return tuple(
            sorted(self.repository.git.output("merge-base", "--independent", *sorted(commits)).decode().split())
        )
