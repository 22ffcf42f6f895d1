"""Commands, words and redirects out of the nodes of a syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from gitswarm.safety.policy.cuts import CUTS, cut
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.state import Shell
from gitswarm.safety.policy.substitutions import value_of
from gitswarm.safety.policy.values import NUMBER, PARENT, UNKNOWN, Command, Input, Redirect, Word
from gitswarm.safety.policy.words import Expansion, Reading, read_value, read_word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution"}
)
REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
PIPE_FILE = "/dev/fd/63"
"""What a process substitution is for the program that gets it."""
_FLAT = frozenset({"list", "binary_expression", "pipeline"})
_NUMBERS = listed("""
    $ # ? ! 0 RANDOM SECONDS LINENO UID EUID
""")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_DASH = re.compile(rb"[ \t]+-[ \t]*")
_TORN = re.compile(rb"(?:\\\n)+")


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # noqa: PLC0415 - 30 ms that nobody needs who runs no shell command
    from tree_sitter import Language, Parser  # noqa: PLC0415 - as above

    return Parser(Language(tree_sitter_bash.language()))


def parse(source: bytes) -> Node:
    return _parser().parse(source).root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def depth(root: Node) -> int:
    """How deep the tree is; a chain like `a && b && c` counts once."""
    deepest = 0
    waiting = [(root, 0)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        waiting += [(child, level + (node.type not in _FLAT)) for child in node.children if child.child_count]
    return deepest


def is_whole(root: Node, source: bytes) -> bool:
    """Whether the leaves of the tree hold all of the text but blanks. The grammar skips what it cannot place; the one
    harmless case is a lone `-` in front of a here-document.
    """
    covered = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.child_count:
            waiting += reversed(node.children)
            continue
        gap = source[covered : node.start_byte]
        if gap and not _BLANK.fullmatch(gap) and not (node.type == "<<" and _DASH.fullmatch(gap)):
            return False
        covered = max(covered, node.end_byte)
    return _BLANK.fullmatch(source[covered:]) is not None


def outermost(nodes: Sequence[Node], types: frozenset[str]) -> Iterator[Node]:
    """Nodes of these types in and below `nodes`, in order; nothing inside of one."""
    waiting = [*reversed(nodes)]
    while waiting:
        node = waiting.pop()
        if node.type in types:
            yield node
        else:
            waiting += reversed(node.children)


class Torn(Exception):  # noqa: N818 - a way out: bash reads a line in another way than the grammar
    """A word that a continued line breaks in two for the grammar, but not for a shell."""


class Syntax:
    """Reads the nodes of one source in the shell of the moment."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def assignment(self, node: Node, shell: Shell) -> tuple[str, Word]:
        """Name and value of `A=b`; of `A+=b`, `a[1]=b` and `a=(b c)` no value."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        simple = name is not None and name.type == "variable_name"
        text = text_of(name).partition("[")[0] if name is not None else ""
        plain = any(child.type == "=" for child in node.children)
        if not simple or not plain or (value is not None and value.type == "array"):
            return text, UNKNOWN
        start = next(child.end_byte for child in node.children if child.type == "=")
        return text, read_value(self._reading([node], shell), start, node.end_byte)

    def command(self, parts: Sequence[Node], shell: Shell) -> Command:
        """The simple command that these nodes are.

        :raises Torn: there is more in the text than the nodes say.
        """
        loose: list[Node] = []
        redirects: list[Redirect] = []
        source, text = shell.input, shell.text
        for part in parts:
            if part.type == "variable_assignment":
                continue
            if part.type not in REDIRECTS:
                loose += part.children if part.type == "command_name" else [part]
                continue
            source, text = self._input(part, shell) or (source, text)
            for each in [part, *(child for child in part.children if child.type == "file_redirect")]:
                extra, found = self._redirect(each, shell)
                loose += extra
                redirects += found
        assigned = tuple(self.assignment(part, shell) for part in parts if part.type == "variable_assignment")
        words = tuple(self.words(loose, shell))
        return Command(words, assigned, tuple(redirects), shell.folders, source, text, shell.variables, shell.names)

    def words(self, nodes: Sequence[Node], shell: Shell) -> list[Word]:
        """The words that these nodes are; nodes that touch each other are one word."""
        reading = self._reading(nodes, shell)
        return [word for start, end in self._spans(nodes) for word in read_word(reading, start, end)]

    def _spans(self, nodes: Sequence[Node]) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for node in sorted(nodes, key=lambda node: node.start_byte):
            start, end = node.start_byte, node.end_byte
            between = self._source[spans[-1][1] : start] if spans else b" "
            if _TORN.fullmatch(between):
                raise Torn
            if between:
                spans.append((start, end))
            else:
                spans[-1] = (spans[-1][0], end)
        return spans

    def _reading(self, nodes: Sequence[Node], shell: Shell) -> Reading:
        found = {
            node.start_byte: Expansion(node.end_byte, self._value(node, shell))
            for node in outermost(nodes, EXPANSIONS)
        }
        return Reading(self._source, found, shell.value("HOME"), splits=shell.splits)

    def _value(self, node: Node, shell: Shell) -> Word:
        if node.type == "process_substitution":
            return Word(PIPE_FILE)
        if node.type == "arithmetic_expansion":
            return PARENT if "PPID" in text_of(node) else NUMBER
        if node.type == "command_substitution":
            inner = node.named_children
            if len(inner) != 1 or inner[0].type != "command" or any(c.type in REDIRECTS for c in inner[0].children):
                return UNKNOWN
            return value_of(self.command(inner[0].children, shell), shell)
        return _variable(node, shell)

    def _redirect(self, node: Node, shell: Shell) -> tuple[list[Node], list[Redirect]]:
        """Words of the command that the grammar took for further targets; the redirect."""
        if node.type != "file_redirect":
            return node.children_by_field_name("argument"), []
        targets = node.children_by_field_name("destination")
        operator = next((text_of(child) for child in node.children if not child.is_named), ">")
        spans = self._spans(targets)
        if not spans:
            return [], []
        first = [node for node in targets if node.end_byte <= spans[0][1]]
        words = self.words(first, shell)
        target = words[0] if len(words) == 1 else UNKNOWN
        digits = (target.known or "").removesuffix("-")
        duplicates = operator in (">&", "<&") and (digits.isdigit() or target.known == "-")
        extra = [node for node in targets[len(first) :] if not self._is_descriptor(node)]
        return extra, [] if duplicates else [Redirect(operator, target)]

    def _is_descriptor(self, node: Node) -> bool:
        """`0` in `>& f 0>&1`, which the grammar takes for a second target."""
        return text_of(node).isdigit() and self._source[node.end_byte : node.end_byte + 1] in (b"<", b">")

    def _input(self, node: Node, shell: Shell) -> tuple[Input, str | None] | None:
        """The standard input that a redirect gives; None: it gives none."""
        if node.type == "herestring_redirect":
            texts = [child for child in node.named_children if child.type != "file_descriptor"]
            words = self.words(texts[:1], shell)
            return Input.TEXT, words[0].known if len(words) == 1 else None
        if node.type == "heredoc_redirect":
            return Input.TEXT, _heredoc(node)
        if not any(child.type in ("<", "<>", "<&") for child in node.children):
            return None
        piped = any(child.type == "process_substitution" for child in node.children)
        return (Input.PIPED if piped else Input.FILE), None


def _variable(node: Node, shell: Shell) -> Word:
    """`$name`, `${name}`; of other forms only what is a number."""
    inner = [child for child in node.children if child.type not in ("$", "${", "}")]
    kinds = [child.type for child in inner]
    name = text_of(inner[-1]) if inner else ""
    if kinds[:1] == ["#"] and len(kinds) <= 2:
        return NUMBER
    if kinds in (["variable_name"], ["special_variable_name"]):
        if name in _NUMBERS:
            return NUMBER
        return PARENT if name == "PPID" else shell.value(name)
    if len(inner) == 3 and kinds[0] == "variable_name" and kinds[1] in CUTS:
        return cut(shell.value(text_of(inner[0])), kinds[1], text_of(inner[2]))
    return UNKNOWN


def _heredoc(node: Node) -> str | None:
    """The text, when nothing in it is expanded."""
    start = next((text_of(child) for child in node.children if child.type == "heredoc_start"), "")
    body = next((text_of(child) for child in node.children if child.type == "heredoc_body"), "")
    literal = any(sign in start for sign in "'\"\\")
    return body if literal or not any(sign in body for sign in "$`\\") else None
