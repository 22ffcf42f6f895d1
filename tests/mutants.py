"""What the tests catch: a seeded sample of mutants, each against the tests that reach it.

    python -m tests.mutants sample mutants.json             # which mutants: the same for the same seed
    python -m tests.mutants reach mutants.json reach.json    # the whole suite, in a copy that notes what tests enter
    python -m tests.mutants run mutants.json reach.json result.json

cosmic-ray makes the mutants: conditions, comparisons, constants and exceptions, the same number in each of `ROOMS`.
A test reaches a mutant when it, or a fixture of its module, enters the mutated function. Of those tests the cheapest
of each module are taken, then the second cheapest, until `--seconds` of what they took are spent. A mutant is caught
when one fails, or does not end.

To compare the suites of two versions, sample in both with `--same-as` the other's checkout: the same mutants, of
functions that have the same text in both.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest
from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parent.parent
ROOMS = ("ledger", "routing", "git", "worktree", "safety", "runner")
OPERATORS = re.compile(
    r"core/(AddNot|NumberReplacer|ReplaceComparisonOperator_.+|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceTrueWithFalse"
    r"|ReplaceFalseWithTrue|ReplaceBreakWithContinue|ReplaceContinueWithBreak|ReplaceUnaryOperator_Delete_Not"
    r"|ZeroIterationForLoop|ExceptionReplacer|ReplaceBinaryOperator_(Add_Sub|Sub_Add))"
)
SIZE, SEED, SECONDS = 120, 14, 30.0
_LONGEST_S, _LONGEST_TEST_S = 900, 120
_PROBE = (
    '{indent}getattr(__builtins__, "get", lambda name: None)("swarm_reached") and swarm_reached("{place}")  # noqa\n'
)
_NOTED = "SWARM_REACHED"
_NOT_MADE = "not made"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file. `line`, and `entry`, the first statement of its function, are counted from 1."""

    module: str
    operator: str
    occurrence: int
    line: int
    entry: int

    @property
    def place(self) -> str:
        return f"{self.module}:{self.entry}"


@dataclass(frozen=True, slots=True)
class Reach:
    """A test that enters a function, and how long it took, in seconds."""

    test: str
    seconds: float


Identity = tuple[str, str, str, int]
"""Module, text of the function, operator, and the how manieth place of that operator in the function."""


def sample(size: int, seed: int, other: Path | None = None) -> list[Mutant]:
    """The same number from each room; what only says types is left out.

    :param other: another version's checkout, whose functions are compared; None: all functions are taken.
    """
    chosen: list[Mutant] = []
    for room in ROOMS:
        mutants = _in_room(ROOT, room)
        shared = mutants if other is None else sorted(mutants.keys() & _in_room(other, room).keys())
        drawn = random.Random(f"{seed}/{room}").sample(list(shared), size // len(ROOMS))
        chosen += (mutants[each] for each in drawn)
    return chosen


def _in_room(root: Path, room: str) -> dict[Identity, Mutant]:
    paths = sorted((root / "gitswarm" / room).rglob("*.py"))
    return {identity: mutant for path in paths for identity, mutant in _mutants(root, path)}


def _mutants(root: Path, path: Path) -> Iterator[tuple[Identity, Mutant]]:
    text = path.read_text(encoding="utf-8")
    module = path.relative_to(root).as_posix()
    parsed = ast.parse(text)
    functions = [node for node in ast.walk(parsed) if isinstance(node, ast.FunctionDef)]
    types = [
        each
        for node in ast.walk(parsed)
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(each, ast.expr)
    ]
    nodes = list(_nodes(get_ast(text)))
    seen: Counter[tuple[str, str]] = Counter()
    for name in sorted(filter(OPERATORS.fullmatch, operator_names())):
        operator = get_operator(name)()
        places = [start for node in nodes for start, _end in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(places):
            inside = [each for each in functions if each.body[0].lineno <= line <= (each.end_lineno or 0)]
            function = max(inside, key=lambda each: each.lineno) if inside else None
            entry = _entry(function) if function else None
            if function is None or entry is None or any(_holds(each, line, column) for each in types):
                continue
            body = ast.get_source_segment(text, function) or ""
            yield (module, body, name, seen[body, name]), Mutant(module, name, occurrence, line, entry)
            seen[body, name] += 1


def _nodes(tree: object) -> Iterator[object]:
    yield tree
    for child in getattr(tree, "children", ()):
        yield from _nodes(child)


def _entry(function: ast.FunctionDef) -> int | None:
    """The line of its first statement behind the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[0].lineno if body and body[0].lineno > function.lineno else None


def _holds(node: ast.expr, line: int, column: int) -> bool:
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    return (node.lineno, node.col_offset) <= (line, column) <= end


def reach(mutants: Sequence[Mutant], arguments: Sequence[str]) -> dict[str, list[Reach]]:
    """Place → tests that enter it. Runs the suite in a copy of the checkout in which each place has a probe."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = _copy(Path(scratch) / "copy")
        for module in {each.module for each in mutants}:
            _add_probes(copy / module, module, {each.entry for each in mutants if each.module == module})
        noted = Path(scratch) / "noted"
        noted.mkdir()
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants", "-m", "not soak", *arguments]
        subprocess.run(argv, cwd=copy, env={**os.environ, **_path(copy), _NOTED: str(noted)}, check=False)
        found: dict[str, list[Reach]] = defaultdict(list)
        for path in sorted(noted.iterdir()):
            for line in path.read_text(encoding="utf-8").splitlines():
                test, seconds, places = json.loads(line)
                for place in places:
                    found[place].append(Reach(test, seconds))
        return found


def _copy(folder: Path) -> Path:
    kept = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__")
    shutil.copytree(ROOT, folder, ignore=kept, symlinks=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")  # the programs that the Makefile fetches
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def _path(copy: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(copy)}


def _add_probes(path: Path, module: str, entries: set[int]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for entry in sorted(entries, reverse=True):
        line = lines[entry - 1]
        indent = line[: len(line) - len(line.lstrip())]
        lines.insert(entry - 1, _PROBE.format(indent=indent, place=f"{module}:{entry}"))
    path.write_text("".join(lines), encoding="utf-8")


class _Noting:
    """What the test that runs now has entered. Fixtures of a module count for all of its tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entered: set[str] = set()
        self.shared: dict[str, set[str]] = defaultdict(set)

    def __call__(self, place: str) -> None:
        self.entered.add(place)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        before, self.entered = self.entered, set()
        try:
            return (yield)
        finally:
            if fixturedef.scope in ("module", "package", "session", "class"):
                self.shared[request.node.nodeid.split("::")[0]] |= self.entered
            self.entered |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.entered = set()
        began = os.times()
        try:
            return (yield)
        finally:
            ended = os.times()
            seconds = sum(ended[:4]) - sum(began[:4])
            places = sorted(self.entered | self.shared[item.nodeid.split("::")[0]])
            if places:
                with (self.folder / str(os.getpid())).open("a", encoding="utf-8") as out:
                    out.write(json.dumps([item.nodeid, round(seconds, 3), places]) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin (`-p tests.mutants`): notes which places each test enters."""
    if _NOTED in os.environ:
        noting = _Noting(Path(os.environ[_NOTED]))
        vars(builtins)["swarm_reached"] = noting  # where the probes look
        config.pluginmanager.register(noting)


def run(
    mutants: Sequence[Mutant], found: Mapping[str, Sequence[Reach]], seconds: float, workers: int
) -> Iterator[dict[str, object]]:
    """Each mutant with what became of it, in the order of the sample; as many at once as there are workers."""
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(workers) as pool:
        idle: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            idle.put(_copy(Path(scratch) / str(number)))

        def one(mutant: Mutant) -> dict[str, object]:
            tests = _cheapest(found.get(mutant.place, ()), seconds)
            copy = idle.get()
            try:
                outcome = _outcome(copy, mutant, tests) if tests else "not reached"
            finally:
                idle.put(copy)
            return {**asdict(mutant), "tests": len(tests), "outcome": outcome}

        yield from pool.map(one, mutants)


def _cheapest(reaching: Sequence[Reach], seconds: float) -> list[str]:
    chosen: set[str] = set()
    among: Counter[str] = Counter()
    ranked: list[tuple[int, Reach]] = []
    for each in sorted(reaching, key=lambda each: (each.seconds, each.test)):
        module = each.test.partition("::")[0]
        ranked.append((among[module], each))
        among[module] += 1
    for _rank, each in sorted(ranked, key=lambda pair: pair[0]):
        if seconds <= 0:
            break
        seconds -= each.seconds
        chosen.add(each.test)
    # Some tests of a module go on where the one before left off.
    return [each.test for each in reaching if each.test in chosen]


def _outcome(copy: Path, mutant: Mutant, tests: Sequence[str]) -> str:
    path = copy / mutant.module
    original = path.read_text(encoding="utf-8")
    try:
        changed = mutate_code(original, get_operator(mutant.operator)(), mutant.occurrence)
    except AttributeError:  # ExceptionReplacer knows names only, not `os.error`
        return _NOT_MADE
    while tests:
        _write(path, changed)
        try:
            failed = _first_failure(copy, tests)
        finally:
            _write(path, original)
        if failed is None:
            break
        # What fails without the mutant too says nothing.
        same = tests[: tests.index(failed) + 1] if failed in tests else tests
        without = _first_failure(copy, same)
        if without is None:
            return f"caught: {failed}"
        tests = [test for test in tests if test != without] if without in tests else ()
    return "survived"


def _first_failure(copy: Path, tests: Sequence[str]) -> str | None:
    """The first test that fails, in their order, or how else it ended; None: all pass."""
    listed = copy / "tests.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", f"@{listed}"]
    argv += ["-o", f"faulthandler_timeout={_LONGEST_TEST_S}", "-o", "faulthandler_exit_on_timeout=true"]
    environment = {**os.environ, **_path(copy)}
    try:
        done = subprocess.run(
            argv, cwd=copy, env=environment, capture_output=True, text=True, timeout=_LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode == 0:
        return None
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    named = [test for test in tests for line in lines if f"{line} ".startswith(f"{test} ")]
    return max(named, key=len, default=f"exit code {done.returncode}")


_written = count(1)


def _write(path: Path, text: str) -> None:
    """With a time of its own, as Python takes compiled code for that of a file of the same time and size."""
    path.write_text(text, encoding="utf-8")
    moment = 1_600_000_000 + next(_written)
    os.utime(path, (moment, moment))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["sample", "reach", "run"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--same-as", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    mutants_file, *rest = given.files
    if given.action == "sample":
        mutants_file.write_text(
            json.dumps([asdict(each) for each in sample(given.size, given.seed, given.same_as)], indent=1)
        )
        return
    mutants = [Mutant(**each) for each in json.loads(mutants_file.read_text())]
    if given.action == "reach":
        found = reach(mutants, ["-n", str(given.workers), "--dist", "loadscope", "--no-loadscope-reorder"])
        rest[0].write_text(json.dumps({place: [asdict(each) for each in tests] for place, tests in found.items()}))
        return
    reached = {place: [Reach(**each) for each in tests] for place, tests in json.loads(rest[0].read_text()).items()}
    outcomes = []
    for number, outcome in enumerate(run(mutants, reached, given.seconds, given.workers), 1):
        outcomes.append(outcome)
        print(number, outcome, flush=True)
        rest[1].write_text(json.dumps(outcomes, indent=1))
    made = [str(each["outcome"]) for each in outcomes if each["outcome"] != _NOT_MADE]
    print(f"{sum(1 for each in made if each.startswith('caught'))} of {len(made)} mutants caught")


if __name__ == "__main__":
    main()
