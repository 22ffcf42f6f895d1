"""Turns the worktree into a tree with git's own staging, and a tree back into the worktree."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from gitswarm.worktree.shadow import Shadow

_NOT_OURS = ":(exclude,top,glob)[.]swarm/runs/**"


def stage(shadow: Shadow, index: Path | None = None) -> str:
    """Tree of all code in the worktree, as `git add -A` sees it: filters, LFS, sparse and ignore rules honoured.

    Files that were copied into the worktree are left out, whatever an agent did to the index.

    :param index: a private index instead of the worktree's own.
    """
    extra = {"GIT_INDEX_FILE": str(index)} if index else None
    quiet = ("-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false")
    copied = shadow.copied
    if copied:
        forget(shadow, copied, index)
    shadow.git.output(
        *quiet, "add", "-A", "--", ".", _NOT_OURS, *(_without(name) for name in copied), extra_env=extra
    )
    return shadow.git.output("write-tree", extra_env=extra).decode().strip()


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


def enter_in_index(shadow: Shadow, files: Mapping[str, str]) -> None:
    """Records files that we stored ourselves in the worktree's index: path → blob id, no filter in between."""
    lines = b"".join(
        f"100644 {blob_id}\t{path}".encode(errors="surrogateescape") + b"\0" for path, blob_id in files.items()
    )
    shadow.git.output("update-index", "-z", "--index-info", stdin=lines)


def ensure_index(shadow: Shadow, tree: str) -> None:
    """Makes the index anew from `tree` when there is none, or none that git can read."""
    if shadow.git.run("ls-files", "--error-unmatch", "--", ":(top,literal).no/such/file").returncode == 1:
        return
    (shadow.git_dir / "index").unlink(missing_ok=True)
    align_index(shadow, tree)


def unhide(shadow: Shadow) -> None:
    """Takes the bits off that make `git add` overlook files; those of a sparse checkout stay."""
    listed = shadow.git.output("ls-files", "-v", "-z").split(b"\0")
    hidden = [os.fsdecode(line[2:]) for line in listed if line[:1].islower()]
    _flag(shadow, "--no-assume-unchanged", hidden)
    sparse = shadow.git.run("config", "--type=bool", "--get", "core.sparseCheckout").stdout.strip() == b"true"
    if not sparse:
        _flag(shadow, "--no-skip-worktree", [os.fsdecode(line[2:]) for line in listed if line[:1] in (b"S", b"s")])


def _flag(shadow: Shadow, flag: str, names: Sequence[str]) -> None:
    if names:
        stdin = b"".join(os.fsencode(name) + b"\0" for name in names)
        shadow.git.output("update-index", flag, "-z", "--stdin", stdin=stdin)


def align_index(shadow: Shadow, tree: str) -> None:
    """Makes the index equal to `tree`; keeps what it knows about files that are the same."""
    shadow.git.output("read-tree", "--reset", tree)


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


def in_the_way(shadow: Shadow, tree: str) -> list[str]:
    """Ignored files that cannot stay beside `tree`: it has something at their path, or a file above or below it."""
    listed = shadow.git.output("ls-tree", "-r", "-z", tree).split(b"\0")
    entries = (os.fsdecode(line).partition("\t") for line in listed if not line.startswith(b"160000 "))
    files = {name for _about, _tab, name in entries}
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    return [name for name in _listed(shadow, "--ignored") if name in folders or not files.isdisjoint(_ways(name))]


def _ways(name: str) -> set[str]:
    """A path and the folders that lead there."""
    return {name, *(str(folder) for folder in PurePosixPath(name).parents)}


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


def photograph(shadow: Shadow, *, also: Sequence[str] = ()) -> str:
    """Tree of the worktree as it is now, taken with a private index; the real one is not touched.

    :param also: ignored files that are to be in it too.
    """
    private = shadow.git_dir / "index.swarm"
    # With its time: git tells a file that changed within the second by comparing with the index's own time.
    shutil.copy2(shadow.git_dir / "index", private)
    try:
        tree = stage(shadow, index=private)
        return _with_ignored(shadow, private, also) if also else tree
    finally:
        private.unlink(missing_ok=True)


def _with_ignored(shadow: Shadow, index: Path, names: Sequence[str]) -> str:
    extra = {"GIT_INDEX_FILE": str(index)}
    listed = b"".join(b":(top,literal)" + os.fsencode(name) + b"\0" for name in names)
    shadow.git.output(*("add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"), stdin=listed, extra_env=extra)
    return shadow.git.output("write-tree", extra_env=extra).decode().strip()


def ignored(shadow: Shadow, folders: Sequence[str]) -> set[str]:
    """Which of these folders git ignores here."""
    asked = b"".join(f"{name}/".encode(errors="surrogateescape") + b"\0" for name in folders)
    # Exit code 1 says that none is ignored.
    done = shadow.git.run("check-ignore", "-z", "--no-index", "--stdin", stdin=asked)
    names = (raw.decode(errors="surrogateescape").rstrip("/") for raw in done.stdout.split(b"\0"))
    return {name for name in names if name}
