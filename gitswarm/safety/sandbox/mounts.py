"""What a sandbox shows, as mounts in their order: of this machine the system and the tools that the environment
names; of the repository everything to be read, but copies of what `git add` writes.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gitswarm.git.process import Git
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import words

Kind = Literal["read", "write", "empty"]

_SYSTEM = ("/usr", "/opt", "/nix", "/snap", "/gnu", "/etc")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on most systems, folders on others."""

_SECRET_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/krb5.keytab")
_SECRET_FOLDERS = ("/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d")
"""What root can read, and a sandbox of root's with it."""

_NOTHING = 4096
"""Bytes of a folder in memory that nothing is written to."""

_TOOLCHAINS = words("""
    .asdf/installs .asdf/shims .bun/bin .cargo/bin .deno/bin .local/bin .local/pipx .local/share/mise
    .local/share/pipx .local/share/uv .nvm/versions .pyenv .rbenv .rustup .sdkman/candidates .volta
    go/bin miniconda3 miniforge3
""")
"""Below a home: programs, and nothing that opens anything."""


class Mount(Struct, frozen=True):
    """`source` None: an empty folder in memory, of at most `size` bytes, stands at `target`."""

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
        mounts += [covered(Path(path), Path(os.devnull)) for path in _SECRET_FILES if Path(path).is_file()]
        mounts += [emptied(Path(path), _NOTHING) for path in _SECRET_FOLDERS if Path(path).is_dir()]
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
        lines = (folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    yield folder
    home = next((line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == "home"), "")
    candidates = [Path(home).parent, (folder / "bin" / "python").resolve().parent.parent]
    yield from (path for path in candidates if path.is_absolute() and path.is_dir())


def is_python(folder: Path) -> bool:
    """Whether a Python was installed there, and nothing else with it."""
    usual = {"bin", "include", "lib", "lib64", "libexec", "share", "man", "ssl", "etc", "conda-meta", "BUILD"}
    has_library = any(folder.glob("lib/python3*/os.py")) and any(folder.glob("bin/python3*"))
    return has_library and all(path.name in usual or path.is_file() for path in folder.iterdir())


def _own_python() -> Iterator[Path]:
    """Of the program that answers the hooks of sessions."""
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
_SHOWN: dict[bytes, str] = {}
"""Configuration file → as agents see it. It rarely changes between steps, and git takes 3 ms to read it."""


class RepositoryView(Struct, frozen=True):
    """`common`: the repository; `admin`: what it keeps about the worktree; `own`: an empty folder for the copies, on
    the same disk. Nobody outside ever reads those."""

    worktree: Path
    common: Path
    admin: Path
    own: Path

    def mounts(self, git: Git) -> tuple[Mount, ...]:
        """The mounts that show it; the copies are made anew.

        :param git: on the repository.
        """
        shutil.rmtree(self.own, ignore_errors=True)
        admin, objects = self.own / "admin", self.own / "objects"
        (objects / "info").mkdir(parents=True)
        shutil.copytree(self.admin, admin, symlinks=True)
        real = self.common / "objects"
        others = list(_alternates(real))
        lines = [_REAL_OBJECTS, *others]
        (objects / "info" / "alternates").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        covers = [self._configured(git, name) for name in ("config", "config.worktree")]
        return (
            shown(self.common),
            *(cover for cover in covers if cover is not None),
            emptied(self.common / "swarm", _OURS_BYTES),
            covered(_REAL_OBJECTS, real),
            *map(shown, others),
            replaced(real, objects),
            replaced(self.admin, admin),
            writable(self.worktree),
            shown(self.worktree / ".git"),
        )

    def _configured(self, git: Git, name: str) -> Mount | None:
        path = self.common / name
        if not path.is_file():
            return None
        content = path.read_bytes()
        if content not in _SHOWN:
            listed = git.output("config", "--file", "-", "--no-includes", "--list", "-z", stdin=content)
            _SHOWN[content] = shown_config(entries_of(listed))
        (self.own / name).write_text(_SHOWN[content], encoding="utf-8", errors="surrogateescape")
        return covered(path, self.own / name)


def shown_config(entries: Iterable[tuple[str, str | None]]) -> str:
    """Text of a configuration file.

    :param entries: name as `git config --list` has it, and value; None: without a value, which means true.
    """
    lines = []
    for name, value in entries:
        found = _NAME.match(name)
        section = found["section"].lower() if found else ""
        if found is None or section not in _SECTIONS or _NEVER.search(name):
            continue
        sub = _USERINFO.sub("", found["sub"] or "")
        head = f'{section} "{_escaped(sub)}"' if found["sub"] else section
        assignment = "" if value is None else f' = "{_escaped_value(_USERINFO.sub("", value))}"'
        lines.append(f"[{head}]\n\t{found['key']}{assignment}\n")
    return "".join(lines)


def entries_of(listed: bytes) -> list[tuple[str, str | None]]:
    """Of `git config --list -z`."""
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
