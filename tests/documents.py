"""Markdown pages as tests see them: links, anchors, and the shell examples, which are executed.

A comment in front of a block of code says what becomes of it:

    <!-- session: NAME -->      the next blocks begin in a fresh place: `begin` in tests/test_docs_examples.py
    <!-- file: PATH -->         the block is the content of a file below the current folder
    <!-- exit: N -->            the exit code of the block's last command, else 0
    <!-- skip: WHY -->          is not executed
    <!-- replace: A => B -->    is executed with B in place of A

Of ```` ```console ```` the lines behind `$ ` are commands, the others their output, which is compared where there is
some; a line `…` stands for any lines. Every line of ```` ```sh ```` is a command whose output is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHELL = ("sh", "console")

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>```+)(?P<lang>[\w-]*)")
_REMARK = re.compile(r"\s+# .*$")
_COMMENT = re.compile(r"<!-- (?P<name>session|file|exit|skip|replace): (?P<value>.*?) -->")
_HEADING = re.compile(r"#{1,6} +(?P<text>.*?)(?: +#+)? *$")
_LINK = re.compile(r"(?<!\\)!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")
_HTML_TARGET = re.compile(r'(?:src|href)="(?P<target>[^"]+)"')
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block. `line`: number of its first line of text, from 1; `session`: number of the session, from 0."""

    language: str
    lines: tuple[str, ...]
    line: int
    session: int
    place: str
    notes: dict[str, str] = field(default_factory=dict)

    def commands(self) -> Iterator[tuple[str, list[str], int]]:
        """Each command with its output, and the number of the line behind it."""
        if self.language == "sh":
            for number, line in enumerate(self.lines, 1):
                yield _REMARK.sub("", line), [], self.line + number
            return
        command, output = "", list[str]()
        for number, line in enumerate(self.lines):
            if line.startswith("$ "):
                if command:
                    yield command, output, self.line + number
                command, output = _REMARK.sub("", line[2:]), []
            elif line.startswith("> ") and not output:
                command += f"\n{line[2:]}"
            else:
                output.append(line)
        yield command, output, self.line + len(self.lines)


@dataclass(frozen=True)
class Document:
    """A page of Markdown."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def blocks(self) -> list[CodeBlock]:
        found: list[CodeBlock] = []
        notes: dict[str, str] = {}
        session, place = -1, ""
        lines = self.text.splitlines()
        number = 0
        while number < len(lines):
            if comment := _COMMENT.fullmatch(lines[number].strip()):
                notes[comment["name"]] = comment["value"]
                if comment["name"] == "session":
                    session, place = session + 1, comment["value"]
            elif fence := _FENCE.match(lines[number]):
                end = _closing(lines, number, fence["fence"])
                inside = tuple(line.removeprefix(fence["indent"]) for line in lines[number + 1 : end])
                found.append(CodeBlock(fence["lang"], inside, number + 2, session, place, notes))
                notes, number = {}, end
            number += 1
        return found

    def prose(self) -> list[str]:
        """Its lines without blocks of code, which are empty here, and without code in lines."""
        lines = self.text.splitlines()
        number = 0
        while number < len(lines):
            if fence := _FENCE.match(lines[number]):
                end = _closing(lines, number, fence["fence"])
                lines[number : end + 1] = [""] * (end + 1 - number)
                number = end
            number += 1
        return [_CODE.sub("", line) for line in lines]

    def links(self) -> list[tuple[int, str]]:
        """Line and target of every link that does not lead to another machine."""
        found = (
            (number, match["target"])
            for number, line in enumerate(self.prose(), 1)
            for pattern in (_LINK, _HTML_TARGET)
            for match in pattern.finditer(line)
        )
        return [(number, target) for number, target in found if not re.match(r"[a-z]+:", target)]

    def anchors(self) -> set[str]:
        """What `#` may name, as GitHub makes it of the headings."""
        found: dict[str, int] = {}
        in_code = {number for number, line in enumerate(self.prose()) if not line}
        anchors: set[str] = set()
        for number, line in enumerate(self.text.splitlines()):
            heading = _HEADING.match(line)
            if heading is None or number in in_code:
                continue
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).strip().lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = found.get(slug, 0)
            found[slug] = count + 1
            anchors.add(f"{slug}-{count}" if count else slug)
        return anchors


def _closing(lines: list[str], begin: int, fence: str) -> int:
    """Number of the line that ends a block."""
    for number in range(begin + 1, len(lines)):
        if lines[number].strip() == fence:
            return number
    raise AssertionError(f"line {begin + 1}: this block has no end")


def documents() -> list[Document]:
    """All pages for people."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [Document(path) for path in (*top, *sorted((ROOT / "docs").rglob("*.md"))) if "_build" not in path.parts]
