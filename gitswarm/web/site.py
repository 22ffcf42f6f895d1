"""What the page stands on: the repository, read anew for each request, and git-swarm's commands, each a process."""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from gitswarm.cli.run_execution import command_line, in_background, log_of
from gitswarm.cli.runs import Opened
from gitswarm.errors import UsageError
from gitswarm.git.owners import owner_of
from gitswarm.git.reader import RepositoryReader, open_reader
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.state import replay

_BEGINS_WITHIN_S = 20.0
_FORKED = re.compile(r"^(\S+) forked (?:after|at) ", re.MULTILINE)
_EXECUTED = (0, 4, 5)
"""Exit codes of a command that executed a run, however that ended."""


class CommandAnswer(Struct, frozen=True):
    """A command and its answer. `run`: the run that it is about now; `is_done`: it was not refused."""

    line: str
    is_done: bool
    text: str
    run: str | None = None


class Site(Struct, frozen=True):
    """`env`: the whole environment of every process."""

    folder: Path
    env: Mapping[str, str]

    def reader(self) -> RepositoryReader:
        """For one request: it keeps a process of git, and what it has read of refs."""
        return open_reader(self.folder, self.env)

    def opened(self, run: str) -> Opened:
        """
        :raises NotFoundError: there is no such run.
        """
        repository = self.reader()
        layout = find_run(repository, run)
        return Opened(repository, layout, replay(repository, layout))

    def answer(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What a command says, as it says it to a program."""
        return subprocess.run(
            command_line(words),
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            start_new_session=True,  # our Ctrl-C is none of its business
        )

    def carry_out(self, *words: str) -> CommandAnswer:
        """A command that ends soon."""
        done = self.answer(*words)
        return CommandAnswer(_line(words), done.returncode == 0, f"{done.stdout}{done.stderr}".strip())

    def execute(self, run: str, *words: str) -> CommandAnswer:
        """A command that executes a run, in a process that outlives the page; until it has the run, or says why not.

        :param run: the run that it continues or forks.
        :raises NotFoundError: there is no such run.
        """
        repository = self.reader()
        run = find_run(repository, run).run_id
        log = log_of(repository, run)
        begin = log.stat().st_size if log.exists() else 0
        process = in_background(words, self.folder, self._env, log)
        threading.Thread(target=process.wait, daemon=True).start()  # nobody else reaps it
        deadline = time.monotonic() + _BEGINS_WITHIN_S
        while True:
            over = process.poll()
            text = log.read_bytes()[begin:].decode(errors="replace").strip()
            forked = _FORKED.search(text)
            owner = owner_of(repository.common_dir, run)
            begun = forked is not None or (owner is not None and owner.pid == process.pid)
            if begun or over is not None or time.monotonic() > deadline:
                is_done = begun or over is None or over in _EXECUTED
                return CommandAnswer(_line(words), is_done, text, forked[1] if forked else run)
            time.sleep(0.05)

    @property
    def _env(self) -> dict[str, str]:
        return {**self.env, "COLUMNS": "200", "NO_COLOR": "1"}


def word(text: str, what: str) -> str:
    """What a request says, as an argument of a command.

    :raises UsageError: it is none, or would be an option.
    """
    if not text or text.startswith("-") or "\0" in text:
        raise UsageError(f"'{text}' is no {what}", hint="git swarm list")
    return text


def _line(words: tuple[str, ...]) -> str:
    """What to type for the same."""
    return shlex.join(["git", "swarm", *words])
