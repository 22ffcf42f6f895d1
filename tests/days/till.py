"""A small till with two open acceptance criteria, and what the agents of an honest day do with it, good and bad."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

APP = "def total(prices):\n    return sum(prices)\n"
OFF = "\n\ndef off(price, percent):\n    return price - price * percent / 100\n"
WRONG_OFF = "\n\ndef off(price, percent):\n    return price - percent\n"
ROUNDED = "\n\ndef rounded(cents):\n    return (2 * cents + 5) // 10 * 5\n"
TOTAL_TEST = "from src.till import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
OFF_TEST = "def test_off():\n    from src.till import off\n\n    assert off(50, 10) == 45\n"
ROUNDED_TEST = (
    "def test_rounded():\n    from src.till import rounded\n\n    assert [rounded(3), rounded(12)] == [5, 10]\n"
)

RUNNER = """\
import pathlib, runpy, sys

sys.dont_write_bytecode = True
sys.path.insert(0, '.')
files = sorted(pathlib.Path('tests').glob('test_*.py'))
found = [each for path in files for each in runpy.run_path(str(path)).items()]
tests = [(name, test) for name, test in found if name.startswith('test_')]
print(f'TAP version 13\\n1..{len(tests)}')
red = 0
for number, (name, test) in enumerate(tests, start=1):
    try:
        test()
        print(f'ok {number} - {name}')
    except Exception as error:
        red = 1
        print(f'not ok {number} - {name}\\n# {error!r}')
sys.exit(red)
"""
"""Test cases by name in a twentieth of pytest's time: a day runs the tests a dozen times."""

FILES: Mapping[str, str] = {
    "src/__init__.py": "",
    "src/till.py": APP,
    "tests/test_till.py": TOTAL_TEST,
    "scripts/check.py": RUNNER,
    ".gitignore": "__pycache__/\n",
    ".swarm/config.yaml": "commands: {test: python -S scripts/check.py}\n",
}
MATRIX: Mapping[str, Any] = {
    "requirements": [
        {
            "id": "REQ-1",
            "description": "The till knows discounts, and coins.",
            "acceptance_criteria": [
                {"id": "AC-1", "criterion": "A discount is taken off in percent.", "test_cases": ["test_off"]},
                {"id": "AC-2", "criterion": "Cents are rounded to five.", "test_cases": ["test_rounded"]},
            ],
        }
    ]
}
BLOCKER = {
    "id": "AC-2",
    "fact": "no test shows that cents are rounded",
    "evidence": ["build/evidence/run_tests.json"],
}


def write(files: Mapping[str, str], **more: Any) -> dict[str, Any]:
    return {"write": dict(files), **more}


def doubts(*concerns: str) -> dict[str, Any]:
    return {"status": "UNVERIFIED", "can_further_iteration_help": "yes", "concerns": list(concerns)}


def done(*criteria: str) -> dict[str, str]:
    """`ac_status.json`, in which these are."""
    entries = [
        {"id": name, "status": "done" if name in criteria else "open", "evidence": ""} for name in ("AC-1", "AC-2")
    ]
    return {"RUN_BASE/build/ac_status.json": json.dumps({"criteria": entries})}


def verdict(said: str, *blockers: Mapping[str, Any]) -> dict[str, Any]:
    decided = {"verdict": said, "reason": "the criteria", **({"blockers": blockers} if blockers else {})}
    return write({"RUN_BASE/gate/merge_decision.json": json.dumps(decided)})


BAD_DAY: Mapping[str, Any] = {
    "signal/critique_reqs": [doubts("R-1: percent of what?"), doubts("R-2: whose coins?"), {"status": "VERIFIED"}],
    "plan/plan_tests": write({"RUN_BASE/plan/ac_matrix.json": json.dumps(MATRIX)}),
    "build/author_tests": [
        write({"tests/test_off.py": OFF_TEST}),
        {"summary": "nothing for AC-2 yet"},
        write({"tests/test_rounded.py": ROUNDED_TEST}),
    ],
    "build/implement": [
        write({"src/till.py": APP + WRONG_OFF, **done()}),
        write({"src/till.py": APP + OFF, **done("AC-1")}),
        {"summary": "nothing for AC-2 yet"},
        write({"src/till.py": APP + OFF + ROUNDED, **done("AC-1", "AC-2")}),
    ],
    "gate/decide_merge": [verdict("BOUNCE_BUILD", BLOCKER), verdict("MERGE")],
}
"""Requirements are bounced twice, the tests are red once, and a criterion is open when the Gate looks first."""

GOOD_DAY: Mapping[str, Any] = {
    "plan/plan_tests": BAD_DAY["plan/plan_tests"],
    "build/author_tests": write({"tests/test_off.py": OFF_TEST, "tests/test_rounded.py": ROUNDED_TEST}),
    "build/implement": write({"src/till.py": APP + OFF + ROUNDED, **done("AC-1", "AC-2")}),
    "gate/decide_merge": verdict("MERGE"),
}
"""Nothing goes wrong, and it lands."""
