"""libgit2, which no network is reached through: git does that.

pygit2 has it read all certificates of the machine as it is imported: 3 MB, and some milliseconds. So it is told of a
folder of certificates: of a folder, only what is asked for is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILE, _FOLDER = "SSL_CERT_FILE", "SSL_CERT_DIR"


@contextmanager
def _no_certificates() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in (_FILE, _FOLDER)}
    os.environ.update({_FILE: os.devnull, _FOLDER: str(Path(__file__).parent)})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _no_certificates():
    import pygit2

__all__ = ["pygit2"]
