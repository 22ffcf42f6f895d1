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
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
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
_OF_TESTS = lazy_re(r"(?:^|\.)(?:tests?|testing|conftest|helpers?)(?:\.|$)|(?:^|\.)test_|_test(?:\.|$)")
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
    product = [each for each in changes if role_of(each.former_path) in {"product", "mixed"}]
    for change in product:
        before |= _defined(change.former_path, change.before)
        after |= _defined(change.path, change.after)
    removed, added = frozenset(before - after - _COMMON), frozenset(after - before)
    replaced = (name for change in product for name in _replaced(change, removed, added))
    return Definitions(removed, added, frozenset(replaced))


def _replaced(change: TextChange, removed: frozenset[str], added: frozenset[str]) -> Iterator[str]:
    old, new = (_blocks(text or "") for text in (change.before, change.after))
    if change.path != change.former_path:
        yield PurePosixPath(change.former_path).stem
    for name in removed & old.keys():
        if any(_look_alike(old[name], new[other]) for other in added & new.keys()):
            yield name


def _look_alike(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """Whether two look alike: by their parameters, if they have any to speak of, or by most of their lines. Both
    without their names."""
    head = old[0] == new[0] and len(_WORD.findall(old[0])) > 1
    return head or difflib.SequenceMatcher(None, old[1], new[1]).ratio() >= _ALIKE


def _blocks(text: str) -> dict[str, tuple[str, str]]:
    """Definitions by name: their first line and their first lines, without the name."""
    found = {}
    for match in _DEFINITION.finditer(text[:_TEXT_CHARS]):
        name = match["name"]
        lines = text[match.start() : match.start() + _BLOCK_CHARS].replace(name, "_").splitlines()
        depth = len(lines[0]) - len(lines[0].lstrip())
        found[name] = (lines[0].strip(), "\n".join((lines[0], *deeper(lines[1:], depth))))
    return found


def deeper(lines: Iterable[str], depth: int) -> Iterator[str]:
    """Up to the next line that is indented no deeper than `depth`."""
    return takewhile(lambda line: not line.strip() or len(line) - len(line.lstrip()) > depth, lines)


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
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_OPERATIONS: dict[type[ast.unaryop | ast.operator], Callable[..., object]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_BUILTINS: dict[str, Callable[..., object]] = {
    each.__name__: each for each in (bool, range, list, tuple, set, frozenset, dict)
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_VALUES = 50_000
_NO_RESULTS = frozenset({"None", "True", "False"})


def parse(text: str) -> ast.Module | None:
    """The syntax tree; None of what does not parse, or is nested too deeply."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the file's own strings and comparisons
        try:
            return ast.parse(text.removeprefix("\ufeff"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def is_of_tests(module: str) -> bool:
    """Whether a module of this name is one of tests, by its name."""
    return bool(_OF_TESTS.search(module))


def dotted_name(node: ast.expr | None) -> str:
    """`pytest.mark.skip` of `pytest.mark.skip(reason="…")`; of other expressions what stands last in them."""
    if isinstance(node, ast.Call):
        return dotted_name(node.func)
    if isinstance(node, ast.Attribute):
        inner = dotted_name(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.expr | None) -> str:
    """`skip` of the same."""
    return dotted_name(node).rpartition(".")[2]


def is_constant(statement: ast.stmt) -> bool:
    """A docstring, and the like."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


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
    if isinstance(test, ast.NamedExpr):
        return is_decided(test.value)
    if isinstance(test, ast.BoolOp):
        return _joined(test.values, stops=isinstance(test.op, ast.Or))
    if isinstance(test, ast.IfExp):
        truths = {is_decided(arm) for arm in _arms(test)}
        return truths.pop() if len(truths) == 1 else None
    if isinstance(test, ast.Call) and (parts := _gathered(test)) is not None:
        return _joined(parts, stops=last_name(test.func) == "any")
    value = decided_value(test)
    return bool(value[0]) if value is not None else _truth_by_form(test)


def _joined(parts: Sequence[ast.expr], *, stops: bool) -> bool | None:
    """Of parts that are asked until one has this truth."""
    truths = [is_decided(each) for each in parts]
    if stops in truths:
        return stops
    return None if None in truths else not stops


def _gathered(call: ast.Call) -> Sequence[ast.expr] | None:
    """The parts of `all([…])` and `any([…])`."""
    if not (isinstance(call.func, ast.Name) and call.func.id in {"all", "any"} and len(call.args) == 1):
        return None
    given = call.args[0]
    if _is_empty(given):
        return []
    if not isinstance(given, ast.Tuple | ast.List | ast.Set):
        return None
    return given.elts if not any(isinstance(each, ast.Starred) for each in given.elts) else None


def _truth_by_form(test: ast.expr) -> bool | None:
    """Of what is made anew, and true or not whatever it holds: `[x == 1]`, `lambda: x`, `f"got {x}"`."""
    if isinstance(test, ast.Tuple | ast.List | ast.Set):
        return True if any(not isinstance(each, ast.Starred) for each in test.elts) else None
    if isinstance(test, ast.Dict):
        return True if any(key is not None for key in test.keys) else None
    if isinstance(test, ast.JoinedStr):
        return True if any(isinstance(each, ast.Constant) and each.value for each in test.values) else None
    if isinstance(test, ast.Lambda | ast.GeneratorExp):
        return True
    return False if _is_empty(test) or last_name(test) == "TYPE_CHECKING" else None


def _is_empty(node: ast.expr) -> bool:
    """`[]`, `range(0)`, and a comprehension over such."""
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return _is_empty(node.generators[0].iter)
    value = decided_value(node)
    return value is not None and isinstance(value[0], Sized) and not value[0]


def _arms(test: ast.IfExp) -> list[ast.expr]:
    """The results of a conditional expression that are possible."""
    decided = is_decided(test.test)
    return [arm for arm, taken in ((test.body, decided is not False), (test.orelse, decided is not True)) if taken]


def decided_value(node: ast.expr) -> tuple[object] | None:
    """What an expression is, whatever the code does: a constant, and what is made of constants only; `x == x` too."""
    if isinstance(node, ast.Constant):
        return (node.value,)
    if isinstance(node, ast.NamedExpr):
        return decided_value(node.value)
    if isinstance(node, ast.Compare):
        return _of_comparison(node)
    if isinstance(node, ast.IfExp):
        arms = _arms(node)
        return decided_value(arms[0]) if len(arms) == 1 else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = is_decided(node.operand)
        return None if inner is None else (not inner,)
    return _made_of_constants(node)


def _values(nodes: Sequence[ast.expr | None]) -> list[object] | None:
    found = [decided_value(each) for each in nodes if each is not None]
    return [each[0] for each in found if each is not None] if len(found) == len(nodes) and None not in found else None


def _made_of_constants(node: ast.expr) -> tuple[object] | None:
    make, given = _maker(node)
    values = _values(given)
    if make is None or values is None:
        return None
    if isinstance(node, ast.UnaryOp | ast.BinOp) and not all(isinstance(each, int | float) for each in values):
        return None
    try:
        made = make(*values)
        # Whoever lists a longer one, or looks for what is no number in it, would not come to an end.
        return (made,) if not isinstance(made, range) or len(made) <= _MOST_VALUES else None
    except (TypeError, ValueError, OverflowError):
        return None


def _maker(node: ast.expr) -> tuple[Callable[..., object] | None, Sequence[ast.expr | None]]:
    """What makes the value, and of what: displays, signs, sums and products, builtins that are called."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        kind = {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)]
        return lambda *values: kind(values), node.elts
    if isinstance(node, ast.Dict):
        half = len(node.keys)
        return lambda *values: dict(zip(values[:half], values[half:], strict=True)), [*node.keys, *node.values]
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        given = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        return _OPERATIONS.get(type(node.op)), given
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _BUILTINS.get(node.func.id), node.args
    return None, ()


def _of_comparison(node: ast.Compare) -> tuple[object] | None:
    """Of a chain each pair counts."""
    sides = [node.left, *node.comparators]
    pairs = [_of_pair(*each) for each in zip(sides, node.ops, sides[1:], strict=False)]
    if any(each == (False,) for each in pairs):
        return (False,)
    return None if None in pairs else (True,)


def _of_pair(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> tuple[bool] | None:
    if isinstance(operator, ast.Is | ast.IsNot) and any(
        isinstance(one, ast.Constant) and one.value is None and _is_something(other)
        for one, other in ((left, right), (right, left))
    ):
        return (isinstance(operator, ast.IsNot),)
    is_order = not isinstance(operator, ast.In | ast.NotIn)
    if (
        is_order
        and ast.dump(left) == ast.dump(right)
        and not any(isinstance(each, ast.Call) for each in ast.walk(left))
    ):
        return (isinstance(operator, ast.Eq | ast.Is | ast.LtE | ast.GtE),)
    values, compare = _values([left, right]), _COMPARED.get(type(operator))
    if compare is None or values is None:
        return None
    try:
        return (bool(compare(*values)),)
    except TypeError:
        return None


def _is_something(node: ast.expr) -> bool:
    """Whether an expression is never None, whatever its parts are: `x == 1`, `not x`, `[x]`."""
    made = ast.Compare | ast.JoinedStr | ast.Lambda | ast.Tuple | ast.List | ast.Set | ast.Dict
    return isinstance(node, made) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


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
