"""A repository to try something out in: it sees every object of another one, and what is written there is gone
afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitswarm.git.process import Git
from gitswarm.git.repository import Repository, open_repository


@contextmanager
def scratch_repository(repository: Repository) -> Iterator[Repository]:
    """A bare repository without refs in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="git-swarm-") as folder:
        place = Path(folder)
        formats = ("-c", "init.defaultRefFormat=files", "init", "--object-format=sha1")
        Git(repository.env).output(*formats, "--quiet", "--bare", "--template=", "--", str(place), cwd=place)
        alternates = place / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_bytes(os.fsencode(repository.common_dir / "objects") + b"\n")
        yield open_repository(place, repository.env)
