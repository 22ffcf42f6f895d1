"""What git reads from the repository besides its objects: configuration, hooks, ignore rules and refs.

All worktrees share these files, so an agent that is not contained can have the next `git add`, ours or the user's,
run a program of its choice, overlook files, or write to branches. What a step changed there is put back before git is
called.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from gitswarm.errors import CorruptError, SwarmError
from gitswarm.git.discovery import SPARSE_PATHS
from gitswarm.git.process import Git, RunningGit
from gitswarm.git.ref_files import RefFiles
from gitswarm.git.refs import Refs
from gitswarm.worktree import snapshot
from gitswarm.worktree.push_block import BASE
from gitswarm.worktree.shadow import Shadow

_WATCHED_REFS = ("refs/heads/", "refs/tags/", "refs/remotes/")
_SHADOW = "refs/heads/shadow/"
_FILES = (
    *("config", "config.worktree", "info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout"),
    SPARSE_PATHS,
)
_BLOCK = f"url.{BASE}."
_LARGEST_BYTES = 32 << 20
_FILTER = re.compile(
    r"filter\..*\.(clean|smudge|process|required)|core\.attributesfile|include(if)?\..*", re.IGNORECASE
)
_OF_PEOPLE = re.compile(r"branch\..+|remote\.(?P<remote>.+)\.(?:url|fetch)", re.IGNORECASE)

_Content = tuple[int, bytes | None]
"""Mode and bytes of a file; of a link, the path it leads to; nothing of folders, pipes and files over 32 MB."""


class RepositoryWatch(Struct):
    """Compares with what was there at `leave`. A person may work in the repository meanwhile: upstream settings of
    branches, new remotes and refs that they moved themselves stay.

    :param outside: the user's own configuration files, which are never written here.
    :param is_own: whether a hook with this content is one that git-swarm installs.
    :param agents: end of the e-mail addresses of agents, by which reflogs show who moved a ref.
    """

    shadow: Shadow
    common_dir: Path
    refs: Refs
    outside: tuple[Path, ...]
    is_own: Callable[[bytes], bool]
    agents: str
    _files: dict[Path, _Content | None] = field(default_factory=dict)
    _folders: tuple[Path, ...] = ()
    _refs: dict[str, str] = field(default_factory=dict)
    _seen: tuple[object, ...] = ()

    def leave(self) -> None:
        """From here on every change is the step's, or a person's who works at the same time."""
        self._files = {path: _content(path) for path in self._paths()}
        roots = {self.common_dir, self.shadow.git_dir}
        folders = {path.parent for path in self._files if path.is_relative_to(self.common_dir)}
        self._folders = tuple(
            folder for folder in {*folders, self.common_dir / "hooks"} - roots if _is_folder(folder)
        )
        print_now = self._ref_print()
        if print_now != self._seen:
            self._refs, self._seen = self._read_refs(), print_now

    def put_back(self, kept: Path) -> list[str]:
        """Undoes what was changed since `leave`; what it was, each named as a person would.

        :param kept: folder for the files as they had become.
        :raises SwarmError: the user's own configuration has filters that it did not have.
        """
        self._refuse_outside()
        found = [*self._put_folders_back(kept), *self._put_files_back(kept), *self._put_refs_back()]
        if found:
            self.leave()
        return found

    def _paths(self) -> Iterator[Path]:
        for folder in dict.fromkeys((self.common_dir, self.shadow.git_dir)):
            yield from (folder / name for name in _FILES)
        hooks = self.common_dir / "hooks"
        if hooks.is_symlink():  # what it leads to is not of this repository
            yield hooks
        else:
            for top, folders, names in os.walk(hooks):
                yield from (Path(top, name) for name in sorted(names) if not name.endswith(".sample"))
                yield from (path for name in folders if (path := Path(top, name)).is_symlink())
        yield from self.outside

    def _put_folders_back(self, kept: Path) -> Iterator[str]:
        """What a step put in place of a folder is moved away, before anything is read or written below it."""
        for folder in sorted(self._folders):
            if _is_folder(folder):
                continue
            if folder.is_symlink() or folder.exists():
                _keep(folder, None, kept / f"{folder.name}.{time.time_ns()}")
            folder.mkdir(parents=True)
            yield f".git/{folder.relative_to(self.common_dir).as_posix()}"

    def _put_files_back(self, kept: Path) -> Iterator[str]:
        changed = []
        for path in dict.fromkeys((*self._files, *self._paths())):
            before, now = self._files.get(path), _content(path)
            if now != before and path not in self.outside and not (before and before[1] is None):
                changed.append((path, before, now))
        # What git cannot read as a file goes first: a pipe in place of `config` would stop the next git for good.
        for path, before, now in sorted(changed, key=lambda entry: entry[2] is None or entry[2][1] is not None):
            if self._may_be(path, before, now):
                continue
            if now is not None:
                _keep(path, now[1], kept / f"{path.name}.{time.time_ns()}")
            _write(path, before)
            keys = self._changed_keys(before, now) if path.name.startswith("config") else []
            name = f".git/{path.relative_to(self.common_dir).as_posix()}"
            yield f"{name} ({', '.join(sorted(keys)[:3])})" if keys else name

    def _may_be(self, path: Path, before: _Content | None, now: _Content | None) -> bool:
        """Whether it is a change that people make, or git-swarm itself, and that runs nothing of an agent's."""
        if now is not None and now[1] is None:
            return False
        if path.is_relative_to(self.common_dir / "hooks"):
            there = now if now is not None else before
            own = there is not None and there[1] is not None and self.is_own(there[1])
            return own or (now is not None and now in self._files.values())
        old, new = self._keys(before), self._keys(now)
        remotes = {key.removeprefix("remote.").rpartition(".")[0] for key in old if key.startswith("remote.")}
        for key in self._changed_keys(before, now) if path.name.startswith("config") else ("",):
            people = _OF_PEOPLE.fullmatch(key)
            if (people is None or people["remote"] in remotes) and not self._by_init(key, old.get(key), new.get(key)):
                return False
        return True

    def _by_init(self, key: str, before: str | None, now: str | None) -> bool:
        """Whether `git swarm init` sets this, or its opposite takes it away."""
        own = {"core.hookspath": str(self.common_dir / "swarm" / "hooks"), "extensions.worktreeconfig": "true"}
        return key.startswith(_BLOCK) or (key in own and own[key] in (before, now))

    def _changed_keys(self, before: _Content | None, now: _Content | None) -> list[str]:
        old, new = self._keys(before), self._keys(now)
        return sorted(key for key in {*old, *new} if old.get(key) != new.get(key))

    def _keys(self, content: _Content | None) -> Mapping[str, str]:
        """Name → its values in order. A file that git cannot read has one key that says so."""
        if content is None or content[1] is None:
            return {}
        done = self._git.run("config", "--file", "-", "--list", "-z", "--no-includes", stdin=content[1])
        if done.returncode != 0:
            return {"unreadable": str(hash(content[1]))}
        keys: dict[str, str] = {}
        for entry in done.stdout.decode(errors="replace").split("\0")[:-1]:
            name, _line, value = entry.partition("\n")
            keys[name] = f"{keys[name]}\n{value}" if name in keys else value
        return keys

    @property
    def _git(self) -> Git:
        return Git(self.shadow.git.env)

    def _refuse_outside(self) -> None:
        for path in self.outside:
            before, now = self._files.get(path), _content(path)
            keys = [key for key in self._changed_keys(before, now) if _FILTER.fullmatch(key)] if before != now else []
            if keys:
                raise SwarmError(
                    f"{path}: {', '.join(keys[:3])} changed while a step was executed: git would run it on its files",
                    hint=f"git config --file {shlex.quote(str(path))} --list   (when it is right: git swarm resume)",
                )

    def _put_refs_back(self) -> Iterator[str]:
        if self._ref_print() == self._seen:
            return
        now = self._read_refs()
        for name in sorted({*self._refs, *now}):
            before, after = self._refs.get(name), now.get(name)
            if before == after or not self._moved_by_agent(name):
                continue
            self.refs.swap(name, after, before, why="a step moved it")
            yield f"{name} (moved to {after[:12]})" if after else f"{name} (deleted)"

    def _moved_by_agent(self, name: str) -> bool:
        try:
            lines = (self.common_dir / "logs" / name).read_bytes().splitlines()
        except OSError:
            return False
        about = lines[-1].partition(b"\t")[0] if lines else b""
        return f"{self.agents}>".encode() in about

    def _read_refs(self) -> dict[str, str]:
        reader = RefFiles(self.common_dir)
        names = (name for prefix in _WATCHED_REFS for name in reader.list(prefix) if not name.startswith(_SHADOW))
        return {name: found for name in names if (found := _read_ref(reader, name)) is not None}

    def _ref_print(self) -> tuple[object, ...]:
        """Changes with every ref that git moves: it renames a file in the ref's folder, or replaces packed-refs."""
        seen: list[object] = [_stat(self.common_dir / "packed-refs")]
        for prefix in _WATCHED_REFS:
            for folder, folders, _names in os.walk(self.common_dir / prefix):
                if prefix == "refs/heads/" and Path(folder) == self.common_dir / "refs/heads":
                    folders[:] = [name for name in folders if name != "shadow"]
                seen.append((folder, _stat(Path(folder))))
        return tuple(seen)


def _read_ref(reader: RefFiles, name: str) -> str | None:
    try:
        return reader.read(name)
    except (CorruptError, OSError):  # a damaged ref of somebody else's
        return None


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _content(path: Path) -> _Content | None:
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return found.st_mode, os.fsencode(path.readlink())
        is_read = stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST_BYTES
        return found.st_mode, path.read_bytes() if is_read else None
    except OSError:
        return None


def _keep(path: Path, content: bytes | None, kept: Path) -> None:
    """A copy, so that readers of `path` find a file all the time; what is no usual file is moved."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        shutil.move(path, kept)
    else:
        kept.write_bytes(content)


def _write(path: Path, content: _Content | None) -> None:
    """The file as it was; git's own readers never see half of it."""
    mode, before = content or (0, None)
    if before is None:
        path.unlink(missing_ok=True)
        return
    staged = path.with_name(f"{path.name}.swarm")
    staged.unlink(missing_ok=True)
    if stat.S_ISLNK(mode):
        staged.symlink_to(os.fsdecode(before))
    else:
        staged.write_bytes(before)
        staged.chmod(stat.S_IMODE(mode))
    path.parent.mkdir(parents=True, exist_ok=True)
    staged.replace(path)


_Print = tuple[int, int, int]


class IndexWatch(Struct):
    """Looks into the index only when somebody else wrote it since `leave`; that costs two git processes."""

    shadow: Shadow
    _left: _Print | None = None
    _aligning: RunningGit | None = None

    def begin_aligning(self, tree: str, files: Mapping[str, str | None] | None) -> None:
        """Starts to make the index equal to `tree`, which differs in `files`; `leave` waits for it."""
        self.leave()
        self._aligning = snapshot.begin_aligning(self.shadow, tree, files)

    def leave(self) -> None:
        """From here on every change of the index is somebody else's."""
        if self._aligning is not None:
            self._aligning.wait()
            self._aligning = None
        self._left = self._print()

    def repair(self, tree: str) -> None:
        """Makes an index that git cannot read anew from `tree`, and shows files that were hidden in it."""
        now = self._print()
        if now is not None and now == self._left:
            return
        snapshot.repair_index(self.shadow, tree)

    def _print(self) -> _Print | None:
        try:
            found = (self.shadow.git_dir / "index").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns, found.st_size
