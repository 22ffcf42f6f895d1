"""What is asked of a test command, and how some of its tests are run alone."""

from __future__ import annotations

from collections.abc import Sequence

from gitswarm.evidence.test_command import ReportRequest, npm_script, read_command, request_report, select_tests
from gitswarm.records.evidence import CaseOutcome, CaseResult, CaseResults
from tests.tables import table

SCRIPTS = {"test": "node --test", "jest": "jest --coverage && tsc", "lint": "eslint ."}
OUT = "/out"
NODE = (
    "--test-reporter=tap",
    "--test-reporter-destination=stdout",
    "--test-reporter=junit",
    "--test-reporter-destination=/out/node.xml",
)
ADDOPTS = "-o junit_family=xunit1 --junitxml=/out/$PWD/pytest.xml"
UNSEEN = {
    "PYTEST_ADDOPTS": ADDOPTS,
    "GOTESTSUM_JSONFILE": "/out/gotestsum.jsonl",
    "NEXTEST_STATUS_LEVEL": "all",
}

RUNNERS = [
    ("pytest -q", "pytest", ("pytest",), ("-q",)),
    (".venv/bin/python -m pytest tests", "pytest", (".venv/bin/python", "-m", "pytest"), ("tests",)),
    ("python3.12 -m pytest", "pytest", ("python3.12", "-m", "pytest"), ()),
    ("uv run pytest -x", "pytest", ("uv", "run", "pytest"), ("-x",)),
    ("npx --yes jest --ci", "jest", ("npx", "--yes", "jest"), ("--ci",)),
    ("CI=1 yarn vitest run", "vitest", ("env", "CI=1", "yarn", "vitest"), ("run",)),
    ("node --no-warnings node_modules/jest/bin/jest.js a", "jest", None, ("a",)),
    ("node --test test/", "node", ("node",), ("--test", "test/")),
    ("go test ./...", "go", ("go", "test"), ("./...",)),
    ("cargo nextest run --workspace", "nextest", ("cargo", "nextest", "run"), ("--workspace",)),
    ("cargo test -q", "cargo", ("cargo", "test"), ("-q",)),
    (["jest", "a;b"], "jest", ("jest",), ("a;b",)),
]
OTHERS = [
    "make test",
    "npm test",
    "tox",
    "pytest tests/a && pytest tests/b",
    "jest | tee out",
    "jest $(cat files)",
    "pytest 'open",
    "yarn jest",
    "node server.js",
    "go build ./...",
    "env",
    "",
    [],
]


@table(("command", "runner", "before", "arguments"), RUNNERS, ids=[str(row[0]) for row in RUNNERS])
def test_one_known_program_is_read(
    command: str | list[str], runner: str, before: tuple[str, ...] | None, arguments: tuple[str, ...]
) -> None:
    scripts = {} if "yarn" in command else SCRIPTS
    found = read_command(command, scripts)
    assert found is not None
    assert (found.runner, found.arguments) == (runner, arguments)
    assert before is None or found.before == before


@table("command", OTHERS, ids=[str(row) or "nothing" for row in OTHERS])
def test_what_runs_others_is_no_known_program(command: str | list[str]) -> None:
    assert read_command(command, SCRIPTS) is None


@table(
    ("command", "script"),
    [
        ("npm test", "node --test"),
        ("npm t", "node --test"),
        ("npm run lint", "eslint ."),
        ("yarn test --silent", "node --test"),
        (["pnpm", "run", "test"], "node --test"),
        ("npm test -- --watch", None),
        ("npm run other", None),
    ],
)
def test_the_script_behind_npm_is_found(command: str | list[str], script: str | None) -> None:
    assert npm_script(command, SCRIPTS) == script


ASKED: list[tuple[str, ReportRequest]] = [
    ("pytest -q", ReportRequest(UNSEEN)),
    ("make test", ReportRequest(UNSEEN)),
    ("pytest a && pytest b", ReportRequest(UNSEEN)),
    ("npm run lint", ReportRequest(UNSEEN)),
    ("npm test", ReportRequest({**UNSEEN, "NODE_OPTIONS": " ".join(NODE)})),
    ("node --test", ReportRequest({}, ("node", *NODE, "--test"))),
    ("node --test --test-reporter=spec", ReportRequest({})),
    ("npx jest --ci", ReportRequest({}, ("npx", "jest", "--ci", "--json", "--outputFile=/out/jest.json"))),
    ("jest --json", ReportRequest({})),
    ("jest -- a", ReportRequest({})),
    (
        "vitest run",
        ReportRequest(
            {}, ("vitest", "run", "--reporter=default", "--reporter=json", "--outputFile.json=/out/vitest.json")
        ),
    ),
    ("vitest run --outputFile.junit=x", ReportRequest({})),
    ("go test ./...", ReportRequest({}, ("go", "test", "-json", "./..."))),
    ("go test -json .", ReportRequest({})),
    ("go vet ./... && go test ./...", ReportRequest(UNSEEN)),
    ("cargo test", ReportRequest({})),
    ("gotestsum", ReportRequest(UNSEEN)),
]


@table(("command", "expected"), ASKED, ids=[row[0] for row in ASKED])
def test_a_report_is_asked_for(command: str, expected: ReportRequest) -> None:
    assert request_report(command, OUT, {}, SCRIPTS) == expected


def test_what_the_environment_asks_already_is_kept() -> None:
    environment = {
        "PYTEST_ADDOPTS": "-x",
        "GOTESTSUM_JSONFILE": "own",
        "NEXTEST_STATUS_LEVEL": "fail",
        "NODE_OPTIONS": "--max-old-space-size=4096",
    }
    assert request_report("npm test", OUT, environment, SCRIPTS).environment == {
        "PYTEST_ADDOPTS": f"-x {ADDOPTS}",
        "NODE_OPTIONS": " ".join(("--max-old-space-size=4096", *NODE)),
    }


@table("script", ["node --test --test-reporter=dot", "jest", "tsc --testing"])
def test_a_script_with_another_reporter_or_runner_gets_no_node_options(script: str) -> None:
    assert request_report("npm test", OUT, {}, {"test": script}) == ReportRequest(UNSEEN)


def test_a_folder_with_a_space_is_quoted_for_pytest() -> None:
    asked = request_report("pytest", "/out put", {}, {}).environment["PYTEST_ADDOPTS"]
    assert asked.endswith("--junitxml='/out put'/$PWD/pytest.xml")


def of(*cases: tuple[str, str | None]) -> CaseResults:
    outcome: CaseOutcome = "failed"
    return CaseResults.of("junit", (CaseResult(name, outcome, file) for name, file in cases), complete=True)


PY = of(("tests/test_a.py::test_b[x - y]", "tests/test_a.py"), ("tests/test_c.py::test_d", "tests/test_c.py"))
JS = of(("a.test.js > total > a/b (c)", "a.test.js"), ("b.test.js", "b.test.js"))
GO = of(("example.test/shop.TestA/x", None), ("example.test/shop.TestB", None), ("example.test/other", None))
RUST = of(("tests/shop.rs sums::a", "tests/shop.rs"), ("doc shop src/lib.rs - total", None))
NEXTEST = of(("shop::shop sums::a", None))
TAP = of(("group > a.b", None))

SELECTED: list[tuple[str, CaseResults, Sequence[str], Sequence[str]]] = [
    (
        "pytest -x -k b tests",
        PY,
        ["tests/test_a.py::test_b[x - y]"],
        ("pytest", "-x", "-k", "b", "tests/test_a.py::test_b[x - y]"),
    ),
    (
        "jest --ci a.test.js",
        JS,
        ["a.test.js > total > a/b (c)"],
        ("jest", "--ci", "-t", r"^(?:total\ a\/b\ \(c\))$", "--runTestsByPath", "a.test.js"),
    ),
    ("vitest", JS, ["b.test.js"], ("vitest", "run", "b.test.js")),
    (
        "go test -race -timeout 30s -run TestA ./...",
        GO,
        ["example.test/shop.TestA/x", "example.test/shop.TestB"],
        ("go", "test", "-race", "-timeout", "30s", "-count=1", "-run", "^(?:TestA|TestB)$", "example.test/shop"),
    ),
    (
        "go test -v -coverprofile out/c.out -coverpkg ./... ./...",
        GO,
        ["example.test/shop.TestA/x", "example.test/shop.TestB"],
        (
            "go",
            "test",
            "-v",
            "-coverprofile",
            "out/c.out",
            "-coverpkg",
            "./...",
            "-count=1",
            "-run",
            "^(?:TestA|TestB)$",
            "example.test/shop",
        ),
    ),
    ("cargo test", RUST, ["tests/shop.rs sums::a"], ("cargo", "test", "--", "--exact", "sums::a")),
    (
        "cargo nextest run",
        NEXTEST,
        ["shop::shop sums::a"],
        ("cargo", "nextest", "run", "-E", "test(=sums::a)"),
    ),
    (
        "node --test",
        TAP,
        ["group > a.b"],
        ("node", r"--test-name-pattern=^a\.b$", "--test-name-pattern=^group$", "--test"),
    ),
]
NOT_SELECTED: list[tuple[str, CaseResults, Sequence[str]]] = [
    ("make test", PY, ["tests/test_c.py::test_d"]),
    ("npm test", JS, ["b.test.js"]),
    ("pytest", PY, ["tests/test_c.py::test_unknown"]),
    ("pytest", PY, []),
    ("go test ./...", GO, ["example.test/other"]),
    ("cargo test", RUST, ["doc shop src/lib.rs - total"]),
    ("gotestsum", GO, ["example.test/shop.TestB"]),
    ("pytest", of(("t.py::" + "x" * 600, "t.py")), [of(("t.py::" + "x" * 600, "t.py")).cases[0].name]),
    ("pytest", of(*((f"t.py::t{n}", "t.py") for n in range(201))), [f"t.py::t{n}" for n in range(201)]),
]


@table(("command", "results", "names", "expected"), SELECTED, ids=[row[0] for row in SELECTED])
def test_some_tests_are_run_alone(
    command: str, results: CaseResults, names: list[str], expected: tuple[str, ...]
) -> None:
    assert select_tests(command, names, results, {}) == expected


@table(("command", "results", "names"), NOT_SELECTED, ids=[f"{row[0]} {len(row[2])}" for row in NOT_SELECTED])
def test_what_cannot_be_run_alone_is_not(command: str, results: CaseResults, names: list[str]) -> None:
    assert select_tests(command, names, results, SCRIPTS) is None
