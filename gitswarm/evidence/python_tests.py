"""Tests of a Python file, by its syntax tree.

A test compares when a statement of it that can be reached is one of: an `assert` whose outcome the text does not
decide; a `with` of `raises`, `warns` and the like; a call `self.assert…`, `mock.assert_…`, `pytest.fail`; a call of
something named assert…, check…, expect…, verify…; a raised exception; a call or a fixture of the same file that does
one of these; a bare call of what the tests' own modules define. Not counted: what stands behind an unconditional
`return` or below `if False`, and what a handler swallows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from gitswarm.evidence.declarations import DeclaredTest, Mark, TestShape, digest
from gitswarm.evidence.source_text import (
    Function,
    decided_value,
    dotted_name,
    is_decided,
    is_of_tests,
    last_name,
    parse,
)
from gitswarm.records.lazy_re import lazy_re

_ASSERTING = lazy_re(
    r"^_{0,2}(?:[aA]ssert\w*|(?:check|expect|verify|should|ensure|compare)(?=_|[A-Z]|$)"
    r"|(?:fail|failIf|failUnless\w*|raises|warns|deprecated_call|debug_assert\w*)$)"
)
_OF_VALUES = lazy_re(
    r"^assert(?:_|_?(?:[Nn]ot_?)?(?:[Ee]quals?|[Ii]s|[Ii]n|[Tt]rue|[Ff]alse|[Ii]s_?[Nn]one|[Aa]lmost_?[Ee]quals?)"
    r"|Is(?:Not|NotNone|None)|(?:Greater|Less)(?:Equal)?|(?:List|Dict|Set|Tuple|Sequence|Count|MultiLine)Equal)$"
)
"""Assertions about the values they are given; others may get literals and look at something else."""

_COMPARING: dict[str, ast.cmpop] = {
    **dict.fromkeys(("equal", "equals", "isequal"), ast.Eq()),
    **dict.fromkeys(("notequal", "notequals"), ast.NotEq()),
    "is": ast.Is(),
    "isnot": ast.IsNot(),
    "in": ast.In(),
    "notin": ast.NotIn(),
    "greater": ast.Gt(),
    "greaterequal": ast.GtE(),
    "less": ast.Lt(),
    "lessequal": ast.LtE(),
}
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)

_IDENTIFIER = lazy_re(r"\b(?:id|attr|arg|name)='(\w+)'")
"""In the dump of a syntax tree."""

_SWALLOWING = frozenset({"AssertionError", "Exception", "BaseException"})
_SKIPS: dict[str, Mark] = {
    "skip": "skip",
    "skipif": "skipif",
    "skipIf": "skipif",
    "skipUnless": "skipif",
    "xfail": "xfail",
    "expectedFailure": "xfail",
    "importorskip": "skipif",
    "skipTest": "skip",
    "SkipTest": "skip",
}
_WORST: tuple[Mark, ...] = ("skip", "xfail", "skipif", "")
_HELP_DEPTH = 4


def read_python(text: str) -> tuple[DeclaredTest, ...] | None:
    """Tests in the order of the file, the last of a name only; None of what cannot be parsed."""
    tree = parse(text)
    if tree is None:
        return None
    try:
        module = _Module.of(tree)
        found = {test.name: test for test in _tests(module, tree.body, "", _module_mark(module))}
    except RecursionError:
        return None
    return tuple(sorted(found.values(), key=lambda test: test.line))


class _Module(Struct):
    """Functions and marks that the rest of the file refers to."""

    tree: ast.Module
    functions: dict[str, Function] = field(default_factory=dict)
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    known: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: ast.Module) -> _Module:
        module = cls(tree)
        for node in ast.walk(tree):
            if isinstance(node, Function):
                module.functions.setdefault(node.name, node)
            elif isinstance(node, ast.ImportFrom) and (node.level or is_of_tests(node.module or "")):
                module.imported.update(alias.asname or alias.name for alias in node.names)
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                module.assigned[statement.targets[0].id] = statement.value
        return module


def _tests(module: _Module, body: Sequence[ast.stmt], prefix: str, mark: Mark) -> Iterator[DeclaredTest]:
    for node in body:
        if isinstance(node, Function) and node.name.startswith("test") and not _is_fixture(node):
            marks = (mark, *(_mark_of(module, each) for each in node.decorator_list), _skipped_at_top(node.body))
            text = _text(node)
            yield DeclaredTest(
                f"{prefix}{node.name}",
                node.lineno,
                digest(text),
                _compares(module, node),
                _worst(*marks),
                _shape(node, text),
            )
        elif isinstance(node, ast.ClassDef):
            own = (_mark_of(module, each) for each in node.decorator_list)
            marks = (mark, *own, *_marks_within(module, node.body))
            yield from _tests(module, node.body, f"{prefix}{node.name}::", _worst(*marks))
        elif isinstance(node, ast.If | ast.Try | ast.With) and not prefix:
            for part in (node.body, getattr(node, "orelse", [])):
                if not (isinstance(node, ast.If) and is_decided(node.test) is (part is not node.body)):
                    yield from _tests(module, part, prefix, mark)


def _worst(*marks: Mark) -> Mark:
    return min(marks, key=_WORST.index)


def _is_fixture(node: Function) -> bool:
    """Pytest collects none of them, whatever they are called."""
    return any(last_name(each) in {"fixture", "yield_fixture"} for each in node.decorator_list)


def _text(node: Function) -> str:
    """Arguments, statements and parameters; without name, docstring, marks and layout."""
    parametrized = [each for each in node.decorator_list if last_name(each) == "parametrize"]
    return "\n".join(map(ast.dump, (node.args, *parametrized, *_body(node))))


def _body(node: Function) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def _shape(node: Function, text: str) -> TestShape:
    reached: list[str] = []
    for statement in _body(node):
        reached.append(digest(ast.dump(statement)))
        if isinstance(statement, ast.Return | ast.Raise):
            break
    names = tuple(match[1] for match in _IDENTIFIER.finditer(text))
    return TestShape(digest(_IDENTIFIER.sub("_", text)), names, tuple(reached))


def _module_mark(module: _Module) -> Mark:
    return _worst(*_marks_within(module, module.tree.body), _skipped_at_top(module.tree.body))


def _marks_within(module: _Module, body: Sequence[ast.stmt]) -> Iterator[Mark]:
    """`pytestmark = …`, `__test__ = False`."""
    yield ""
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "pytestmark":
                listed = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
                yield from (_mark_of(module, each) for each in listed)
            elif node.targets[0].id == "__test__" and is_decided(node.value) is False:
                yield "skip"


def _mark_of(module: _Module, decorator: ast.expr) -> Mark:
    if isinstance(decorator, ast.Name) and decorator.id in module.assigned:
        decorator = module.assigned[decorator.id]
    name = last_name(decorator)
    mark = _SKIPS.get(name)
    if mark == "skipif":
        return _by_condition(name, decorator)
    if mark is not None:
        return mark
    if name == "parametrize":
        inner = (_SKIPS.get(node.attr, "") for node in ast.walk(decorator) if isinstance(node, ast.Attribute))
        return _worst("", *inner)
    return "skipif" if name.lower().startswith(("skip", "requires", "needs")) else ""


def _by_condition(name: str, decorator: ast.expr) -> Mark:
    """`skipif(True)` is a skip, `skipif(False)` nothing."""
    condition = decorator.args[0] if isinstance(decorator, ast.Call) and decorator.args else None
    is_text = isinstance(condition, ast.Constant) and isinstance(condition.value, str)
    decided = is_decided(condition) if condition is not None and not is_text else None
    if decided is None:
        return "skipif"
    return "skip" if decided is (name != "skipUnless") else ""


def _skipped_at_top(body: Sequence[ast.stmt]) -> Mark:
    """A skip among the statements that are always reached; below a condition it is the condition's."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return ""
        call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
        if isinstance(statement, ast.Raise):
            call = statement.exc
        name = last_name(call)
        if name in _SKIPS and isinstance(call, ast.Call | ast.Name | ast.Attribute):
            owner = dotted_name(call).rpartition(".")[0]
            if owner in {"pytest", "self", "unittest", ""}:
                return _SKIPS[name]
        if isinstance(statement, ast.If) and is_decided(statement.test) is not False:
            inner = _skipped_at_top(statement.body)
            if inner:
                return inner if is_decided(statement.test) or inner == "xfail" else "skipif"
    return ""


def _compares(module: _Module, node: Function) -> bool:
    fixtures = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
    helped = any(_helper_compares(module, name, 0, node) for name in fixtures)
    return helped or any(_does_compare(module, each, 0, node) for each in _live(node.body))


def _live(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Every statement that can be reached, also inside of others."""
    for statement in body:
        yield statement
        for block in _blocks(statement):
            yield from _live(block)
        if isinstance(statement, _LEAVING):
            return


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """What stands in a statement, without branches that are never taken or swallow what fails in them."""
    body, otherwise = getattr(statement, "body", []), getattr(statement, "orelse", [])
    if isinstance(statement, ast.If | ast.While):
        decided = is_decided(statement.test)
        yield from (block for block, kept in ((body, decided is not False), (otherwise, decided is not True)) if kept)
    elif isinstance(statement, ast.For | ast.AsyncFor):
        yield from (otherwise,) if is_decided(statement.iter) is False else (body, otherwise)
    elif isinstance(statement, ast.Try | ast.TryStar):
        if not _is_left(statement.finalbody):
            yield from () if any(_swallows(handler) for handler in statement.handlers) else (body,)
            yield from (handler.body for handler in statement.handlers)
            yield otherwise
        yield statement.finalbody
    elif isinstance(statement, ast.With | ast.AsyncWith):
        yield from () if any(_suppresses(item.context_expr) for item in statement.items) else (body,)
    elif isinstance(statement, ast.Match):
        yield from (case.body for case in statement.cases if _may_match(statement.subject, case))
    else:
        yield from (body, otherwise)


def _is_left(body: Sequence[ast.stmt]) -> bool:
    """Whether a `finally` is left by a statement of its own, so that what was raised before is forgotten."""
    for statement in body:
        inner = [] if isinstance(statement, Function | ast.ClassDef) else list(_blocks(statement))
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            found = any(isinstance(each, ast.Return) for block in inner for each in _live(block))
        else:
            found = isinstance(statement, ast.Return | ast.Break | ast.Continue) or any(map(_is_left, inner))
        if found:
            return True
    return False


def _may_match(subject: ast.expr, case: ast.match_case) -> bool:
    if case.guard is not None and is_decided(case.guard) is False:
        return False
    if not isinstance(case.pattern, ast.MatchValue):
        return True
    return is_decided(ast.Compare(subject, [ast.Eq()], [case.pattern.value])) is not False


def _does_compare(module: _Module, node: ast.AST, depth: int, inside: Function) -> bool:
    if isinstance(node, ast.Assert):
        return is_decided(node.test) is None
    if isinstance(node, ast.Raise):
        return last_name(node.exc) not in _SKIPS if node.exc is not None else True
    return _calls_test_code(module, node) or any(_call_compares(module, call, depth, inside) for call in _calls(node))


def _calls_test_code(module: _Module, node: ast.AST) -> bool:
    """A statement that is nothing but a call of a function from the tests' own modules."""
    value = node.value if isinstance(node, ast.Expr) else None
    call = value.value if isinstance(value, ast.Await) else value
    return isinstance(call, ast.Call) and dotted_name(call.func).partition(".")[0] in module.imported


def _calls(statement: ast.AST) -> Iterator[ast.Call]:
    """Calls of the statement's own expressions, not of the statements in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        for node in ast.walk(child):
            if isinstance(node, ast.Call):
                yield node


def _call_compares(module: _Module, call: ast.Call, depth: int, inside: Function) -> bool:
    name = last_name(call.func)
    is_own = not isinstance(call.func, ast.Attribute) or dotted_name(call.func).startswith(("self.", "cls."))
    if is_own and name in module.functions and depth < _HELP_DEPTH:
        return _helper_compares(module, name, depth, inside)
    return bool(_ASSERTING.match(name)) and not _is_void(call)


def _is_void(call: ast.Call) -> bool:
    """`assertTrue(True)`, `assertTrue([x])`, `assertEqual(1, 1)`, `assertEqual(x, x)`."""
    operands = call.args
    if not operands or not _OF_VALUES.match(last_name(call.func)):
        return False
    asked = _asked(call)
    if all(decided_value(each) is not None for each in operands) or (asked and is_decided(asked) is not None):
        return True
    same = len(operands) > 1 and ast.dump(operands[0]) == ast.dump(operands[1])
    return same and not any(isinstance(node, ast.Call) for node in ast.walk(operands[0]))


def _asked(call: ast.Call) -> ast.expr | None:
    """What an assertion of unittest asks, as an expression."""
    kind = last_name(call.func).lower().removeprefix("assert").replace("_", "")
    if kind in {"", "true", "istrue"}:
        return call.args[0]
    if kind in {"false", "isfalse"}:
        return ast.UnaryOp(ast.Not(), call.args[0])
    if kind in {"isnone", "isnotnone"}:
        return ast.Compare(call.args[0], [ast.IsNot() if "not" in kind else ast.Is()], [ast.Constant(None)])
    if kind in _COMPARING and len(call.args) > 1:
        return ast.Compare(call.args[0], [_COMPARING[kind]], [call.args[1]])
    return None


def _helper_compares(module: _Module, name: str, depth: int, inside: Function) -> bool:
    helper = module.functions.get(name)
    if helper is None or helper is inside:
        return False
    if name not in module.known:
        module.known[name] = False  # while it is looked at: it may call itself
        module.known[name] = any(_does_compare(module, each, depth + 1, helper) for each in _live(helper.body))
    return module.known[name]


def _swallows(handler: ast.ExceptHandler) -> bool:
    """A handler that catches failed assertions and neither raises nor fails."""
    return _catches(handler.type) and not any(_is_loud(node) for node in _live(handler.body))


def _catches(caught: ast.expr | None) -> bool:
    """Failed assertions; also where the text does not show what is caught."""
    if isinstance(caught, ast.Tuple):
        return any(map(_catches, caught.elts))
    return caught is None or isinstance(caught, ast.Starred) or last_name(caught) in _SWALLOWING


def _is_loud(node: ast.AST) -> bool:
    """A statement that may fail."""
    if isinstance(node, ast.Raise):
        return node.exc is None or last_name(node.exc) not in _SKIPS
    if isinstance(node, ast.Assert):
        return is_decided(node.test) is not True
    return any(_may_fail(call) for call in _calls(node))


def _may_fail(call: ast.Call) -> bool:
    if not _ASSERTING.match(last_name(call.func)):
        return False
    return not _is_void(call) or ((asked := _asked(call)) is not None and is_decided(asked) is False)


def _suppresses(context: ast.expr) -> bool:
    if not isinstance(context, ast.Call) or last_name(context.func) != "suppress":
        return False
    return any(map(_catches, context.args))
