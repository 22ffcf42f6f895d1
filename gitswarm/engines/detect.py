"""Which command runs a project's own tests, and whether it ran any.

The first row that applies decides:

| the checkout has                                                 | command                     |
|------------------------------------------------------------------|-----------------------------|
| pytest configured: pytest.ini or pytest.toml, [tool.pytest] in   | `<python> -m pytest`        |
| pyproject.toml, [tool:pytest] in setup.cfg, [pytest] in tox.ini, |                             |
| conftest.py or tests/conftest.py                                 |                             |
| noxfile.py, and nox is installed                                 | `nox`                       |
| [tox] in tox.ini, [tool.tox] in pyproject.toml or [tox:tox] in   | `tox`                       |
| setup.cfg, and tox is installed                                  |                             |
| a Python project with test files                                 | `<python> -m pytest`        |
| a test script in package.json, not npm's placeholder; the lock   | `npm test`, `pnpm test`,    |
| file tells the tool                                              | `yarn test`, `bun run test` |
| Cargo.toml                                                       | `cargo test`                |
| go.mod                                                           | `go test ./...`             |
| a makefile with a target `test`, else `check`                    | `make test`, `make check`   |
| Python test files without a project file                         | `<python> -m pytest`        |
| a Python project without test files                              | `<python> -m pytest`        |

A Python project has setup.py, setup.cfg, or pyproject.toml with [project], [build-system] or [tool.poetry].
`<python>` is `.venv/bin/python` of the checkout, else `python`, else `python3`. A file that cannot be read or
parsed counts as present and empty, but such a pyproject.toml is still a Python project.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from msgspec import Struct

from gitswarm.records.lazy_re import lazy_re

_PYTEST_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "conftest.py",
    "tests/conftest.py",
)
_PROJECT_TABLES = ("project", "build-system", "tool.poetry")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # make reads only the first that exists
_NODE_RUNNERS = (
    ("pnpm-lock.yaml", "pnpm test"),
    ("yarn.lock", "yarn test"),
    ("bun.lockb", "bun run test"),
    ("bun.lock", "bun run test"),  # `bun test` would be bun's own runner, not the script
)
_NPM_PLACEHOLDER = "no test specified"

_TEST_FOLDERS = ("tests", "test")
_FOREIGN_FOLDERS = ("node_modules", "__pycache__", "site-packages", "venv")
_SEARCH_ENTRIES = 4_000
_SEARCH_DEPTH = 3  # src/package/tests

_COLOUR = lazy_re(r"\x1b\[[0-9;]*m")
_RUNS_PYTEST = lazy_re(r"(?:^|[\s;&|(/])(?:pytest|py\.test)(?=$|[\s;&|)])")
_PYTEST_RAN_NONE = lazy_re(r"^(?:=+ )?no tests ran(?: in [0-9.]+s.*?)?(?: =+)?\r?$", re.MULTILINE)
_PYTEST_NO_TESTS = 5  # pytest.ExitCode.NO_TESTS_COLLECTED
_RUNS_GO_TEST = lazy_re(r"(?:^|[\s;&|(/])go\s+test(?=$|[\s;&|)])")
_GO_CHATTER = lazy_re(r"go: (?:downloading|finding|extracting) ")


class DetectedCommand(Struct, frozen=True):
    """`reason` completes the sentence "chosen because …"."""

    command: str
    reason: str


def how_to_set(name: str) -> str:
    """What a person types so that a project has a command."""
    return f"git swarm config --team commands.{name} 'COMMAND'"


class ProjectFiles(Struct, frozen=True):
    """What the files at the root of a checkout say. No file, whatever it is or holds, makes it raise."""

    root: Path

    def has(self, name: str) -> bool:
        """Whether there is a regular file, or a link to one."""
        return os.path.isfile(self.root / name)  # noqa: PTH113 - never raises

    def first(self, *names: str) -> str | None:
        return next((name for name in names if self.has(name)), None)

    def text(self, name: str) -> str:
        """The content; empty if there is none that can be read."""
        if not self.has(name):
            return ""
        try:
            return (self.root / name).read_text(encoding="utf-8-sig", errors="replace")
        except OSError:
            return ""

    def toml(self, name: str) -> Mapping[str, object] | None:
        """The document; None if it does not parse."""
        try:
            import tomllib  # noqa: PLC0415 - only to find out what tests a project

            return tomllib.loads(self.text(name))
        except (ValueError, RecursionError):
            return None

    def json(self, name: str) -> object:
        try:
            return json.loads(self.text(name))
        except (ValueError, RecursionError):
            return None

    def sections(self, name: str) -> tuple[str, ...]:
        """The section names of an ini file."""
        import configparser  # noqa: PLC0415 - as above

        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(self.text(name))
        except configparser.Error:
            return ()
        return tuple(parser.sections())

    def has_python_tests(self) -> bool:
        """Whether a bounded search finds test_*.py or *_test.py."""
        return any(_is_python_test(entry) for entry in islice(_entries_below(self.root), _SEARCH_ENTRIES))


def detect_test_command(files: ProjectFiles, available: Callable[[str], bool]) -> DetectedCommand | None:
    """The command for a checkout, None if nothing is recognized.

    `available` says whether a program is installed.
    """
    return next(_recognized(files, available), None)


def _recognized(files: ProjectFiles, available: Callable[[str], bool]) -> Iterator[DetectedCommand]:
    """Row by row."""
    pytest = f"{_python(files, available)} -m pytest"
    if config := _pytest_config(files):
        yield DetectedCommand(pytest, f"{config} configures pytest")
    if files.has("noxfile.py") and available("nox"):
        yield DetectedCommand("nox", "there is a noxfile.py")
    if (config := _tox_config(files)) and available("tox"):
        yield DetectedCommand("tox", f"{config} configures tox")
    project_file = _python_project_file(files)
    if project_file and files.has_python_tests():
        yield DetectedCommand(pytest, f"there is a {project_file} with Python test files")
    if command := _node(files):
        yield DetectedCommand(command, "package.json has a test script")
    if files.has("Cargo.toml"):
        yield DetectedCommand("cargo test", "there is a Cargo.toml")
    if files.has("go.mod"):
        yield DetectedCommand("go test ./...", "there is a go.mod")
    yield from _make(files)
    if project_file:
        yield DetectedCommand(pytest, f"there is a {project_file}, but no test file yet")
    elif files.has_python_tests():
        yield DetectedCommand(pytest, "there are Python test files")


def no_tests_ran(command: str, exit_code: int, output: str) -> bool:
    """Whether `command` ended like this because there was no test to run; known of pytest and `go test`.

    `output` may be cut in its middle. Then `go test` is not judged: a test may have run in the part left out.
    """
    plain = _COLOUR.sub("", output)
    if exit_code == _PYTEST_NO_TESTS:
        return bool(_RUNS_PYTEST.search(command) or _PYTEST_RAN_NONE.search(plain))
    if exit_code == 0 and _RUNS_GO_TEST.search(command):
        lines = [line.strip() for line in plain.splitlines()]
        output_lines = [line for line in lines if line and not _GO_CHATTER.match(line)]
        return bool(output_lines) and all(line.endswith("[no test files]") for line in output_lines)
    return False


def _python(files: ProjectFiles, available: Callable[[str], bool]) -> str:
    own = ".venv/bin/python"
    if files.has(own):
        return own
    return "python" if available("python") else "python3"


def _pytest_config(files: ProjectFiles) -> str | None:
    if _has_table(files.toml("pyproject.toml"), "tool.pytest"):
        return "pyproject.toml"
    if "tool:pytest" in files.sections("setup.cfg"):
        return "setup.cfg"
    if "pytest" in files.sections("tox.ini"):
        return "tox.ini"
    return files.first(*_PYTEST_FILES)


def _tox_config(files: ProjectFiles) -> str | None:
    if "tox" in files.sections("tox.ini"):
        return "tox.ini"
    if _has_table(files.toml("pyproject.toml"), "tool.tox"):
        return "pyproject.toml"
    return "setup.cfg" if "tox:tox" in files.sections("setup.cfg") else None


def _python_project_file(files: ProjectFiles) -> str | None:
    if files.has("pyproject.toml"):
        document = files.toml("pyproject.toml")
        if document is None or any(_has_table(document, table) for table in _PROJECT_TABLES):
            return "pyproject.toml"
    return files.first("setup.py", "setup.cfg")


def _has_table(document: object, dotted: str) -> bool:
    for key in dotted.split("."):
        if not isinstance(document, Mapping) or key not in document:
            return False
        document = document[key]
    return True


def _node(files: ProjectFiles) -> str | None:
    package = files.json("package.json")
    scripts = package.get("scripts") if isinstance(package, dict) else None
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or not script.strip() or _NPM_PLACEHOLDER in script:
        return None
    return next((runner for lock, runner in _NODE_RUNNERS if files.has(lock)), "npm test")


def _make(files: ProjectFiles) -> Iterator[DetectedCommand]:
    makefile = files.first(*_MAKEFILES)
    targets = set(_make_targets(files.text(makefile))) if makefile is not None else ()
    for target in ("test", "check"):
        if target in targets:
            yield DetectedCommand(f"make {target}", f"{makefile} has a target {target}")


def _make_targets(text: str) -> Iterator[str]:
    """Targets of explicit rules. Conditions are not evaluated, included files not read."""
    for line in text.splitlines():
        if line.startswith("\t") or line.lstrip().startswith("#"):
            continue
        before, colon, after = line.partition(":")
        assigns = "=" in before or after.lstrip(":").startswith("=")
        if colon and not assigns:
            yield from before.split()


def _is_python_test(entry: os.DirEntry[str]) -> bool:
    named_so = fnmatchcase(entry.name, "test_*.py") or fnmatchcase(entry.name, "*_test.py")
    return named_so and os.path.isfile(entry)  # noqa: PTH113 - never raises


def _entries_below(root: Path) -> Iterator[os.DirEntry[str]]:
    """Files and folders, breadth first, but what is in folders of tests first.

    Links are not followed into folders. Foreign and hidden folders are not entered.
    """
    waiting = deque([(root, 0)])
    while waiting:
        folder, depth = waiting.popleft()
        for entry in _entries(folder):
            yield entry
            if depth == _SEARCH_DEPTH or not _is_own_folder(entry):
                continue
            of_tests = entry.name in _TEST_FOLDERS or folder.name in _TEST_FOLDERS
            add = waiting.appendleft if of_tests else waiting.append
            add((Path(entry), depth + 1))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder by name: the search ends at the same place on every file system (folders of thousands
    aside)."""
    try:
        with os.scandir(folder) as found:
            return sorted(islice(found, _SEARCH_ENTRIES), key=lambda entry: entry.name)
    except OSError:
        return []


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _FOREIGN_FOLDERS:
        return False
    try:
        is_folder = entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
    # pyvenv.cfg: a virtual environment, whatever its name
    return is_folder and not os.path.isfile(os.path.join(entry, "pyvenv.cfg"))  # noqa: PTH113, PTH118 - never raises
