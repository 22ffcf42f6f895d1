"""Agents on small projects with real tests, played through the product: what is left of their work at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from shutil import which
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from tests.conftest import Project
from tests.in_process import Answer
from tests.projects import ask
from tests.unseen import unseen

PYTEST = "python -m pytest -q -p no:cacheprovider"
WORK = ".swarm/flows/work.yaml"
FLOW = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: test}
"""
ONLY_WRITE = FLOW.partition("  - {id: test")[0]
APP = "def total(prices):\n    return sum(prices)\n\n\ndef tax(price):\n    return price * 2\n"
BROKEN = APP.replace("sum(prices)", "0")
MORE = APP + "\n\ndef off(price):\n    return price - 1\n"
TOTAL = "def test_total():\n    assert total([1, 2]) == 3\n"
TAX = "def test_tax():\n    assert tax(2) == 4\n"
OFF = "def test_off():\n    from app import off\n\n    assert off(2) == 1\n"
HEAD = "from app import tax, total\n\n\n"
WITH_SETUP = "commands: {test: sh check.sh}\nworktree: {setup: sh tools/setup.sh}\n"
ONLY_TAX = f"from app import tax\n\n\n{TAX}"
TESTS = f"{HEAD}{TOTAL}\n\n{TAX}"
BASE: Mapping[str, str] = {
    "app.py": APP,
    "tests/test_app.py": TESTS,
    "conftest.py": "",
    "check.sh": f"{PYTEST}\n",
    WORK: FLOW,
    ".swarm/config.yaml": "commands: {test: sh check.sh}\n",
}

Entry = Mapping[str, Any]
"""What the stub plays as one execution of a step (docs/scripts.md)."""


@dataclass(frozen=True)
class Story:
    """
    :ivar does: of the step `write`: one entry per execution, the last one repeats; shell lines come past the policy.
    :ivar files: of the base, beside and in place of `BASE`; None: it has none.
    :ivar others: entries of other steps.
    :ivar flows: what is started, in order.
    :ivar blocking: ids of every blocking concern that is open at the end.
    :ivar warns: ids of warnings that are open at the end; `*` is any part of one.
    :ivar needs: a program without which it cannot be played.
    """

    does: Sequence[Entry]
    files: Mapping[str, str | None] = field(default_factory=dict)
    others: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    flows: tuple[str, ...] = ("work",)
    blocking: frozenset[str] = frozenset()
    warns: frozenset[str] = frozenset()
    needs: str = "git"

    @property
    def at_a_step(self) -> frozenset[str]:
        """Concerns about what the agent's step did, by that alone."""
        return frozenset(each for each in self.blocking if each.endswith("/write"))

    def commit_base(self, project: Project) -> None:
        files = {name: text for name, text in {**BASE, **self.files}.items() if text is not None}
        project.commit(files)

    def start(self, project: Project, *options: str) -> Answer:
        steps = {"write": list(self.does), **{step: list(entries) for step, entries in self.others.items()}}
        script = project.script(unseen(json.dumps({"steps": steps})))
        return ask(project, "start", *self.flows, "--script", script, "--allow-stub", *options)


@dataclass(frozen=True)
class Ended:
    """The newest run as `list` tells it."""

    run: str
    state: str
    blocking: frozenset[str]
    warnings: frozenset[str]


def newest(project: Project) -> Ended:
    found = project.json("list")[0]
    concerns = found["open_concerns"]
    told = {
        blocks: frozenset(each["id"] for each in concerns if each["blocking"] is blocks) for blocks in (True, False)
    }
    return Ended(found["run_id"], found["state"], told[True], told[False])


def _xfail(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


def _playable(story: Story) -> pytest.MarkDecorator:
    return pytest.mark.skipif(which(story.needs) is None, reason=f"{story.needs} is not installed")


def rows(faults: Mapping[str, str], *tables: Mapping[str, Story]) -> list[ParameterSet]:
    """
    :param faults: names of stories that do not end as they have to, and why.
    """
    every = {name: story for table in tables for name, story in table.items()}
    return [
        pytest.param(story, id=name, marks=[_playable(story), *([_xfail(faults[name])] if name in faults else [])])
        for name, story in every.items()
    ]


def only_write(stories: Mapping[str, Story]) -> dict[str, Story]:
    """The same in a flow without tests, where a story has no flow of its own: only the agent's step is judged."""
    return {name: replace(each, files={WORK: ONLY_WRITE, **each.files}) for name, each in stories.items()}


def missing(wanted: frozenset[str], found: frozenset[str]) -> list[str]:
    """Patterns that nothing fits."""
    return [each for each in sorted(wanted) if not any(fnmatchcase(one, each) for one in found)]


def write(files: Mapping[str, str], *, delete: Sequence[str] = (), **more: Any) -> Entry:
    return {"write": dict(files), "delete": list(delete), **more}


NO_APP: Mapping[str, None] = {"app.py": None, "tests/test_app.py": None, "conftest.py": None}
NODE: Mapping[str, str] = {
    "app.js": "exports.total = prices => prices.reduce((a, b) => a + b, 0);\n",
    "test/app.test.js": "const {test} = require('node:test');\nconst assert = require('node:assert');\n"
    "const {total} = require('../app.js');\ntest('total', () => { assert.equal(total([1, 2]), 3); });\n",
    "package.json": '{"name": "app", "scripts": {"test": "node --test"}}\n',
    ".swarm/config.yaml": "commands: {test: npm test --silent}\n",
}
RUST: Mapping[str, str] = {
    "Cargo.toml": '[package]\nname = "till"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "pub fn total(prices: &[u32]) -> u32 {\n    prices.iter().sum()\n}\n",
    "tests/till.rs": "#[test]\nfn adds() {\n    assert_eq!(till::total(&[1, 2]), 3);\n}\n",
    ".gitignore": "target/\nCargo.lock\n",
    ".swarm/config.yaml": "commands: {test: cargo test --offline --test till}\n",
}
GO_TEST = """\
import json, pathlib, re, sys

for path in sorted(pathlib.Path().rglob('*_test.go')):
    package = {'Package': f'example.test/{path.parent.as_posix()}'}
    for name in re.findall(r'func (Test\\w+)', path.read_text()):
        for action in ('run', 'pass'):
            print(json.dumps({**package, 'Time': '2026-01-01T00:00:00Z', 'Action': action, 'Test': name}))
    print(json.dumps({**package, 'Time': '2026-01-01T00:00:00Z', 'Action': 'pass', 'Elapsed': 0.01}))
"""
GO: Mapping[str, str] = {
    "go.mod": "module example.test\n\ngo 1.22\n",
    "till/till.go": "package till\n\nfunc Total(a, b int) int { return a + b }\n",
    "till/till_test.go": 'package till\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) {\n'
    '\tif Total(1, 2) != 3 {\n\t\tt.Fatal("wrong")\n\t}\n}\n',
    "scripts/go_test.py": GO_TEST,
    ".swarm/config.yaml": "commands: {test: python scripts/go_test.py}\n",
}
"""What `go test -json` prints, by a program that is there."""

OWN_RUNNER: Mapping[str, str] = {
    ".swarm/config.yaml": "commands: {test: python scripts/run.py}\n",
    "scripts/run.py": """\
import pathlib, runpy, sys

sys.path.insert(0, '.')
cases = []
for path in sorted(pathlib.Path('tests').glob('test_*.py')):
    for name, test in runpy.run_path(str(path)).items():
        if name.startswith('test_'):
            try:
                test()
                failure = ''
            except AssertionError:
                failure = '<failure/>'
            cases.append(f'<testcase classname="{path.stem}" name="{name}" file="{path}">{failure}</testcase>')
pathlib.Path('report.xml').write_text(f'<testsuite name="own" tests="{len(cases)}">{"".join(cases)}</testsuite>')
sys.exit(any('<failure' in case for case in cases))
""",
}
"""Its report lies in the tree, and cannot be asked for."""

MATRIX: Mapping[str, Any] = {
    "requirements": [
        {
            "id": "REQ-001",
            "description": "a till",
            "acceptance_criteria": [{"id": "AC-001-1", "criterion": "It rounds."}],
            "test_cases": [],
        }
    ]
}
CRITERIA: Mapping[str, str] = {
    WORK: FLOW.replace(
        "code-implementer", "code-implementer, teaching: {outputs: [plan/ac_matrix.json, build/ac_status.json]}"
    ),
    ".swarm/flows/build.yaml": "id: build\nsteps:\n  - {id: close, station: build-cleanup}\n",
}
"""Flows whose criteria count: `write` may leave a matrix, and `build` owes how far its criteria are."""


def criterion(test: str, files: Mapping[str, str] = {}, *, status_of: str = "AC-001-1") -> Entry:
    """The agent writes these files, and says that a criterion is done by this test.

    :param status_of: the criterion that it speaks of.
    """
    matrix = json.loads(json.dumps(MATRIX))
    matrix["requirements"][0]["test_cases"] = [test]
    status = {"criteria": [{"id": status_of, "status": "done", "evidence": test}]}
    return write(
        {
            "RUN_BASE/plan/ac_matrix.json": json.dumps(matrix),
            "RUN_BASE/build/ac_status.json": json.dumps(status),
            "app.py": MORE,
            **files,
        }
    )
