"""A repository to read from: files for refs, one process of git for objects, notes out of both. Commands
that change nothing need no more, and it costs a tenth of the import of libgit2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from gitswarm.errors import NotFoundError
from gitswarm.git.discovery import (
    LinkedWorktree,
    RepositoryPaths,
    belongs_to_another,
    branch_of,
    discover,
    linked_worktrees,
)
from gitswarm.git.object_reader import DIRECTORY, GITLINK, CatFile, ObjectReader, Person
from gitswarm.git.process import Git, scrubbed
from gitswarm.git.ref_files import RefFiles, RefReader, is_id

STAND_IN = Person("git-swarm", "git-swarm@git-swarm.invalid")


class RepositoryReader:
    """One repository, opened from some checkout of it.

    `common_dir` is shared by all its worktrees; `checkout` is the working tree we stand in (None: bare);
    `checkout_git_dir` belongs to that checkout.
    """

    objects: ObjectReader
    refs: RefReader
    is_for_reading = True

    def __init__(self, paths: RepositoryPaths, env: dict[str, str], objects: ObjectReader, refs: RefReader) -> None:
        """
        :param env: scrubbed, for every git that is started.
        """
        self.common_dir = paths.common_dir
        self.checkout = paths.checkout
        self.checkout_git_dir = paths.git_dir
        self.env = env
        self.objects = objects
        self.refs = refs
        self._durable = False

    @property
    def git(self) -> Git:
        """Git on the repository itself, without a working tree."""
        return self.git_in(self.common_dir, None)

    def git_in(self, git_dir: Path, work_tree: Path | None) -> Git:
        """Git on one of the worktrees."""
        return Git(self.env, git_dir, work_tree, self._durable)

    @property
    def checkout_git(self) -> Git:
        """Git on the checkout that we stand in: for reading only, it is not ours."""
        return self.git_in(self.checkout_git_dir, self.checkout)

    @property
    def main_folder(self) -> Path:
        """Folder that people call "the repository": the main checkout, or the bare repository itself."""
        return self.common_dir.parent if self.common_dir.name == ".git" else self.common_dir

    @property
    def swarm_dir(self) -> Path:
        """Local files of ours; nothing in it is needed on another machine."""
        return self.common_dir / "swarm"

    def notes(self, ref: str) -> NoteReader:
        return NoteReader(self.objects, self.refs, ref)

    def head_branch(self) -> str | None:
        """Full name of the branch that is checked out here; None when HEAD is detached."""
        return branch_of(self.checkout_git_dir)

    def main_branch(self) -> str | None:
        """Full name of the branch that the main checkout stands on; None: a bare repository, a detached HEAD."""
        is_bare = self.common_dir.name != ".git" and self._configured.get("core.bare") == "true"
        return branch_of(self.common_dir) if not is_bare else None

    def head(self) -> str | None:
        """Id of the commit that is checked out here, as HEAD and the refs that all worktrees share say."""
        branch = self.head_branch()
        if branch is not None:
            return self.refs.read(branch)
        detached = (self.checkout_git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
        return self.objects.peeled(detached) if is_id(detached) else None

    def resolve(self, revision: str) -> str:
        """Id of the commit that a person means.

        :raises NotFoundError: there is none.
        """
        known = self.head() if revision == "HEAD" else None
        if known is not None:
            return known
        git = Git(self.env, git_dir=self.checkout_git_dir)
        found = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision)
        # Peeled afterwards: `:/text` takes everything behind it as its text.
        commit_id = self.objects.peeled(found.stdout.decode().strip()) if found.returncode == 0 else None
        if commit_id is None:
            raise NotFoundError(f"'{revision}' is not a commit", hint="git log --oneline --all | head")
        return commit_id

    def committer(self) -> Person:
        """The user's identity from git's configuration, or a stand-in; never a prompt."""
        name, email = (self._configured.get(key, "").strip() for key in ("user.name", "user.email"))
        return Person(name, email) if name and email else STAND_IN

    def config(self, prefix: str) -> dict[str, str]:
        """Configuration entries whose lower-cased name starts with `prefix`; the last value wins. A name without `=`
        is `true`, as git reads it; an empty value stays empty."""
        return {name: value for name, value in self._configured.items() if name.lower().startswith(prefix)}

    @cached_property
    def _configured(self) -> dict[str, str]:
        """All configuration, whatever its bytes."""
        entries = self.git.output("config", "--list", "-z").decode(errors="replace").split("\0")
        pairs = (entry.partition("\n") for entry in entries if entry)
        return {name: value if line_end else "true" for name, line_end, value in pairs}

    def linked_worktrees(self) -> Iterator[LinkedWorktree]:
        return linked_worktrees(self.common_dir)

    def worktree_made_for(self, branch: str) -> LinkedWorktree | None:
        """The worktree that was made for a branch and is there, whatever is checked out in it by now; the checkout
        that we stand in too, if that was moved by hand."""
        for linked in self.linked_worktrees():
            if linked.made_for == branch:
                path = self._where(linked)
                if path is not None:
                    return LinkedWorktree(path, linked.git_dir, linked.branch)
        return None

    def _where(self, linked: LinkedWorktree) -> Path | None:
        if linked.path.is_dir():
            return None if belongs_to_another(linked) else linked.path
        if self.checkout is not None and self.checkout_git_dir == linked.git_dir:
            return self.checkout
        return None


def open_reader(folder: Path, env: Mapping[str, str]) -> RepositoryReader:
    """As `open_repository`, for reading only."""
    clean = scrubbed(env)
    paths = discover(env, folder)
    objects = CatFile(Git(clean, paths.common_dir))
    return RepositoryReader(paths, clean, objects, RefFiles(paths.common_dir))


class NoteReader:
    """One notes ref with a fan-out of two hex digits, or without."""

    def __init__(self, objects: ObjectReader, refs: RefReader, ref: str) -> None:
        self._read_objects = objects
        self._read_refs = refs
        self.ref = ref

    @property
    def tip(self) -> str | None:
        return self._read_refs.read(self.ref)

    def read(self, commit_id: str) -> bytes | None:
        """The note on a commit, or None."""
        tip = self.tip
        if tip is None:
            return None
        tree = self._read_objects.commit(tip).tree
        found = self._read_objects.file(tree, f"{commit_id[:2]}/{commit_id[2:]}")
        return found if found is not None else self._read_objects.file(tree, commit_id)

    def by_commit(self) -> dict[str, bytes]:
        """All notes, in no order that means anything."""
        return self.contents(self.blobs())

    def blobs(self) -> dict[str, str]:
        """Ids of the commits that have a note here, each with the id of its note."""
        tip = self.tip
        return dict(self._note_entries(self._read_objects.commit(tip).tree)) if tip is not None else {}

    def contents(self, blobs: Mapping[str, str]) -> dict[str, bytes]:
        """The notes with these ids, by the same keys."""
        found = self._read_objects.files_of([(blob_id, "") for blob_id in blobs.values()])
        return {name: content for name, content in zip(blobs, found, strict=True) if content is not None}

    def _note_entries(self, tree: str, start: str = "") -> Iterator[tuple[str, str]]:
        for name, (entry, mode) in self._read_objects.entries(tree).items():
            if mode == DIRECTORY and not start:
                yield from self._note_entries(entry, name)
            elif mode != GITLINK:
                yield start + name, entry
