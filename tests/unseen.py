"""Brings shell lines past the tool policy and the isolation of the environment, as an agent can: written into a file,
and run then. For tests of the layers behind.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml


def unseen(script: str) -> str:
    """A stub script in which each shell line of a `run` has become `exec sh FILE`."""
    return yaml.safe_dump(_hidden(yaml.safe_load(script)))


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: [unseen_line(line) for line in inner] if key == "run" else _hidden(inner)
            for key, inner in value.items()
        }
    return [_hidden(inner) for inner in value] if isinstance(value, list) else value


_CLEAN = "unset $(env | sed -n 's/^\\(GIT_[A-Z_0-9]*\\)=.*/\\1/p')"
_folders: list[Path] = []


def unseen_line(line: str) -> str:
    """The same for one shell line; its parent process is who would be without."""
    if not _folders:
        _folders.append(Path(tempfile.mkdtemp(prefix="unseen-")))
        atexit.register(shutil.rmtree, _folders[0], ignore_errors=True)
    path = _folders[0] / f"{hashlib.sha256(line.encode()).hexdigest()[:16]}.sh"
    path.write_text(f"{_CLEAN}\n{line}\n", encoding="utf-8")
    return f"exec sh {path}"
