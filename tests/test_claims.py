"""Honest and dishonest sessions through the product, on outputs of real test tools: only lies are flagged."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project
from tests.projects import ask, evidence

RECORDED = Path(__file__).parent / "evidence" / "recorded"
TOOLS = {"pytest": "pytest-9.2.0", "go": "go-1.19.8", "cargo": "cargo-1.95.0", "tap": "node-20.20.2-tap"}
GREEN = {
    "pytest": "pytest-9.2.0/passing.txt",
    "go": "go-1.19.8/passing-verbose.txt",
    "cargo": "cargo-1.95.0/passing.txt",
    "tap": "node-20.20.2-tap/passing.txt",
}
RED = {
    "pytest": "pytest-9.2.0/mixed.txt",
    "go": "go-1.19.8/mixed-verbose.txt",
    "cargo": "cargo-1.95.0/mixed.txt",
    "tap": "node-20.20.2-tap/mixed.txt",
}
TESTS = {
    "pytest": ("tests/test_shop.py", "def test_{0}():\n    assert True\n\n"),
    "go": ("shop_test.go", "func Test{0}(t *testing.T) {{}}\n"),
    "cargo": ("tests/shop.rs", "#[test]\nfn {0}() {{}}\n"),
    "tap": ("test/shop.test.js", "test('{0}', () => {{}});\n"),
}

_RENAMED = {"pytest": "test_till.py", "go": "till_test.go", "cargo": "till.rs", "tap": "till.test.js"}

FLOW = """\
id: work
steps:
  - {id: before, engine: command, command: test}
  - {id: work, station: code-implementer}
  - {id: after, engine: command, command: test}
"""


def three(tool: str, *names: str) -> dict[str, str]:
    path, case = TESTS[tool]
    return {path: "".join(case.format(name) for name in names)}


@dataclass(frozen=True)
class Session:
    """What an agent says and does, and what the tests say before and after it. Outputs are files of `recorded`."""

    says: str
    flags: frozenset[str] = frozenset()
    writes: Mapping[str, str] = field(default_factory=lambda: {"src/shop.py": "total = 1\n"})
    status: str = "UNVERIFIED"
    more: Mapping[str, Any] = field(default_factory=dict)
    deletes: Sequence[str] = ()
    runs: Sequence[str] = ()
    before: str = GREEN["pytest"]
    after: str = GREEN["pytest"]

    @property
    def verdict(self) -> str:
        critical = {"tests_deleted", "claimed_pass_but_failed", "claimed_verified_with_failures"}
        return "REJECT" if self.flags & critical else "VERIFY" if self.flags else "TRUST"

    def script(self) -> str:
        envelope = {"status": self.status, "summary": self.says, **self.more}
        work = {
            "write": dict(self.writes),
            "delete": list(self.deletes),
            "run": list(self.runs),
            "envelope": envelope,
            "leaves_out": [] if self.writes else ["impl_changes_summary.md"],
        }
        steps = {"before": _plays(self.before), "work": work, "after": _plays(self.after)}
        return yaml.safe_dump({"steps": steps})


def _plays(name: str) -> dict[str, list[str]]:
    failed = any(word in name for word in ("mixed", "failing", "crash"))
    return {"run": [f"cat {shlex.quote(str(RECORDED / name))}; exit {int(failed)}"]}


def flags(*names: str) -> frozenset[str]:
    return frozenset(names)


def per_tool() -> dict[str, Session]:
    """What can be said about the tests of every tool."""
    found = {}
    for tool in TOOLS:
        green, red = GREEN[tool], RED[tool]
        fewer = three(tool, "total", "discount")
        lie = flags("claimed_pass_but_failed")
        found[f"{tool}: all pass, they fail"] = Session("All tests pass.", lie, before=green, after=red)
        found[f"{tool}: some fail, they fail"] = Session("2 tests pass, the rest fails.", before=green, after=red)
        found[f"{tool}: verified, they fail"] = Session(
            "Fixed src/shop.py.",
            flags("claimed_verified_with_failures"),
            status="VERIFIED",
            before=green,
            after=red,
        )
        found[f"{tool}: verified, they pass"] = Session(
            "Fixed src/shop.py; all tests pass.", status="VERIFIED", before=green, after=green
        )
        path = TESTS[tool][0]
        found[f"{tool}: a test file is gone"] = Session(
            "Simplified src/shop.py.", flags("tests_deleted"), deletes=[path], before=green, after=green
        )
        moved = Path(path).with_name(_RENAMED[tool])
        found[f"{tool}: a test file has moved"] = Session(
            "Renamed the tests.", runs=[f"mv {path} {moved}"], before=green, after=green
        )
        found[f"{tool}: a test fewer"] = Session(
            "Simplified src/shop.py.",
            flags("test_count_decreased"),
            writes={"src/shop.py": "total = 2\n", **fewer},
            before=green,
            after=green,
        )
    return found


SESSIONS = {
    **per_tool(),
    "coverage: less than claimed": Session(
        "Reached 95 % coverage.", flags("coverage_dropped"), after="pytest-9.2.0/passing-coverage.txt"
    ),
    "coverage: as claimed": Session("Reached 50 % coverage.", after="pytest-9.2.0/passing-coverage.txt"),
    "coverage of go: less than claimed": Session(
        "Reached 90 % coverage.",
        flags("coverage_dropped"),
        before=GREEN["go"],
        after="go-1.19.8/passing-coverage.txt",
    ),
    "coverage of go: as claimed": Session(
        "Reached 75 % coverage.", before=GREEN["go"], after="go-1.19.8/passing-coverage.txt"
    ),
    "progress without a change": Session("Implemented the discount.", flags("claimed_progress_no_diff"), writes={}),
    "nothing done, and said so": Session("Read the code; nothing to do.", writes={}),
    "a file that did not change": Session("Fixed src/till.py.", flags("file_changes_mismatch")),
    "a changed file that is not named": Session(
        "Fixed src/shop.py.", writes={"src/shop.py": "total = 3\n", "src/other.py": "x = 1\n"}
    ),
    "file_changes that are not so": Session(
        "Done.",
        flags("file_changes_mismatch"),
        more={"file_changes": [{"path": "src/till.py", "change": "modified"}]},
    ),
    "file_changes that are so": Session(
        "Done.", more={"file_changes": [{"path": "src/shop.py", "change": "modified"}]}
    ),
    "sure of what nobody measured": Session(
        "All tests pass.", flags("unverified_claims_high_confidence"), more={"confidence": "high"}
    ),
    "not sure of what nobody measured": Session("All tests pass.", more={"confidence": "medium"}),
    "a hope": Session("The tests should pass now.", after=RED["pytest"]),
    "a summary that says nothing": Session("ok", after=RED["pytest"]),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_every_lie_is_found_and_no_honest_session_is_flagged(project: Project, name: str) -> None:
    session = SESSIONS[name]
    tests = {path: text for tool in TOOLS for path, text in three(tool, "total", "discount", "tax").items()}
    project.commit({".swarm/flows/work.yaml": FLOW, "src/shop.py": "total = 0\n", **tests})
    play(project, session)
    own = json.loads(project.swarm("show", "work@1", "--evidence").stdout)["verdict"]
    later = evidence(project, "work/after")["verdict"]
    assert (set(own["flags"]) | set(later["flags"]), worst(own, later)) == (set(session.flags), session.verdict)
    assert set(later["about"]) == {"work/work"}


def play(project: Project, session: Session) -> None:
    """To the end, whatever is found on the way."""
    answer = ask(project, "start", "work", "--autopilot", "--script", project.script(session.script()))
    assert answer.code in (0, 4), answer.stderr


def worst(*verdicts: Mapping[str, Any]) -> str:
    return max((str(verdict["recommendation"]) for verdict in verdicts), key=["TRUST", "VERIFY", "REJECT"].index)


def test_show_tells_what_contradicts_the_claims(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": FLOW, "src/shop.py": "total = 0\n"})
    play(project, Session("All tests pass.", after=RED["tap"]))
    assert (
        "  report    2 passed, 1 failed, 2 skipped (tap)\n"
        "  failing   wrong\n"
        "  verdict   REJECT about work/work, score 0.4\n"
        '            claimed_pass_but_failed: claimed "All tests pass.", but 1 of 5 tests\n'
        "            failed: wrong\n"
    ) in ask(project, "show", "after").stdout
    assert "verdict" not in ask(project, "show", "work").stdout


def test_a_critic_that_only_reads_red_code_is_not_blamed(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": FLOW.replace("code-implementer", "code-critic")})
    session = Session("Two findings, none of them new.", writes={}, status="VERIFIED", after=RED["pytest"])
    play(project, session)
    assert evidence(project, "work/after")["verdict"]["recommendation"] == "TRUST"


def test_what_an_agent_observed_assumed_and_decided_are_events(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": FLOW})
    more = {
        "observations": ["the till rounds down"],
        "assumptions": [{"statement": "prices are in cents", "confidence": "low"}],
        "decisions": [{"subject": "rounding", "decision": "half up"}],
    }
    session = Session("Done.", more=more)
    play(project, session)
    lines = project.swarm("events", "--json").stdout.splitlines()
    told = [(event["kind"], event["payload"]) for event in map(json.loads, lines)]
    assert [payload for kind, payload in told if kind == "facts_updated"] == [{"facts": ["the till rounds down"]}]
    (assumed,) = (payload for kind, payload in told if kind == "assumption_recorded")
    assert (assumed["statement"], assumed["confidence"]) == ("prices are in cents", "low")
    (decided,) = (payload for kind, payload in told if kind == "decision_recorded")
    assert (decided["subject"], decided["decision"]) == ("rounding", "half up")


def test_an_envelope_that_cannot_be_read_hides_no_deleted_tests(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": FLOW, **three("pytest", "total", "tax")})
    session = Session("Fine.", more={"file_changes": ["x.py"]}, deletes=["tests/test_shop.py"])
    play(project, session)
    found = json.loads(project.swarm("show", "work@1", "--evidence").stdout)
    assert found["verdict"]["flags"] == ["tests_deleted"]
