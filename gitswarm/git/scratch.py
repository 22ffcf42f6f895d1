"""Temporary folders beside the repository: a repository for one command, which goes with all that is fetched into it
and need not be whole; and files in the form that a checkout has them in, where git converts what it stores."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from gitswarm.git.process import Git
from gitswarm.git.reader import RepositoryReader

_PREFIX = "scratch-"
_ABANDONED_S = 86_400.0


@contextmanager
def scratch_repository(repository: RepositoryReader) -> Iterator[Path]:
    """The folder of a bare repository that has the objects of this one, and none of its refs."""
    import shutil  # noqa: PLC0415 - reading commands import this module, and few come here
    import tempfile  # noqa: PLC0415

    repository.swarm_dir.mkdir(exist_ok=True)
    for left in repository.swarm_dir.glob(f"{_PREFIX}*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_S:  # its process was killed
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=repository.swarm_dir, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        Git(repository.env).output("init", "--quiet", "--bare", "--template=", name)
        info = folder / "objects" / "info"
        info.mkdir(exist_ok=True)
        (info / "alternates").write_text(f"{repository.common_dir / 'objects'}\n", encoding="utf-8")
        shallow = repository.common_dir / "shallow"
        if shallow.exists():
            shutil.copy(shallow, folder)
        # How the remote is reached: credentials, proxies, keys. Of an included file git takes no layout.
        with (folder / "config").open("a", encoding="utf-8") as config:
            config.write(f"[include]\n\tpath = {_quoted(repository.common_dir / 'config')}\n[core]\n\tbare = true\n")
        yield folder


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_CONVERTING = (b"working-tree-encoding=", b"filter=")
_LARGE_FILES = b"filter=lfs"
"""What is stored of those is a pointer, which may lie in a checkout just as well."""


def in_worktree_form(git: Git, commit: str, paths: Sequence[str]) -> dict[str, bytes]:
    """The files of a commit, among these, that a checkout has in another form; most repositories have none."""
    if not paths or not _converts(git, commit):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        checkout, env = replace(git, work_tree=tree), {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        checkout.output("read-tree", commit, extra_env=env)
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        checkout.run("checkout-index", "-f", "-z", "--stdin", stdin=names, extra_env=env)  # a filter may be gone
        found = {path: tree / path for path in paths}
        return {path: file.read_bytes() for path, file in found.items() if file.is_file() and not file.is_symlink()}


def _converts(git: Git, commit: str) -> bool:
    """Whether attributes in the commit ask for it."""
    attributes = ":(glob)**/.gitattributes"
    found = git.run("grep", "--no-color", "-hE", "working-tree-encoding=|filter=", commit, "--", attributes).stdout
    lines = (line.replace(_LARGE_FILES, b"") for line in found.splitlines() if not line.startswith(b"#"))
    return any(word in line for line in lines for word in _CONVERTING)
