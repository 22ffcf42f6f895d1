"""What a project's Python tests expect: inputs and results that they name together."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gitswarm.evidence.python_tests import parse

_MOST_VALUES = 50_000
_NO_RESULTS = frozenset({"None", "True", "False"})


@dataclass(frozen=True)
class Expectations:
    """Pairs of an input and a result that tests name together, as text; read when something is compared with them."""

    texts: Iterable[str]

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        pairs: set[tuple[str, str]] = set()
        for text in self.texts:
            tree = parse(text)
            for node in ast.walk(tree) if tree is not None else ():
                if len(pairs) < _MOST_VALUES:
                    pairs.update(_pairs(node))
        return frozenset(pairs)

    def has(self, given: ast.expr, result: ast.expr | None) -> bool:
        wanted = literal_text(result) if result is not None else None
        if wanted is None or wanted in _NO_RESULTS:
            return False
        return (asked := literal_text(given)) is not None and (asked, wanted) in self.pairs


def _pairs(node: ast.AST) -> Iterator[tuple[str, str]]:
    """`assert f(3) == 7`, `self.assertEqual(f(3), 7)`, a row `(3, 7)` of a table."""
    sides: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.Is):
        sides = [(node.left, node.comparators[0]), (node.comparators[0], node.left)]
    elif isinstance(node, ast.Call) and len(node.args) > 1 and getattr(node.func, "attr", "").startswith("assert"):
        sides = [(node.args[0], node.args[1]), (node.args[1], node.args[0])]
    for call, result in sides:
        if isinstance(call, ast.Call) and (wanted := literal_text(result)) is not None:
            inputs = [literal_text(each) for each in (*call.args, *(word.value for word in call.keywords))]
            yield from ((each, wanted) for each in inputs if each is not None)
            if len(call.args) > 1 and None not in inputs:
                yield f"({', '.join(each for each in inputs if each is not None)})", wanted
    if isinstance(node, ast.Tuple) and len(node.elts) > 1:
        row = [literal_text(each) for each in node.elts]
        if row[-1] is not None and None not in row:
            yield from ((each, row[-1]) for each in row[:-1] if each is not None)


def literal_text(node: ast.expr) -> str | None:
    """A literal in one form; None for what is none."""
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
