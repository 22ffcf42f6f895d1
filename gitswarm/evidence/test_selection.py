"""The command that runs some tests alone, for those that may be flaky."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from gitswarm.evidence.case_names import go_parts, titles
from gitswarm.evidence.test_command import Runner, TestCommand, read_command
from gitswarm.records.case_results import CaseResult, CaseResults

_MOST_TESTS = 200
_MOST_CHARS = 60_000  # a program's arguments have their limits; Linux allows 128 KiB for one of them
_GO_VALUES = frozenset({"-run", "-skip", "-list", "-bench", "-fuzz"})


def select_tests(
    command: str | Sequence[str], names: Collection[str], results: CaseResults, scripts: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The words of the program that runs these tests, and few others; None where that cannot be said.

    It can for one program that is known, when each name is one of `results`, at most 200 names, and what it is given
    to run is replaced: `pytest tests -x` becomes `pytest -x tests/test_a.py::test_b`. Not for a script, a makefile
    or `npm test`.

    :param scripts: of the package.json where it runs.
    """
    known = read_command(command, scripts)
    named = results.named()
    cases = [named[name] for name in sorted(names) if name in named]
    too_long = sum(len(name) for name in names) > _MOST_CHARS
    if known is None or not cases or len(cases) != len(set(names)) or len(cases) > _MOST_TESTS or too_long:
        return None
    if any("…" in case.name for case in cases):
        return None  # cut: nothing is called so
    select = _SELECT.get(known.runner)
    arguments = select(known, cases, results) if select else None
    return None if arguments is None else (*known.before, *arguments)


def _pytest(command: TestCommand, cases: Sequence[CaseResult], results: CaseResults) -> list[str]:
    return [*_without_places(command.arguments, results), *(each.name for each in cases)]


def _without_places(given: Sequence[str], results: CaseResults) -> list[str]:
    """The words but for files, folders and tests to be run; a value of an option is none of these by its form."""
    files = {case.file for case in results.cases if case.file}
    kept = []
    for word in given:
        place = word.split("::", 1)[0].removeprefix("./").rstrip("/")
        if word.startswith("-") or not (place in files or any(f"{file}".startswith(f"{place}/") for file in files)):
            kept.append(word)
    return kept if "." not in kept else [word for word in kept if word != "."]


def _script(command: TestCommand, cases: Sequence[CaseResult], results: CaseResults) -> list[str] | None:
    """By files and a pattern of whole names: titles joined by one space, as both tools match them."""
    files = sorted({case.file for case in cases if case.file})
    given = _without_places(command.arguments, results)
    if not files or any(case.file is None for case in cases) or "--" in given or "-t" in given:
        return None
    whole = all(case.name == case.file for case in cases)
    loaded = [case for case in cases if case.name != case.file]
    pattern = "|".join(re.escape(" ".join(titles(case))).replace("/", r"\/") for case in loaded)
    by_name = [] if whole else ["-t", f"^(?:{pattern})$"]
    if command.runner == "jest":
        return [*given, *by_name, "--runTestsByPath", *files]
    words = given if given[:1] == ["run"] else ["run", *given]
    return [*words, *files, *by_name]


def _go(command: TestCommand, cases: Sequence[CaseResult], _results: CaseResults) -> list[str] | None:
    given = command.arguments
    parts = [go_parts(case.name) for case in cases]
    if None in parts or "-args" in given:
        return None
    found = [part for part in parts if part is not None]
    packages = sorted({package for package, _, _ in found})
    tests = "|".join(sorted({test for _, test, _ in found}))
    options: list[str] = []
    for word, before in zip(given, ("", *given[:-1]), strict=True):
        is_package = not word.startswith("-") and ("/" in word or word in {".", "..."})
        if not (is_package or word.split("=", 1)[0] in _GO_VALUES or before in _GO_VALUES):
            options.append(word)
    return [*options, "-count=1", "-run", f"^(?:{tests})$", *packages]


def _cargo(command: TestCommand, cases: Sequence[CaseResult], _results: CaseResults) -> list[str] | None:
    if any(case.name.startswith("doc ") or case.outcome == "error" for case in cases):
        return None
    tests = sorted({case.name.rpartition(" ")[2] for case in cases})
    separator = [] if "--" in command.arguments else ["--"]
    return [*command.arguments, *separator, "--exact", *tests]


def _nextest(command: TestCommand, cases: Sequence[CaseResult], _results: CaseResults) -> list[str] | None:
    tests = " | ".join(f"test(={each.name.rpartition(' ')[2]})" for each in cases)
    return None if "--" in command.arguments else [*command.arguments, "-E", tests]


def _node(command: TestCommand, cases: Sequence[CaseResult], _results: CaseResults) -> list[str]:
    """Node 20 matches each title for itself, and runs a test only when the blocks around it match too."""
    found = sorted({title for case in cases for title in titles(case)})
    return [*(f"--test-name-pattern=^{re.escape(title)}$" for title in found), *command.arguments]


_SELECT: Mapping[Runner, Callable[[TestCommand, Sequence[CaseResult], CaseResults], list[str] | None]] = {
    "pytest": _pytest,
    "jest": _script,
    "vitest": _script,
    "go": _go,
    "cargo": _cargo,
    "nextest": _nextest,
    "node": _node,
}
