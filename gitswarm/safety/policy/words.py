"""Words of a shell as far as they stand in the line: nothing is run, and no value is followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSIONS = frozenset({"simple_expansion", "expansion"})
_JOINED = frozenset({"concatenation", "command_name"})
_PLAIN = frozenset({"word", "number", "variable_name", "special_variable_name"})
_GLOB = re.compile(r"(?<!\\)[*?\[]")
_BRACES = re.compile(r"\{[^}]*(,|\.\.)")


class ShellWord(Struct, frozen=True):
    """One argument. `text` None: what it will be is not known; `start` is what it begins with then.

    `pattern`: `text` holds unquoted globs.
    """

    text: str | None
    pattern: bool = False
    start: str = ""

    @property
    def known(self) -> str | None:
        """The exact text."""
        return None if self.pattern else self.text

    @property
    def shown(self) -> str:
        return self.text if self.text is not None else f"{self.start}…"


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def read_words(nodes: Iterable[Node], value: Callable[[str], str | None]) -> list[ShellWord]:
    """The grammar makes two words of some: what nothing separates is one."""
    words: list[list[Node]] = []
    for node in nodes:
        if words and words[-1][-1].end_byte == node.start_byte:
            words[-1].append(node)
        else:
            words.append([node])
    return [read_word(each, value) for each in words]


def read_word(nodes: Sequence[Node], value: Callable[[str], str | None]) -> ShellWord:
    """`value`: of a variable by its name; None: not known."""
    read = [part for node in nodes for part in _parts(node, value)]
    pairs = zip(read, [*read[1:], ("", False)], strict=True)
    parts = [part for part, after in pairs if part != ("$", False) or not after[1]]  # of `$"…"`
    bare = "".join(text or "\0" for text, quoted in parts if not quoted)
    if _BRACES.search(bare):
        parts.append((None, False))
    head = parts[0][0] or "" if parts and not parts[0][1] else ""
    if head == "~" == bare or head.startswith("~/"):
        parts[0] = (f"{value('HOME')}{head[1:]}", False)
    elif head.startswith("~") and head != "~":
        parts = [(f"/home/{head[1:]}", False), *parts[1:], (None, False)]
    start = ""
    for text, quoted in parts:
        if text is None:
            return ShellWord(None, start=start)
        start += text if quoted else re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
    return ShellWord(start, _GLOB.search(bare) is not None)


def _parts(node: Node, value: Callable[[str], str | None]) -> Iterator[tuple[str | None, bool]]:
    """Pieces of a word and whether they are quoted; None: a piece that is not known."""
    text = text_of(node)
    if node.type in _PLAIN or not (node.is_named or node.children):
        yield text, False
    elif node.type == "raw_string":
        yield text[1:-1], True
    elif node.type == "ansi_c_string":
        yield _ansi(text[2:-1]), True
    elif node.type == "string":
        yield from _string(node, value)
    elif node.type in _JOINED:
        for child in node.children:
            yield from _parts(child, value)
    elif node.type in _EXPANSIONS:
        names = [text_of(child) for child in node.named_children]
        is_plain = len(names) == 1 and text in (f"${names[0]}", f"${{{names[0]}}}")
        yield value(names[0]) if is_plain else None, True
    else:
        yield None, False


def _string(node: Node, value: Callable[[str], str | None]) -> Iterator[tuple[str | None, bool]]:
    """From the bytes between the expansions: the grammar leaves out blanks at a string's beginning."""
    source, at = node.text or b"", 1
    for child in node.named_children:
        if child.type != "string_content":
            yield _unescaped(source[at : child.start_byte - node.start_byte]), True
            yield from _parts(child, value)
            at = child.end_byte - node.start_byte
    yield _unescaped(source[at:-1]), True


def _unescaped(raw: bytes) -> str:
    return re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), raw.decode(errors="replace"))


def _ansi(text: str) -> str | None:
    r"""`$'…'`: escapes as bash has them, but for `\c` and `\E`."""
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        return None
