"""What a sandbox shows, as mounts in their order: of this machine the system and the tools that the environment
names; of the repository what git reads, with copies of what `git add` writes, and nothing that may hold a token.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gitswarm.git.process import Git
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import words
from gitswarm.untrusted import read_file

Kind = Literal["read", "write", "empty", "hidden"]

_SYSTEM = ("/usr", "/opt", "/nix", "/snap", "/gnu", "/etc")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on most systems, folders on others."""

_SECRET_FOLDERS = ("/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d")
"""Hidden from a sandbox of root's whatever their modes are."""

_NOTHING = 4096
"""Bytes of a folder in memory that nothing is written to."""

_TOOLCHAINS = words("""
    .asdf/installs .asdf/shims .bun/bin .cargo/bin .deno/bin .local/bin .local/pipx .local/share/mise
    .local/share/pipx .local/share/uv .nvm/versions .pyenv .rbenv .rustup .sdkman/candidates .volta
    go/bin miniconda3 miniforge3
""")
"""Below a home: programs, and nothing that opens anything."""


class Mount(Struct, frozen=True):
    """`source` None: an empty folder in memory, of at most `size` bytes, stands at `target`; where `kind` is hidden,
    nothing can be written to it."""

    target: Path
    source: Path | None
    kind: Kind
    size: int = 0

    @property
    def is_itself(self) -> bool:
        return self.source == self.target


def shown(path: Path) -> Mount:
    """A mount of a path where it is, to be read."""
    return Mount(path, path, "read")


def writable(path: Path) -> Mount:
    return Mount(path, path, "write")


def covered(path: Path, by: Path) -> Mount:
    """A mount of something else in the place of a path, to be read."""
    return Mount(path, by, "read")


def replaced(path: Path, by: Path) -> Mount:
    """A mount of something else in the place of a path, to be written."""
    return Mount(path, by, "write")


def emptied(path: Path, size: int) -> Mount:
    return Mount(path, None, "empty", size)


def hidden(path: Path) -> Mount:
    """A mount of nothing in the place of a path; others may lie below it."""
    return Mount(path, None, "hidden", _NOTHING)


def ordered(mounts: Iterable[Mount]) -> list[Mount]:
    """Mounts in the order of bubblewrap: outer folders first; of one target the last; without those that one around
    them shows.
    """
    wanted = {mount.target: mount for mount in mounts}
    kept: dict[Path, Mount] = {}
    for target in sorted(wanted, key=lambda path: path.parts):
        mount = wanted[target]
        around = next((kept[parent] for parent in target.parents if parent in kept), None)
        is_there = around is not None and around.is_itself and mount.is_itself
        if not (is_there and around is not None and around.kind == mount.kind):
            kept[target] = mount
    return list(kept.values())


class Machine(Struct, frozen=True):
    """`mounts` for reading; `links`: (where to, link) of the top folder; `home`: the user's, which is replaced."""

    mounts: tuple[Mount, ...]
    links: tuple[tuple[str, str], ...]
    home: Path | None


def look_around(env: Mapping[str, str], home: Path | None) -> Machine:
    """
    :param env: of the programs that will be confined.
    :param home: None: nobody has one.
    """
    mounts = [shown(Path(path)) for path in _SYSTEM if Path(path).is_dir()]
    links = []
    for path in _MERGED:
        if Path(path).is_symlink():
            links.append((os.readlink(path), path))  # noqa: PTH115 - as it is written
        elif Path(path).is_dir():
            mounts.append(shown(Path(path)))
    if os.geteuid() == 0:
        mounts += unreadable("/etc")
    resolver = Path("/etc/resolv.conf").resolve()
    if not resolver.is_relative_to("/etc") and resolver.is_file():
        mounts.append(shown(resolver))
    if home is not None and _shows_system(home):
        home = None
    if home is not None:
        mounts += [shown(home / name) for name in _TOOLCHAINS if (home / name).is_dir()]
    linked = {path for _link, path in links}
    for folder in (*_on_path(env), *_own_python()):
        if str(folder) not in linked and not _is_too_much(folder, home):
            mounts.append(shown(folder))
    return Machine(tuple(mounts), tuple(links), home)


def unreadable(folder: str) -> Iterator[Mount]:
    """Covers of what only its owner or group may read there: root can, and a sandbox of root's with it."""
    try:
        found = [(entry.path, entry.stat(follow_symlinks=False).st_mode) for entry in os.scandir(folder)]
    except OSError:  # root of a container may not read it, and nobody inside may
        return
    for path, mode in found:
        if stat.S_ISDIR(mode) and mode & stat.S_IXOTH and path not in _SECRET_FOLDERS:
            yield from unreadable(path)
        elif stat.S_ISDIR(mode):
            yield emptied(Path(path), _NOTHING)
        elif stat.S_ISREG(mode) and not mode & stat.S_IROTH:
            yield covered(Path(path), Path(os.devnull))


def _shows_system(home: Path) -> bool:
    """`HOME=/` of a container, or a service's: nothing can stand in its place."""
    return home == Path("/") or any(Path(path).is_relative_to(home) for path in (*_SYSTEM, *_MERGED))


def _is_too_much(folder: Path, home: Path | None) -> bool:
    return folder == Path("/") or (home is not None and home.is_relative_to(folder))


def _on_path(env: Mapping[str, str]) -> Iterator[Path]:
    """The folders on PATH; of a virtual environment all of it, and what its Python comes from."""
    named = [Path(folder) for folder in env.get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    if env.get("VIRTUAL_ENV"):
        named.append(Path(env["VIRTUAL_ENV"]) / "bin")
    for folder in named:
        if folder.is_dir():
            yield folder
            yield from virtual_environment(folder.parent)


def virtual_environment(folder: Path) -> Iterator[Path]:
    """What one needs to be seen; nothing where `folder` is none."""
    try:
        lines = read_file(folder / "pyvenv.cfg").decode(errors="replace").splitlines()
    except OSError:
        return
    yield folder
    home = next((line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == "home"), "")
    candidates = [Path(home).parent, Path(os.path.realpath(folder / "bin" / "python")).parent.parent]
    yield from (path for path in candidates if path.is_absolute() and os.path.isdir(path))  # noqa: PTH112 - any text


def is_python(folder: Path) -> bool:
    """Whether a Python was installed there, and nothing else with it."""
    usual = {"bin", "include", "lib", "lib64", "libexec", "share", "man", "ssl", "etc", "conda-meta", "BUILD"}
    has_library = any(folder.glob("lib/python3*/os.py")) and any(folder.glob("bin/python3*"))
    return has_library and all(path.name in usual or path.is_file() for path in folder.iterdir())


def _own_python() -> Iterator[Path]:
    """The Python of the program that answers the hooks of sessions."""
    yield Path(sys.prefix)
    yield Path(sys.base_prefix)


_SECTIONS = words("""
    add advice alias am apply blame branch clean color column commit core diff extensions feature fetch filter
    format gc grep gui help i18n index init lfs log merge mergetool notes pack pull push rebase remote rerere
    safe sequence showbranch sparse stash status submodule swarm tag transfer tree user versionsort
""")
_NEVER = lazy_re(
    r"^core\.(hookspath|fsmonitor|sshcommand|askpass|gitproxy|editor|pager|worktree|attributesfile|excludesfile)$"
    r"|^include|token|secret|passw|apikey|api_key|extraheader|credential|cookie|proxy",
    re.IGNORECASE,
)
_USERINFO = lazy_re(r"(?<=://)[^/@\s]*@")
_NAME = lazy_re(r"^(?P<section>[A-Za-z0-9.-]+?)(?:\.(?P<sub>.*))?\.(?P<key>[A-Za-z][A-Za-z0-9-]*)$", re.DOTALL)
_REAL_OBJECTS = Path("/run/git-swarm/objects")
_OURS_BYTES = 1 << 20
_SHOWN: dict[tuple[bytes, tuple[str, ...]], str] = {}
"""Configuration file and what it may hold besides → as agents see it. It rarely changes between steps, and git takes
3 ms to read it."""

_CONFIGS = ("config", "config.worktree")
_SHOWN_FOLDERS = words("annex/objects hooks info lfs/objects refs reftable rr-cache")
_SHOWN_FILES = words("HEAD shallow")
"""Of a repository: what git reads there for a worktree, without tokens. Not `logs`, which keep a `git pull URL`."""
_OF_WORKTREES = ("core.worktree", "url.swarm-blocked://.")
"""Names that the configuration of a worktree or submodule needs: where it is, and what keeps pushes in."""
_WITHHELD = lazy_re(r"config(?!$|\.worktree$)|.*credential")
_MODULE_FOLDERS = frozenset(words("hooks info logs lfs objects refs rr-cache"))
_PACKED_BYTES = 1 << 20
_PACKED = lazy_re(rb"^([0-9a-f]+ (\S+)\n(?:\^.*\n)?)", re.MULTILINE)
_ID = lazy_re(rb"[0-9a-f]{40,}\n")


class RepositoryView(Struct, frozen=True):
    """`common`: the repository; `admin`: what it keeps about the worktree; `own`: an empty folder for the copies, on
    the same disk. Nobody outside ever reads those."""

    worktree: Path
    common: Path
    admin: Path
    own: Path

    def mounts(self, git: Git) -> tuple[Mount, ...]:
        """The mounts that show it; the copies are made anew.

        The repository is hidden, and what may be seen of it is shown. A file mounted over one that is shown would be
        gone as soon as somebody outside replaces that one, as git does with each change of a configuration.

        :param git: on the repository.
        """
        shutil.rmtree(self.own, ignore_errors=True)
        admin, objects = self.own / "admin", self.own / "objects"
        (objects / "info").mkdir(parents=True)
        shutil.copytree(self.admin, admin, symlinks=True, ignore=_withheld)
        real = self.common / "objects"
        others = list(_alternates(real))
        lines = [_REAL_OBJECTS, *others]
        (objects / "info" / "alternates").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return (
            hidden(self.common),
            *self._own_files(git),
            *(shown(self.common / name) for name in _SHOWN_FOLDERS if (self.common / name).is_dir()),
            *(shown(self.common / name) for name in _SHOWN_FILES if (self.common / name).is_file()),
            emptied(self.common / "swarm", _OURS_BYTES),
            covered(_REAL_OBJECTS, real),
            *map(shown, (*others, *self._submodules(git, admin))),
            replaced(real, objects),
            replaced(self.admin, admin),
            writable(self.worktree),
            shown(self.worktree / ".git"),
        )

    def _own_files(self, git: Git) -> Iterator[Mount]:
        """Files of the repository of which a version of ours is shown."""
        for name in _CONFIGS:
            if (self.common / name).is_file():
                _write_config(git, (self.common / name).read_bytes(), self.own / name)
                yield covered(self.common / name, self.own / name)
        packed = self.common / "packed-refs"
        if packed.is_file() and packed.stat().st_size > _PACKED_BYTES:
            yield shown(packed)
        else:
            (self.own / "packed-refs").write_bytes(self._packed(packed.read_bytes() if packed.is_file() else b""))
            yield covered(packed, self.own / "packed-refs")

    def _packed(self, packed: bytes) -> bytes:
        """With the worktree's branch and those without a slash, too: their own files go when somebody outside packs
        refs, and the new `packed-refs` is not seen."""
        refs = {name: entry for entry, name in _PACKED.findall(packed)}
        head = (self.admin / "HEAD").read_text(encoding="utf-8", errors="surrogateescape").strip()
        for path in (*(self.common / "refs/heads").glob("*"), self.common / head.removeprefix("ref: ")):
            if path.is_file() and _ID.fullmatch(commit := path.read_bytes()):
                name = os.fsencode(path.relative_to(self.common))
                refs[name] = commit.replace(b"\n", b" ") + name + b"\n"
        return b"".join(refs[name] for name in sorted(refs))

    def _submodules(self, git: Git, admin: Path) -> Iterator[Path]:
        """Writes the configurations in the copy of `admin` anew, its submodules' too; where those borrow objects."""
        for folder, folders, files in os.walk(admin):
            if "objects" in folders:
                yield from _alternates(self.admin / Path(folder).relative_to(admin) / "objects")
                folders[:] = {*folders} - _MODULE_FOLDERS
            for path in (Path(folder, name) for name in _CONFIGS if name in files):
                content = b"" if path.is_symlink() else path.read_bytes()
                path.unlink()
                _write_config(git, content, path, _OF_WORKTREES)


def _withheld(_folder: str, names: list[str]) -> set[str]:
    """Of what is copied: files with tokens that git inside does without."""
    logs = {"logs"} if "objects" in names else set()
    return {name for name in names if _WITHHELD.match(name)} | logs


def _write_config(git: Git, content: bytes, path: Path, also: tuple[str, ...] = ()) -> None:
    """
    :param also: how names begin that are shown all the same.
    """
    if (content, also) not in _SHOWN:
        listed = git.output("config", "--file", "-", "--no-includes", "--list", "-z", stdin=content)
        _SHOWN[content, also] = shown_config(entries_of(listed), also)
    path.write_text(_SHOWN[content, also], encoding="utf-8", errors="surrogateescape")


def shown_config(entries: Iterable[tuple[str, str | None]], also: tuple[str, ...] = ()) -> str:
    """Text of a configuration file.

    :param entries: name as `git config --list` has it, and value; None: without a value, which means true.
    :param also: how names begin that are kept all the same.
    """
    lines = []
    for name, value in entries:
        found = _NAME.match(name)
        section = found["section"].lower() if found else ""
        if found is None or not (name.startswith(also) or (section in _SECTIONS and not _NEVER.search(name))):
            continue
        sub = _USERINFO.sub("", found["sub"] or "")
        head = f'{section} "{_escaped(sub)}"' if found["sub"] else section
        assignment = "" if value is None else f' = "{_escaped_value(_USERINFO.sub("", value))}"'
        lines.append(f"[{head}]\n\t{found['key']}{assignment}\n")
    return "".join(lines)


def entries_of(listed: bytes) -> list[tuple[str, str | None]]:
    """The entries of `git config --list -z`."""
    pairs = (entry.partition("\n") for entry in listed.decode(errors="surrogateescape").split("\0") if entry)
    return [(name, value if line_end else None) for name, line_end, value in pairs]


def identity_config(name: str, email: str) -> str:
    """A `.gitconfig` with an identity, so that a project's own tests can commit in repositories of theirs."""
    return shown_config([("user.name", name), ("user.email", email), ("init.defaultBranch", "main")])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _escaped_value(text: str) -> str:
    return _escaped(text).replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")


def _alternates(objects: Path) -> Iterator[Path]:
    """Object folders that these borrow from, theirs too."""
    try:
        lines = (objects / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        if line and not line.startswith("#"):
            other = (objects / line).resolve()
            yield other
            yield from _alternates(other)
