"""Plain git as the measure: the same shell lines in a copy of the repository, staged with `git add -A`."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.unseen import unseen

FLOW = """\
id: row
steps:
  - {id: one, station: code-implementer}
  - {id: two, station: code-implementer}
"""

Listing = Mapping[bytes, bytes]
"""Path → `mode kind id` in a tree, or kind, mode and content on disk."""


def as_it_is(project: Project) -> Project:
    return project


@dataclass(frozen=True)
class Row:
    """A kind of repository, and what two steps do in it: blocks of shell lines that must not fail.

    `arrange` makes the repository and says where the user stands. `dirt` is done by hand when the run has ended.
    What git-swarm does on purpose and plain git does not, the twin does in `plainly`, before it adds with `add`.
    A `long` row is for `make soak`: it takes its time, or varies another.
    """

    name: str
    first: str
    second: str
    arrange: Callable[[Project], Project] = as_it_is
    dirt: str = "echo dirt > dirt.txt; rm -f README.md"
    plainly: str = ""
    add: tuple[str, ...] = field(default=("add", "-A"))
    long: bool = False


def parameters(rows: Sequence[Row]) -> list[pytest.ParameterSet]:
    """Rows for a parametrised test."""
    return [pytest.param(row, id=row.name, marks=[pytest.mark.soak] if row.long else []) for row in rows]


@dataclass(frozen=True)
class Stage:
    """A worktree after a step: what git commits of it, and what lies there."""

    tree: Listing
    disk: Listing


def check(row: Row, project: Project) -> None:
    """A run of the row's steps commits what git would, and can be taken back and forth without a trace."""
    project.commit({".swarm/flows/row.yaml": FLOW}, "the flow")
    user = row.arrange(project)
    twin = _Twin.of(user, row)
    before = _untouchable(user)

    run, worktree = _executed(user, row)

    one, two = twin.stage(row.first), twin.stage(row.second)
    assert [_tree(user, commit) for commit in _steps(user, run)] == [one.tree, two.tree]
    assert _disk(worktree) == two.disk
    assert _status(user, worktree) == b""
    _shell(user, row.dirt, worktree)
    dirty, dirt = _disk(worktree), _status(user, worktree)
    staying = {name: dirty[name] for name in _ignored(user, worktree)}
    user.swarm("rollback", "one")
    assert _disk(worktree) == {**one.disk, **staying}
    assert _status(user, worktree) == b""
    assert _evidence_on_disk(worktree) == _evidence(user, f"shadow/{run}")
    user.swarm("rollback", "--undo")
    assert (_disk(worktree), _status(user, worktree)) == (dirty, dirt)
    assert user.json("status")["state"] == "succeeded"
    assert _untouchable(user) == before


def _untouchable(user: Project) -> dict[str, str]:
    """The user's checkout and repository. What git-lfs stores there are objects, as git's own are."""
    entries = fingerprint(user.root).entries
    return {name: about for name, about in entries.items() if not name.startswith(".git/lfs")}


def _executed(user: Project, row: Row) -> tuple[str, Path]:
    """The run, ended well, and its worktree. Its second step is executed by a process of its own."""
    steps = {name: {"run": [f"set -e\n{lines}"]} for name, lines in (("one", row.first), ("two", row.second))}
    script = user.root.parent / "row.script.yaml"
    script.write_text(unseen(yaml.safe_dump({"steps": steps})), encoding="utf-8")
    user.swarm("start", "row", "--until", "one", "--script", str(script))
    user.swarm("resume")
    run = user.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow")
    return run, user.root.parent / f"{user.root.name}.swarm" / run


@dataclass(frozen=True)
class _Twin:
    """A linked worktree of a copy of the repository, in which nobody but git is at work."""

    project: Project
    row: Row

    @classmethod
    def of(cls, user: Project, row: Row) -> _Twin:
        place = user.root.parent / "twin"
        place.mkdir()
        subprocess.run(["cp", "-a", str(user.root), str(place / "repo")], check=True)
        user.git("worktree", "add", "-q", "--detach", str(place / "tree"), cwd=place / "repo")
        return cls(replace(user, root=place / "tree"), row)

    def stage(self, lines: str) -> Stage:
        _shell(self.project, f"{lines}\n{self.row.plainly}", self.project.root)
        self.project.git(*self.row.add)
        return Stage(_tree(self.project, self.project.git("write-tree")), _disk(self.project.root))


def _shell(project: Project, lines: str, folder: Path) -> None:
    subprocess.run(["sh", "-c", f"set -e\n{lines}"], cwd=folder, env=dict(project.env), check=True)


def _read(project: Project, *arguments: str, cwd: Path | None = None) -> list[bytes]:
    """Output with `-z` of a git that only reads."""
    argv = ["git", "--no-optional-locks", *arguments]
    done = subprocess.run(argv, cwd=cwd or project.root, env=dict(project.env), capture_output=True, check=True)
    return [part for part in done.stdout.split(b"\0") if part]


def _steps(user: Project, run: str) -> list[str]:
    listed = user.git(
        "log", "--reverse", "--format=%(trailers:key=Swarm-Kind,valueonly,separator=) %H", f"shadow/{run}"
    )
    return [line.split()[1] for line in listed.splitlines() if line.startswith("step ")]


def _tree(project: Project, revision: str) -> Listing:
    """Every code file of a tree, `.swarm/runs` left out."""
    entries = (line.split(b"\t", 1) for line in _read(project, "ls-tree", "-r", "-z", revision))
    return {name: about for about, name in entries if not name.startswith(b".swarm/runs/")}


def _evidence(project: Project, revision: str) -> Listing:
    """Path and blob id of everything in a tree's `.swarm/runs`."""
    entries = (line.split(b"\t", 1) for line in _read(project, "ls-tree", "-r", "-z", revision, "--", ".swarm/runs"))
    return {name: about.split()[2] for about, name in entries}


def _evidence_on_disk(worktree: Path) -> Listing:
    files = [path for path in (worktree / ".swarm/runs").rglob("*") if not path.is_dir()]
    return {os.fsencode(path.relative_to(worktree)): _blob_id(path.read_bytes()) for path in files}


def _blob_id(content: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest().encode()


def _status(user: Project, worktree: Path) -> bytes:
    return b"\n".join(_read(user, "status", "--porcelain", "-z", cwd=worktree))


def _ignored(user: Project, worktree: Path) -> list[bytes]:
    return _read(user, "ls-files", "--others", "--ignored", "--exclude-standard", "-z", cwd=worktree)


def _disk(root: Path) -> Listing:
    """Everything that is no folder, but for git's own and the run's."""
    return dict(_files(os.fsencode(root), b""))


def _files(root: bytes, folder: bytes) -> Iterator[tuple[bytes, bytes]]:
    with os.scandir(os.path.join(root, folder)) as entries:  # noqa: PTH118 - names that are no text
        for entry in entries:
            name = os.path.join(folder, entry.name)  # noqa: PTH118
            if entry.name == b".git" or name == b".swarm/runs":
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(root, name)
            else:
                yield name, _describe(entry)


def _describe(entry: os.DirEntry[bytes]) -> bytes:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return b"link " + os.readlink(entry.path)  # noqa: PTH115
    if not stat.S_ISREG(mode):
        return f"{mode:o}".encode()
    with open(entry.path, "rb") as content:  # noqa: PTH123
        whole = content.read()
    # Of the mode git keeps only whether the owner may execute.
    kind = b"x " if mode & stat.S_IXUSR else b"- "
    return kind + (whole if len(whole) < 200 else hashlib.sha256(whole).hexdigest().encode())
