"""Code of tests that changes what it imports: `app.total = sum`, `setattr(app, "total", sum)`, `del app.total`.

What `monkeypatch` and `mock.patch` change is put back and is none of it; neither are modules of Python itself, of
pytest, and the tests' own.
"""

from __future__ import annotations

import ast
import sys
from typing import TypeGuard

from msgspec import Struct

from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.path_roles import role_of
from gitswarm.evidence.source_text import is_of_tests, literal_text, parse

_FOREIGN = frozenset({*sys.stdlib_module_names, "pytest", "_pytest", "mock", "hypothesis"})
_BUILTINS = frozenset({"setattr", "delattr"})
_METHODS = frozenset({"__setattr__", "__delattr__"})
_LOOKING_UP = frozenset({"vars", "import_module", "__import__"})


class ProductPatch(Struct, frozen=True):
    """
    :ivar place: what is written, deleted or called, as text.
    """

    line: int
    place: str


def added_patches(change: TextChange) -> tuple[ProductPatch, ...]:
    """Those that a change adds to a Python file of tests, in the order of the file."""
    if not change.path.endswith(".py") or not change.after or role_of(change.path, change.after) != "test":
        return ()
    tree, old = parse(change.after), parse(change.before or "")
    if tree is None:
        return ()
    try:
        known = {ast.dump(node) for node in _changing(old)} if old is not None else set()
        found = [node for node in _changing(tree) if ast.dump(node) not in known]
    except RecursionError:
        return ()
    return tuple(ProductPatch(node.lineno, ast.unparse(node)) for node in sorted(found, key=lambda node: node.lineno))


def _changing(tree: ast.Module) -> list[ast.expr]:
    """The attributes that are written or deleted, and the calls that do so."""
    modules, things = _imported(tree)
    literal = _set_to_literals(tree)
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            is_thing = isinstance(node.value, ast.Name) and node.value.id in things
            is_setting = id(node) in literal and ast.unparse(node.value) not in modules
            is_patch = (is_thing or _is_of(node.value, modules)) and not is_setting
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            is_patch = _is_of(node if _is_loaded(node) else node.value, modules) and (
                _is_loaded(node) or _is_namespace(node.value)
            )
        else:
            owner = _set_by_call(node) if isinstance(node, ast.Call) else None
            is_patch = owner is not None and _is_of(owner, modules | things)
        if is_patch and isinstance(node, ast.expr):
            found.append(node)
    return found


def _is_of(node: ast.expr, names: frozenset[str]) -> bool:
    """Whether a chain of attributes begins with one of these names, or with a module that is looked up:
    `sys.modules["app"]`, `importlib.import_module("app")`."""
    while True:
        if isinstance(node, ast.Attribute):
            node = node.value
        elif isinstance(node, ast.Call) and node.args and _called(node) in _LOOKING_UP:
            node = node.args[0]
        elif _is_loaded(node):
            node = node.slice
        else:
            break
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _is_product(node.value)
    return isinstance(node, ast.Name) and node.id in names


def _is_loaded(node: ast.expr) -> TypeGuard[ast.Subscript]:
    """`sys.modules[…]`."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "modules"


def _imported(tree: ast.Module) -> tuple[frozenset[str], frozenset[str]]:
    """Names of imported modules, and of what is imported from some."""
    modules, things = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = (alias for alias in node.names if _is_product(alias.name))
            for alias in names:
                modules |= {alias.asname} if alias.asname else {alias.name.partition(".")[0], alias.name}
        elif isinstance(node, ast.ImportFrom) and (node.level > 1 or (not node.level and _is_product(node.module))):
            things |= {alias.asname or alias.name for alias in node.names}
    return frozenset(modules), frozenset(things)


def _is_product(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] not in _FOREIGN and not is_of_tests(module)


def _set_to_literals(tree: ast.Module) -> set[int]:
    """Targets that get a literal: as a setting of an object (`settings.DEBUG = True`) that is nobody's function."""
    return {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and literal_text(node.value) is not None
        for target in node.targets
    }


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _is_namespace(node: ast.expr) -> bool:
    """`app.__dict__`, `vars(app)`."""
    if isinstance(node, ast.Call):
        return _called(node) == "vars"
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _set_by_call(call: ast.Call) -> ast.expr | None:
    """What `setattr(app, …)`, `app.__setattr__(…)`, `type.__setattr__(app, …)`, `vars(app).update(…)` change."""
    if isinstance(call.func, ast.Name):
        return call.args[0] if call.func.id in _BUILTINS and call.args else None
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr in {"update", "pop", "setdefault", "clear"}:
        return call.func.value if _is_namespace(call.func.value) else None
    if call.func.attr not in _METHODS:
        return None
    return call.func.value if len(call.args) < 3 - (call.func.attr == "__delattr__") else call.args[0]
