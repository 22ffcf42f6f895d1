"""What source code says by its text alone: the definitions of all languages that a change removes and adds; of
Python, what expressions decide whatever the code does (`assert True`, `x == x`, `… or True`), their literals, and the
pairs of an input and a result that tests name together.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.path_roles import role_of
from gitswarm.records.lazy_re import lazy_re

_DEFINITION = lazy_re(
    r"^[ \t]{0,80}(?:(?:export|default|public|private|protected|static|final|abstract|async|pub(?:\(\w{1,20}\))?) )"
    r"{0,5}"
    r"(?:def|class|func(?: \([^)\n]{0,200}\))?|fn|function|struct|enum|trait|interface|type|const|module|record)"
    r"\*? (?P<name>[A-Za-z_$][\w$]{2,200})",
    re.MULTILINE,
)
_WORD = lazy_re(r"\w+")
_TEXT_CHARS = 2_000_000
_BLOCK_CHARS = 2_000
_ALIKE = 0.6
_COMMON = frozenset(
    {"main", "run", "get", "set", "init", "new", "setup", "start", "stop", "test", "index", "__init__"}
)


class Definitions(Struct, frozen=True):
    """`removed`: names that stand nowhere in the changed files any more; `added`: that stood nowhere in them;
    `replaced`: removed ones in whose file an added definition looks like them."""

    removed: frozenset[str]
    added: frozenset[str]
    replaced: frozenset[str]


def changed_definitions(changes: Iterable[TextChange]) -> Definitions:
    before: set[str] = set()
    after: set[str] = set()
    product = [each for each in changes if role_of(each.old_path or each.path) in {"product", "mixed"}]
    for change in product:
        before |= _defined(change.old_path or change.path, change.before)
        after |= _defined(change.path, change.after)
    removed, added = frozenset(before - after - _COMMON), frozenset(after - before)
    replaced = (name for change in product for name in _replaced(change, removed, added))
    return Definitions(removed, added, frozenset(replaced))


def _replaced(change: TextChange, removed: frozenset[str], added: frozenset[str]) -> Iterator[str]:
    old, new = (_blocks(text or "") for text in (change.before, change.after))
    if change.path != (change.old_path or change.path):
        yield PurePosixPath(change.old_path or "").stem
    for name in removed & old.keys():
        if any(_look_alike(old[name], new[other]) for other in added & new.keys()):
            yield name


def _look_alike(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """By their parameters, if they have any to speak of, or most of their lines. Both without their names."""
    head = old[0] == new[0] and len(_WORD.findall(old[0])) > 1
    return head or difflib.SequenceMatcher(None, old[1], new[1]).ratio() >= _ALIKE


def _blocks(text: str) -> dict[str, tuple[str, str]]:
    """Definitions by name: their first line and their first lines, without the name."""
    found = {}
    for match in _DEFINITION.finditer(text[:_TEXT_CHARS]):
        name = match["name"]
        lines = text[match.start() : match.start() + _BLOCK_CHARS].replace(name, "_").splitlines()
        found[name] = (lines[0].strip(), "\n".join(_block(lines)))
    return found


def _block(lines: Sequence[str]) -> Iterator[str]:
    """Up to the next line that is indented no deeper than the first."""
    depth = len(lines[0]) - len(lines[0].lstrip())
    yield lines[0]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            return
        yield line


def _defined(path: str, text: str | None) -> set[str]:
    if text is None:
        return set()
    stem = PurePosixPath(path).stem
    return {match["name"] for match in _DEFINITION.finditer(text[:_TEXT_CHARS])} | (
        {stem} if len(stem) > 2 else set()
    )


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MOST_VALUES = 50_000
_NO_RESULTS = frozenset({"None", "True", "False"})


def parse(text: str) -> ast.Module | None:
    """The syntax tree; None of what does not parse, or is nested too deeply."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the file's own strings and comparisons
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def literal_text(node: ast.expr) -> str | None:
    """A literal in one form; None for what is none."""
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


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


def is_decided(test: ast.expr) -> bool | None:
    """The truth of an expression that is the same whatever the code does; None if it depends on something."""
    if isinstance(test, ast.Tuple):
        return bool(test.elts)  # `assert (x == 1, "a message")`
    value = decided_value(test)
    return None if value is None else bool(value[0])


def decided_value(node: ast.expr) -> tuple[object] | None:
    """A constant, or what is made of constants only; `x == x` and `x or True` too."""
    if isinstance(node, ast.Constant):
        return (node.value,)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return (node.elts,) if all(decided_value(each) is not None for each in node.elts) else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _of_comparison(node)
    return _of_logic(node)


def _of_logic(node: ast.expr) -> tuple[object] | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = is_decided(node.operand)
        return None if inner is None else (not inner,)
    if isinstance(node, ast.BoolOp):
        stops = isinstance(node.op, ast.Or)
        parts = [is_decided(each) for each in node.values]
        if stops in parts:
            return (stops,)
        return None if None in parts else (not stops,)
    return None


def _of_comparison(node: ast.Compare) -> tuple[object] | None:
    left, right, how = node.left, node.comparators[0], node.ops[0]
    if ast.dump(left) == ast.dump(right) and not any(isinstance(each, ast.Call) for each in ast.walk(left)):
        return (isinstance(how, ast.Eq | ast.Is | ast.LtE | ast.GtE),)
    compare = _COMPARED.get(type(how))
    if compare is None or not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
        return None
    try:
        return (bool(compare(left.value, right.value)),)
    except TypeError:
        return None


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
