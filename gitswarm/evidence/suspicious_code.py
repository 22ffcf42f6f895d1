"""Five ways to make tests pass without being right, in the Python code that a change adds. Only ever warnings.

| way                  | is looked for as                                                                          |
|----------------------|-------------------------------------------------------------------------------------------|
| overloaded comparison| `__eq__` and its like whose every result is a constant, or that never look at the other   |
| state between calls  | a function counts its calls, or keeps their arguments, and decides by that which constant |
|                      | it returns                                                                                |
| special cases        | a branch, table or `match` that gives, for the very input of a test, the very result that |
|                      | the test expects; code that asks whether pytest runs                                      |
| shadowed modules     | a new module at the top that is called as one of Python's own                             |
| patched product      | a test file assigns to an attribute of what it imports (`python_changes.py`)               |

Code that stood in the file before is left alone. A table is special only when each of its entries is in a test.
Small numbers and "" are nobody's special case, unless there are several of them; None, True and False are no results.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from msgspec import Struct

from gitswarm.evidence.declarations import TextChange, is_test_file
from gitswarm.evidence.path_roles import imported_as, role_of
from gitswarm.evidence.python_changes import added_patches
from gitswarm.evidence.source_text import Expectations, Function, literal_text, parse
from gitswarm.records.evidence import ProofFinding
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import shorten

_FACT_COLUMNS = 200
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_RECORDING = frozenset({"append", "add", "appendleft", "insert", "update", "setdefault"})
_ANSWERS = lazy_re(r"answer|result|value|expected")
_UNDER_TEST = lazy_re(r"PYTEST_CURRENT_TEST|^_?pytest$|^unittest$")
_TRIVIAL = frozenset(map(repr, (*range(-10, 11), 0.0, 1.0, "", None, True, False, (), [], {})))


class _Suspicion(Struct, frozen=True):
    line: int
    name: str
    what: str


def find_suspicious_code(changes: Iterable[TextChange], tests: Iterable[str] = ()) -> tuple[ProofFinding, ...]:
    """One warning per function, class or place.

    :param tests: texts of test files besides those in the change.
    """
    every = tuple(changes)
    own = (each.after or "" for each in every if each.path.endswith(".py") and is_test_file(each.path))
    expected = Expectations(chain(own, tests))
    found = []
    for change in every:
        found += [
            ProofFinding(
                flag="suspicious_code",
                blocking=False,
                names=(f"{change.path}::{each.name}",),
                fact=shorten(f"{change.path}:{each.line}: {each.name} {each.what}", _FACT_COLUMNS),
            )
            for each in _suspicions(change, expected)
        ]
    return tuple(found)


def _suspicions(change: TextChange, expected: Expectations) -> Iterator[_Suspicion]:
    found: Iterable[_Suspicion]
    name = imported_as(change.path)
    if change.before is None and name in sys.stdlib_module_names:
        yield _Suspicion(1, name, "stands in the place of Python's own module")
    if change.path.endswith(".py") and change.after and role_of(change.path, change.after) == "product":
        found = _suspicions_in(_Code.of(change.after), _Code.of(change.before or ""), expected)
    else:
        what = "is changed by a test, for all that runs behind it"
        found = (_Suspicion(each.lineno, ast.unparse(each), what) for each in added_patches(change))
    try:
        seen: set[str] = set()
        for suspicion in found:
            if suspicion.name not in seen:
                seen.add(suspicion.name)
                yield suspicion
    except RecursionError:
        return


@dataclass(frozen=True)
class _Code:
    """A file. What stood in the file before is known by its lines, or else by its syntax."""

    lines: Sequence[str]
    tree: ast.Module

    @classmethod
    def of(cls, text: str) -> _Code:
        """What does not parse is as if there were nothing."""
        return cls(text.splitlines(), parse(text) or ast.Module([], []))

    def has(self, node: ast.stmt | ast.expr, after: _Code) -> bool:
        """Whether a function, assignment or lambda of `after` stands here too."""
        return bool(self._known) and (after.source(node) in self._sources or ast.dump(node) in self._dumps)

    def names(self, node: ast.AST) -> bool:
        """Whether an expression stands in one of those."""
        return bool(self._known) and ast.dump(node) in self._joined

    def source(self, node: ast.stmt | ast.expr) -> tuple[str, ...]:
        """The whole lines that it is in."""
        begin = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
        return tuple(self.lines[begin - 1 : node.end_lineno])

    @cached_property
    def _known(self) -> list[ast.stmt | ast.expr]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function | ast.Assign | ast.Lambda)]

    @cached_property
    def _sources(self) -> frozenset[tuple[str, ...]]:
        return frozenset(self.source(node) for node in self._known if isinstance(node, Function))

    @cached_property
    def _dumps(self) -> frozenset[str]:
        return frozenset(map(ast.dump, self._known))

    @cached_property
    def _joined(self) -> str:
        return "\n".join(sorted(self._dumps))


def _suspicions_in(after: _Code, before: _Code, expected: Expectations) -> Iterator[_Suspicion]:
    states = _module_state(after.tree)
    for node in ast.walk(after.tree):
        if isinstance(node, ast.ClassDef):
            yield from _comparisons(node, after, before)
        elif isinstance(node, Function) and not before.has(node, after):
            if what := _by_state(node, states):
                yield _Suspicion(node.lineno, node.name, what)
            if what := _special_cases(node, expected, before) or _asks_for_tests(node, before):
                yield _Suspicion(node.lineno, node.name, what)
    for statement in after.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            name = statement.targets[0].id if isinstance(statement.targets[0], ast.Name) else "table"
            if not before.has(statement, after) and _is_special_table(statement.value, expected):
                yield _Suspicion(statement.lineno, name, "holds exactly what tests ask and expect")


class _Method(Struct, frozen=True):
    """A method that may compare. `results`: without `NotImplemented`; `uses_other`: it looks at the other operand."""

    line: int
    results: list[ast.expr | None]
    uses_other: bool

    @property
    def constant(self) -> bool | None:
        """The one truth that every result has."""
        values = {bool(each.value) if isinstance(each, ast.Constant) else None for each in self.results}
        return values.pop() if len(values) == 1 else None


def _comparisons(node: ast.ClassDef, after: _Code, before: _Code) -> Iterator[_Suspicion]:
    methods = dict(_methods(node, after, before))
    true_orders = [name for name in _ORDER if name in methods and methods[name].constant]
    for name, method in methods.items():
        constant = method.constant
        if constant is None:
            is_suspicious = name == "__eq__" and bool(method.results) and not method.uses_other
        elif constant:
            is_suspicious = name == "__eq__" or (name in true_orders and len(true_orders) > 2)
        else:
            is_suspicious = name == "__ne__"
        if is_suspicious:
            what = "does not look at the other" if constant is None else f"is always {constant}"
            yield _Suspicion(method.line, f"{node.name}.{name}", what)


def _methods(node: ast.ClassDef, after: _Code, before: _Code) -> Iterator[tuple[str, _Method]]:
    """The methods of a class that were not there before, lambdas too."""
    for each in node.body:
        if isinstance(each, Function) and not before.has(each, after):
            returned = [one.value for one in _own_nodes(each) if isinstance(one, ast.Return)]
            yield each.name, _Method(each.lineno, _answers(returned), _uses_other(each.args, each.body))
        elif isinstance(each, ast.Assign) and isinstance(value := each.value, ast.Lambda):
            name = each.targets[0].id if isinstance(each.targets[0], ast.Name) else ""
            if not before.has(value, after):
                uses_other = _uses_other(value.args, [ast.Expr(value.body)])
                yield name, _Method(each.lineno, _answers([value.body]), uses_other)


def _answers(returned: Sequence[ast.expr | None]) -> list[ast.expr | None]:
    return [each for each in returned if not (isinstance(each, ast.Name) and each.id == "NotImplemented")]


def _uses_other(arguments: ast.arguments, body: Sequence[ast.stmt]) -> bool:
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
    wanted = {*names, *(each.arg for each in (arguments.vararg, arguments.kwarg) if each)}
    return any(isinstance(node, ast.Name) and node.id in wanted for each in body for node in ast.walk(each))


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """What stands in a function, without the functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _module_state(tree: ast.Module) -> frozenset[str]:
    """Module variables that hold a number, a container or an iterator that is counted on."""
    found = set()
    for statement in tree.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        counted = isinstance(value, ast.Constant) and type(value.value) in {int, bool}
        if counted or isinstance(value, ast.List | ast.Dict | ast.Set | ast.Call | ast.ListComp | ast.DictComp):
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def _by_state(function: Function, states: frozenset[str]) -> str:
    """What the function records of its calls, when that decides between constants."""
    counted, kept = _recorded_names(function, states)
    for node in _own_nodes(function):
        if isinstance(node, ast.If | ast.IfExp):
            read = _names_in(node.test)
            constants = [each for each in _results(node) if isinstance(each, ast.Constant) and each.value is not None]
            plain = [each for each in constants if not isinstance(each.value, bool)]
            own = {name for name in counted if name.partition(".")[0] not in {"self", "cls"}}
            hit = (read & own and constants) or (read & (counted | kept) and plain)
            if hit:
                return f"keeps {min(read & (counted | kept))} from call to call, and returns a constant by that"
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Subscript):
            table = isinstance(node.value.value, ast.List | ast.Tuple)
            if table and _names_in(node.value.slice) & counted:
                return "gives another element of a list at every call"
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call) and _is_next(node.value, states):
            return "gives the next of some values at every call"
    return ""


def _is_next(call: ast.Call, states: frozenset[str]) -> bool:
    """`next(answers)`."""
    if not (isinstance(call.func, ast.Name) and call.func.id == "next" and len(call.args) == 1):
        return False
    values = call.args[0]
    return isinstance(values, ast.Name) and values.id in states and _ANSWERS.search(values.id) is not None


def _recorded_names(function: Function, states: frozenset[str]) -> tuple[set[str], set[str]]:
    """Names that are counted up, and names that arguments are kept in."""
    shared = {*states, *_mutable_defaults(function)}
    for node in _own_nodes(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            shared |= set(node.names)
    counted, kept = set(), set()
    for node in _own_nodes(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            counted |= _shared(node.target, shared, function.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RECORDING:
            kept |= _shared(node.func.value, shared, function.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                written = _shared(target, shared, function.name)
                counted |= written & _names_in(node.value)
                kept |= written if isinstance(target, ast.Subscript) else set()
    return counted, kept


def _mutable_defaults(function: Function) -> Iterator[str]:
    arguments, defaults = [*function.args.posonlyargs, *function.args.args], function.args.defaults
    for argument, default in zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True):
        if isinstance(default, ast.List | ast.Dict | ast.Set):
            yield argument.arg


def _shared(target: ast.expr, shared: set[str], function: str) -> set[str]:
    """The name that is written, if calls share it: a variable of the module, an attribute of the function or, when
    it is written itself, of the object."""
    own = {function, "self", "cls"} if isinstance(target, ast.Attribute) else {function}
    return {name for name in _names_in(target) if name in shared or ("." in name and name.partition(".")[0] in own)}


def _names_in(node: ast.AST) -> set[str]:
    """Variables and attributes of variables that an expression reads: `n`, `f.calls`."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            found.add(f"{each.value.id}.{each.attr}")
        elif isinstance(each, ast.Name):
            found.add(each.id)
    return found


def _results(node: ast.If | ast.IfExp) -> list[ast.expr | None]:
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return [each.value for each in node.body if isinstance(each, ast.Return)]


def _is_trivial(node: ast.expr) -> bool:
    return literal_text(node) in _TRIVIAL


def _special_cases(function: Function, expected: Expectations, before: _Code) -> str:
    arguments = {each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    nodes = _own_nodes(function)
    hits = [each for node in nodes for each in _inputs_of_tests(node, arguments, expected, before)]
    worth = [each for each in hits if not _is_trivial(each)]
    if worth or len({literal_text(each) for each in hits}) > 3:
        shown = literal_text((worth or hits)[0])
        return f"answers the input {shown} of a test with the constant that the test expects"
    return ""


def _inputs_of_tests(node: ast.AST, arguments: set[str], expected: Expectations, before: _Code) -> Iterator[ast.expr]:
    """Inputs of tests for which a branch, `match` or table gives the very result that the test expects."""
    if isinstance(node, ast.If | ast.IfExp) and not before.names(node.test):
        result = next(iter(_results(node)), None)
        yield from (each for each in _compared_literals(node.test, arguments) if expected.has(each, result))
    elif isinstance(node, ast.Match) and _names_in(node.subject) & arguments:
        for case in (each for each in node.cases if not before.names(each.pattern)):
            result = next((each.value for each in case.body if isinstance(each, ast.Return)), None)
            values = (each.value for each in ast.walk(case.pattern) if isinstance(each, ast.MatchValue))
            yield from (each for each in values if expected.has(each, result))
    elif isinstance(node, ast.Dict) and not before.names(node) and _is_special_table(node, expected):
        yield from (each for each in node.keys if each is not None)


def _compared_literals(test: ast.expr, arguments: set[str]) -> Iterator[ast.expr]:
    """Literals that arguments are compared with."""
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], ast.Eq | ast.Is):
            for one, other in ((left, right), (right, left)):
                if _names_in(one) & arguments and not isinstance(one, ast.Call) and literal_text(other) is not None:
                    yield other
        elif _names_in(left) & arguments and isinstance(right, ast.Tuple | ast.List | ast.Set):
            yield from right.elts if isinstance(node.ops[0], ast.In) else ()


def _is_special_table(table: ast.Dict, expected: Expectations) -> bool:
    """Every entry is an input and a result of a test, at least two, and not all trivial."""
    entries = [(key, value) for key, value in zip(table.keys, table.values, strict=True) if key is not None]
    enough = len(entries) > 1 and len(entries) == len(table.keys)
    return enough and not all(_is_trivial(key) for key, _ in entries) and all(expected.has(*each) for each in entries)


def _asks_for_tests(function: Function, before: _Code) -> str:
    """`"pytest" in sys.modules`, `os.environ.get("PYTEST_CURRENT_TEST")`: in one expression."""
    own = list(_own_nodes(function))
    texts = [(each, each.value) for each in own if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    asked = [each for each, text in texts if _UNDER_TEST.search(text) and not before.names(each)]
    for node in own if asked else ():
        parts = list(ast.walk(node)) if isinstance(node, ast.Compare | ast.Call | ast.Subscript) else []
        words = {getattr(each, "attr", getattr(each, "id", "")) for each in parts}
        if words & {"modules", "environ", "getenv"} and any(each is literal for each in parts for literal in asked):
            return "asks whether tests run"
    return ""
