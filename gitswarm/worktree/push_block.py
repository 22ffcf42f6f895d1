"""No push gets out of a run's worktree: git rewrites every URL there to one that it cannot reach.

Kept in the worktree's own configuration (`config.worktree`), which git reads there in whatever environment, and
nowhere else. `--no-verify` does not help; `git -c`, `git send-pack` and libgit2 do (docs/push-guard.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from gitswarm.git.process import Git
from gitswarm.git.repository import Repository

INIT_RECORD = "init.json"
BASE = "swarm-blocked://"
_SECTION = f"url.{BASE}"
# Whatever byte may follow a prefix; a configuration file holds neither NUL nor, unescaped, a line end.
_NEXT = tuple(os.fsdecode(bytes([byte])) for byte in range(0x20, 0x100) if byte != 0x7F)


class Block(Struct, frozen=True):
    """Prefixes of URLs that are rewritten. `push`: only for pushes; `both`: also for fetches. `open`: addresses that
    cannot be closed, because the user rewrites exactly those.
    """

    push: tuple[str, ...]
    both: tuple[str, ...]
    open: tuple[str, ...] = ()


def is_initialised(repository: Repository) -> bool:
    """Whether `git swarm init` was done and not undone: only then is anything configured."""
    return (repository.swarm_dir / INIT_RECORD).exists()


def plan_block(config: Iterable[tuple[str, str]]) -> Block:
    """What closes every way out, given the configuration without ours: name → value, in order.

    The longest prefix wins, and among equal ones the rule that git read first, which is the user's: for each
    `pushInsteadOf` of the user all that are one byte longer are ours. An explicit `pushurl` knows only `insteadOf`.
    """
    longer: list[str] = []
    explicit: list[str] = []
    rewritten: set[str] = set()
    for name, value in config:
        if name.startswith("url.") and name.endswith(".pushinsteadof"):
            longer += [f"{value}{byte}" for byte in _NEXT]
        elif name.startswith("url.") and name.endswith(".insteadof"):
            rewritten.add(value)
        elif name.startswith("remote.") and name.endswith(".pushurl"):
            explicit.append(value)
    closed = tuple(dict.fromkeys(explicit))
    return Block(("", *dict.fromkeys(longer)), closed, tuple(url for url in closed if url in rewritten))


def render(block: Block) -> bytes:
    """The block as a section of a configuration file."""
    lines = [f'[url "{BASE}"]', *_lines("pushInsteadOf", block.push), *_lines("insteadOf", block.both)]
    return os.fsencode("".join(f"{line}\n" for line in lines))


def block_pushes(repository: Repository, git_dir: Path) -> Block:
    """Closes the worktree with this git directory. Repeating it takes up what the user configured since."""
    block = plan_block(_without_ours(repository.git_in(git_dir, None)))
    path = git_dir / "config.worktree"
    rest = _without_section(repository, path)
    _write(path, rest + render(block))
    return block


def unblock_pushes(repository: Repository, git_dir: Path) -> None:
    """Opens it again."""
    path = git_dir / "config.worktree"
    before = path.read_bytes() if path.exists() else b""
    rest = _without_section(repository, path)
    if rest == before:
        return
    if rest:
        _write(path, rest)
    else:
        path.unlink()


def _lines(key: str, values: Iterable[str]) -> Iterator[str]:
    for value in values:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        yield f'\t{key} = "{escaped}"'


def _without_ours(git: Git) -> Iterator[tuple[str, str]]:
    listed = git.output("config", "--list", "-z").split(b"\0")
    for entry in listed:
        name, _line_end, value = os.fsdecode(entry).partition("\n")
        if name and not name.startswith(f"{_SECTION}."):
            yield name, value


def _without_section(repository: Repository, path: Path) -> bytes:
    """The file without our sections, nothing else changed."""
    if not path.exists():
        return b""
    staged = path.with_name(f"{path.name}.swarm")
    staged.write_bytes(path.read_bytes())
    try:
        while repository.git.run("config", "--file", str(staged), "--remove-section", _SECTION).returncode == 0:
            pass
        return staged.read_bytes()
    finally:
        staged.unlink()


def _write(path: Path, content: bytes) -> None:
    staged = path.with_name(f"{path.name}.swarm")
    staged.write_bytes(content)
    staged.replace(path)
