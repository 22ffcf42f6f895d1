"""Turns the worktree into a tree with git's own staging, and a tree back into the worktree."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gitswarm.errors import GitFailedError
from gitswarm.git.incoming import Incoming
from gitswarm.git.process import RunningGit
from gitswarm.git.tree_changes import IndexChange
from gitswarm.worktree.index_entries import add_unconverted, enter_submodules, restore_submodules, submodule_heads
from gitswarm.worktree.search import Flagged, Search, Staged, flagged_files, former_entries, saying_what_takes_long
from gitswarm.worktree.shadow import Shadow

_SMALL_INDEX_BYTES = 250_000  # about 2,500 files (measured: benchmarks/step_cost.py)
# A sparse index would take a folder outside of the patterns as a whole: deletions in it were not seen any more.
_ALIGN = ("-c", "index.sparse=false", "read-tree", "--reset")
_NOT_OURS = ":(exclude,top,glob)[.]swarm/runs/**"
_RUNS = ".swarm/runs/"
_LOCK_WAIT_S = 2.0
_LOOPS = os.fsencode(os.strerror(errno.ELOOP))


def stage(shadow: Shadow, search: Search | None = None) -> Staged:
    """Tree of all code in the worktree, as `git add -A` sees it: filters, LFS, sparse and ignore rules honoured.

    Files that were copied into the worktree are left out, whatever an agent did to the index. So are those in which
    something is found: no object of theirs is written, and their entries are as before.
    """
    with _incoming(shadow) as incoming:
        staged = _staged(shadow, incoming, search, ())
        shadow.objects.flush()
        _replace_index(shadow, incoming.index)
        return staged


def _incoming(shadow: Shadow) -> Incoming:
    return Incoming(shadow.objects.store, shadow.git_dir.name)


def unchanged(tree: str) -> Staged:
    """As if nothing in the worktree differed from `tree`."""
    return Staged(tree)


def _staged(shadow: Shadow, incoming: Incoming, search: Search | None, also: Sequence[str]) -> Staged:
    """Stages into `incoming` again and again, until nothing is found any more, and takes that over."""
    flagged: dict[str, Flagged] = {}
    refused = ""
    while True:
        _copy_index(shadow, incoming)
        with saying_what_takes_long(shadow, search):
            refused = _add_or_take(shadow, incoming, tuple(flagged.values()), also)
        found = _look_through(shadow, incoming, search) if search is not None else {}
        if not found.keys() - flagged.keys():
            break
        flagged |= found
        incoming.empty()
    tree = _tree_of_index(shadow, incoming)
    incoming.accept(shadow.objects)
    return Staged(tree, tuple(flagged.values()), refused)


def _add_or_take(shadow: Shadow, incoming: Incoming, flagged: Sequence[Flagged], also: Sequence[str]) -> str:
    """Adds the files as git does; where it refuses, as they lie on disk, and says why."""
    try:
        _add(shadow, incoming, flagged, also)
    except GitFailedError as error:
        incoming.empty()
        _copy_index(shadow, incoming)
        left_out = (*shadow.copied, *submodule_heads(shadow), *(item.path for item in flagged))
        add_unconverted(shadow, incoming, (".", _NOT_OURS), left_out)
        _leave(shadow, incoming, flagged)
        return error.message
    return ""


def _copy_index(shadow: Shadow, incoming: Incoming) -> None:
    # With its time: git tells a file that changed within the second by comparing with the index's own time.
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(shadow.git_dir / "index", incoming.index)


def _add(shadow: Shadow, incoming: Incoming, flagged: Sequence[Flagged], also: Sequence[str]) -> None:
    # What is larger git writes into a pack, and never has in memory; the rest passes through ours.
    quiet = ("-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false", "-c", "core.bigFileThreshold=1m")
    copied, left_out = shadow.copied, {item.path for item in flagged}
    if copied:
        forget(shadow, copied, incoming.index)
    checked_out = submodule_heads(shadow)
    excluded = [_without(name) for name in (*copied, *checked_out, *left_out)]
    # Without --sparse git refuses as a whole when an agent wrote outside of the sparse patterns.
    added = shadow.git.succeed(
        *quiet, "add", "-A", "--sparse", "--", ".", _NOT_OURS, *excluded, extra_env=incoming.env
    )
    if _LOOPS in added.stderr:
        forget(shadow, _beyond_loops(shadow, incoming), incoming.index)
    enter_submodules(shadow, checked_out, incoming.env)
    names = b"".join(os.fsencode(name) + b"\0" for name in also if name not in left_out)
    if names:
        arguments = ("update-index", "--add", "--replace", "-z", "--stdin")
        shadow.git.output(*arguments, stdin=names, extra_env=incoming.env)
    _leave(shadow, incoming, flagged)


def _leave(shadow: Shadow, incoming: Incoming, flagged: Sequence[Flagged]) -> None:
    """Entries as they were before: an agent may have added the files itself."""
    if flagged:
        shadow.git.output("update-index", "-z", "--index-info", stdin=former_entries(flagged), extra_env=incoming.env)


def _beyond_loops(shadow: Shadow, incoming: Incoming) -> list[str]:
    """Files of the index in whose place on disk a link leads in a circle.

    `git add` takes them for unreadable, not for gone, and keeps them where that link is ignored.
    """
    listed = shadow.git.output("ls-files", "-z", extra_env=incoming.env).split(b"\0")
    return [os.fsdecode(raw) for raw in listed if raw and _loops(shadow.path / os.fsdecode(raw))]


def _loops(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _look_through(shadow: Shadow, incoming: Incoming, search: Search) -> dict[str, Flagged]:
    changes = _changes(shadow, incoming, search.before)
    return {item.path: item for item in flagged_files(shadow, incoming, search, changes)}


def _changes(shadow: Shadow, incoming: Incoming, tree: str) -> Sequence[IndexChange]:
    """Where the staged index differs from a tree, `.swarm/runs` left out."""
    found = shadow.objects.indexes.changes(tree, incoming.index) if _is_small(incoming.index) else None
    if found is None:
        found = _changes_as_git_sees_them(shadow, incoming, tree)
    return [change for change in found if not change.path.startswith(_RUNS)]


def _changes_as_git_sees_them(shadow: Shadow, incoming: Incoming, tree: str) -> list[IndexChange]:
    arguments = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all")
    listed = shadow.git.output(*arguments, tree, extra_env=incoming.env).split(b"\0")
    return [_raw_change(about, name) for about, name in zip(listed[::2], listed[1::2], strict=False)]


def _raw_change(about: bytes, name: bytes) -> IndexChange:
    """`:100644 100755 <id> <id> M`; an id of zeros is nothing."""
    old_mode, new_mode, *ids, _letter = about[1:].decode().split(" ")
    old, new = (None if set(found) == {"0"} else found for found in ids)
    return IndexChange(os.fsdecode(name), int(old_mode, 8), old, int(new_mode, 8), new)


def _tree_of_index(shadow: Shadow, incoming: Incoming) -> str:
    """libgit2 saves a process where the index is small; it parses a big one slower than git does."""
    tree = shadow.objects.indexes.tree(incoming.index) if _is_small(incoming.index) else None
    if tree is not None:
        return tree
    return shadow.git.output("write-tree", extra_env=incoming.env).decode().strip()


def _is_small(index: Path) -> bool:
    return index.stat().st_size < _SMALL_INDEX_BYTES


def forget(shadow: Shadow, names: Sequence[str], index: Path | None = None) -> None:
    """Takes paths out of the index; files stay where they are."""
    extra = {"GIT_INDEX_FILE": str(index)} if index else None
    listed = b"".join(os.fsencode(name) + b"\0" for name in names)
    shadow.git.output("update-index", "--force-remove", "-z", "--stdin", stdin=listed, extra_env=extra)


def _without(name: str) -> str:
    """Pathspec that leaves one file out.

    Its first letter stands in brackets: `git add` refuses a plain path that is ignored, even one to leave out.
    """
    escaped = re.sub(r"([\\*?\[])", r"\\\1", name[1:])
    first = f"\\{name[0]}" if name[0] in "\\]^!" else f"[{name[0]}]"
    return f":(exclude,top,glob){first}{escaped}"


def begin_aligning(shadow: Shadow, tree: str, files: Mapping[str, str | None] | None) -> RunningGit | None:
    """Makes the index equal to `tree` while we do something else; nobody may use it before it was waited for.
    None: it is done, as libgit2 is quick with a small one.

    :param files: what differs, path → blob id (None: removed); None: that is not known.
    """
    if _aligned_in_process(shadow, tree):
        return None
    # A small index is cheaper to read anew, and then knows the ids of all its folders: `_tree_of_index` needs them.
    if files is None or _is_small(shadow.git_dir / "index"):
        return RunningGit(shadow.git, *_ALIGN, tree)
    lines = b"".join(_index_line(path, blob_id) + b"\0" for path, blob_id in files.items())
    return RunningGit(shadow.git, "update-index", "-z", "--index-info", stdin=lines)


def _index_line(path: str, blob_id: str | None) -> bytes:
    about = f"100644 {blob_id}" if blob_id is not None else f"0 {'0' * 40}"
    return f"{about}\t{path}".encode(errors="surrogateescape")


def repair_index(shadow: Shadow, tree: str) -> None:
    """Makes the index anew from `tree` if git cannot read it, and takes the bits off that make `git add` overlook
    files; those of a sparse checkout stay."""
    found = shadow.git.run("ls-files", "-v", "-z")
    if found.returncode != 0:
        (shadow.git_dir / "index").unlink(missing_ok=True)
        align_index(shadow, tree)
        return
    listed = found.stdout.split(b"\0")
    hidden = [os.fsdecode(line[2:]) for line in listed if line[:1].islower()]
    _flag(shadow, "--no-assume-unchanged", hidden)
    if not is_sparse(shadow):
        _flag(shadow, "--no-skip-worktree", [os.fsdecode(line[2:]) for line in listed if line[:1] in (b"S", b"s")])


def _flag(shadow: Shadow, flag: str, names: Sequence[str]) -> None:
    if names:
        stdin = b"".join(os.fsencode(name) + b"\0" for name in names)
        shadow.git.output("update-index", flag, "-z", "--stdin", stdin=stdin)


def align_index(shadow: Shadow, tree: str) -> None:
    """Makes the index equal to `tree`; keeps what it knows about files that are the same."""
    if not _aligned_in_process(shadow, tree):
        shadow.git.output(*_ALIGN, tree)


def _aligned_in_process(shadow: Shadow, tree: str) -> bool:
    """Costs a seventh of `git read-tree` (100 files: 0.7 ms of CPU, not 5). Only git knows sparse patterns."""
    index = shadow.git_dir / "index"
    if not index.exists() or not _is_small(index) or is_sparse(shadow):
        return False
    aligned = shadow.git_dir / "index.aligned"
    if not shadow.objects.indexes.align(tree, index, aligned):
        return False
    _replace_index(shadow, aligned)
    return True


def _replace_index(shadow: Shadow, staged: Path) -> None:
    """By way of `index.lock`, as git does it: a `git status` beside us, which has read the index before, would write
    the old one over ours. A lock that a killed process left is not waited for long."""
    index, lock = shadow.git_dir / "index", shadow.git_dir / "index.lock"
    until = time.monotonic() + _LOCK_WAIT_S
    while time.monotonic() < until:
        try:
            os.link(staged, lock)
        except FileExistsError:
            time.sleep(0.005)
            continue
        except OSError:  # a file system without links
            break
        lock.replace(index)
        staged.unlink()
        return
    staged.replace(index)


def restore(shadow: Shadow, tree: str, run_base: str) -> None:
    """Makes the worktree equal to `tree`; files that git ignores, before or after, stay where they are.

    Nested repositories stay too. In RUN_BASE, which is ours, everything that is not in the tree goes.
    """
    kept = {*_listed(shadow, "--ignored"), *shadow.copied}
    shadow.git.output("read-tree", "--reset", "-u", tree)
    for name in _listed(shadow):
        if name not in kept and not name.endswith("/"):
            _remove(shadow.path, name)
    shadow.git.output("clean", "-fdxq", "--", f":(top,literal){run_base}")
    reveal(shadow, tree)
    restore_submodules(shadow, tree)


def in_the_way(shadow: Shadow, tree: str) -> list[str]:
    """Ignored files that cannot stay with `tree`: it has something at their place, or a file above or below it.

    A repository of its own is listed as `name/`.
    """
    ignored_files = _listed(shadow, "--ignored")
    if not ignored_files:
        return []
    listed = shadow.git.output("ls-tree", "-r", "-z", tree).split(b"\0")
    entries = (os.fsdecode(line).partition("\t") for line in listed if not line.startswith(b"160000 "))
    leaves = {name for _about, _tab, name in entries}
    folders = {above for leaf in leaves for above in _above(leaf)}
    return [
        name
        for name in ignored_files
        if name.rstrip("/") in leaves or name in folders or any(above in leaves for above in _above(name))
    ]


def _above(name: str) -> Iterator[str]:
    """Every folder on the way to a path."""
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _listed(shadow: Shadow, *flags: str) -> list[str]:
    """Untracked files by today's ignore rules; a repository of its own is listed as `name/`."""
    listed = shadow.git.output("ls-files", "--others", "--exclude-standard", "-z", *flags)
    return [os.fsdecode(raw) for raw in listed.split(b"\0") if raw]


def _remove(root: Path, name: str) -> None:
    """Deletes a file, and the folders that are empty then."""
    path = root / name
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == root:
            return
        try:
            folder.rmdir()
        except OSError:
            return


def write_tree(shadow: Shadow, search: Search | None = None, *, also: Sequence[str] = ()) -> Staged:
    """As `stage`, with a private index; the real one is not touched.

    :param also: ignored files that are to be in it.
    """
    with _incoming(shadow) as incoming:
        return _staged(shadow, incoming, search, also)


def ignored(shadow: Shadow, names: Sequence[str]) -> set[str]:
    """Which of these git ignores here, without the slash that has to stand behind a folder."""
    asked = b"".join(name.encode(errors="surrogateescape") + b"\0" for name in names)
    # Exit code 1 says that none is ignored.
    done = shadow.git.run("check-ignore", "-z", "--no-index", "--stdin", stdin=asked)
    found = (raw.decode(errors="surrogateescape").rstrip("/") for raw in done.stdout.split(b"\0"))
    return {name for name in found if name}


def is_sparse(shadow: Shadow) -> bool:
    if not (shadow.git_dir / "info" / "sparse-checkout").exists():
        return False
    return shadow.git.run("config", "--type=bool", "--get", "core.sparseCheckout").stdout.strip() == b"true"


def reveal(shadow: Shadow, tree: str) -> None:
    """Writes out what differs between the run's base and `tree` and was left out by the sparse patterns.

    `git read-tree -u` takes away every file that the patterns do not name, also one that an agent just wrote there.
    """
    if not is_sparse(shadow):
        return
    changed = shadow.git.output("diff-tree", "-r", "-z", "--name-only", "--diff-filter=AMT", shadow.base, tree)
    listed = shadow.git.output("ls-files", "-t", "-z").split(b"\0")
    hidden = {line[2:] for line in listed if line[:1] == b"S"}
    names = b"".join(name + b"\0" for name in changed.split(b"\0") if name in hidden)
    if names:
        shadow.git.output("update-index", "--no-skip-worktree", "-z", "--stdin", stdin=names)
        shadow.git.output("checkout-index", "--force", "--index", "-z", "--stdin", stdin=names)
