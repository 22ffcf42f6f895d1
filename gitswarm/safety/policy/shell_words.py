"""The simple commands of a shell line and their words: nothing is run, and no value is followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gitswarm.records.lazy_re import lazy_re

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


_EXPANSIONS = frozenset({"simple_expansion", "expansion"})
_JOINED = frozenset({"concatenation", "command_name"})
_PLAIN = frozenset({"word", "number", "variable_name", "special_variable_name"})
_GLOB = lazy_re(r"(?<!\\)[*?\[]")
_BRACES = lazy_re(r"\{[^}]*(,|\.\.)")

_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_NO_WORDS = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect", "comment"})
_SPLIT = lazy_re(r"(?<=[^\s\\])\\\n")
"""A line that is continued in or behind a word: the grammar makes two words of it."""
_MOST_NODES = 10_000
"""Of a longer line nothing is read: deciding must stay quick."""
_DESCRIPTOR = lazy_re(r"\d*-?")
_MOVING = frozenset({"cd", "pushd", "popd", "chdir"})


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


class SimpleCommand(Struct, frozen=True):
    """One program that is started, with its arguments."""

    words: tuple[ShellWord, ...]

    @property
    def name(self) -> str | None:
        """Last part of the program's name, without a version (`x@latest`) or a second brace; None: not known."""
        text = self.words[0].known if self.words else None
        return re.split(r"@|==|(?<=\{) ", text.rpartition("/")[2])[0] or None if text else None

    @property
    def arguments(self) -> tuple[ShellWord, ...]:
        return self.words[1:]

    @property
    def shown(self) -> str:
        return " ".join(word.shown for word in self.words)


class Line(Struct):
    """`redirects`: operator and target. `moves`: there is a `cd`. `is_whole`: all of it could be read."""

    commands: list[SimpleCommand] = field(default_factory=list)
    redirects: list[tuple[str, ShellWord]] = field(default_factory=list)
    assigned: list[tuple[str, ShellWord]] = field(default_factory=list)
    moves: bool = False
    is_whole: bool = True


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # noqa: PLC0415 - 30 ms that nobody needs who runs no shell command
    from tree_sitter import Language, Parser  # noqa: PLC0415 - as above

    return Parser(Language(tree_sitter_bash.language()))


def read_line(text: str, variables: Mapping[str, str]) -> Line:
    """`variables`: what the environment says; a name that the line itself sets is not known."""
    text = _SPLIT.sub("", text.replace("\r\n", "\n"))

    @cache
    def value(name: str) -> str | None:
        is_set = name in variables and re.search(rf"(?<![\w${{]){re.escape(name)}(?!\w)", text)
        return None if is_set else variables.get(name)

    root = _parser().parse(text.encode(errors="replace")).root_node
    line = Line(is_whole=not root.has_error and root.descendant_count < _MOST_NODES)
    behind: dict[int, list[ShellWord]] = {}
    for node in _nodes(root) if root.descendant_count < _MOST_NODES else ():
        if node.type in _COMMANDS:
            words = _read_words((child for child in node.children if child.type not in _NO_WORDS), value)
            line.commands.append(SimpleCommand((*words, *behind.get(node.end_byte, ()))))
        elif node.type == "variable_assignment":
            given = _read_word(node.children[2:], value) if node.child_count > 2 else ShellWord("")
            line.assigned.append((_text_of(node.children[0]), given))
        elif node.type == "file_redirect":
            line.redirects += _redirects(node, value)
        elif node.type == "redirected_statement" and node.children:
            # `git > x push`: the grammar takes the rest for more targets.
            more = [word for child in node.children[1:] for word in _read_words(_targets(child), value)[1:]]
            behind[node.children[0].end_byte] = more
        line.is_whole &= node.type != "function_definition"
    line.moves = any(word.known in _MOVING for command in line.commands for word in command.words[:3])
    return line


def _nodes(root: Node) -> Iterator[Node]:
    """A node and all below it, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        yield node


def _redirects(node: Node, value: Callable[[str], str | None]) -> Iterator[tuple[str, ShellWord]]:
    """The operator with its target; nothing where a descriptor is copied (`2>&1`)."""
    operator = next((child.type for child in node.children if set(child.type) <= set("<>&|")), "")
    targets = _read_words(_targets(node), value)[:1]
    if operator not in (">&", "<&") or not all(_DESCRIPTOR.fullmatch(word.shown) for word in targets):
        yield from ((operator, word) for word in targets)


def _targets(node: Node) -> list[Node]:
    return node.children_by_field_name("destination") if node.type == "file_redirect" else []


def _text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _read_words(nodes: Iterable[Node], value: Callable[[str], str | None]) -> list[ShellWord]:
    """The grammar makes two words of some: what nothing separates is one."""
    words: list[list[Node]] = []
    for node in nodes:
        if words and words[-1][-1].end_byte == node.start_byte:
            words[-1].append(node)
        else:
            words.append([node])
    return [_read_word(each, value) for each in words]


def _read_word(nodes: Sequence[Node], value: Callable[[str], str | None]) -> ShellWord:
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
    text = _text_of(node)
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
        names = [_text_of(child) for child in node.named_children]
        is_plain = len(names) == 1 and text in (f"${names[0]}", f"${{{names[0]}}}")
        yield value(names[0]) if is_plain else None, True
    else:
        yield None, False


def _string(node: Node, value: Callable[[str], str | None]) -> Iterator[tuple[str | None, bool]]:
    """The parts of a string, from the bytes between the expansions: the grammar leaves out blanks at a string's
    beginning."""
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
