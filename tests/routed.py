"""Drives runs through the product and says in one line per step where they went and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

from gitswarm.git.repository import open_repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.reading import decisions
from gitswarm.ledger.state import replay
from gitswarm.records.event import SINCE_FORMAT_2, EventKind
from gitswarm.records.routing import Decision
from tests.conftest import Project
from tests.projects import ask, only_run

MAKER = {
    ".swarm/flows/stations/maker.yaml": (
        "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
    )
}
"""A station that promises no artifact, for sessions that write none."""

AUTHOR, CRITIC, CLEANUP = "code-implementer", "code-critic", "build-cleanup"


def step(name: str, station: str = AUTHOR, **routing: Any) -> dict[str, Any]:
    """A step of a flow; routing `when=[(condition, target), …]` is spelled out; a way's own maximum comes third."""
    found: dict[str, Any] = {"id": name, "station": station}
    return {**found, "routing": _routing(routing)} if routing else found


def command(name: str = "test", run: str = "true", **routing: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"id": name, "engine": "command", "command": {"run": run}}
    return {**found, "routing": _routing(routing)} if routing else found


def _routing(said: Mapping[str, Any]) -> dict[str, Any]:
    whole = dict(said)
    if "when" in whole:
        names = ("if", "next", "max_iterations")
        whole["when"] = [dict(zip(names, way, strict=False)) for way in whole["when"]]
    return whole


def flow(name: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, **more, "steps": list(steps)}


def quest(name: str, trigger: dict[str, Any] | Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A sidequest of one step, unless `steps` says otherwise."""
    triggers = [trigger] if isinstance(trigger, Mapping) else list(trigger)
    steps = more.pop("steps", [{"id": "look", "station": "context-loader"}])
    return {"id": name, "title": name, "triggers": triggers, "steps": steps, **more}


def fires_after(name: str, status: str = "PARTIAL") -> dict[str, Any]:
    """A trigger: the step ended with this status."""
    return {"kind": "condition", "if": f'envelope.step_id == "{name}" && envelope.status == "{status}"'}


@dataclass(frozen=True)
class Case:
    """A run to drive, and what has to come of it. `steps` is the stub's script; `route` one line per commit, as a
    list or as one indented text; `events` the same for what routing tells, "" when it is not compared."""

    name: str
    flows: Sequence[dict[str, Any]]
    steps: Mapping[str, Any]
    route: Sequence[str] | str
    end: str = "succeeded"
    options: Sequence[str] = ()
    sidequests: Sequence[dict[str, Any]] = ()
    then: Sequence[Sequence[str]] = ()
    """Commands that follow when the run has ended, each without the run's id: `("resume", "-m", "go")`."""
    bundled_sidequests: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    events: Sequence[str] | str = ""
    no_events: bool = False


def _yaml(value: object) -> str:
    """With libyaml where it is: a case has a dozen files."""
    written: str = yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
    return written


def set_up(project: Project, case: Case) -> str:
    """Commits the case's flows and sidequests; the path of its script.

    Unless the case wants the bundled sidequests, they are replaced by ones that never fire.
    """
    files = {f".swarm/flows/{found['id']}.yaml": _yaml(found) for found in case.flows}
    never = {"kind": "condition", "if": "false"}
    bundled = Path(__file__).parent.parent / "flows" / "sidequests"
    quiet = () if case.bundled_sidequests else [quest(path.stem, never) for path in bundled.iterdir()]
    for found in (*quiet, *case.sidequests):
        files[f".swarm/sidequests/{found['id']}.yaml"] = _yaml(found)
    project.commit({**files, **case.files})
    return project.script(_yaml({"steps": dict(case.steps)}))


def drive(project: Project, case: Case) -> str:
    """Executes the run of a case; its id."""
    script = set_up(project, case)
    first = [found["id"] for found in case.flows if not found.get("utility")]
    names = [option for option in case.options if not option.startswith("flow:")]
    flows = [option.removeprefix("flow:") for option in case.options if option.startswith("flow:")] or first[:1]
    answer = ask(project, "start", *flows, "--script", script, *names)
    assert answer.code in (0, 4, 5), answer.stderr
    run = only_run(project)
    for words in case.then:
        named = (*words, run) if words[0] == "resume" else (*words, "--run", run)
        answer = ask(project, *named)
        assert answer.code in (0, 4, 5), answer.stderr
    return run


def routed(project: Project, run: str) -> list[str]:
    """One line per commit: `step@n STATUS > candidate (source)`, indented by its interruptions; `-- paused` and the
    like for an end that was resumed."""
    repository = open_repository(project.root, project.env)
    layout = RunLayout(run)
    state = replay(repository, layout)
    records = {record.commit: record for record in state.steps}
    lines: list[str] = []
    cursor = state.tip
    while cursor != state.run_commit:
        commit = repository.objects.commit(cursor)
        told = _told(decisions(repository, layout, cursor))
        record = records.get(cursor)
        if record is not None:
            lines.append(f"{'  ' * len(record.stack)}{_name(record)} {_outcome(record)} > {told}")
        elif told:
            lines.append(f"-- {commit.message.partition(':')[0].removeprefix('run ')} > {told}")
        cursor = commit.parents[0]
    first = _told(decisions(repository, layout, state.run_commit))
    return [*([] if first.endswith("(fast_path)") else [f"start > {first}"]), *reversed(lines)]


def _name(record: Any) -> str:
    iteration = record.execution.iteration
    return f"{record.flow}/{record.step}" + (f"@{iteration}" if iteration > 1 else "")


def _outcome(record: Any) -> str:
    return str(record.status.value if record.result == "succeeded" else record.result.value)


def _told(taken: Sequence[Decision]) -> str:
    """Every decision after a commit, also those that were replaced."""
    return " > ".join(f"{decision.candidate_id} ({decision.routing_source})" for decision in taken)


def ended(project: Project, run: str) -> str:
    state = replay(open_repository(project.root, project.env), RunLayout(run))
    return state.end.value if state.end else "running"


def lines(text: str | Sequence[str]) -> str:
    """A route as one text: from a list of lines, or without the margin and the gaps that it has in the source."""
    if not isinstance(text, str):
        return "\n".join(text)
    return "\n".join(line for line in dedent(text).splitlines() if line)


ROUTING_EVENTS = ("routing_", "stack_", "flow_injected", "node_injected", "graph_extended")


def told_by_events(project: Project, run: str) -> list[str]:
    """One line per event that routing tells, in order: `kind name=value …`."""
    answer = ask(project, "events", run, "--json")
    assert answer.code == 0, answer.stderr
    events = [json.loads(line) for line in answer.stdout.splitlines()]
    return [_event(event) for event in events if event["kind"].startswith(ROUTING_EVENTS)]


def _event(event: Mapping[str, Any]) -> str:
    told = {name: value for name, value in event["payload"].items() if (name, value) != ("offroad_rule", None)}
    payload = {name: _plain(value) for name, value in told.items() if name not in _seed_001(event)}
    return " ".join([event["kind"], *(f"{name}={value}" for name, value in payload.items())])


def _seed_001(event: Mapping[str, Any]) -> frozenset[str]:
    """What stands there a second time, in other words: tests/test_contract_seed_001.py compares it."""
    return SINCE_FORMAT_2.get(EventKind(event["kind"]), frozenset())


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"[{value['trigger']}]"
    return ",".join(value) if isinstance(value, list) else str(value)


def taken(project: Project, run: str) -> list[Decision]:
    """Every decision of a run in the order of its commits."""
    repository = open_repository(project.root, project.env)
    layout = RunLayout(run)
    state = replay(repository, layout)
    chain = [state.tip]
    while chain[-1] != state.run_commit:
        chain.append(repository.objects.commit(chain[-1]).parents[0])
    return [decision for commit in reversed(chain) for decision in decisions(repository, layout, commit)]


def problems(project: Project, run: str) -> list[str]:
    """Why answers of the navigator did not count, as the routing notes say."""
    asked = [decision.explanation.navigator for decision in taken(project, run)]
    return [said.problem for said in asked if said is not None and said.problem is not None]


def eliminated(project: Project, run: str, candidate: str) -> list[str]:
    """Why a candidate was not taken, once per decision that says so."""
    return [
        way.reason
        for decision in taken(project, run)
        for way in decision.explanation.eliminated
        if way.candidate_id == candidate
    ]


def checked(project: Project, case: Case) -> str:
    """Drives a case and compares: the route, the end, the events, and that notes and events tell the same."""
    run = drive(project, case)
    assert "\n".join(routed(project, run)) == lines(case.route)
    assert ended(project, run) == case.end
    told = told_by_events(project, run)
    if case.events or case.no_events:
        assert "\n".join(told) == lines(case.events)
    check_stack(told, whole=case.end == "succeeded")
    rejected = [line.partition(" problem=")[2] for line in told if line.startswith("routing_rejected from=navigator")]
    assert rejected == problems(project, run)
    return run


def check_stack(told: Sequence[str], *, whole: bool) -> None:
    """Interruptions end in the opposite order of their beginning, each once; all of them in a run that succeeded."""
    open_frames: list[str] = []
    for line in told:
        frame = line.partition("frame=")[2].split(" ")[0]
        if line.startswith("stack_push"):
            open_frames.append(frame)
        elif line.startswith("stack_pop"):
            assert open_frames.pop() == frame
    assert not (whole and open_frames)
