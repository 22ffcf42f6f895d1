"""Every key of flows, stations, templates, sidequests and the model policy: what changes when its value does.

What only a run shows stands in tests/test_every_key.py, with the test that no key is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from msgspec import structs

from gitswarm.records.execution import Result, Status
from gitswarm.records.routing import Frame, HumanPolicy, RouteAnswer, RouteQuestion, RoutingMode, StallState
from gitswarm.records.run_spec import RunSpec
from gitswarm.resources import bundled
from gitswarm.routing.choices import ForkBranch, Progress, Rules, Situation, Transitions
from gitswarm.routing.driver import decide
from gitswarm.routing.forks import is_decided, judge
from gitswarm.routing.loops import UncommittedExecution
from gitswarm.routing.navigator import prompt
from gitswarm.routing.sidequests import evaluate_triggers
from gitswarm.routing.transitions import graph_transitions
from gitswarm.runner.prompts import compile_blank, forecast, plan_json
from gitswarm.runner.run_session import FrozenSpecs
from gitswarm.runner.specs import freeze
from gitswarm.settings import CommandLine, freeze_settings, load_config
from gitswarm.specs.flow import Flow, Fork, Join
from gitswarm.specs.graph import mermaid
from gitswarm.specs.library import Library, load_library
from tests.tables import table

Documents = Mapping[str, Any]

WRITE, CRITIQUE, TEST, SPLIT, GATHER, GO = 0, 1, 2, 3, 6, 7
DOCUMENTS: Documents = {
    "flow": {
        "id": "f",
        "title": "Greetings",
        "charter": {
            "goal": "Greet.",
            "offroad_policy": {"justified": ["Nobody knows."], "not_justified": ["It is late."]},
        },
        "steps": [
            {
                "id": "write",
                "station": "maker",
                "template": "own",
                "objective": "For {{flow.title}}.",
                "teaching": {"inputs": ["a.md"]},
            },
            {
                "id": "critique",
                "station": "judge",
                "routing": {"kind": "microloop", "loop_target": "write", "max_iterations": 2},
            },
            {
                "id": "test",
                "engine": "command",
                "command": {"run": "true"},
                "routing": {
                    "kind": "branch",
                    "when": [
                        {"if": "evidence.tests.passed", "next": "split"},
                        {"if": "evidence.tests.exit_code == 2", "next": "write", "max_iterations": 1},
                    ],
                    "default": "write",
                    "max_iterations": 2,
                },
            },
            {"id": "split", "station": "maker", "routing": {"kind": "fork", "fork_targets": ["left", "right"]}},
            {"id": "left", "station": "maker"},
            {"id": "right", "station": "judge"},
            {"id": "gather", "station": "maker", "routing": {"kind": "join", "join_from": ["left", "right"]}},
            {"id": "go", "station": "maker"},
            {"id": "last", "station": "maker"},
            {"id": "done", "station": "maker", "routing": {"kind": "terminal"}},
        ],
    },
    "other": {"id": "g", "steps": [{"id": "tidy", "station": "maker"}]},
    "station": {
        "id": "maker",
        "title": "Maker",
        "category": "implementation",
        "identity": "You make.",
        "invariants": ["It works."],
    },
    "critic": {
        "id": "judge",
        "title": "Judge",
        "category": "critic",
        "identity": "You judge.",
        "invariants": ["It is fair."],
    },
    "template": {"id": "own", "title": "Own work", "fragments": ["common/evidence"]},
    "sidequest": {
        "id": "look",
        "title": "Look",
        "triggers": [{"kind": "condition", "if": "envelope.status == 'PARTIAL'"}],
        "steps": [{"id": "one", "station": "maker"}, {"id": "two", "station": "maker"}],
    },
    "rival": {
        "id": "rival",
        "title": "Rival",
        "triggers": [{"kind": "condition", "if": "envelope.status == 'PARTIAL'"}],
        "priority": 40,
        "steps": [{"id": "one", "station": "maker"}],
    },
    "policy": yaml.safe_load((bundled("flows") / "policy/models.yaml").read_text("utf-8")),
}
"""Of everything that people can write one file, each with as little in it as possible."""

FOLDERS = {
    "flow": ".swarm/flows",
    "other": ".swarm/flows",
    "station": ".swarm/flows/stations",
    "critic": ".swarm/flows/stations",
    "template": ".swarm/flows/templates",
    "sidequest": ".swarm/sidequests",
    "rival": ".swarm/sidequests",
}
MODEL = DOCUMENTS["policy"]["engines"]["claude-step"]["primary"]


@dataclass(frozen=True)
class World:
    """What the product makes of the documents."""

    documents: Documents
    library: Library

    @property
    def name(self) -> str:
        return str(self.documents["flow"]["id"])

    @property
    def specs(self) -> FrozenSpecs:
        return freeze(self.library, (self.name,))

    @property
    def flow(self) -> Flow:
        return self.library.flow(self.name).flow


def world(documents: Documents) -> World:
    files = {
        f"{folder}/{documents[kind]['id']}.yaml": json.dumps(documents[kind]) for kind, folder in FOLDERS.items()
    }
    files[".swarm/flows/policy/models.yaml"] = json.dumps(documents["policy"])
    return World(documents, load_library(bundled("flows"), files))


Look = Callable[[World], object]


@dataclass(frozen=True)
class Row:
    """`where` gets another `value`, and what `look` sees has to change.

    `given` holds before and after, `along` only after: what the change needs beside it.
    """

    where: str
    value: object
    look: Look
    given: Mapping[str, object] = field(default_factory=dict)
    along: Mapping[str, object] = field(default_factory=dict)


def edited(documents: Documents, changes: Mapping[str, object]) -> Documents:
    """A copy with these values at these places; None takes a key away."""
    copy: Any = deepcopy(documents)
    for where, value in changes.items():
        inside = copy
        *path, last = (int(part) if part.isdigit() else part for part in where.split("/"))
        for part in path:
            inside = inside[part] if isinstance(part, int) else inside.setdefault(part, {})
        if value is None:
            inside.pop(last, None)
        else:
            inside[last] = value
    return copy  # type: ignore[no-any-return]


def told(step: str = "write", *, economy: bool = False) -> Look:
    """What `flows compile` shows: the prompt, and what comes with it."""

    def look(seen: World) -> object:
        plan = plan_json(compile_blank(seen.library, seen.flow, step, economy=economy))
        return {name: value for name, value in plan.items() if name not in ("prompt_hash", "verification")}

    return look


def drawn(seen: World) -> object:
    """`flows graph`."""
    return mermaid(seen.flow)


def projected(seen: World) -> object:
    """`start --dry-run`, without the hashes."""
    settings = freeze_settings(load_config(None, {}), {}, CommandLine(mode="cli"), scripted=False)
    spec = RunSpec(
        run_id="run-20260101-000000-abcdef",
        created_at="2026-01-01T00:00:00Z",
        flows=(seen.name,),
        base="0" * 40,
        base_ref=None,
        task="",
        routing_mode=RoutingMode.ASSIST,
        allow_stub=True,
        scripted=False,
        initiator="test",
        settings=settings,
    )
    return [structs.replace(each, prompt_hash="") for each in forecast(seen.specs, seen.flow, spec)]


@dataclass(frozen=True)
class Ended:
    """How an execution ended, for `decided`."""

    status: Status = Status.VERIFIED
    result: Result = Result.SUCCEEDED
    tests: Mapping[str, Any] = field(default_factory=dict)
    envelope: Mapping[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    progress: Progress = field(default_factory=Progress)
    answer: Mapping[str, Any] | None = None
    stack: tuple[Frame, ...] = ()


PARTIAL = Ended(Status.PARTIAL)


def situation(seen: World, executed: str, ended: Ended) -> Situation:
    steps, specs = executed.split(), seen.specs

    def ask(question: RouteQuestion) -> RouteAnswer:
        del question
        return RouteAnswer(dict(ended.answer or {}))

    asking = ended.answer is not None
    own = {seen.documents[kind]["id"] for kind in ("sidequest", "rival")}
    return Situation(
        flow=seen.flow,
        step_id=steps[-1],
        result=ended.result,
        status=ended.status,
        context={
            "receipt": {},
            "envelope": {"status": ended.status.value, **ended.envelope},
            "evidence": {"tests": {"passed": None, "exit_code": None, "reason": None, **ended.tests}},
            "run": {},
        },
        history=[UncommittedExecution(step, Result.SUCCEEDED) for step in steps],
        changed=ended.changed,
        stack=ended.stack,
        rules=Rules(
            mode=RoutingMode.AUTHORITATIVE if asking else RoutingMode.ASSIST,
            human=HumanPolicy.SUPERVISED,
            flows=specs.flows,
            sequence=(seen.name,),
            sidequests={name: quest for name, quest in specs.sidequests.items() if name in own},
            stations=frozenset(specs.stations),
        ),
        progress=ended.progress,
        ask=ask if asking else None,
    )


def decided(executed: str, ended: Ended = PARTIAL) -> Look:
    """Where the driver goes on after the last of these steps."""

    def look(seen: World) -> object:
        choice = decide(situation(seen, executed, ended))
        candidates = [each.candidate_id for each in choice.candidates]
        return choice.candidate_id, choice.to_step, choice.to_flow, choice.reason, choice.why_now, candidates

    return look


def after_sidequest(ended: Ended = PARTIAL, step: int = 1, executed: str = "last") -> Look:
    """Where the driver goes on from a step of the sidequest that `last` was left for."""

    def look(seen: World) -> object:
        into = decide(situation(seen, executed, PARTIAL))
        assert into.candidate_id == f"detour:{seen.documents['sidequest']['id']}"
        name = seen.specs.sidequests[seen.documents["sidequest"]["id"]].step_names[step]
        return decided(name, replace(ended, stack=into.stack))(seen)

    return look


def asked(seen: World) -> object:
    """What the navigator reads."""
    here = situation(seen, "go", PARTIAL)
    transitions: Transitions = graph_transitions(here)
    detours = evaluate_triggers(here, transitions.default).detours
    return prompt(here, structs.replace(transitions, options=(*transitions.options, *detours)))


def joined(seen: World) -> object:
    """Whether one VERIFIED branch and one that is not are enough."""
    routing = seen.flow.step("gather").routing
    assert isinstance(routing, Join)
    branches = {
        "left": ForkBranch(Result.SUCCEEDED, Status.VERIFIED),
        "right": ForkBranch(Result.SUCCEEDED, Status.PARTIAL),
    }
    return judge(routing, branches).is_met


def cancelled(seen: World) -> object:
    """Whether a branch that failed ends the other one."""
    fork, join = seen.flow.step("split").routing, seen.flow.step("gather").routing
    assert isinstance(fork, Fork)
    assert isinstance(join, Join)
    return is_decided(fork, join, {"left": ForkBranch(Result.FAILED, Status.UNVERIFIED)})


WHY = {"trigger": "a doubt", "relevance_to_charter": "the goal needs it"}
SKIPS = Ended(
    answer={
        "chosen_candidate_id": "skip:last",
        "offroad_rule": "Nobody knows.",
        "skip_justification": {"skip_reason": "a", "why_not_needed_for_exit": "b", "replacement_assurance": "c"},
    }
)
NODE = {"id": "ask", "station": "gh-researcher", "objective": "Ask."}
CALLS = Ended(answer={"inject_nodes": [NODE], "why_now": WHY, "offroad_rule": "Nobody knows."})
DOUBT = Ended(Status.UNVERIFIED)
BRANCH = f"flow/steps/{TEST}/routing"
LOOP = f"flow/steps/{CRITIQUE}/routing"
STEP = f"flow/steps/{WRITE}"
JOIN = f"flow/steps/{GATHER}/routing"
PLAIN = f"flow/steps/{GO}"
TO_TEST = {"kind": "branch", "when": [{"if": "envelope.status == 'BLOCKED'", "next": "test"}]}
TRIGGER = "sidequest/triggers/0"
STALLED = Ended(
    Status.UNVERIFIED, progress=Progress(stall=StallState(passes=3, window=3, signature="s", same_failure=True))
)
ON_PATHS = {"sidequest/triggers": [{"kind": "paths", "patterns": ["src/**"]}]}
ON_STALL = {"sidequest/triggers": [{"kind": "stall", "count": 3}]}
ON_ITERATIONS = {"sidequest/triggers": [{"kind": "iterations", "at_least": 2}]}
RETURN = "sidequest/returns"
CONDITIONAL = {RETURN: {"mode": "conditional", "if": "true", "then": "advance", "otherwise": "halt"}}

OWES_B = {f"{STEP}/teaching/outputs": [{"path": "b.md", "required": True}]}

ROWS: dict[str, Row] = {
    "Flow.id": Row("flow/id", "hello", told()),
    "Flow.title": Row("flow/title", "Farewells", told()),
    "Flow.charter": Row("flow/charter", None, told()),
    "Flow.cross_cutting": Row("flow/cross_cutting", ["gh-researcher"], decided("go", CALLS)),
    "Flow.on_complete": Row("flow/on_complete", "g", decided("done", Ended())),
    "Flow.on_failure": Row("flow/on_failure", "g", decided("go", Ended(result=Result.FAILED))),
    "Flow.utility": Row("other/utility", value=True, look=decided("go", SKIPS)),
    "Flow.steps": Row("flow/steps/8", {"id": "more", "station": "maker"}, drawn),
    "Charter.goal": Row("flow/charter/goal", "Wave.", told()),
    "Charter.question": Row("flow/charter/question", "Is it loud?", told()),
    "Charter.exit_criteria": Row("flow/charter/exit_criteria", ["It is said."], told()),
    "Charter.non_goals": Row("flow/charter/non_goals", ["Singing."], told()),
    "Charter.prime_directive": Row("flow/charter/prime_directive", "Be kind.", told()),
    "OffroadPolicy.justified": Row(
        "flow/charter/offroad_policy/justified", ["Somebody knows."], decided("go", SKIPS)
    ),
    "OffroadPolicy.not_justified": Row(
        "flow/charter/offroad_policy/not_justified", ["Nobody knows."], decided("go", SKIPS)
    ),
    "Step.id": Row(f"{PLAIN}/id", "going", drawn),
    "Step.station": Row(f"{PLAIN}/station", "judge", told("go")),
    "Step.engine": Row(
        f"{PLAIN}/engine", "command", drawn, along={f"{PLAIN}/station": None, f"{PLAIN}/command": "test"}
    ),
    "Step.objective": Row(f"{STEP}/objective", "Say it.", told()),
    "Step.template": Row(f"{STEP}/template", "gate-check", told()),
    "Step.routing": Row(f"{PLAIN}/routing", {"kind": "terminal"}, drawn),
    "Teaching.inputs": Row(f"{STEP}/teaching/inputs", ["b.md"], told()),
    "Teaching.outputs": Row(f"{STEP}/teaching/outputs", ["b.md"], told()),
    "PromisedOutput.path": Row(
        f"{STEP}/teaching/outputs", [{"path": "c.md", "required": True}], told(), given=OWES_B
    ),
    "PromisedOutput.required": Row(
        f"{STEP}/teaching/outputs",
        OWES_B[f"{STEP}/teaching/outputs"],
        told(),
        given={f"{STEP}/teaching/outputs": ["b.md"]},
    ),
    "PromisedOutput.when": Row(
        f"{STEP}/teaching/outputs", [{"path": "b.md", "when": "evidence.ac != null"}], told(), given=OWES_B
    ),
    "Teaching.emphasizes": Row(f"{STEP}/teaching/emphasizes", ["Brevity."], told()),
    "Teaching.constraints": Row(f"{STEP}/teaching/constraints", ["No noise."], told()),
    "Linear.next": Row(
        f"{PLAIN}/routing",
        {"kind": "linear", "next": "done"},
        decided("go", Ended()),
        given={f"{BRANCH}/when/1/next": "last"},
    ),
    "Microloop.loop_target": Row(f"{LOOP}/loop_target", "critique", decided("write critique", DOUBT)),
    "Microloop.loop_condition_field": Row(
        f"{LOOP}/loop_condition_field", "colour", decided("write critique", Ended())
    ),
    "Microloop.loop_success_values": Row(
        f"{LOOP}/loop_success_values", ["UNVERIFIED"], decided("write critique", DOUBT)
    ),
    "Microloop.max_iterations": Row(f"{LOOP}/max_iterations", 1, decided("write critique", DOUBT)),
    "Microloop.next": Row(
        f"{LOOP}/next", "go", decided("write critique", Ended()), given={"flow/steps/0/routing": TO_TEST}
    ),
    "Branch.when": Row(
        f"{BRANCH}/when", [{"if": "true", "next": "done"}], decided("write test", Ended(tests={"passed": True}))
    ),
    "Branch.default": Row(f"{BRANCH}/default", "critique", decided("write critique test", DOUBT)),
    "Branch.max_iterations": Row(f"{BRANCH}/max_iterations", 1, decided("write test write test", DOUBT)),
    "Branch.next": Row(f"{BRANCH}/next", "go", decided("write test write test write test", DOUBT)),
    "Condition.if": Row(f"{BRANCH}/when/0/if", "false", decided("write test", Ended(tests={"passed": True}))),
    "Condition.next": Row(f"{BRANCH}/when/0/next", "go", decided("write test", Ended(tests={"passed": True}))),
    "Condition.max_iterations": Row(
        f"{BRANCH}/when/1/max_iterations", 3, decided("write test write test", Ended(tests={"exit_code": 2}))
    ),
    "Fork.fork_targets": Row(
        f"flow/steps/{SPLIT}/routing/fork_targets", ["right", "left"], decided("split", Ended())
    ),
    "Fork.on_failure": Row(f"flow/steps/{SPLIT}/routing/on_failure", "cancel", cancelled),
    "Join.join_from": Row(
        f"{JOIN}/join_from",
        ["left", "right", "go"],
        drawn,
        along={
            f"flow/steps/{SPLIT}/routing/fork_targets": ["left", "right", "go"],
            f"flow/steps/{GATHER}": {**DOCUMENTS["flow"]["steps"][GO]},
            f"flow/steps/{GO}": {
                **DOCUMENTS["flow"]["steps"][GATHER],
                "routing": {"kind": "join", "join_from": ["left", "right", "go"]},
            },
        },
    ),
    "Join.join_strategy": Row(f"{JOIN}/join_strategy", "all_verified", joined),
    "Join.join_quorum": Row(
        f"{JOIN}/join_quorum", 2, joined, given={f"{JOIN}/join_strategy": "quorum", f"{JOIN}/join_quorum": 1}
    ),
    "Join.next": Row(f"{JOIN}/next", "last", drawn),
    "Station.id": Row(
        "critic/id", "sage", drawn, along={f"flow/steps/{number}/station": "sage" for number in (CRITIQUE, 5)}
    ),
    "Station.title": Row("station/title", "Smith", told()),
    "Station.category": Row("station/category", "shaping", told()),
    "Station.identity": Row("station/identity", "You forge.", told()),
    "Station.invariants": Row("station/invariants", ["It lasts."], told()),
    "Station.tools": Row("station/tools", ["Read"], told()),
    "Station.tier": Row("station/tier", "economy", told()),
    "Station.fragments": Row("station/fragments", ["microloop/critic_never_fixes"], told()),
    "Station.max_turns": Row("station/max_turns", 3, told()),
    "StationIo.inputs": Row("station/io/inputs", ["b.md"], told("go")),
    "StationIo.outputs": Row("station/io/outputs", ["b.md"], told("go")),
    "Verification.artifacts": Row("station/verification/artifacts", ["a.md"], told()),
    "Verification.commands": Row(
        "station/verification/commands", {"test": "green"}, told(), given={"station/verification/commands": ["test"]}
    ),
    "HandoffContract.required": Row("station/handoff/required", ["confidence"], told()),
    "HandoffContract.verified_when": Row("station/handoff/verified_when", "it is loud.", told("go")),
    "HandoffContract.unverified_when": Row("station/handoff/unverified_when", "nobody heard it.", told("go")),
    "HandoffContract.partial_when": Row("station/handoff/partial_when", "one heard it.", told("go")),
    "HandoffContract.blocked_when": Row("station/handoff/blocked_when", "it is night.", told("go")),
    "StepTemplate.id": Row("template/id", "mine", told(), along={f"{STEP}/template": "mine"}),
    "StepTemplate.title": Row("template/title", "My work", told()),
    "StepTemplate.fragments": Row("template/fragments", ["common/handoff"], told()),
    "StepTemplate.emphasizes": Row("template/emphasizes", ["Brevity."], told()),
    "StepTemplate.constraints": Row("template/constraints", ["No noise."], told()),
    "Sidequest.id": Row("sidequest/id", "gaze", decided("go")),
    "Sidequest.title": Row("sidequest/title", "Gaze", decided("go")),
    "Sidequest.triggers": Row(f"{TRIGGER}/if", "false", decided("go")),
    "Sidequest.match": Row(
        "sidequest/match",
        "all",
        decided("go"),
        given={"sidequest/triggers": [*DOCUMENTS["sidequest"]["triggers"], {"kind": "condition", "if": "false"}]},
    ),
    "Sidequest.priority": Row("sidequest/priority", 30, decided("go")),
    "Sidequest.cost": Row("sidequest/cost", "high", asked),
    "Sidequest.max_uses_per_run": Row(
        "sidequest/max_uses_per_run", 1, decided("go", replace(PARTIAL, progress=Progress(uses={"look": 1})))
    ),
    "Sidequest.steps": Row("sidequest/steps", [{"id": "other", "station": "maker"}], decided("go")),
    "Sidequest.nested": Row("rival/nested", value=True, look=after_sidequest(step=0)),
    "SidequestStep.id": Row("sidequest/steps/0/id", "first", decided("go")),
    "SidequestStep.objective": Row("sidequest/steps/0/objective", "Look closely.", decided("go")),
    "SidequestStep.on_blocked": Row(
        "sidequest/steps/0/on_blocked", "continue", after_sidequest(Ended(Status.BLOCKED), step=0)
    ),
    "Return.mode": Row(f"{RETURN}/mode", "halt", after_sidequest(Ended())),
    "Return.target": Row(
        f"{RETURN}/target",
        "go",
        after_sidequest(Ended()),
        given={RETURN: {"mode": "bounce_to", "target": "write"}},
    ),
    "Return.if": Row(f"{RETURN}/if", "false", after_sidequest(Ended()), given=CONDITIONAL),
    "Return.then": Row(f"{RETURN}/then", "halt", after_sidequest(Ended()), given=CONDITIONAL),
    "Return.otherwise": Row(
        f"{RETURN}/otherwise",
        "advance",
        after_sidequest(Ended()),
        given={RETURN: {**CONDITIONAL[RETURN], "if": "false"}},
    ),
    "PathTrigger.patterns": Row(
        f"{TRIGGER}/patterns", ["docs/**"], decided("go", Ended(changed=("src/a.py",))), given=ON_PATHS
    ),
    "StallTrigger.count": Row(f"{TRIGGER}/count", 4, decided("write critique", STALLED), given=ON_STALL),
    "StallTrigger.same_failure": Row(
        f"{TRIGGER}/same_failure",
        value=False,
        look=decided("write critique", STALLED),
        given=ON_STALL,
    ),
    "ConditionTrigger.if": Row(f"{TRIGGER}/if", "false", decided("go")),
    "IterationTrigger.at_least": Row(
        f"{TRIGGER}/at_least", 3, decided("go", Ended(progress=Progress(executions=2))), given=ON_ITERATIONS
    ),
    "ModelPolicy.categories": Row("policy/categories/implementation", "economy", told()),
    "ModelPolicy.engines": Row("policy/engines/claude-step/primary", "another", told()),
    "ModelPolicy.economy": Row("policy/economy", "elite", told(economy=True)),
    "ModelPolicy.stations": Row("policy/stations/maker", "another", told()),
    "ModelPolicy.steps": Row("policy/steps", {"f/write": "another"}, told()),
    "ModelPolicy.models": Row("policy/models", {}, projected),
    "ModelFacts.window": Row(
        f"policy/models/{MODEL}/window", 1000, projected, given={"flow/charter/non_goals": ["x" * 400]}
    ),
    "ModelFacts.input": Row(f"policy/models/{MODEL}/input", 7, projected),
    "ModelFacts.output": Row(f"policy/models/{MODEL}/output", 7, projected),
    "TurnSize.input": Row("policy/turn/input", 1, projected),
    "TurnSize.output": Row("policy/turn/output", 1, projected),
}


@table("key", list(ROWS), ids=list(ROWS))
def test_another_value_shows(key: str) -> None:
    row = ROWS[key]
    before = edited(DOCUMENTS, row.given)
    after = edited(before, {row.where: row.value, **row.along})
    assert key.partition(".")[2] in row.where.split("/") or key.partition(".")[2] in str(row.value), "another key"
    first, again, other = row.look(world(before)), row.look(world(before)), row.look(world(after))
    assert first == again, "what is looked at is not the same twice"
    assert first != other, "nothing reads it"
