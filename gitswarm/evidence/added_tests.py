"""Whether a Python test file only got whole tests and imports, so that what stood in it does what it did."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gitswarm.evidence.source_text import parse
from gitswarm.records.lazy_re import lazy_re

_WORD = lazy_re(r"\w+")
_DESCRIBING = lazy_re(
    r"^(?:pytest\.(?:mark\.\w+|fixture|param)|mark\.\w+|(?:unittest\.)?(?:skip\w*|expectedFailure)"
    r"|(?:(?:unittest\.)?mock\.)?patch(?:\.\w+)?|(?:hypothesis\.)?(?:given|settings|example)|(?:st|strategies)\.\w+"
    r"|range|list|tuple|dict|set|frozenset|float|int|str|bytes|object|len|sorted|zip|enumerate)$"
)
"""What decorators and defaults of tests call; nothing of it changes the product."""


def only_adds_tests(before: str, after: str) -> bool:
    old, new = parse(before), parse(after)
    return old is not None and new is not None and _extends(old.body, new.body, frozenset(_WORD.findall(before)))


def _extends(before: Sequence[ast.stmt], after: Sequence[ast.stmt], known: frozenset[str]) -> bool:
    """`before` stands in `after` in its order, and the rest are new tests and imports."""
    waiting = list(before)
    for statement in after:
        if (waiting and ast.dump(waiting[0]) == ast.dump(statement)) or (
            waiting and _is_longer_class(waiting[0], statement, known)
        ):
            waiting.pop(0)
        elif not _is_new_test(statement, known):
            return False
    return not waiting


def _is_longer_class(before: ast.stmt, after: ast.stmt, known: frozenset[str]) -> bool:
    if not (isinstance(before, ast.ClassDef) and isinstance(after, ast.ClassDef)):
        return False
    heads = [
        ast.dump(ast.ClassDef(each.name, each.bases, each.keywords, [], each.decorator_list))
        for each in (before, after)
    ]
    return heads[0] == heads[1] and _extends(before.body, after.body, known)


def _is_new_test(statement: ast.stmt, known: frozenset[str]) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        bound = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        return not bound & known and "*" not in bound
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return statement.name.startswith("test") and statement.name not in known and _is_plain(statement)
    if isinstance(statement, ast.ClassDef) and statement.name not in known:
        return (
            not statement.keywords
            and all(map(_is_declared_only, (*statement.bases, *statement.decorator_list)))
            and all(
                (isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and _is_plain(each))
                or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
                for each in statement.body
            )
        )
    return False


def _is_plain(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Nothing but marks is executed when it is defined."""
    given = function.args
    annotations = [each.annotation for each in ast.walk(given) if isinstance(each, ast.arg)]
    parts = (*function.decorator_list, *given.defaults, *given.kw_defaults, *annotations, function.returns)
    return all(_is_declared_only(each) for each in parts if each is not None)


def _is_declared_only(part: ast.expr) -> bool:
    """An expression that calls only what describes tests, and writes nothing."""
    return not any(
        (isinstance(node, ast.Call) and not _DESCRIBING.match(ast.unparse(node.func)))
        or isinstance(getattr(node, "ctx", None), ast.Store)
        for node in ast.walk(part)
    )
