"""The user's editor, as git opens it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from gitswarm.errors import UsageError
from gitswarm.git.repository import Repository


def edited(repository: Repository, text: str) -> str:
    """What the user makes of a text; empty where nothing is left.

    :raises UsageError: there is no editor, or it ended with an error.
    """
    editor = subprocess.run(["git", "var", "GIT_EDITOR"], capture_output=True, text=True, check=False).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "LAND_EDITMSG"
        file.write_text(f"{text}\n", encoding="utf-8")
        argv = ["sh", "-c", f'{editor or "false"} "$@"', editor, str(file)]
        done = subprocess.run(argv, cwd=repository.main_folder, check=False)
        if done.returncode != 0:
            raise UsageError(f"your editor failed: {editor or 'none is set'}", hint="git config core.editor")
        return file.read_text(encoding="utf-8", errors="replace").strip()
