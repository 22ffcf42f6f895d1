"""A test command as far as it can be changed: to ask for a report that names its tests, or to run some of them alone.

A line with operators, substitutions or redirections is a script, `make check` and `npm test` run one: nothing is ever
appended to those.

| command                         | asked for a report by                              | read from  |
|---------------------------------|----------------------------------------------------|------------|
| anything that may call pytest   | `PYTEST_ADDOPTS`: `--junitxml`, family xunit1      | the folder |
| `jest …`, `vitest …`            | arguments: the JSON report                         | the folder |
| `node --test …`                 | arguments: the reporters tap (to stdout) and junit | the folder |
| `npm test` for `… node --test`  | `NODE_OPTIONS`: the same                           | the folder |
| `go test …`                     | argument: `-json`                                  | the output |
| anything that may use gotestsum | `GOTESTSUM_JSONFILE`                               | the folder |
| anything that may call nextest  | `NEXTEST_STATUS_LEVEL=all`: it prints every name   | the output |
| `cargo test …`                  | nothing: it prints every name                      | the output |

pytest expands variables in the path of its report, so one script that calls it in several folders leaves a file for
each. Two calls in one folder leave the second; `read_run` sees that by the output, and says so.
Arguments are added to one known program only. A command that names a report of its own keeps it, and is not asked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from gitswarm.evidence.declarations import go_parts, titles
from gitswarm.records.evidence import CaseResult, CaseResults
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import words

Runner = Literal["pytest", "jest", "vitest", "go", "gotestsum", "cargo", "nextest", "node"]

_SCRIPTED = lazy_re(r"[;&|<>()$`\n*?~{}!#]|^\s*\[")
_ASSIGNMENT = lazy_re(r"^[A-Za-z_][A-Za-z0-9_]*=")
_LAUNCHERS = tuple(
    tuple(each.split("+"))
    for each in words("""
        npx npx+--yes npx+-y npx+--no npx+--no-install npm+exec+-- pnpm+exec pnpm+dlx pnpm yarn+exec yarn+dlx
        yarn+run yarn bunx uv+run poetry+run pdm+run pipenv+run env cross-env time
    """)
)
_SCRIPT_LAUNCHERS = frozenset({("pnpm",), ("yarn", "run"), ("yarn",)})
"""Those that prefer a script of package.json to a program of that name."""

_PYTHON = lazy_re(r"^python(?:[0-9.]+)?$")
_PROGRAMS: tuple[tuple[Runner, *tuple[str, ...]], ...] = (
    ("pytest", "pytest"),
    ("pytest", "py.test"),
    ("pytest", "python", "-m", "pytest"),
    ("jest", "jest"),
    ("vitest", "vitest"),
    ("go", "go", "test"),
    ("gotestsum", "gotestsum"),
    ("nextest", "cargo", "nextest", "run"),
    ("cargo", "cargo", "test"),
    ("cargo", "cargo", "t"),
)
_NODE_PROGRAMS: dict[str, Runner] = {"jest": "jest", "jest.js": "jest", "vitest": "vitest", "vitest.mjs": "vitest"}
_NPM_SCRIPT = lazy_re(
    r"^(?:npm (?:run(?:-script)? )?|pnpm (?:run )?|yarn (?:run )?|bun run )([\w:.-]+)(?: -s| --silent)?$"
)
_NPM_ALIASES = {"t": "test", "tst": "test"}

_MOST_TESTS = 200
_MOST_CHARS = 60_000  # a program's arguments have their limits; Linux allows 128 KiB for one of them
_GO_SELECTIONS = frozenset({"-run", "-skip", "-list", "-bench", "-fuzz"})
_GO_SWITCHES = frozenset(
    words("""
        -a -asan -benchmem -c -cover -failfast -fullpath -i -json -linkshared -modcacherw -msan -n -race -short
        -trimpath -v -work -x
    """)
)
"""Options of `go test` that take no word behind them as their value."""


class TestCommand(Struct, frozen=True):
    """`before` are the words up to and with the program (`npx jest`, `go test`), `arguments` those after it."""

    __test__ = False

    runner: Runner
    before: tuple[str, ...]
    arguments: tuple[str, ...]


class ReportRequest(Struct, frozen=True):
    """
    :ivar environment: to be set for the command.
    :ivar argv: to be started in its place; None: the command as it is.
    """

    environment: Mapping[str, str]
    argv: tuple[str, ...] | None = None


def read_command(command: str | Sequence[str], scripts: Mapping[str, str]) -> TestCommand | None:
    """The command if it is one program whose arguments are known; None for everything else.

    :param scripts: of the package.json in the folder that the command runs in.
    """
    words = _split(command)
    if words is None:
        return None
    if isinstance(command, str) and _ASSIGNMENT.match(words[0]):
        words = ["env", *words]  # `CI=1 jest` of a shell
    begin = _behind_launchers(words, scripts)
    runner, end = _program(words[begin:]) if begin is not None else (None, 0)
    if begin is None or runner is None:
        return None
    return TestCommand(runner, tuple(words[: begin + end]), tuple(words[begin + end :]))


def npm_script(command: str | Sequence[str], scripts: Mapping[str, str]) -> str | None:
    """The line behind `npm test` and its like; None if the command is none of them."""
    line = command if isinstance(command, str) else shlex.join(command)
    match = _NPM_SCRIPT.match(line.strip())
    return scripts.get(_NPM_ALIASES.get(match[1], match[1])) if match else None


def _split(command: str | Sequence[str]) -> list[str] | None:
    if not isinstance(command, str):
        return list(command) or None
    if _SCRIPTED.search(command):
        return None
    try:
        return shlex.split(command) or None
    except ValueError:
        return None


def _behind_launchers(words: Sequence[str], scripts: Mapping[str, str]) -> int | None:
    """Where the program stands; None: there is none, or a script may stand in its place."""
    at = 0
    while at < len(words):
        launcher = max(
            (each for each in _LAUNCHERS if tuple(words[at : at + len(each)]) == each), key=len, default=()
        )
        if not launcher:
            return at
        at += len(launcher)
        while launcher in {("env",), ("cross-env",)} and at < len(words) and _ASSIGNMENT.match(words[at]):
            at += 1
        if launcher in _SCRIPT_LAUNCHERS and at < len(words) and words[at] in scripts:
            return None
    return None


def _program(words: Sequence[str]) -> tuple[Runner | None, int]:
    """The runner, and how many words call it."""
    name = PurePosixPath(words[0]).name
    if name == "node":
        return _node(words)
    called = (_PYTHON.sub("python", name), *words[1:3])
    found = ((runner, len(program)) for runner, *program in _PROGRAMS if list(called[: len(program)]) == program)
    return next(found, (None, 0))


def _node(words: Sequence[str]) -> tuple[Runner | None, int]:
    """`node --test`, or `node --experimental-vm-modules node_modules/jest/bin/jest.js`."""
    for at, word in enumerate(words[1:], 1):
        if word == "--test":
            return "node", 1
        if not word.startswith("-"):
            return _NODE_PROGRAMS.get(PurePosixPath(word).name), at + 1
    return None, 0


def select_tests(
    command: str | Sequence[str], names: Collection[str], results: CaseResults, scripts: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The words of the program that runs these tests, and few others; None where that is not known.

    It is for one known program, when each name is one of `results`, at most 200 names, and what it is given to run is
    replaced: `pytest tests -x` becomes `pytest -x tests/test_a.py::test_b`. Not for a script, a makefile
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
    arguments = _selecting(known, cases, results)
    return None if arguments is None else (*known.before, *arguments)


def _selecting(command: TestCommand, cases: Sequence[CaseResult], results: CaseResults) -> list[str] | None:
    """The arguments with which a program runs these tests."""
    given = command.arguments
    chosen: list[str] | None = None
    match command.runner:
        case "pytest":
            chosen = [*_without_places(given, results), *(case.name for case in cases)]
        case "jest" | "vitest":
            chosen = _script(command, cases, _without_places(given, results))
        case "go":
            chosen = _go(given, cases)
        case "cargo" if not any(case.name.startswith("doc ") or case.outcome == "error" for case in cases):
            separator = [] if "--" in given else ["--"]
            chosen = [*given, *separator, "--exact", *sorted({case.name.rpartition(" ")[2] for case in cases})]
        case "nextest" if "--" not in given:
            chosen = [*given, "-E", " | ".join(f"test(={case.name.rpartition(' ')[2]})" for case in cases)]
        case "node":
            # Node 20 matches each title for itself, and runs a test only when the blocks around it match too.
            found = sorted({title for case in cases for title in titles(case)})
            chosen = [*(f"--test-name-pattern=^{re.escape(title)}$" for title in found), *given]
    return chosen


def _without_places(given: Sequence[str], results: CaseResults) -> list[str]:
    """The words but for files, folders and tests to be run; a value of an option is none of these by its form."""
    files = {case.file for case in results.cases if case.file}
    kept = []
    for word in given:
        path = word.split("::", 1)[0].removeprefix("./").rstrip("/")
        if word.startswith("-") or not (path in files or any(f"{file}".startswith(f"{path}/") for file in files)):
            kept.append(word)
    return kept if "." not in kept else [word for word in kept if word != "."]


def _script(command: TestCommand, cases: Sequence[CaseResult], given: Sequence[str]) -> list[str] | None:
    """By files and a pattern of whole names: titles joined by one space, as both tools match them."""
    files = sorted({case.file for case in cases if case.file})
    if not files or any(case.file is None for case in cases) or "--" in given or "-t" in given:
        return None
    loaded = [case for case in cases if case.name != case.file]
    pattern = "|".join(re.escape(" ".join(titles(case))).replace("/", r"\/") for case in loaded)
    by_name = ["-t", f"^(?:{pattern})$"] if loaded else []
    if command.runner == "jest":
        return [*given, *by_name, "--runTestsByPath", *files]
    words = given if given[:1] == ["run"] else ["run", *given]
    return [*words, *files, *by_name]


def _go(given: Sequence[str], cases: Sequence[CaseResult]) -> list[str] | None:
    parts = [go_parts(case.name) for case in cases]
    if None in parts or "-args" in given:
        return None
    found = [part for part in parts if part is not None]
    packages = sorted({package for package, _, _ in found})
    tests = "|".join(sorted({test for _, test, _ in found}))
    options: list[str] = []
    for word, before in zip(given, ("", *given[:-1]), strict=True):
        is_value = before.startswith("-") and "=" not in before and before not in _GO_SWITCHES
        is_package = not word.startswith("-") and not is_value
        if not (is_package or word.split("=", 1)[0] in _GO_SELECTIONS or before in _GO_SELECTIONS):
            options.append(word)
    return [*options, "-count=1", "-run", f"^(?:{tests})$", *packages]


def request_report(
    command: str | Sequence[str], folder: str, environment: Mapping[str, str], scripts: Mapping[str, str]
) -> ReportRequest:
    """How to run `command` so that every file below `folder` is a report of it, or its output is one.

    A program that is too old for what it is asked ends at once and leaves neither a report nor readable output; such
    a run has to be made again as it stands.

    :param command: a line for a shell, or the words of a program.
    :param folder: absolute, outside of the worktree; exists, and is empty.
    :param environment: the command's; what its variables ask already is kept.
    :param scripts: of the package.json where it runs.
    """
    known = read_command(command, scripts)
    if known is None:
        script = npm_script(command, scripts)
        return ReportRequest(_unseen(folder, environment) | (_node_options(script or "", folder, environment)))
    arguments = _arguments(known, folder)
    if arguments is not None:
        return ReportRequest({}, (*known.before, *arguments))
    if known.runner in {"pytest", "gotestsum", "nextest"}:
        return ReportRequest(_unseen(folder, environment))
    return ReportRequest({})


def _unseen(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """For programs that a command may call: variables that nobody else reads."""
    given = environment.get("PYTEST_ADDOPTS", "")
    file = f"--junitxml={shlex.quote(folder)}/$PWD/pytest.xml"
    asked = {"PYTEST_ADDOPTS": f"{given} -o junit_family=xunit1 {file}".strip()}
    if "GOTESTSUM_JSONFILE" not in environment:
        asked["GOTESTSUM_JSONFILE"] = f"{folder}/gotestsum.jsonl"
    if "NEXTEST_STATUS_LEVEL" not in environment:
        asked["NEXTEST_STATUS_LEVEL"] = "all"
    return asked


def _arguments(command: TestCommand, folder: str) -> tuple[str, ...] | None:
    """The program's arguments with those that ask; None where it is asked by variables, or not at all."""
    given = command.arguments
    if command.runner == "go":
        return None if _has(given, "-json", "-c", "-list") else ("-json", *given)
    if command.runner == "node":
        return None if _has(given, "--test-reporter") else (*_reporters(folder), *given)
    if "--" in given:
        return None
    if command.runner == "jest" and not _has(given, "--json", "--outputFile", "--watch", "--listTests"):
        return (*given, "--json", f"--outputFile={folder}/jest.json")
    if command.runner == "vitest" and not _has(given, "--reporter", "--outputFile", "--watch", "-w", "list", "bench"):
        return (*given, "--reporter=default", "--reporter=json", f"--outputFile.json={folder}/vitest.json")
    return None


def _has(arguments: Sequence[str], *options: str) -> bool:
    return any(word.split("=", 1)[0].split(".", 1)[0] in options for word in arguments)


def _reporters(folder: str) -> tuple[str, ...]:
    """Each reporter needs a destination; tap on stdout is what is read where there is no file."""
    return (
        "--test-reporter=tap",
        "--test-reporter-destination=stdout",
        "--test-reporter=junit",
        f"--test-reporter-destination={folder}/node.xml",
    )


def _node_options(script: str, folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Reporters add up, and their number has to be that of the destinations: nobody else may ask for one."""
    given = environment.get("NODE_OPTIONS", "")
    words = script.replace("&&", " ").split()
    if "--test" not in words or "--test-reporter" in f"{script} {given}" or any(mark in folder for mark in ' "\\'):
        return {}
    return {"NODE_OPTIONS": " ".join(filter(None, (given, *_reporters(folder))))}
