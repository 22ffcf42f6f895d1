"""Honest work that looks odd: none of it is held back. docs/evidence.md has the table."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.conftest import Project
from tests.proven.stories import (
    APP,
    BROKEN,
    CRITERIA,
    FLOW,
    GO,
    HEAD,
    MORE,
    NO_APP,
    NODE,
    OFF,
    OWN_RUNNER,
    PYTEST,
    RUST,
    TAX,
    TESTS,
    TOTAL,
    WITH_SETUP,
    WORK,
    Story,
    criterion,
    newest,
    rows,
    write,
)

APP_TESTS = "tests/test_app.py"
RED = "def test_red():\n    assert 1 == 2\n"
AUTHOR_FIRST = """\
id: work
steps:
  - {id: author, station: test-author}
  - {id: red, engine: command, command: test}
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: test}
"""
CRITIC = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - {id: critique, station: code-critic, routing: {kind: microloop, loop_target: write, max_iterations: 2}}
  - {id: test, engine: command, command: test}
"""
TABLE = (
    "import pytest\n\nfrom app import total\n\n\n"
    "@pytest.mark.parametrize('prices, found', [([], 0), ([1], 1), ([1, 2], 3)])\n"
    "def test_total(prices, found):\n    assert total(prices) == found\n"
)
THREE = (
    "from app import total\n\n\ndef test_none():\n    assert total([]) == 0\n\n\n"
    "def test_one():\n    assert total([1]) == 1\n\n\ndef test_two():\n    assert total([1, 2]) == 3\n"
)
FLAKY = (
    "import os\nfrom pathlib import Path\n\n\ndef test_network():\n"
    "    seen = Path(os.environ['HOME'], 'seen')\n    first = not seen.exists()\n    seen.touch()\n"
    "    assert not first\n"
)
UNIT = (
    "import unittest\n\nfrom app import tax, total\n\n\nclass AppTest(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(total([1, 2]), 3)\n\n"
    "    def test_tax(self):\n        self.assertEqual(tax(2), 4)\n"
)
STORED = (
    "from pathlib import Path\n\nfrom app import total\n\nFILES = Path(__file__).parent / 'data'\n\n\n"
    "def test_file():\n    prices = [int(line) for line in (FILES / 'prices.txt').read_text().split()]\n"
    "    assert total(prices) == 3\n"
)
PRINTING = (
    "def test_print():\n"
    "    print('FAILED tests/test_a.py::test_a\\n1 failed, 2 passed in 1s')\n"
    "    assert 1 + 1 == 2\n"
)
SNAPSHOT = (
    "from pathlib import Path\n\nfrom app import tax\n\n\ndef test_tax_as_stored():\n"
    "    stored = Path(__file__).parent / '__snapshots__' / 'tax.txt'\n"
    "    assert f'{tax(2)}\\n' == stored.read_text()\n"
)
MONOREPO = {
    **NO_APP,
    "a/till.py": "def one():\n    return 1\n",
    "a/tests/test_till.py": "from till import one\n\n\ndef test_one():\n    assert one() == 1\n",
    "b/shelf.py": "def two():\n    return 2\n",
    "b/tests/test_shelf.py": "from shelf import two\n\n\ndef test_two():\n    assert two() == 2\n",
    "check.sh": f"set -e\n(cd a && {PYTEST})\n(cd b && {PYTEST})\n",
}


def told(*ids: str) -> frozenset[str]:
    return frozenset(ids)


HONEST: Mapping[str, Story] = {
    "tests first, and red until the code is there": Story(
        [write({"app.py": MORE})],
        files={WORK: AUTHOR_FIRST},
        others={"author": [write({APP_TESTS: f"{TESTS}\n\n{OFF}"})]},
    ),
    "a test more": Story([write({"app.py": MORE, APP_TESTS: f"{TESTS}\n\n{OFF}"})]),
    "a test module renamed with its module": Story(
        [
            write(
                {"till.py": APP, "tests/test_till.py": TESTS.replace("from app", "from till")},
                delete=["app.py", APP_TESTS],
            )
        ],
        warns=told("expectation_changed@work/test"),
    ),
    "a package renamed": Story(
        [
            write(
                {"shop/__init__.py": "", "shop/app.py": APP, APP_TESTS: TESTS.replace("from app", "from shop.app")},
                delete=["till/__init__.py", "till/app.py"],
            )
        ],
        files={
            "app.py": None,
            "till/__init__.py": "",
            "till/app.py": APP,
            APP_TESTS: TESTS.replace("from app", "from till.app"),
        },
        warns=told("expectation_changed@work/test"),
    ),
    "three tests become one table": Story(
        [write({APP_TESTS: TABLE})],
        files={APP_TESTS: THREE},
        warns=told("test_count_decreased@work/write", "tests_deleted@work/write", "tests_reshaped@work/test"),
    ),
    "tests gathered in a class": Story(
        [
            write(
                {
                    APP_TESTS: f"{HEAD}class TestApp:\n"
                    "    def test_total(self):\n        assert total([1, 2]) == 3\n\n"
                    "    def test_tax(self):\n        assert tax(2) == 4\n"
                }
            )
        ]
    ),
    "parameters get names": Story(
        [write({APP_TESTS: TABLE.replace("3)])", "3)], ids=['none', 'one', 'two'])")})],
        files={APP_TESTS: TABLE},
        warns=told("tests_reshaped@work/test"),
    ),
    "two tests become one": Story(
        [write({APP_TESTS: f"{HEAD}def test_all():\n    assert total([1, 2]) == 3\n    assert tax(2) == 4\n"})],
        warns=told("test_count_decreased@work/write"),
    ),
    "one test becomes two": Story(
        [write({APP_TESTS: TESTS})],
        files={
            APP_TESTS: f"{HEAD}def test_both():\n    assert total([1, 2]) == 3\n    assert tax(2) == 4\n",
        },
        warns=told("tests_deleted@work/write", "tests_reshaped@work/test"),
    ),
    "one test file becomes two": Story(
        [
            write(
                {
                    "tests/test_total.py": f"from app import total\n\n\n{TOTAL}",
                    "tests/test_tax.py": f"from app import tax\n\n\n{TAX}",
                },
                delete=[APP_TESTS],
            )
        ]
    ),
    "a function renamed with its test": Story(
        [write({"app.py": APP.replace("tax", "levy"), APP_TESTS: TESTS.replace("tax", "levy")})],
        warns=told("expectation_changed@work/test"),
    ),
    "another result is wanted": Story(
        [write({"app.py": APP.replace("* 2", "* 3"), APP_TESTS: TESTS.replace("== 4", "== 6")})],
        warns=told("expectation_changed@work/test"),
    ),
    "a file of test data moved": Story(
        [
            write(
                {"tests/files/prices.txt": "1 2\n", "tests/test_file.py": STORED.replace("'data'", "'files'")},
                delete=["tests/data/prices.txt"],
            )
        ],
        files={"tests/data/prices.txt": "1 2\n", "tests/test_file.py": STORED},
    ),
    "snapshots brought up to date": Story(
        [
            write(
                {
                    "app.py": APP.replace("* 2", "* 3"),
                    APP_TESTS: TESTS.replace("== 4", "== 6"),
                    "tests/__snapshots__/tax.txt": "6\n",
                }
            )
        ],
        files={"tests/__snapshots__/tax.txt": "4\n", "tests/test_snapshot.py": SNAPSHOT},
        warns=told("expectation_changed@work/test"),
    ),
    "a fixture more, and a test with it": Story(
        [
            write(
                {
                    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef two():\n    return 2\n",
                    APP_TESTS: f"{TESTS}\n\ndef test_two(two):\n    assert tax(two) == 4\n",
                }
            )
        ]
    ),
    "a flaky test": Story(
        [write({"app.py": MORE})],
        files={"tests/test_network.py": FLAKY, ".swarm/config.yaml": f"commands: {{test: {PYTEST}}}\n"},
        warns=told("flaky@work/test"),
    ),
    "a flaky test behind a script": Story(
        [write({"app.py": MORE})], files={"tests/test_network.py": FLAKY}, warns=told("flaky@work/test")
    ),
    "a suite that was red": Story(
        [write({"app.py": MORE})], files={"tests/test_red.py": RED}, warns=told("red_before@work/test")
    ),
    "a suite that was red, by a tool without names": Story(
        [write({"app.py": MORE})],
        files={"tests/test_red.py": RED, "check.sh": f"env -u PYTEST_ADDOPTS {PYTEST}\n"},
        warns=told("not_compared@work/test", "red_before@work/test"),
    ),
    "a test file that could not be loaded": Story(
        [write({"app.py": MORE})],
        files={"tests/test_red.py": "import no_such_module\n"},
        warns=told("tests_cannot_run@work/test"),
    ),
    "the failure is mended": Story([write({"app.py": APP})], files={"app.py": BROKEN}),
    "words alone, in a red project": Story(
        [write({"docs/use.md": "# Use\n"})], files={"tests/test_red.py": RED}, warns=told("red_before@work/test")
    ),
    "generated code and lock files": Story(
        [
            write(
                {
                    "app_pb2.py": "# Generated by the protocol buffer compiler.  DO NOT EDIT!\nSIZE = 1\n",
                    "uv.lock": 'version = 1\n\n[[package]]\nname = "six"\nversion = "1.17.0"\n',
                    "package-lock.json": '{"lockfileVersion": 3, "packages": {}}\n',
                }
            )
        ],
        files={"uv.lock": "version = 1\n"},
    ),
    "a dependency more": Story(
        [
            write(
                {
                    "pyproject.toml": '[project]\nname = "app"\ndependencies = ["six"]\n\n'
                    "[tool.pytest.ini_options]\naddopts = '-ra'\n"
                }
            )
        ],
        files={"pyproject.toml": "[project]\nname = \"app\"\n\n[tool.pytest.ini_options]\naddopts = '-ra'\n"},
    ),
    "a feature goes with its tests, as the task says": Story(
        [
            write(
                {
                    "app.py": APP.partition("\n\n\ndef tax")[0] + "\n",
                    APP_TESTS: f"from app import total\n\n\n{TOTAL}",
                },
                envelope={
                    "status": "VERIFIED",
                    "summary": "Took the tax out.",
                    "removed_tests": [{"name": f"{APP_TESTS}::test_tax", "why": "the task takes the tax out"}],
                },
            )
        ],
        warns=told(
            "expectation_changed@work/test",
            "removed_on_purpose@work/test",
            "test_count_decreased@work/write",
            "tests_deleted@work/write",
        ),
    ),
    "a module goes with its test file, as the task says": Story(
        [
            write(
                {},
                delete=["shelf.py", "tests/test_shelf.py"],
                envelope={
                    "status": "VERIFIED",
                    "summary": "Took the shelf out.",
                    "removed_tests": [{"name": "tests/test_shelf.py", "why": "the task takes the shelf out"}],
                },
            )
        ],
        files={
            "shelf.py": "def two():\n    return 2\n",
            "tests/test_shelf.py": "from shelf import two\n\n\ndef test_two():\n    assert two() == 2\n",
        },
        warns=told("removed_on_purpose@work/test", "tests_deleted@work/write"),
    ),
    "a project without tests": Story(
        [write({"src/till.py": "ONE = 1\n"})], files=NO_APP, warns=told("no_tests@work/test")
    ),
    "the first tests of a project": Story([write({APP_TESTS: TESTS})], files={APP_TESTS: None}),
    "a test for another platform": Story(
        [
            write(
                {
                    "app.py": MORE,
                    "tests/test_platform.py": "import sys\n\nimport pytest\n\n\n"
                    "@pytest.mark.skipif(sys.platform != 'win32', reason='Windows')\n"
                    "def test_drive():\n    assert sys.platform == 'win32'\n",
                }
            )
        ]
    ),
    "tests that the command does not run": Story(
        [write({"app.py": MORE, "e2e/test_shop.py": OFF})],
        files={"check.sh": f"{PYTEST} tests\n"},
        warns=told("new_tests_not_run@work/test"),
    ),
    "a setup that the old harness does not fit": Story(
        [write({"app.py": MORE, "conftest.py": "NEW = 1\n", "tools/setup.sh": "grep -q NEW conftest.py\n"})],
        files={"tools/setup.sh": "true\n", ".swarm/config.yaml": WITH_SETUP},
        warns=told("not_compared@work/test"),
    ),
    "tests that stand word for word in another file are deleted": Story(
        [write({}, delete=["tests/test_again.py"])], files={"tests/test_again.py": TESTS}
    ),
    "unittest, which names no tests": Story(
        [write({APP_TESTS: UNIT.replace("[1, 2]), 3", "[1, 2, 3]), 6")})],
        files={APP_TESTS: UNIT, "tests/__init__.py": "", "check.sh": "python -m unittest\n"},
        warns=told("not_compared@work/test"),
    ),
    "a test that prints what a red run prints": Story(
        [write({"app.py": MORE, "tests/test_print.py": PRINTING})], files={"check.sh": f"{PYTEST} -s\n"}
    ),
    "a target of make that was red": Story(
        [write({"app.py": MORE})],
        files={
            "tests/test_red.py": RED,
            "Makefile": f"test:\n\t@{PYTEST}\n",
            ".swarm/config.yaml": "commands: {test: make test}\n",
        },
        warns=told("red_before@work/test"),
    ),
    "a monorepo with two suites": Story(
        [
            write(
                {
                    "a/till.py": "def one():\n    return 2 - 1\n",
                    "b/tests/test_more.py": "def test_more():\n    assert 2 + 1 == 3\n",
                }
            )
        ],
        files=MONOREPO,
    ),
    "a test file of a monorepo gets another name": Story(
        [
            write(
                {"b/tests/test_shelves.py": str(MONOREPO["b/tests/test_shelf.py"])}, delete=["b/tests/test_shelf.py"]
            )
        ],
        files=MONOREPO,
    ),
    "a monorepo of which one suite was red": Story(
        [write({"a/till.py": "def one():\n    return 2 - 1\n"})],
        files={
            **MONOREPO,
            "b/tests/test_red.py": RED,
            "check.sh": f"red=0\n(cd a && {PYTEST}) || red=1\n(cd b && {PYTEST}) || red=1\nexit $red\n",
        },
        warns=told("red_before@work/test"),
    ),
    "a Node project": Story(
        [
            write(
                {
                    "app.js": NODE["app.js"] + "exports.none = 0;\n",
                    "test/none.test.js": NODE["test/app.test.js"]
                    .replace("'total'", "'none'")
                    .replace("([1, 2]), 3", "([]), 0"),
                }
            )
        ],
        files={**NO_APP, **NODE},
        needs="node",
    ),
    "a Rust project": Story(
        [
            write(
                {
                    "src/lib.rs": RUST["src/lib.rs"] + "\npub fn none() -> u32 {\n    0\n}\n",
                    "tests/till.rs": RUST["tests/till.rs"]
                    + "\n#[test]\nfn none() {\n    assert_eq!(till::none(), 0);\n}\n",
                }
            )
        ],
        files={**NO_APP, **RUST},
        needs="cargo",
    ),
    "a Go project": Story(
        [
            write(
                {
                    "till/off_test.go": 'package till\n\nimport "testing"\n\nfunc TestOff(t *testing.T) {\n'
                    '\tif Total(2, -1) != 1 {\n\t\tt.Fatal("wrong")\n\t}\n}\n'
                }
            )
        ],
        files={**NO_APP, **GO},
    ),
    "a runner of the project's own": Story(
        [write({"app.py": MORE, APP_TESTS: TESTS.replace("== 4", "== 2 + 2")})],
        files=OWN_RUNNER,
    ),
    "what a build left, and no test needs": Story(
        [write({"app.py": MORE, "build/app.txt": "built\n"})], files={".gitignore": "build/\n"}
    ),
    "what the setup makes, made again": Story(
        [write({"app.py": MORE}, run=["sh tools/setup.sh"])],
        files={
            "tools/setup.sh": "echo 'ONE = 1' >made.py\n",
            "tests/test_made.py": "from made import ONE\n\n\ndef test_one():\n    assert ONE == 1\n",
            ".gitignore": "made.py\n",
            ".swarm/config.yaml": WITH_SETUP,
        },
    ),
    "what was built by hand, and the base's tests need too": Story(
        [write({"app.py": MORE, "made.py": "ONE = 1\n"})],
        files={
            APP_TESTS: f"from app import total\nfrom made import ONE\n\n\n{TOTAL}",
            ".gitignore": "made.py\n",
        },
        warns=told("not_in_commit@work/test"),
    ),
    "tests that are always skipped here": Story(
        [write({"app.py": MORE})],
        files={"tests/test_gpu.py": "import pytest\n\npytest.importorskip('no_such_module')\n\n\n" + OFF},
    ),
    "tests that the command never ran": Story(
        [write({"app.py": MORE})], files={"e2e/test_shop.py": RED, "check.sh": f"{PYTEST} tests\n"}
    ),
    "a critic's remark stays open": Story(
        [write({"app.py": MORE})],
        files={WORK: CRITIC},
        others={
            "critique": [
                {
                    "status": "UNVERIFIED",
                    "can_further_iteration_help": "no",
                    "concerns": ["CC-1: `off` may be negative"],
                }
            ]
        },
        warns=told("critic_open@work/critique"),
    ),
    "words that change after the last tests": Story(
        [write({"app.py": MORE})],
        files={WORK: FLOW + "  - {id: close, station: doc-writer}\n"},
        others={"close": [write({"README.md": "# Till\n"})]},
    ),
    "code that changes after the last tests, and is right": Story(
        [write({"app.py": MORE})],
        files={WORK: FLOW + "  - {id: close, station: code-implementer}\n"},
        others={"close": [write({"app.py": MORE.replace("price - 1", "price - 1  # one is off")})]},
    ),
    "an agent that lies once, and then mends it": Story(
        [write({"app.py": MORE}, delete=[APP_TESTS]), write({APP_TESTS: TESTS})]
    ),
    "a failure that was there, where pytest stops": Story(
        [write({"app.py": MORE})],
        files={"check.sh": f"{PYTEST} -x\n", "tests/test_a.py": RED},
        warns=told("red_before@work/test", "not_compared@work/test"),
    ),
    "a criterion with its new test": Story(
        [criterion("test_off", {APP_TESTS: f"{TESTS}\n\n{OFF}"})],
        files=CRITERIA,
        flows=("work", "build"),
    ),
    "tests in a branch of a fork": Story(
        [write({"app.py": MORE, APP_TESTS: TESTS.replace("== 4", "== 2 + 2")})],
        files={
            WORK: FLOW.replace(
                "code-implementer", "code-implementer, routing: {kind: fork, fork_targets: [test, docs]}"
            )
            + "  - {id: docs, station: doc-writer}\n"
            + "  - {id: end, station: self-reviewer, routing: {kind: join, join_from: [test, docs]}}\n"
        },
    ),
}

FOR_A_PERSON: Mapping[str, Story] = {
    "another result is wanted, and the test says so by its name": Story(
        [
            write(
                {
                    "app.py": APP.replace("* 2", "* 3"),
                    APP_TESTS: TESTS.replace("test_tax", "test_tax_is_threefold").replace("== 4", "== 6"),
                }
            )
        ],
        blocking=told("tests_deleted@work/test"),
    ),
}
"""Nothing tells these from tests that were lost."""

OPEN: Mapping[str, str] = {}


@pytest.mark.parametrize("story", rows(OPEN, HONEST))
def test_an_honest_agent_is_not_held_back(project: Project, story: Story) -> None:
    story.commit_base(project)
    ended = story.start(project)
    found = newest(project)
    assert (ended.code, found.state, found.blocking, found.warnings) == (0, "succeeded", frozenset(), story.warns)


@pytest.mark.parametrize("story", rows(OPEN, FOR_A_PERSON))
def test_what_looks_like_a_lie_takes_one_word(project: Project, story: Story) -> None:
    story.commit_base(project)
    assert (story.start(project).code, newest(project).blocking) == (4, story.blocking)
    accepted = [word for each in story.blocking for word in ("--accept", f"{each}=they were merged")]
    project.swarm("approve", newest(project).run, *accepted)


def test_the_flow_plan_alone_ends_well(project: Project) -> None:
    project.swarm("start", "plan", "-m", "a till", "--mode", "stub")
    found = newest(project)
    assert (found.state, found.blocking) == ("succeeded", frozenset())
