"""What the text of a Python expression decides, whatever the code does: `assert True`, `x == x`, `… or True`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any


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
