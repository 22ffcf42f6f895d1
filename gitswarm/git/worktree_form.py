"""Content as a checkout has it, where git converts what it stores."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gitswarm.git.process import Git

_CONVERTING = (b"working-tree-encoding=", b"filter=")
_LARGE_FILES = b"filter=lfs"
"""What is stored of those is a pointer, which may lie in a checkout just as well."""


def in_worktree_form(git: Git, commit: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Of these files of a commit those that a checkout has otherwise; most repositories have none."""
    if not paths or not _converts(git, commit):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "tree")
        place.mkdir()
        there, env = replace(git, work_tree=place), {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        there.output("read-tree", commit, extra_env=env)
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        there.run("checkout-index", "-f", "-z", "--stdin", stdin=names, extra_env=env)  # a filter may be gone
        found = {path: place / path for path in paths}
        return {path: file.read_bytes() for path, file in found.items() if file.is_file() and not file.is_symlink()}


def _converts(git: Git, commit: str) -> bool:
    """Whether attributes in the commit ask for it."""
    asked = git.run("grep", "-hE", "working-tree-encoding=|filter=", commit, "--", ":(glob)**/.gitattributes").stdout
    lines = (line.replace(_LARGE_FILES, b"") for line in asked.splitlines() if not line.startswith(b"#"))
    return any(word in line for line in lines for word in _CONVERTING)
