"""The terminal that we write to: its size, whether it gets colours, git's pager, and signals from it."""

from __future__ import annotations

import functools
import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

if TYPE_CHECKING:
    from types import FrameType

    Answer = Callable[[int, FrameType | None], object]

_USUAL_WIDTH, _USUAL_HEIGHT = 80, 24
_WIDEST_TEXT = 120
"""Longer lines of text are hard to read."""

_ONE_KEYPRESS_S = 0.5

_COLOURS = {"green": "32", "red": "31", "yellow": "33", "cyan": "36"}
_WORDS = {
    "green": "✓|VERIFIED|succeeded|approved|landed",
    "red": "✗|BLOCKED|failed|rejected",
    "yellow": r"!|↺|UNVERIFIED|PARTIAL|not proven|unproven|paused|interrupted|rehearsal|STUB MODE",
    "cyan": "running",
}
_COLOURED = re.compile(
    r"(?:(?<=^)|(?<=  )|(?<=^.{6} ))(?:"
    + "|".join(f"(?P<{colour}>{words})" for colour, words in _WORDS.items())
    + r")(?=$|  |[,:]? |[,:]$)"
)
"""Marks and states where a line, a cell or the name of a run ends: a word in a sentence stays as it is."""


class _Output(Struct):
    """What `--color` says; `holds`: the terminal whose lines are held back for the pager."""

    color: str = "auto"
    holds: bool = False


_output = _Output()


def terminal_width() -> int:
    """Columns: what `COLUMNS` says, else the terminal, else 80."""
    return _size("COLUMNS", 0) or _USUAL_WIDTH


def terminal_height() -> int:
    """Lines: what `LINES` says, else the terminal, else 24."""
    return _size("LINES", 1) or _USUAL_HEIGHT


def text_width() -> int:
    """Columns for text that is wrapped."""
    return min(terminal_width(), _WIDEST_TEXT)


def is_narrow(stream: TextIO) -> bool:
    """Whether somebody reads the lines on a terminal: others, logs for one, get them whole."""
    return stream.isatty() or (stream is sys.stdout and _output.holds)


def is_screen() -> bool:
    """Whether a person looks on: then ids are short. A log or another program gets them whole."""
    return sys.stdout.isatty() or sys.stderr.isatty() or _output.holds or "GIT_PAGER_IN_USE" in os.environ


def _size(variable: str, index: int) -> int:
    value = os.environ.get(variable, "")
    if value.isdecimal() and int(value):
        return int(value)
    for stream in range(3):
        try:
            return os.get_terminal_size(stream)[index]
        except OSError:
            continue
    return 0


def painted(line: str, stream: TextIO) -> str:
    """A line with its marks and states in colour, where that is wanted."""
    if not has_colours(stream):
        return line
    return _COLOURED.sub(lambda found: f"\x1b[{_COLOURS[str(found.lastgroup)]}m{found[0]}\x1b[0m", line)


def has_colours(stream: TextIO) -> bool:
    """`--color`, else NO_COLOR, else `color.swarm` and `color.ui` for a terminal or git's own pager."""
    if _output.color != "auto":
        return _output.color == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    shown = stream.isatty() or (stream is sys.stdout and (_output.holds or "GIT_PAGER_IN_USE" in os.environ))
    return shown and git_says("config", "--get-colorbool", "color.swarm", "true") == "true"


@functools.cache
def git_says(*arguments: str) -> str:
    """The answer of the user's git to a question about itself; empty where there is none."""
    import subprocess  # noqa: PLC0415 - only on a terminal

    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        return ""
    return done.stdout.strip()


@contextmanager
def with_color(color: str) -> Iterator[None]:
    """Sets when one command writes in colour.

    :param color: always, never or auto.
    """
    before, _output.color = _output.color, color
    try:
        yield
    finally:
        _output.color = before


@contextmanager
def paged() -> Iterator[None]:
    """Shows what is written to stdout by git's pager, if that is a terminal and it is longer than the screen."""
    if not sys.stdout.isatty():
        yield
        return
    terminal = sys.stdout
    held = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True)
    sys.stdout, _output.holds = held, True
    try:
        yield
    finally:
        sys.stdout, _output.holds = terminal, False
        held.seek(0)
        _show(held.buffer.read(), terminal)


def _show(content: bytes, terminal: TextIO) -> None:
    pager = _pager() if content.count(b"\n") >= terminal_height() else None
    if pager is None or not _is_shown_by(pager, content):
        terminal.flush()
        terminal.buffer.write(content)
        terminal.flush()


def _pager() -> str | None:
    """The pager that git would take: `pager.swarm`, GIT_PAGER, `core.pager`, PAGER, less. `git --no-pager` is
    GIT_PAGER=cat."""
    if os.environ.get("GIT_PAGER") == "cat":
        return None
    own = git_says("config", "--get", "pager.swarm")
    if own.lower() in ("false", "no", "off", "0"):
        return None
    pager = own if own.lower() not in ("", "true", "yes", "on", "1") else git_says("var", "GIT_PAGER")
    return pager if pager not in ("", "cat") else None


def _is_shown_by(pager: str, content: bytes) -> bool:
    """False: there is no such program."""
    import signal  # noqa: PLC0415 - only for a pager
    import subprocess  # noqa: PLC0415

    env = {"LESS": "FRX", "LV": "-c", **os.environ}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(pager, shell=True, stdin=subprocess.PIPE, env=env)  # noqa: S602 - as git does
        process.communicate(content)
    finally:
        signal.signal(signal.SIGINT, before)
    return process.returncode not in (126, 127)


@contextmanager
def on_signals(interrupt: Answer, terminate: Answer) -> Iterator[None]:
    """
    :param interrupt: what each Ctrl-C does: the terminal sends it to `git` and to us, and `git` hands on what it got.
    :param terminate: what SIGTERM does, and a terminal that closes, but for a command that nohup started.
    """
    import signal  # noqa: PLC0415 - few commands answer any

    pressed = float("-inf")

    def once(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if time.monotonic() - pressed > _ONE_KEYPRESS_S:
            pressed = time.monotonic()
            interrupt(number, frame)

    wanted = {signal.SIGINT: once, signal.SIGTERM: terminate}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted[signal.SIGHUP] = terminate
    before = {number: signal.signal(number, answer) for number, answer in wanted.items()}
    try:
        yield
    finally:
        for number, answer in before.items():
            signal.signal(number, answer)
