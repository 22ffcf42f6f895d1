"""What it costs to decide where a run goes on, without a navigator, against `json.dumps` of the decision's own note.

    python -m benchmarks.decision_cost [--decisions 2000] [--rounds 20]

A situation of each kind, with the bundled sidequests looking on, and histories as long as the run so far.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace

from gitswarm.records.execution import Result, Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import Choice, Decision, RoutingMode
from gitswarm.resources import bundled
from gitswarm.routing.choices import Progress, Rules, Situation
from gitswarm.routing.driver import decide
from gitswarm.routing.loops import UncommittedExecution
from gitswarm.runner.specs import checked_flow, checked_sidequest
from gitswarm.specs.library import load_library

FLOW = "build"
MOST_RATIO = 20


class Kind(Struct, frozen=True):
    """A step of the bundled Build, and how it ended. `changed`: paths that it touched."""

    name: str
    step: str
    status: Status = Status.VERIFIED
    passed: bool | None = None
    changed: tuple[str, ...] = ()


KINDS = (
    Kind("straight on", "implement"),
    Kind("PARTIAL", "implement", Status.PARTIAL),
    Kind("microloop", "critique_code", Status.UNVERIFIED),
    Kind("branch", "run_tests", passed=False),
    Kind("BLOCKED", "implement", Status.BLOCKED),
    Kind("sidequest by path", "implement", changed=("src/auth/login.py", "src/app.py")),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--decisions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args()
    rules = _rules()
    print("| situation | decide, µs | json.dumps of its note, µs | ratio | growth |")
    print("|---|---:|---:|---:|---:|")
    for kind in KINDS:
        print(_row(kind, rules, asked.decisions, asked.rounds))
    print(f"\nratio: at most {MOST_RATIO}; growth: after {asked.decisions:,} executions against after 20")


def _row(kind: Kind, rules: Rules, decisions: int, rounds: int) -> str:
    early, late = _situation(kind, rules, 20), _situation(kind, rules, decisions)
    choice = decide(late)
    note = _note(kind, choice, decisions)
    ours, first, theirs = [], [], []
    for _round in range(rounds):
        first.append(_microseconds(lambda: decide(early)))
        ours.append(_microseconds(lambda: decide(late)))
        theirs.append(_microseconds(lambda: json.dumps(note, ensure_ascii=False)))
    decided, dumped, began = (statistics.median(samples) for samples in (ours, theirs, first))
    return f"| {kind.name} | {decided:.0f} | {dumped:.1f} | {decided / dumped:.1f} | {decided / began:.2f} |"


def _note(kind: Kind, choice: Choice, executions: int) -> Mapping[str, JsonValue]:
    """What is recorded of the decision."""
    return Decision(
        **asdict(choice),
        seq=1,
        ts="2026-01-01T00:00:00.000Z",
        flow_key=FLOW,
        from_step=kind.step,
        iteration=executions // 5,
        routing_mode=RoutingMode.ASSIST,
    ).to_plain()


def _microseconds(call: Callable[[], object], times: int = 50) -> float:
    began = time.perf_counter_ns()
    for _time in range(times):
        call()
    return (time.perf_counter_ns() - began) / times / 1000


def _rules() -> Rules:
    library = load_library(bundled("flows"), {})
    flow = checked_flow(library, FLOW)
    quests = {name: checked_sidequest(library, name) for name in library.sidequest_ids}
    return Rules(mode=RoutingMode.ASSIST, flows={FLOW: flow}, sequence=(FLOW,), sidequests=quests)


def _situation(kind: Kind, rules: Rules, executions: int) -> Situation:
    flow = rules.flows[FLOW]
    history = [*_history(executions - 1), UncommittedExecution(kind.step, Result.SUCCEEDED)]
    found = Situation(
        flow=flow,
        step_id=kind.step,
        result=Result.SUCCEEDED,
        status=kind.status,
        context=_context(kind, executions),
        history=history,
        changed=kind.changed,
        rules=rules,
        progress=Progress(steps=executions, flow_sequence=(FLOW,)),
    )
    return replace(found, progress=replace(found.progress, iteration=executions // 5))


def _history(executions: int) -> Iterator[UncommittedExecution]:
    """Rounds of the inner and the outer loop, as long as they last."""
    names = ("author_tests", "critique_tests", "implement", "critique_code", "run_tests")
    for number in range(executions):
        yield UncommittedExecution(names[number % len(names)], Result.SUCCEEDED)


def _context(kind: Kind, executions: int) -> dict[str, JsonValue]:
    """As large as a real step's: 30 tool calls, 20 changed files."""
    calls: list[JsonValue] = [
        {"tool": "Bash", "input": {"command": f"run {n}"}, "output": "x" * 400} for n in range(30)
    ]
    files: list[JsonValue] = [{"path": f"src/f{n}.py", "insertions": n, "deletions": 1} for n in range(20)]
    return {
        "receipt": {"status": "succeeded", "tool_calls": calls, "tokens": {"prompt": 1, "completion": 2, "total": 3}},
        "envelope": {"status": kind.status.value, "summary": "s" * 300, "concerns": ["c"], "assumptions": []},
        "evidence": {
            "diff": {"files": files},
            "tests": {"passed": kind.passed, "exit_code": None if kind.passed is None else 1, "reason": None},
            "ac": None,
        },
        "run": {"steps_executed": executions, "iteration": executions // 5},
        "history": [{"iteration": n, "status": "VERIFIED", "result": "succeeded"} for n in range(50)],
    }


if __name__ == "__main__":
    main()
