"""What a sandbox shows of this machine, as mounts in their order: the system, and the tools that the environment
names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

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
