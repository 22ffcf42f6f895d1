"""How large the house is, and how much a reader carries along: python -m benchmarks.house [FOLDER]

- *lines*, *modules*: newlines in, and number of, the `.py` files below `gitswarm/`.
- *class names twice*, *file names twice*: names of top-level classes, and of files other than `__init__.py`, that
  occur in more than one place.
- *values of a step*: what one step is, from its decision to its commit. A value class is a struct, a dataclass or a
  `Record` of ours. Beginning with `Decision`, one counts when a function of the modules in `_STEP` that takes one
  that counts makes or returns it, and when it says which execution it belongs to, how that ended, or what is
  committed of it: one of its fields is in `_SUBJECT`, or has a class that counts. What is stored as it is
  (`records/`, but for the decision) is no copy and does not count, nor do values of routing.
- *modules that a plan enters*: modules below `gitswarm/` in which a function has a parameter of the type `StepPlan`,
  or reads `plan.…` of one.
- *modules of a circle*: modules that import each other, one circle of them; imports in functions, and for types,
  count too.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
from msgspec import Struct

_STEP = ("runner/step/", "engines/base.py", "ledger/store.py", "ledger/state.py", "git/objects.py")
_EARLIER = (
    "runner/step/briefing.py",
    "specs/",
    "routing/",
    "records/",
)
"""Of `_STEP`, what is about other steps; and where values are that a step only reads or stores."""
_SUBJECT = frozenset(
    {"execution", "step_id", "iteration", "result", "status", "handoff", "evidence", "envelope", "receipt", "message"}
    | {"tree", "code_tree", "contents"}
)


class Value(Struct, frozen=True):
    """A value class: where it is defined, its fields, and the names in their types."""

    name: str
    module: str
    fields: frozenset[str]
    types: frozenset[str]


def modules(root: Path) -> dict[str, ast.Module]:
    """Every module below `root`/gitswarm by its path from there."""
    package = root / "gitswarm"
    return {
        path.relative_to(package).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def values(tree: dict[str, ast.Module]) -> dict[str, Value]:
    """Structs, dataclasses and records by name, those that inherit from one included."""
    classes = {
        node.name: (module, node)
        for module, parsed in tree.items()
        for node in parsed.body
        if isinstance(node, ast.ClassDef)
    }
    found: dict[str, Value] = {}
    while True:
        new = {
            name: _value(name, module, node, found)
            for name, (module, node) in classes.items()
            if name not in found and _is_value(node, found)
        }
        if not new:
            return found
        found |= new


def _is_value(node: ast.ClassDef, known: dict[str, Value]) -> bool:
    decorated = any("dataclass" in _names(each) for each in node.decorator_list)
    bases = {name for base in node.bases for name in _names(base)}
    return decorated or bool(bases & {"Struct", "Record", *known})


def _value(name: str, module: str, node: ast.ClassDef, known: dict[str, Value]) -> Value:
    own = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    fields = {each.target.id for each in own if isinstance(each.target, ast.Name)}
    types = {word for each in own for word in _names(each.annotation)}
    for base in node.bases:
        for inherited in (known[word] for word in _names(base) if word in known):
            fields |= inherited.fields
            types |= inherited.types
    return Value(name, module, frozenset(fields), frozenset(types))


def step_values(tree: dict[str, ast.Module]) -> list[str]:
    """Names of the value classes that one step passes, in the order in which they are reached."""
    known = values(tree)
    modules = [module for module in tree if module.startswith(_STEP) and not module.startswith(_EARLIER)]
    functions = [node for module in modules for node in _functions(tree[module])]
    reached = ["Decision"]
    while True:
        new = [
            name
            for function in functions
            if _parameters(function) & set(reached)
            for name in _made(function)
            if name in known
            and name not in reached
            and _is_about_a_step(known[name], reached)
            and not known[name].module.startswith(_EARLIER)
        ]
        if not new:
            return reached
        reached.append(new[0])


def _is_about_a_step(value: Value, reached: list[str]) -> bool:
    return bool(value.fields & _SUBJECT) or bool(value.types & set(reached))


def plan_modules(tree: dict[str, ast.Module]) -> list[str]:
    """Modules in which a function takes a `StepPlan`, or reads one named `plan`."""
    return [
        module
        for module, parsed in tree.items()
        if any("StepPlan" in _parameters(node) for node in _functions(parsed))
        or (_imports(parsed, "StepPlan") and any(_is_read(node, "plan") for node in ast.walk(parsed)))
    ]


def _functions(parsed: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(parsed) if isinstance(node, ast.FunctionDef))


def _parameters(function: ast.FunctionDef) -> set[str]:
    listed = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return {word for each in listed if each.annotation is not None for word in _names(each.annotation)}


def _made(function: ast.FunctionDef) -> list[str]:
    """What a function returns, and what it calls by name."""
    returned = _names(function.returns) if function.returns is not None else []
    called = [
        node.func.id for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return [*returned, *called]


def _names(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _imports(parsed: ast.Module, name: str) -> bool:
    return any(
        alias.name == name for node in ast.walk(parsed) if isinstance(node, ast.ImportFrom) for alias in node.names
    )


def _is_read(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


def twice(names: Iterator[tuple[str, str]]) -> list[str]:
    """Names that stand in more than one place, out of (name, place)."""
    places: dict[str, set[str]] = defaultdict(set)
    for name, place in names:
        places[name].add(place)
    return sorted(name for name, found in places.items() if len(found) > 1)


def import_circle() -> list[str]:
    """Modules of the package on `sys.path` that import each other; none where nothing does."""
    graph = grimp.build_graph("gitswarm", cache_dir=None)
    try:
        TopologicalSorter({each: graph.find_modules_directly_imported_by(each) for each in graph.modules}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def main(root: Path) -> None:
    tree = modules(root)
    lines = sum((root / "gitswarm" / module).read_bytes().count(b"\n") for module in tree)
    classes = (
        (node.name, module)
        for module, parsed in tree.items()
        for node in parsed.body
        if isinstance(node, ast.ClassDef)
    )
    files = ((Path(module).name, module) for module in tree if not module.endswith("__init__.py"))
    rooms = Counter(module.split("/")[0] if "/" in module else "." for module in tree)
    rows = [
        ("lines", f"{lines:,}", ""),
        ("modules", str(len(tree)), ", ".join(f"{room} {count}" for room, count in sorted(rooms.items()))),
        *_row("class names twice", twice(classes)),
        *_row("file names twice", twice(files)),
        *_row("values of a step", step_values(tree)),
        *_row("modules that a plan enters", plan_modules(tree)),
        *_row("modules of a circle", import_circle()),
    ]
    for name, count, which in rows:
        print(f"{name:<28}{count:>7}  {which}")


def _row(name: str, found: list[str]) -> Iterator[tuple[str, str, str]]:
    yield name, str(len(found)), ", ".join(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent)
