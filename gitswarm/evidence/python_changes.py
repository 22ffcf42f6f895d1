"""What a change does to a Python test file as a whole.

- Whether it only adds tests and imports, so that what stood in it does what it did.
- Whether tests that are gone stand word for word in a file beside it that nobody touched. The same words do the same
  only among the same others: what the file imports and defines besides tests has to stand there too. Methods are left
  out, for what they do is also their class's.
- Where it changes the product: `app.total = sum`, `setattr(app, "total", sum)`, `del app.total`. What `monkeypatch`
  and `mock.patch` change is put back and is none of it; neither are modules of Python itself, of pytest, and the
  tests' own.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TypeGuard

from gitswarm.evidence.declarations import DeclaredTest, TextChange
from gitswarm.evidence.declared_tests import read_tests
from gitswarm.evidence.path_roles import role_of
from gitswarm.evidence.source_text import Function, is_constant, is_of_tests, last_name, literal_text, parse
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
    if isinstance(statement, Function):
        return statement.name.startswith("test") and statement.name not in known and _is_plain(statement)
    if isinstance(statement, ast.ClassDef) and statement.name not in known:
        return (
            not statement.keywords
            and all(map(_is_declared_only, (*statement.bases, *statement.decorator_list)))
            and all(is_constant(each) or (isinstance(each, Function) and _is_plain(each)) for each in statement.body)
        )
    return False


def _is_plain(function: Function) -> bool:
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


def find_unchanged_copies(
    gone: Iterable[tuple[TextChange, DeclaredTest]], untouched: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, DeclaredTest]]:
    """By file and name of a test that is gone: where it stands, each place for one of them.

    :param gone: the change of its file, and the test.
    :param untouched: paths and texts of test files; not looked at where nothing is gone.
    """
    waiting: defaultdict[tuple[str, str], list[tuple[TextChange, DeclaredTest]]] = defaultdict(list)
    for change, test in gone:
        if change.former_path.endswith(".py") and "::" not in test.name:
            waiting[_folder(change.former_path), test.body].append((change, test))
    found: dict[tuple[str, str], tuple[str, DeclaredTest]] = {}
    for path, text in untouched if waiting else ():
        for test in read_tests(path, text).tests:
            candidates = waiting.get((_folder(path), test.body), [])
            for change, lost in candidates if "::" not in test.name else ():
                if lost.mark == test.mark and _stands_among(change.before or "", text):
                    found[change.former_path, lost.name] = (path, test)
                    candidates.remove((change, lost))
                    break
    return found


def _folder(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()


def _stands_among(before: str, text: str) -> bool:
    old, new = parse(before), parse(text)
    return old is not None and new is not None and set(_besides_tests(old)) <= set(_besides_tests(new))


def _besides_tests(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            of = ast.dump(ast.ImportFrom(getattr(statement, "module", None), [], getattr(statement, "level", 0)))
            yield from (f"{type(statement).__name__} {of} {ast.dump(alias)}" for alias in statement.names)
            continue
        is_test = isinstance(statement, Function | ast.ClassDef) and statement.name.lower().startswith("test")
        if not is_test and not is_constant(statement):
            yield ast.dump(statement)


_FOREIGN = frozenset({*sys.stdlib_module_names, "pytest", "_pytest", "mock", "hypothesis"})
_BUILTINS = frozenset({"setattr", "delattr"})
_METHODS = frozenset({"__setattr__", "__delattr__"})
_LOOKING_UP = frozenset({"vars", "import_module", "__import__"})


def added_patches(change: TextChange) -> tuple[ast.expr, ...]:
    """What a Python file of tests writes, deletes or calls to change the product, and did not before, in order."""
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
    return tuple(sorted(found, key=lambda node: node.lineno))


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
        elif isinstance(node, ast.Call) and node.args and last_name(node) in _LOOKING_UP:
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


def _is_namespace(node: ast.expr) -> bool:
    """`app.__dict__`, `vars(app)`."""
    if isinstance(node, ast.Call):
        return last_name(node) == "vars"
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
