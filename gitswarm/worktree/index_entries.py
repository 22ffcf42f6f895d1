"""Entries of the index that are written without `git add`: submodules, and changed files that git refuses to stage
(an encoding that it does not know, a required filter that fails); repositories that an agent made in the worktree.

For a submodule `git add` starts `git status` in it, which obeys the configuration that lies there: filters, monitors.
An agent can write that file, so only HEAD is read and the index written by ourselves; repositories that an agent made
lose their `.git` before any git call of ours could run their configuration.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from gitswarm.git.incoming import Incoming
from gitswarm.git.process import Git
from gitswarm.untrusted import next_name
from gitswarm.worktree.shadow import Shadow

# A folder whose change time is younger than this when we look may change again within the same clock tick.
_RACY_NS = 50_000_000
_NEVER = -1


class _Folder(Struct):
    changed_ns: int
    subfolders: tuple[str, ...]
    has_git: bool


class NestedFinder(Struct):
    """Walks one worktree again and again; folders whose change time stayed are not listed again.

    The change time (ctime) cannot be set back by a program, unlike the modification time.
    """

    root: Path
    _known: dict[str, _Folder] = field(default_factory=dict)

    def find(self, now_ns: int) -> list[str]:
        """Relative paths of folders below the root that hold a `.git` of any kind, sorted."""
        return sorted(self._walk(now_ns))

    def _walk(self, now_ns: int) -> Iterator[str]:
        pending = [""]
        alive: dict[str, _Folder] = {}
        while pending:
            name = pending.pop()
            folder = self._look(name, now_ns)
            if folder is None:
                continue
            alive[name] = folder
            if folder.has_git and name:
                yield name
            pending.extend(f"{name}/{sub}" if name else sub for sub in folder.subfolders)
        self._known = alive

    def _look(self, name: str, now_ns: int) -> _Folder | None:
        path = os.path.join(self.root, name) if name else str(self.root)  # noqa: PTH118 - 10,000s of these per walk
        try:
            changed_ns = os.stat(path, follow_symlinks=False).st_ctime_ns  # noqa: PTH116
            known = self._known.get(name)
            if known is not None and known.changed_ns == changed_ns:
                return known
            subfolders = []
            has_git = False
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name == ".git":
                        has_git = True
                    elif entry.is_dir(follow_symlinks=False):
                        subfolders.append(entry.name)
        except OSError:
            return None  # gone or unreadable: git will say what it thinks of it
        racy = now_ns - changed_ns < _RACY_NS
        return _Folder(_NEVER if racy else changed_ns, tuple(subfolders), has_git)


def quarantine(worktree: Path, folder: str, store: Path) -> Path:
    """Moves the `.git` of a nested repository out of the worktree; its files become ordinary files."""
    store.mkdir(parents=True, exist_ok=True)
    target = next_name(store, folder)
    shutil.move(str(worktree / folder / ".git"), str(target))
    return target


# A submodule may be a partial clone: what it lacks would be fetched, by a program that its configuration names.
_NOTHING_FETCHED = {"GIT_ALLOW_PROTOCOL": "none"}
_GITLINK = "160000"


def is_submodule(shadow: Shadow, name: str) -> bool:
    """Whether this is a submodule that is checked out, with a `.git` of its own: one that leads elsewhere could be
    anybody's."""
    place = shadow.path / name
    pointer = place / ".git"
    in_place = place.resolve() == shadow.path.resolve() / name
    if name not in shadow.submodules or not in_place or pointer.is_symlink():
        return False
    if not pointer.is_file():
        return pointer.is_dir()
    target = pointer.read_bytes().removeprefix(b"gitdir:").strip().decode(errors="surrogateescape")
    return (place / target).resolve().is_relative_to(shadow.git_dir.resolve() / "modules")


def submodule_heads(shadow: Shadow) -> dict[str, str]:
    """Submodules that are checked out, with the commit that each of them stands on."""
    found = {}
    for name in shadow.submodules:
        if is_submodule(shadow, name):
            head = _git(shadow, name).run("rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
            if head:
                found[name] = head
    return found


def enter_submodules(shadow: Shadow, commits: Mapping[str, str], extra_env: Mapping[str, str] | None) -> None:
    """Records the commits of submodules in an index, as `git add` would."""
    if commits:
        lines = b"".join(f"{_GITLINK} {commit}\t{name}".encode() + b"\0" for name, commit in commits.items())
        shadow.git.output("update-index", "-z", "--index-info", stdin=lines, extra_env=extra_env)


def restore_submodules(shadow: Shadow, tree: str) -> None:
    """Moves submodules that are checked out to the commits that `tree` names for them.

    Uncommitted changes in one of them are in no commit of ours: where they are in the way it stays as it is.
    """
    for name, head in submodule_heads(shadow).items():
        wanted = shadow.git.run("rev-parse", "--verify", "--quiet", f"{tree}:{name}").stdout.decode().strip()
        if wanted and wanted != head:
            git = _git(shadow, name)
            quiet = _no_filters(git)
            git.run(*quiet, "update-index", "-q", "--refresh")
            if git.run(*quiet, "read-tree", "-m", "-u", head, wanted).returncode == 0:
                git.output("update-ref", "--no-deref", "-m", "git-swarm: restored", "HEAD", wanted)


def _git(shadow: Shadow, name: str) -> Git:
    place: Path = shadow.path / name
    return Git({**shadow.git.env, **_NOTHING_FETCHED}, place / ".git", place)


def _no_filters(git: Git) -> list[str]:
    """Options that switch off every filter that the submodule itself configures."""
    names = git.run("config", "--local", "--name-only", "-z", "--get-regexp", r"^filter\..*").stdout
    drivers = {match[1] for match in re.finditer(r"filter\.([^\0]*)\.[^.\0]*\0", names.decode(errors="replace"))}
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return [
        word for name in sorted(drivers) for key, to in off.items() for word in ("-c", f"filter.{name}.{key}={to}")
    ]


_AT_ONCE = 500
_DOTGIT = re.compile(rb"(?<![^/])(\.git|git~)[^/]*", re.IGNORECASE)
_GONE = f"0 {'0' * 40}"


def add_unconverted(shadow: Shadow, incoming: Incoming, paths: Sequence[str], left_out: Collection[str]) -> None:
    """Enters into the index of `incoming` what differs there from the worktree. No attribute has an effect.

    :param paths: pathspecs of what is looked at.
    :param left_out: files that are not.
    """
    changed = [name for name in _changed(shadow, incoming, paths) if os.fsdecode(name) not in left_out]
    lines: list[bytes] = []
    regular: list[tuple[bytes, str]] = []
    for name in changed:
        try:
            found = (shadow.path / os.fsdecode(name)).lstat()
        except (FileNotFoundError, NotADirectoryError):
            lines.append(_line(_GONE, name))
            continue
        if stat.S_ISLNK(found.st_mode):
            target = os.fsencode((shadow.path / os.fsdecode(name)).readlink())
            made = shadow.git.output("hash-object", "-w", "--stdin", stdin=target, extra_env=incoming.env)
            lines.append(_line(f"120000 {made.decode().strip()}", name))
        elif stat.S_ISREG(found.st_mode):
            regular.append((name, "100755" if found.st_mode & stat.S_IXUSR else "100644"))
    for start in range(0, len(regular), _AT_ONCE):
        some = regular[start : start + _AT_ONCE]
        names = [os.fsdecode(name) for name, _mode in some]
        made = shadow.git.output("hash-object", "-w", "--no-filters", "--", *names, extra_env=incoming.env)
        ids = made.decode().split()
        lines += [_line(f"{mode} {blob_id}", name) for (name, mode), blob_id in zip(some, ids, strict=True)]
    _enter(shadow, incoming, lines)


def _enter(shadow: Shadow, incoming: Incoming, lines: Sequence[bytes]) -> None:
    """Paths that no index can hold get a similar name: what is in the files is not lost."""
    if not _ignores(shadow, incoming, b"".join(lines)):
        return
    for line in lines:
        if _ignores(shadow, incoming, line):
            about, tab, name = line.partition(b"\t")
            _ignores(shadow, incoming, about + tab + _DOTGIT.sub(rb"_\g<0>", name))


def _ignores(shadow: Shadow, incoming: Incoming, lines: bytes) -> bool:
    """Enters what it can; whether git reported that it left a path out, which it does not by its exit code."""
    entered = shadow.git.succeed("update-index", "-z", "--index-info", stdin=lines, extra_env=incoming.env)
    return b"Ignoring path" in entered.stderr


def _changed(shadow: Shadow, incoming: Incoming, paths: Sequence[str]) -> Iterator[bytes]:
    """Tracked files that look changed, then untracked ones; repositories of their own are neither."""
    quiet = ("--raw", "-z", "--no-renames", "--ignore-submodules=all")
    listed = shadow.git.output("diff-files", *quiet, "--", *paths, extra_env=incoming.env).split(b"\0")
    yield from listed[1::2]
    others = ("ls-files", "--others", "--exclude-standard", "-z", "--", *paths)
    for name in shadow.git.output(*others, extra_env=incoming.env).split(b"\0"):
        if name and not name.endswith(b"/"):
            yield name


def _line(about: str, name: bytes) -> bytes:
    return f"{about}\t".encode() + name + b"\0"
