from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitswarm.engines.detect import DetectedCommand, ProjectFiles, detect_test_command, no_tests_ran
from tests.tables import table

EVERYTHING = frozenset({"python", "python3", "nox", "tox"})
NPM_SCRIPT = '{"scripts": {"test": "jest"}}'
NPM_PLACEHOLDER = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'
PYTEST = "python -m pytest"
TESTS = {"tests/test_a.py": ""}


def checkout(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def detected(root: Path, programs: frozenset[str] = EVERYTHING) -> tuple[str, str] | None:
    found = detect_test_command(ProjectFiles(root), programs.__contains__)
    return (found.command, found.reason) if found else None


CONFIGURED_PYTEST = [
    ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pyproject.toml"),
    ({"pyproject.toml": "[tool.pytest]\nstrict = true\n"}, "pyproject.toml"),
    ({"pytest.ini": "[pytest]\n"}, "pytest.ini"),
    ({".pytest.ini": ""}, ".pytest.ini"),
    ({"pytest.toml": ""}, "pytest.toml"),
    ({"setup.cfg": "[metadata]\nname = x%y\n[tool:pytest]\n"}, "setup.cfg"),
    ({"tox.ini": "[tox]\n[pytest]\n"}, "tox.ini"),
    ({"conftest.py": ""}, "conftest.py"),
    ({"tests/conftest.py": ""}, "tests/conftest.py"),
    ({"noxfile.py": "", "tox.ini": "[tox]\n", "package.json": NPM_SCRIPT, "pytest.ini": ""}, "pytest.ini"),
]


@pytest.mark.parametrize(("files", "place"), CONFIGURED_PYTEST)
def test_a_configured_pytest_comes_first(tmp_path: Path, files: Mapping[str, str], place: str) -> None:
    assert detected(checkout(tmp_path, files)) == (PYTEST, f"{place} configures pytest")


ONE_ECOSYSTEM = [
    ({"noxfile.py": "", "tox.ini": "[tox]\n"}, "nox", "there is a noxfile.py"),
    ({"tox.ini": "[tox]\n"}, "tox", "tox.ini configures tox"),
    ({"pyproject.toml": "[tool.tox]\n"}, "tox", "pyproject.toml configures tox"),
    ({"setup.cfg": "[tox:tox]\n"}, "tox", "setup.cfg configures tox"),
    ({"pyproject.toml": "[project]\n", **TESTS}, PYTEST, "there is a pyproject.toml with Python test files"),
    (
        {"pyproject.toml": "[build-system]\n", **TESTS},
        PYTEST,
        "there is a pyproject.toml with Python test files",
    ),
    (
        {"pyproject.toml": "[tool.poetry]\n", **TESTS},
        PYTEST,
        "there is a pyproject.toml with Python test files",
    ),
    ({"setup.py": "", **TESTS}, PYTEST, "there is a setup.py with Python test files"),
    ({"setup.cfg": "", **TESTS}, PYTEST, "there is a setup.cfg with Python test files"),
    ({"setup.py": ""}, PYTEST, "there is a setup.py, but no test file yet"),
    (TESTS, PYTEST, "there are Python test files"),
    ({"pyproject.toml": "[tool.ruff]\n", **TESTS}, PYTEST, "there are Python test files"),
    ({"package.json": NPM_SCRIPT}, "npm test", "package.json has a test script"),
    ({"package.json": NPM_SCRIPT, "package-lock.json": ""}, "npm test", "package.json has a test script"),
    ({"package.json": NPM_SCRIPT, "pnpm-lock.yaml": ""}, "pnpm test", "package.json has a test script"),
    ({"package.json": NPM_SCRIPT, "yarn.lock": ""}, "yarn test", "package.json has a test script"),
    ({"package.json": NPM_SCRIPT, "bun.lockb": ""}, "bun run test", "package.json has a test script"),
    ({"package.json": NPM_SCRIPT, "bun.lock": ""}, "bun run test", "package.json has a test script"),
    ({"Cargo.toml": ""}, "cargo test", "there is a Cargo.toml"),
    ({"go.mod": ""}, "go test ./...", "there is a go.mod"),
    ({"Makefile": "check:\ntest: build\n"}, "make test", "Makefile has a target test"),
    ({"Makefile": "all check: build\n"}, "make check", "Makefile has a target check"),
    ({"makefile": "test::\n"}, "make test", "makefile has a target test"),
    ({"GNUmakefile": "test:\n", "Makefile": "check:\n"}, "make test", "GNUmakefile has a target test"),
]


@pytest.mark.parametrize(("files", "command", "reason"), ONE_ECOSYSTEM)
def test_each_kind_of_project_has_its_command(
    tmp_path: Path, files: Mapping[str, str], command: str, reason: str
) -> None:
    assert detected(checkout(tmp_path, files)) == (command, reason)


NOTHING: list[Mapping[str, str]] = [
    {},
    {"README.md": "", "src/main.c": ""},
    {"pyproject.toml": "[tool.ruff]\n"},
    {"tox.ini": "[flake8]\n"},
    {"package.json": NPM_PLACEHOLDER},
    {"package.json": '{"scripts": {"test": " "}}'},
    {"package.json": '{"scripts": {"build": "x"}}'},
    {"Makefile": "all:\n\tcc test: x\n"},
    {"Makefile": "# test: nothing\n.PHONY: test check\ntest := a\ncheck ::= b\nurl = http://test:80\n"},
    {"GNUmakefile": "all:\n", "Makefile": "test:\n"},
    {"tests/test_a.js": "", "tests/helper.py": "", "contest.py": ""},
]


@pytest.mark.parametrize("files", NOTHING)
def test_without_a_sign_of_tests_there_is_no_command(tmp_path: Path, files: Mapping[str, str]) -> None:
    assert detected(checkout(tmp_path, files)) is None


IN_ORDER = [
    {"setup.py": "", **TESTS},
    {"package.json": NPM_SCRIPT},
    {"Cargo.toml": ""},
    {"go.mod": ""},
    {"Makefile": "test:\n"},
]


@pytest.mark.parametrize(
    ("position", "command"), list(enumerate([PYTEST, "npm test", "cargo test", "go test ./...", "make test"]))
)
def test_the_first_ecosystem_in_the_order_is_taken(tmp_path: Path, position: int, command: str) -> None:
    for files in IN_ORDER[position:]:
        checkout(tmp_path, files)
    found = detected(tmp_path)
    assert found is not None
    assert found[0] == command


LAST = [
    ({"package.json": NPM_SCRIPT, **TESTS}, "npm test"),
    ({"package.json": NPM_PLACEHOLDER, **TESTS}, PYTEST),
    ({"Makefile": "check:\n", **TESTS}, "make check"),
    ({"Makefile": "all:\n", **TESTS}, PYTEST),
    ({"pyproject.toml": "[build-system]\n", "Cargo.toml": ""}, "cargo test"),
    ({"setup.py": "", "Makefile": "test:\n"}, "make test"),
    ({"pyproject.toml": "[project]\n", "package.json": NPM_PLACEHOLDER}, PYTEST),
]


@pytest.mark.parametrize(("files", "command"), LAST)
def test_half_a_python_project_comes_last(tmp_path: Path, files: Mapping[str, str], command: str) -> None:
    found = detected(checkout(tmp_path, files))
    assert found is not None
    assert found[0] == command


TOOL_MISSING = [
    ({"noxfile.py": "", "tox.ini": "[tox]\n"}, frozenset({"tox"}), "tox"),
    ({"noxfile.py": "", "tox.ini": "[tox]\n"}, frozenset(), None),
    ({"tox.ini": "[tox]\n", "Makefile": "test:\n"}, frozenset(), "make test"),
    ({"tox.ini": "[tox]\n", "setup.py": ""}, frozenset({"python"}), PYTEST),
    ({"pytest.ini": ""}, frozenset({"python3"}), "python3 -m pytest"),
    ({"pytest.ini": ""}, frozenset(), "python3 -m pytest"),
    ({"pytest.ini": "", ".venv/bin/python": ""}, frozenset({"python"}), ".venv/bin/python -m pytest"),
]


@pytest.mark.parametrize(("files", "programs", "command"), TOOL_MISSING)
def test_only_what_is_installed_is_chosen(
    tmp_path: Path, files: Mapping[str, str], programs: frozenset[str], command: str | None
) -> None:
    found = detected(checkout(tmp_path, files), programs)
    assert (found[0] if found else None) == command


def test_an_environment_whose_interpreter_is_gone_is_not_chosen(tmp_path: Path) -> None:
    checkout(tmp_path, {"pytest.ini": "", ".venv/pyvenv.cfg": ""})
    (tmp_path / ".venv/bin").mkdir()
    (tmp_path / ".venv/bin/python").symlink_to(tmp_path / "gone")
    assert detected(tmp_path) == (PYTEST, "pytest.ini configures pytest")


FOUND_AT = ["test_a.py", "a_test.py", "tests/unit/test_a.py", "test/a_test.py", "pkg/test_a.py"]
FOUND_AT += ["pkg/tests/test_a.py", "src/pkg/tests/test_a.py"]


@pytest.mark.parametrize("name", FOUND_AT)
def test_test_files_are_found_where_they_usually_are(tmp_path: Path, name: str) -> None:
    assert detected(checkout(tmp_path, {name: ""})) == (PYTEST, "there are Python test files")


PASSED_OVER = [
    {".hidden/test_a.py": ""},
    {"node_modules/gyp/test_a.py": ""},
    {"venv/lib/test_a.py": ""},
    {"env/pyvenv.cfg": "", "env/lib/test_a.py": ""},
    {"a/b/c/d/test_a.py": ""},
    {"test_a.py/readme": ""},
]


@pytest.mark.parametrize("files", PASSED_OVER)
def test_test_files_of_others_are_not_looked_for(tmp_path: Path, files: Mapping[str, str]) -> None:
    assert detected(checkout(tmp_path, files)) is None


def test_the_search_looks_into_tests_first(tmp_path: Path) -> None:
    checkout(tmp_path, {f"pages/{number}": "" for number in range(4_000)} | {"tests/unit/test_a.py": ""})
    assert detected(tmp_path) == (PYTEST, "there are Python test files")


def test_the_search_is_bounded(tmp_path: Path) -> None:
    checkout(tmp_path, {f"pages/{number}": "" for number in range(4_000)} | {"pkg/test_a.py": ""})
    assert detected(tmp_path) is None


BROKEN = ["\0\ufffe", "[", "[" * 200_000, '{"scripts": ' * 50_000, "[a\nb\n=c", "null", '["scripts"]', "1"]


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_files_that_do_not_parse_say_nothing(tmp_path: Path, content: str) -> None:
    checkout(tmp_path, dict.fromkeys(["package.json", "tox.ini", "Makefile"], content))
    assert detected(tmp_path) is None


@pytest.mark.parametrize("content", ["[", "a = [" + "[" * 100_000, "a = \0"], ids=["open", "deep", "nul"])
def test_a_broken_pyproject_is_still_a_python_project(tmp_path: Path, content: str) -> None:
    checkout(tmp_path, {"pyproject.toml": content})
    assert detected(tmp_path) == (PYTEST, "there is a pyproject.toml, but no test file yet")


def test_a_makefile_in_an_old_encoding_is_read(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_bytes(b"# by Andr\xe9\ntest:\n")
    assert detected(tmp_path) == ("make test", "Makefile has a target test")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_bytes(b"\xef\xbb\xbf" + NPM_SCRIPT.encode())
    assert detected(tmp_path) == ("npm test", "package.json has a test script")


def test_whatever_is_no_readable_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Makefile")
    (tmp_path / "package.json").mkdir()
    (tmp_path / "Cargo.toml").symlink_to("Cargo.toml")
    (tmp_path / "go.mod").symlink_to(tmp_path / "gone")
    (tmp_path / "setup.py").symlink_to("/dev/zero")
    (tmp_path / "test_a.py").symlink_to("test_a.py")
    (tmp_path / "again").symlink_to(tmp_path)
    assert detected(tmp_path) is None


def test_files_without_permission_are_passed_over(tmp_path: Path) -> None:
    checkout(tmp_path, {"Makefile": "test:\n", "tests/test_a.py": "", "shut/go.mod": ""})
    (tmp_path / "go.mod").symlink_to("shut/go.mod")
    for name in ("Makefile", "tests", "shut"):
        (tmp_path / name).chmod(0)
    all_powerful = os.access(tmp_path / "Makefile", os.R_OK)  # root reads what nobody may read
    expected = ("go test ./...", "there is a go.mod") if all_powerful else None
    try:
        assert detected(tmp_path) == expected
    finally:
        for name in ("tests", "shut"):
            (tmp_path / name).chmod(0o700)


def test_a_checkout_that_is_gone_has_no_command(tmp_path: Path) -> None:
    assert detected(tmp_path / "gone") is None


def test_a_detected_command_is_a_value(tmp_path: Path) -> None:
    found = detect_test_command(ProjectFiles(checkout(tmp_path, {"go.mod": ""})), EVERYTHING.__contains__)
    assert found == DetectedCommand("go test ./...", "there is a go.mod")


PYTEST_SUMMARY = "collected 0 items\n\n============ no tests ran in 0.01s ============\n"
PYTEST_COLOURED = "\x1b[33m====== \x1b[33mno tests ran\x1b[0m\x1b[33m in 0.01s\x1b[0m\x1b[33m ======\x1b[0m\n"
GO_NONE = "?   \texample.com/a\t[no test files]\n"
GO_CACHED = "ok  \texample.com/b\t(cached)\n"

JUDGED = [
    (PYTEST, 5, "", True),
    ("uv run pytest -q tests", 5, "", True),
    (".venv/bin/pytest", 5, "", True),
    ("cd sub && py.test;", 5, "", True),
    (PYTEST, 0, PYTEST_SUMMARY, False),
    (PYTEST, 1, "", False),
    ("tox", 5, PYTEST_SUMMARY, True),
    ("tox", 5, PYTEST_COLOURED, True),
    ("tox", 5, "no tests ran in 0.01s\n", True),
    ("tox", 5, "no tests ran in 75.32s (0:01:15)\r\n", True),
    ("tox", 5, "collected 0 items\n", False),
    ("tox", 5, "we say that no tests ran in 0.01s\n", False),
    ("tox", 1, PYTEST_SUMMARY, False),
    ("./pytest-like.sh", 5, "", False),
    ("npm test", 5, "", False),
    ("go test ./...", 0, GO_NONE, True),
    ("cd x && go test ./...", 0, "go: downloading a v1\n\n" + GO_NONE * 2, True),
    ("go test ./...", 0, GO_NONE + GO_CACHED, False),
    ("go test ./...", 0, GO_NONE + "\n[… 9 bytes left out …]\n" + GO_NONE, False),
    ("go test ./...", 0, "", False),
    ("go test ./...", 1, GO_NONE, False),
    ("make test", 0, GO_NONE, False),
]


@table(("command", "exit_code", "output", "expected"), JUDGED)
def test_that_no_test_ran_is_told_from_the_end_of_the_command(
    command: str, exit_code: int, output: str, *, expected: bool
) -> None:
    assert no_tests_ran(command, exit_code, output) is expected


@pytest.mark.processes
@pytest.mark.parametrize("options", [[], ["-q"], ["--color=yes"]])
def test_the_words_of_the_real_pytest_are_known(tmp_path: Path, options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir=.", *options],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert no_tests_ran("tox", done.returncode, done.stdout)
