"""What stands below a step that ended badly: the end of a failed command's output, and why a status is capped."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest

from gitswarm.cli.console import tail
from tests.conftest import Project
from tests.projects import new_project, only_run
from tests.tables import table

TOKEN = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
FLOW = """\
id: f
steps:
  - {id: write, station: code-implementer, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: code-implementer}
  - {id: right, station: code-implementer}
  - {id: both, station: code-implementer, routing: {kind: join, join_from: [left, right]}}
  - {id: fine, engine: command, command: {run: "echo nobody asks"}}
  - {id: loud, engine: command, command: {run: "sh loud.sh"}}
"""
LOUD = f"""\
seq 1 30
printf '\\033[31mred\\033[0m\\n\\n  an indented line {"and more " * 40}\\n'
echo "key={TOKEN}" >&2
exit 3
"""
SCRIPT = """\
steps:
  write: {run: ["echo of its own; exit 1"]}
  left: {write: {same.txt: "left\\n"}}
  right: {write: {same.txt: "right\\n"}}
"""
CONFLICT = "its code is not on the branch: it conflicts with left in same.txt"
CAPPED = "limited by what it joins: left VERIFIED, right PARTIAL"
INDENTED = "  an indented line and more"
NUMBERS = [str(number) for number in range(24, 31)]


@dataclass(frozen=True)
class Watched:
    """A run and what was seen while it was executed."""

    project: Project
    seen: list[str]

    def shown(self, step: str) -> list[str]:
        return self.project.swarm("show", step).stdout.splitlines()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    project = new_project(tmp_path_factory.mktemp("below"))
    project.commit({".swarm/flows/f.yaml": FLOW, "loud.sh": LOUD})
    told = project.swarm("start", "f", "--script", project.script(SCRIPT), code=4).stderr.splitlines()
    return Watched(project, [re.sub(r"  [0-9.]+m?s$", "", line) for line in told[3:]])


def test_while_it_is_executed(watched: Watched) -> None:
    assert [line[:62].rstrip() for line in watched.seen[:-2]] == [
        "── f ──",
        "✓  1 write             ok",
        "     → left, right in parallel",
        "✓  2 left              ok",
        "right conflicts in same.txt: its code is left out",
        "!  3 right             ok",
        "!  4 both              ok",
        "     because limited by what it joins: left VERIFIED, right PA",
        "✓  5 fine              passed: echo nobody asks",
        "!  6 loud              failed (exit code 3): sh loud.sh",
        *(f"       {number}" for number in NUMBERS),
        "       red",
        "         an indented line and more and more and more and more",
        "       key=[REDACTED:github-token]",
    ]


@table(("step", "because"), [("right", CONFLICT), ("both", CAPPED), ("left", None), ("loud", None)])
def test_show_says_why(watched: Watched, step: str, because: str | None) -> None:
    said = [line for line in watched.shown(step) if line.startswith("  because ")]
    assert said == ([f"  because   {because}"] if because else [])


def test_log_says_why_below_what_is_not_verified(watched: Watched) -> None:
    lines = watched.project.swarm("log").stdout.splitlines()
    below = [(lines[number - 1].split()[2], line) for number, line in enumerate(lines) if "because" in line]
    assert below == [("right", f"      because {CONFLICT}"), ("both", f"      because {CAPPED}")]


def test_show_has_the_end_of_what_failed(watched: Watched) -> None:
    lines = watched.shown("loud")
    first = lines.index("  output    24")
    said = [line[12:] for line in lines[first : first + 10]]
    assert (said[:8], said[8].startswith(INDENTED), said[9]) == (
        [*NUMBERS, "red"],
        True,
        "key=[REDACTED:github-token]",
    )
    assert lines[first + 10].startswith("  led to ")
    assert watched.project.json("show", "loud")["output"] == said


@table("step", ["write", "fine", "both"])
def test_what_did_not_fail_and_what_agents_call_has_none(watched: Watched, step: str) -> None:
    """Of their own calls many fail on the way."""
    assert watched.project.json("show", step)["output"] is None
    assert [line for line in watched.shown(step) if line.startswith("  output ")] == []


def test_whoever_follows_the_events_reads_the_reason(watched: Watched) -> None:
    events = map(json.loads, watched.project.swarm("events", only_run(watched.project), "--json").stdout.splitlines())
    reasons = {
        event["step_id"]: event["payload"]["status_reason"]
        for event in events
        if event["kind"] == "step_end" and "status_reason" in event["payload"]
    }
    assert reasons == {"both": CAPPED}


def test_the_tail_of_tap_is_what_went_wrong() -> None:
    """Node counts at the end what the report says anyway."""
    counts = "".join(f"# {name} 1\n" for name in ("tests", "suites", "pass", "fail", "cancelled", "skipped", "todo"))
    frame = "  ---\n  duration_ms: 20.1\n  type: 'test'\n  failureType: 'testCodeFailure'\n  exitCode: 1\n"
    broken = f"TAP version 13\n# index.js:2\n# throw 1\nnot ok 1 - a.test.js\n{frame}  ...\n1..1\n{counts}"
    assert tail(f"{broken}# duration_ms 2\n") == ["# index.js:2", "# throw 1", "not ok 1 - a.test.js"]
    assert tail("a\n---\n1..1\n") == ["a", "---", "1..1"]
    assert tail("TAP version 13\n1..0\n") == ["TAP version 13", "1..0"]


@table(
    ("output", "lines"),
    [
        ("", []),
        ("\n \n", []),
        ("a\n\nb\n", ["a", "b"]),
        ("".join(f"{n}\n" for n in range(12)), [str(n) for n in range(2, 12)]),
        ("50%\r100%\r\n", ["50%", "100%"]),
        ("\x1b[1;31mE\x1b[0m  assert", ["E  assert"]),
        ("    " + "x" * 300, ["    " + "x" * 199 + "…"]),
    ],
)
def test_the_tail_of_an_output(output: str, lines: list[str]) -> None:
    assert tail(output) == lines
