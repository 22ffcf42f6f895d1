"""Calls of git whose end is waited for later."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from gitswarm.git.process import Git


class RunningGit:
    """A call of git that goes on while we do something else; safe only where doing it twice is."""

    def __init__(self, git: Git, *arguments: str, stdin: bytes = b"") -> None:
        self._git = git
        self._arguments = arguments
        self._stdin = stdin
        with ExitStack() as stack:
            given = stack.enter_context(_as_file(stdin)) if stdin else subprocess.DEVNULL
            self._process = subprocess.Popen(
                git.argv(*arguments),
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=git.work_tree or git.git_dir,
                env=dict(git.env),
            )

    def wait(self) -> None:
        """Returns when it is done; a call that failed is made once more, with its error.

        :raises GitFailedError: as `Git.output`.
        """
        if self._process.wait() != 0:
            self._git.output(*self._arguments, stdin=self._stdin)


@contextmanager
def _as_file(content: bytes) -> Iterator[IO[bytes]]:
    """An input that nobody has to feed, unlike a pipe."""
    with tempfile.TemporaryFile() as given:
        given.write(content)
        given.seek(0)
        yield given
