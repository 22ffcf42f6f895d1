"""Executes the shell examples of a page: in the process of the test, or on a terminal of 80 columns."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import in_process
from tests.documents import SHELL, CodeBlock, Document

HOME = "/home/ada"
"""What pages show in place of the home folder; everything that they make is below it."""

_LONGEST_S = 90
"""That a command may take."""

_VARYING = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x04"), ""),
    (re.compile(r"\brun-\d{8}-\d{6}-[0-9a-f]{6}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), "DATE"),
    (re.compile(r"\b[0-9a-f]{6,64}\b"), "ID"),
    (re.compile(r"\b\d+h\d\dm|\b\d+m\d\ds|\b\d+(?:\.\d+)?m?s\b"), ""),
    (re.compile(r"\w{3} \w{3} +\d+ [\d:]{8} \d{4} [+-]\d{4}"), "DATE"),
    (re.compile(r"\bnow\b|\b\d+[mhd]\b|(?<=prompt, )\d+ lines"), ""),
    (re.compile(r"\s+"), ""),
)
_CLAUDE = re.compile(r"(?m)^for real .*$")
"""Once is enough."""

_BEGUN = re.compile(r"(?m) on shadow/(run-\d{8}-\d{6}-([0-9a-f]{6}))$")
_PLAIN = re.compile(r"git swarm [^|&;<>$`(){}\\#\n]*")
_STATE = """
cd "$(cat {state}.cwd)" && set -a && . {state}.env
{command}
set +a -- $?
pwd > {state}.cwd
declare -px | grep -v -e SWARM_STUB -e BASH > {state}.env
exit $1
"""


def comparable(text: str) -> str:
    """A text without what is otherwise each time: ids, durations, dates, and where lines are broken."""
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text


def has_lines(shown: Iterable[str], printed: str) -> bool:
    """Whether a command printed what a page shows: everything, but for lines where `…` stands."""
    parts = [comparable(part) for part in re.split(r"(?m)^…$", "\n".join(shown))]
    whole = comparable(printed)
    if len(parts) == 1:
        return parts[0] == whole
    if not (whole.startswith(parts[0]) and whole.endswith(parts[-1])):
        return False
    at = 0
    for part in parts:
        at = whole.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def has_each_line(shown: Iterable[str], printed: str) -> bool:
    """The same where stdout and stderr were caught apart from each other: the lines, in any order."""
    wanted, there = ({comparable(line) for line in lines} for lines in (shown, printed.splitlines()))
    return wanted - {"…"} <= there if "…" in wanted else wanted == there


@dataclass
class DocumentedShell:
    """A shell whose folder and variables last from command to command.

    :param home: everything is made below it.
    """

    home: Path
    env: Mapping[str, str]
    is_terminal: bool = False
    state: Path = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.home.parent / "shell"
        self.enter(self.home)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.env.items())
        self.state.with_suffix(".env").write_text(exports, encoding="utf-8")

    @property
    def folder(self) -> Path:
        return Path(self.state.with_suffix(".cwd").read_text(encoding="utf-8").strip())

    def enter(self, folder: Path) -> None:
        self.state.with_suffix(".cwd").write_text(f"{folder}\n", encoding="utf-8")

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and everything that is printed."""
        if _PLAIN.fullmatch(command) and not self.is_terminal:
            answer = in_process.call(shlex.split(command)[2:], self.folder, self.env)
            code, printed = answer.code, answer.stderr + answer.stdout
        else:
            line = ["bash", "-c", _STATE.format(state=shlex.quote(str(self.state)), command=command)]
            code, printed = self._on_terminal(line) if self.is_terminal else self._in_a_pipe(line)
        return code, re.sub(r"\s*".join(map(re.escape, str(self.home))), HOME, printed)

    def _in_a_pipe(self, line: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            line, env=dict(self.env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _on_terminal(self, line: list[str]) -> tuple[int, str]:
        pid, terminal = pty.fork()
        if pid == 0:  # pragma: no cover - becomes the command
            os.execvpe(line[0], line, {**self.env, "TERM": "dumb"})  # noqa: S606
        seen, code, until = b"", None, time.monotonic() + _LONGEST_S
        while code is None:
            if time.monotonic() > until:
                os.killpg(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if done else None
            while select.select([terminal], [], [], 0.02)[0]:
                try:
                    more = os.read(terminal, 65_536)
                except OSError:
                    break
                seen += more
                if not more:
                    break
        os.close(terminal)
        return code, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace")).replace("\r", "")


def perform(shell: DocumentedShell, blocks: Iterable[CodeBlock]) -> Iterator[tuple[CodeBlock, int, list[str], str]]:
    """Executes blocks in order; block, number of the line behind it, shown and real output of each command that has
    some. A run that a page names by its id is the one that was begun where the page shows it.

    :raises AssertionError: another exit code than the page says.
    """
    runs: dict[str, str] = {}
    for block in blocks:
        if block.notes.get("skip"):
            continue
        if name := block.notes.get("file"):
            path = shell.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(replaced("\n".join(block.lines) + "\n", block), encoding="utf-8")
        elif block.language in SHELL:
            commands = list(block.commands())
            for number, (command, shown, behind) in enumerate(commands, 1):
                for there, here in runs.items():
                    command = command.replace(there, here)  # noqa: PLW2901
                code, printed = shell.run(replaced(command, block))
                begun = zip(_BEGUN.findall("\n".join(shown)), _BEGUN.findall(printed), strict=False)
                runs |= {there: here for pair in begun for there, here in zip(*pair, strict=True)}
                for there, here in runs.items():
                    printed = printed.replace(here, there)
                wanted = int(block.notes.get("exit", 0)) if number == len(commands) else 0
                assert code == wanted, f"line {block.line}: {command}: exit code {code}\n{printed}"
                if shown:
                    yield block, behind, shown, printed


def replaced(text: str, block: CodeBlock) -> str:
    """A text as it is executed: with what tests have in place of a network."""
    old, _arrow, new = block.notes.get("replace", "").partition(" => ")
    return text.replace(old, new) if old else text


def write_outputs(page: Document, found: Iterable[tuple[CodeBlock, int, list[str], str]]) -> None:
    """Puts what was printed into its page where that shows something else, `?` when new; `…` is put in by hand."""
    lines = page.text.splitlines()
    for block, behind, shown, printed in sorted(found, key=lambda each: -each[1]):
        if block.language == "console" and not has_lines(shown, printed):
            begin = behind - 1 - len(shown)
            printed = _CLAUDE.sub("…", printed)  # noqa: PLW2901
            lines[begin : behind - 1] = (
                [line.rstrip() for line in printed.rstrip("\n").split("\n")] if printed.strip() else []
            )
    page.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
