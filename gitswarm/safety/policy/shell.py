"""A command line as the sequence of programs that it starts, with what is known of their arguments.

Values are followed as far as one pass can: variables, folders and functions, joined where ways part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gitswarm.safety.policy.builtins import apply_builtin, builtin_words, declared
from gitswarm.safety.policy.chains import CHAINS, Part, Pipeline, pipelines, rest_of_line
from gitswarm.safety.policy.listings import names_out_of
from gitswarm.safety.policy.state import MARKERS, Found, Shell
from gitswarm.safety.policy.syntax import (
    EXPANSIONS,
    REDIRECTS,
    Syntax,
    Torn,
    depth,
    is_whole,
    outermost,
    parse,
    text_of,
)
from gitswarm.safety.policy.values import UNKNOWN, Command, Input, Refused, Word

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 100
MOST_NODES = 100_000
MOST_COMMANDS = 4_000
MOST_NESTING = 8
_MOST_ITEMS = 16
_ASSIGNING = frozenset({"=", ":="})


@dataclass(slots=True)
class Budget:
    """What one decision may cost; nested command lines share it."""

    nodes: int = MOST_NODES
    commands: int = MOST_COMMANDS
    nesting: int = MOST_NESTING


def commands(text: str, shell: Shell, budget: Budget) -> Found:
    """Every program that `text` starts, in order; `shell` changes as the command line changes it."""
    if "\0" in text or "\r" in text:
        yield Refused("unparsed", "it holds a NUL or a carriage return")
        return
    source = text.encode(errors="replace")
    root = parse(source)
    budget.nodes -= root.descendant_count
    if root.has_error or not is_whole(root, source):
        yield Refused("unparsed", "it is no shell that can be understood")
    elif budget.nodes < 0 or budget.nesting <= 0 or depth(root) > DEEPEST:
        yield Refused("too-complex", "it is nested too deeply or too long")
    else:
        budget.nesting -= 1
        try:
            yield from _Walk(source, budget).every(root.children, shell)
        except Torn:
            yield Refused("unparsed", "a word is broken across lines")
        budget.nesting += 1


class _Walk:
    """One pass over one source."""

    def __init__(self, source: bytes, budget: Budget) -> None:
        self._syntax = Syntax(source)
        self._budget = budget
        self._ways: Mapping[str, Callable[[Node, Shell], Found]] = {
            "command": self._simple,
            **dict.fromkeys(CHAINS, self._chain),
            "subshell": self._apart,
            "command_substitution": self._apart,
            "process_substitution": self._apart,
            "expansion": self._expansion,
            "variable_assignment": self._assignment,
            "declaration_command": self._declaration,
            "unset_command": self._unset,
            "function_definition": self._function,
            "for_statement": self._for,
            "while_statement": self._loop,
            "c_style_for_statement": self._loop,
            "if_statement": self._if,
            "elif_clause": self._if,
            "case_statement": self._case,
            "postfix_expression": self._counting,
            "unary_expression": self._counting,
            "binary_expression": self._counting,
        }

    def every(self, nodes: Sequence[Node], shell: Shell) -> Found:
        """Statements one after the other. One before `&` has a shell of its own; a `cd` may have failed."""
        for at, node in enumerate(nodes):
            background = at + 1 < len(nodes) and nodes[at + 1].type == "&"
            stood = shell.folders
            yield from self._visit(node, shell.copy() if background else shell)
            if stood != shell.folders and node.type != "list":  # a list says itself what becomes of a failure
                shell.stand_in(_either(stood, shell.folders))

    def _visit(self, node: Node, shell: Shell) -> Found:
        if not node.child_count:
            return
        if self._budget.commands < 0:
            yield Refused("too-complex", "there are too many ways through it")
            return
        way = self._ways.get(node.type)
        yield from way(node, shell) if way else self.every(node.children, shell)

    def _inside(self, nodes: Sequence[Node], shell: Shell) -> Found:
        """What the expansions in words start."""
        for node in outermost(nodes, EXPANSIONS):
            yield from self._visit(node, shell)

    def _apart(self, node: Node, shell: Shell) -> Found:
        inner = shell.copy()
        if text_of(node.children[0]) == ">(":
            inner.input, inner.text, inner.names = Input.PIPED, None, ()
        yield from self.every(node.children, inner)

    def _expansion(self, node: Node, shell: Shell) -> Found:
        yield from self.every(node.children, shell)
        if any(child.type in _ASSIGNING for child in node.children):
            shell.forget(text_of(child) for child in node.children if child.type == "variable_name")

    def _counting(self, node: Node, shell: Shell) -> Found:
        for part in _links(node, "binary_expression"):
            if part.child_count:
                yield from self.every(part.children, shell)
            if part.type == "variable_name":
                yield from _kept_marker(text_of(part))
                shell.forget([text_of(part)])

    def _chain(self, node: Node, shell: Shell) -> Found:
        """`a && b || c`: behind `&&` what has succeeded before, behind `||` what has not. A command that failed may
        have done its work but for a `cd`.
        """
        failed: Shell | None = None
        for each in pipelines(node):
            way = failed if each.link == "||" and failed is not None else shell
            stood = way.folders
            yield from self._pipeline(each, way)
            after = way.copy()
            after.stand_in(_either(stood, way.folders))
            if each.negated:
                way.stand_in(after.folders)
            if failed is None or way is failed:
                if failed is not None:
                    shell.join(failed)
                failed = after
            else:
                failed.join(after)
        if failed is not None:
            shell.join(failed)

    def _pipeline(self, pipeline: Pipeline, shell: Shell) -> Found:
        alone = len(pipeline.parts) == 1
        names: tuple[Word, ...] = ()
        for at, part in enumerate(pipeline.parts):
            inner = shell if alone else shell.copy()
            if at:
                inner.input, inner.text, inner.names = Input.PIPED, None, names
            simple = part.node is not None and part.node.type == "command"
            names = ()
            for each in self._part(part, inner):
                if isinstance(each, Command):
                    names = names_out_of(each, inner.names) if simple else ()
                yield each

    def _if(self, node: Node, shell: Shell) -> Found:
        """Conditions happen one after the other, of the bodies one or none."""
        conditions = node.children_by_field_name("condition")
        yield from self.every(conditions, shell)
        rest = [child for child in node.children if child not in conditions]
        clauses = [child for child in rest if child.type in ("elif_clause", "else_clause")]
        way = shell.copy()
        yield from self.every([child for child in rest if child not in clauses], way)
        for clause in clauses:
            other = shell.copy()
            yield from self._visit(clause, other)
            way.join(other)
        shell.join(way)

    def _case(self, node: Node, shell: Shell) -> Found:
        items = [child for child in node.children if child.type == "case_item"]
        yield from self._inside([child for child in node.children if child not in items], shell)
        for item in items:
            way = shell.copy()
            yield from self.every(item.children, way)
            shell.join(way)

    def _loop(self, node: Node, shell: Shell) -> Found:
        """Once as it is; once more for what further rounds may find changed."""
        yield from self._rounds(node.children, shell)

    def _rounds(self, nodes: Sequence[Node], shell: Shell) -> Found:
        before = shell.copy()
        yield from self.every(nodes, shell)
        if shell.knows_as_much(before):
            return
        moved = shell.folders != before.folders
        shell.join(before)
        if moved:
            shell.stand_in(None)
        yield from self.every(nodes, shell)
        shell.join(before)

    def _for(self, node: Node, shell: Shell) -> Found:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        yield from self._inside(values, shell)
        name = text_of(variable) if variable is not None else ""
        yield from _kept_marker(name)
        items = self._syntax.words(values, shell)
        if not items or len(items) > _MOST_ITEMS or any(item.text is None for item in items):
            items = [UNKNOWN]
        before = shell.copy()
        for item in items:
            shell.assign(name, item)
            yield from self._rounds([body] if body is not None else [], shell)
            shell.join(before)
        shell.forget([name])

    def _function(self, node: Node, shell: Shell) -> Found:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            yield Refused("unparsed", "a function has no name")
            return
        self._budget.commands -= 1
        yield Refused("shadowing", text_of(name))
        redirects = tuple(child for child in node.children if child.type in REDIRECTS)
        shell.functions[text_of(name)] = partial(self._part, Part(body, redirects))
        yield from self._called(text_of(name), shell.copy())

    def _called(self, name: str, shell: Shell) -> Found:
        if name in shell.calling:
            yield Refused("fork-bomb", f"{name} calls itself")
            return
        around = shell.calling
        shell.calling = around | {name}
        yield from shell.functions[name](shell)
        shell.calling = around

    def _assignment(self, node: Node, shell: Shell) -> Found:
        yield from self._inside([node], shell)
        name, value = self._syntax.assignment(node, shell)
        yield shell.command((), ((name, value),))
        shell.assign(name, value)

    def _declaration(self, node: Node, shell: Shell) -> Found:
        yield from self._inside(node.children, shell)
        assignments = [child for child in node.children if child.type == "variable_assignment"]
        words = self._syntax.words([child for child in node.children[1:] if child not in assignments], shell)
        options = [word.known or "" for word in words if word.shown.startswith("-")]
        pairs = [*(self._syntax.assignment(child, shell) for child in assignments), *declared(words)]
        yield shell.command((), tuple(pairs))
        yield from self._named(text_of(node.children[0]), words, pairs, shell)
        plain = all(set(option) <= set("-xrgaAfFp") for option in options)
        for name, value in pairs:
            shell.assign(name, value if plain else UNKNOWN)

    def _named(self, name: str, words: Sequence[Word], pairs: Sequence[tuple[str, Word]], shell: Shell) -> Found:
        """`export -n NAME`, `local NAME`, `declare -n x=NAME`: a variable changes that is not assigned."""
        letters = "".join(word.shown for word in words if word.shown.startswith(("-", "+")))
        names = [word for word in words if "=" not in word.shown]
        refers = [value for _name, value in pairs] if "n" in letters and name != "export" else []
        if "p" not in letters and (name != "export" or "n" in letters):
            yield shell.command((Word(name), *names, *refers))

    def _unset(self, node: Node, shell: Shell) -> Found:
        yield from self._inside(node.children, shell)
        command = shell.command(tuple(self._syntax.words(node.children, shell)))
        yield command
        apply_builtin(command, shell)

    def _part(self, part: Part, shell: Shell) -> Found:
        node, redirects = part.node, part.redirects
        if node is None or (redirects and node.type == "command"):
            yield from self._simple_command([*(node.children if node is not None else ()), *redirects], shell)
        elif redirects:
            yield from self._compound(node, redirects, shell)
        else:
            yield from self._visit(node, shell)

    def _compound(self, body: Node, redirects: Sequence[Node], shell: Shell) -> Found:
        yield from self._inside([each for each in redirects if each.type != "heredoc_redirect"], shell)
        command = self._syntax.command(redirects, shell)
        if command.words:
            yield Refused("unparsed", "words stand behind a redirect")
        yield command
        yield from self._texts(redirects, shell)
        outer, shell.input, shell.text = (shell.input, shell.text), command.input, command.text
        yield from self._visit(body, shell)
        shell.input, shell.text = outer

    def _simple(self, node: Node, shell: Shell) -> Found:
        yield from self._simple_command(node.children, shell)

    def _simple_command(self, nodes: Sequence[Node], shell: Shell) -> Found:
        # Behind `time` and `coproc` the grammar has a subshell among the words.
        subshells = [part for part in nodes if part.type == "subshell"]
        parts = [part for part in nodes if part not in subshells]
        yield from self.every(subshells, shell)
        yield from self._inside([part for part in parts if part.type != "heredoc_redirect"], shell)
        command = self._syntax.command(parts, shell)
        self._budget.commands -= 1
        yield command
        yield from self._texts(parts, shell)
        name = command.words[0].known if command.words else None
        words = builtin_words(command)
        if name is not None and name in shell.functions:
            yield from self._called(name, shell)
        elif words and words[0].known == "eval" and all(word.known is not None for word in words):
            yield from commands(" ".join(word.known or "" for word in words[1:]), shell, self._budget)
        else:
            apply_builtin(command, shell)
            shell.left = shell.left or name == "exit"

    def _texts(self, redirects: Sequence[Node], shell: Shell) -> Found:
        """What the expansions in here-documents, and in what stands on their line, start."""
        for redirect in redirects:
            if redirect.type == "heredoc_redirect":
                rest = rest_of_line(redirect)
                yield from self._inside([child for child in redirect.children if child not in rest], shell.copy())


def _either(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _kept_marker(name: str) -> Found:
    """Loops and sums assign without saying so."""
    if name in MARKERS:
        yield Refused("marker", name)


def _links(node: Node, kind: str) -> list[Node]:
    """The parts of a chain that leans to the left, operators too."""
    parts: list[Node] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.type == kind:
            waiting += reversed(each.children)
        else:
            parts.append(each)
    return parts
