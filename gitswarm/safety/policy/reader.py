"""The simple commands of a shell line: what stands in it, in order, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gitswarm.safety.policy.words import ShellWord, read_word, read_words, text_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_NO_WORDS = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect", "comment"})
_SPLIT = re.compile(r"(?<=[^\s\\])\\\n")
"""A line that is continued in or behind a word: the grammar makes two words of it."""
_MOST_NODES = 10_000
"""Of a longer line nothing is read: deciding must stay quick."""
_DESCRIPTOR = re.compile(r"\d*-?")
_MOVING = frozenset({"cd", "pushd", "popd", "chdir"})


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
    waiting = [root] if root.descendant_count < _MOST_NODES else []
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        if node.type in _COMMANDS:
            words = read_words((child for child in node.children if child.type not in _NO_WORDS), value)
            line.commands.append(SimpleCommand((*words, *behind.get(node.end_byte, ()))))
        elif node.type == "variable_assignment":
            given = read_word(node.children[2:], value) if node.child_count > 2 else ShellWord("")
            line.assigned.append((text_of(node.children[0]), given))
        elif node.type == "file_redirect":
            operator = next((child.type for child in node.children if set(child.type) <= set("<>&|")), "")
            targets = read_words(_targets(node), value)[:1]
            is_copy = operator in (">&", "<&") and all(_DESCRIPTOR.fullmatch(word.shown) for word in targets)
            line.redirects += [] if is_copy else [(operator, word) for word in targets]
        elif node.type == "redirected_statement" and node.children:
            # `git > x push`: the grammar takes the rest for more targets.
            more = [word for child in node.children[1:] for word in read_words(_targets(child), value)[1:]]
            behind[node.children[0].end_byte] = more
        line.is_whole &= node.type != "function_definition"
    line.moves = any(word.known in _MOVING for command in line.commands for word in command.words[:3])
    return line


def _targets(node: Node) -> list[Node]:
    return node.children_by_field_name("destination") if node.type == "file_redirect" else []
