"""The product called in the process of the test: same command lines, environment and output, but much cheaper.

A call is as much as possible like a process of its own: its working directory, its whole environment, git's search
path and the file descriptors of its output are its own; what programs that it starts write there is caught as well.
It cannot be killed, gets no signals and reads no stdin: for those there is `Project.swarm_process`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest import mock

import pygit2
import typer.main
from pygit2.enums import ConfigLevel

from gitswarm.cli.app import run


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    stdout: str
    stderr: str


def call(arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Answer:
    """Executes a command line of the product.

    :param env: the whole environment, as a process would get it.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(_environment(env))
        out = stack.enter_context(_redirected("stdout", "surrogateescape"))
        err = stack.enter_context(_redirected("stderr", "backslashreplace"))
        stack.enter_context(mock.patch("typer.main.get_command", _command))
        code = run(list(arguments))
    return Answer(code, out.text, err.text)


_command = functools.cache(typer.main.get_command)
"""Typer reads the signatures of all commands anew for every call: half the time of a short one."""


@contextlib.contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[None]:
    """What was read from the environment once is read again: libgit2's search path, the time zone, `TMPDIR`."""
    search_path: Any = pygit2.settings.search_path
    places = {ConfigLevel.GLOBAL: env.get("HOME", ""), ConfigLevel.XDG: _xdg(env)}
    before = {level: search_path[level] for level in places}
    with mock.patch.dict(os.environ, env, clear=True), mock.patch("tempfile.tempdir", None):
        time.tzset()
        try:
            for level, place in places.items():
                search_path[level] = place
            yield
        finally:
            for level, place in before.items():
                search_path[level] = place
    time.tzset()


def _xdg(env: Mapping[str, str]) -> str:
    config = env.get("XDG_CONFIG_HOME") or f"{env.get('HOME', '')}/.config"
    return f"{config}/git"


class _Caught:
    """Everything that was written to a stream, read when nobody writes any more."""

    text = ""


@contextlib.contextmanager
def _redirected(name: str, errors: str) -> Iterator[_Caught]:
    """Sends a standard stream to a file: the descriptor, for programs that inherit it, and `sys`'s object."""
    caught = _Caught()
    before: IO[str] = getattr(sys, name)
    before.flush()
    number = {"stdout": 1, "stderr": 2}[name]
    kept = os.dup(number)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), number)
        try:
            stream = io.TextIOWrapper(
                io.FileIO(number, "w", closefd=False), encoding="utf-8", errors=errors, write_through=True
            )
            setattr(sys, name, stream)
            yield caught
            stream.flush()
        finally:
            setattr(sys, name, before)
            os.dup2(kept, number)
            os.close(kept)
        file.seek(0)
        caught.text = file.read().decode("utf-8", "surrogateescape")
