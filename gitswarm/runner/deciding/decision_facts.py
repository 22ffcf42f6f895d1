"""Gathers what a decision is taken from: everything comes from the run's own commits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import convert
from msgspec.structs import replace

from gitswarm.engines.base import RouteTerms
from gitswarm.errors import SwarmError
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import OpenConcern, StepRecord
from gitswarm.ledger.stored_json import ReceiptFields
from gitswarm.records.evidence import Concern
from gitswarm.records.execution import Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import Ask, Choice, RouteAnswer, RouteQuestion, RoutingMode, StallState
from gitswarm.records.text import usd
from gitswarm.routing.choices import (
    MAX_FINDING_REPEATS,
    MAX_FINDING_REPEATS_IN_RUN,
    BlockingFindings,
    Progress,
    Rules,
    Situation,
)
from gitswarm.routing.driver import CLARIFIER
from gitswarm.routing.loops import WINDOW, Pass, repeats_of, stall_state
from gitswarm.routing.macro import GATE
from gitswarm.runner.containing import contained_alone
from gitswarm.runner.deciding.preflight import diverged, limit_reached
from gitswarm.runner.onto_branch import finished
from gitswarm.runner.run_engines import engines_of, flow_choice, notices
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.read_artifacts import read_decision
from gitswarm.runner.step.request import agent_environment
from gitswarm.runner.step.test_steps import untested
from gitswarm.runner.stored import (
    branch_of,
    envelope_of,
    evidence_of,
    incoming_decision,
    joined,
    newest_at,
    stored_concern,
)
from gitswarm.specs.flow import Flow
from gitswarm.specs.model_policy import ModelRequest, navigator_model
from gitswarm.specs.sidequest import StallTrigger
from gitswarm.specs.station import declared_artifacts

NAVIGATOR = "navigator"

HISTORY_KEPT = 50
"""Executions of the step that a condition can look back at."""

_FOR_A_PERSON = frozenset({"protected_path"})
"""Findings that another execution would not settle."""

_PAPERS = frozenset({"receipts", "handoff", "llm", "base", "events", "evidence", "routing"})


def situation_of(session: Session, state: RunState, record: StepRecord) -> Situation:
    """What is known after a committed step."""
    incoming = incoming_decision(session, record)
    flow = session.specs.flows[record.flow]
    rules = rules_of(session)
    progress = _progress(session, state, record, incoming, rules)
    evidence = _stored(session, record, record.execution.evidence)
    context: dict[str, JsonValue] = {
        "receipt": _counted(record, _stored(session, record, record.execution.receipt)),
        "envelope": _counted(record, _stored(session, record, record.execution.envelope)),
        "evidence": evidence,
        "run": _run(session, state, record, progress, len(incoming.stack)),
        "history": list(_history(state, record)),
    }
    return Situation(
        flow=flow,
        step_id=record.step,
        result=record.result,
        status=record.status,
        context=context,
        history=state.tally.entered.get(record.flow, ()),
        stack=incoming.stack,
        changed=tuple(dict.fromkeys([*_changed(evidence), *_changed_by_branches(session, state, record, flow)])),
        rules=rules,
        progress=progress,
        ask=_navigator(session, record) if limit_reached(session, state, record.flow) is None else None,
        limited_until=convert(context["receipt"], ReceiptFields).limited_until,
        unproven=unproven(session, state, record),
        untested=partial(untested, session, state),
        diverged=partial(diverged, session, state),
    )


def unproven(session: Session, state: RunState, record: StepRecord) -> BlockingFindings | None:
    """The blocking findings that an agent's step has of its own, or those of every branch of its fork, and what may
    be executed again because of them."""
    fork = incoming_decision(session, record).fork if record.fork is not None else None
    on_branches = newest_at(state, record.flow, fork.targets, record.fork or "") if fork is not None else {}
    own = {each: _own(state, each) for each in (on_branches.values() or (record,))}
    found = {each: tuple(stored_concern(session, concern) for concern in own[each]) for each in own if own[each]}
    if not found:
        return None
    open_concerns = [concern for concerns in found.values() for concern in concerns]
    open_to = tuple(each.step for each, concerns in found.items() if _may_repeat(session, state, each, concerns))
    left = MAX_FINDING_REPEATS_IN_RUN - state.tally.repeats
    return BlockingFindings(
        ids=tuple(concern.id for concern in open_concerns),
        reason=f"{open_concerns[0].id}: {open_concerns[0].fact}",
        may_repeat=bool(open_to[:left]),
        steps=open_to[:left] or tuple(each.step for each in found),
    )


def _own(state: RunState, record: StepRecord) -> tuple[OpenConcern, ...]:
    if record.engine in ("command", KERNEL) or record.by_human:
        return ()
    return tuple(concern for concern in state.blocking if concern.is_of(record.flow, record.step))


def _may_repeat(session: Session, state: RunState, record: StepRecord, concerns: Sequence[Concern]) -> bool:
    flow, history = session.specs.flows[record.flow], state.tally.entered.get(record.flow, ())
    spent = record.repeat if record.is_detour else repeats_of(flow, record.step, history)
    same = record.repeat > 0 and all(concern.opened_by.number < record.number for concern in _own(state, record))
    return (
        not (same or _declared(session, record, concerns))
        and any(concern.flag not in _FOR_A_PERSON for concern in concerns)
        and spent < MAX_FINDING_REPEATS
    )


def _declared(session: Session, record: StepRecord, concerns: Sequence[Concern]) -> bool:
    """Whether the agent said itself what was found: it is no slip, and waiting for your answer."""
    envelope = envelope_of(session, record)
    text = " ".join((*envelope.concerns, *envelope.blockers)) if envelope is not None else ""
    names = [name for concern in concerns for name in concern.names]
    return bool(names) and all(name in text for name in names)


def rules_of(session: Session) -> Rules:
    spec, specs = session.spec, session.specs
    return Rules(
        mode=spec.routing_mode,
        human=spec.human,
        flows=specs.flows,
        sequence=spec.flows,
        sidequests=specs.sidequests,
        stations=frozenset(specs.stations),
        navigator_timeout_s=spec.settings.navigator_timeout_s,
    )


def _progress(session: Session, state: RunState, record: StepRecord, incoming: Choice, rules: Rules) -> Progress:
    tally = state.tally
    fork = incoming.fork if record.fork is not None else None
    on_branches = newest_at(state, record.flow, fork.targets, record.fork or "") if fork is not None else {}
    decision = read_decision(session, state) if GATE in tally.flow_sequence else None
    return Progress(
        steps=len(state.steps),
        executions=record.executions,
        iteration=record.execution.iteration,
        uses={name: used for name in rules.sidequests if (used := tally.uses("sidequest", name))},
        injections=sum(1 for token in tally.opened if not token.startswith("sidequest:")),
        flow_sequence=tally.flow_sequence,
        stall=_stall(session, state, record, rules),
        fork=fork,
        branches={name: branch_of(newest) for name, newest in on_branches.items()},
        finished=frozenset(finished(session, fork)) if fork is not None else frozenset(),
        verdict=decision.verdict if decision is not None else None,
        clarified=_clarified(state, record),
    )


def _clarified(state: RunState, record: StepRecord) -> bool:
    found = False
    for earlier in reversed(state.steps[: record.number - 1]):
        if earlier.is_detour:
            found = found or earlier.stack[-1].startswith(f"sidequest:{CLARIFIER}@")
        elif found or (earlier.flow, earlier.step) != (record.flow, record.step):
            return found and (earlier.flow, earlier.step) == (record.flow, record.step)
    return False


def _run(
    session: Session, state: RunState, record: StepRecord, progress: Progress, depth: int
) -> dict[str, JsonValue]:
    stall = progress.stall
    return {
        "run_id": state.layout.run_id,
        "flow": record.flow,
        "flows": list(session.spec.flows),
        "journey": list(progress.flow_sequence),
        "task": session.spec.task,
        "steps_executed": len(state.steps),
        "iteration": record.executions,
        "tokens": state.tokens,
        "cost_usd": state.cost_usd,
        "routing_mode": session.spec.routing_mode,
        "human": session.spec.human,
        "depth": depth,
        "sidequests": {name: progress.uses.get(name, 0) for name in session.specs.sidequests},
        "stall": {
            "passes": stall.passes if stall else 0,
            "is_stalled": stall.is_stalled if stall else False,
            "same_failure": stall.same_failure if stall else False,
        },
        "verdict": progress.verdict,
    }


def _history(state: RunState, record: StepRecord) -> Iterator[dict[str, JsonValue]]:
    """Executions of the same step since its flow was entered, the newest last."""
    entered = state.tally.entered.get(record.flow, ())
    same = [earlier for earlier in entered[-HISTORY_KEPT * 4 :] if earlier.step == record.step]
    for earlier in same[-HISTORY_KEPT:]:
        yield {
            "iteration": earlier.executions,
            "status": earlier.status.value,
            "result": earlier.result.value,
        }


def _counted(record: StepRecord, stored: JsonValue) -> JsonValue:
    """A stored file as conditions and the navigator read it: one that was cut off before it is no iteration."""
    return {**stored, "iteration": record.executions} if isinstance(stored, dict) else stored


def _changed(evidence: JsonValue) -> Iterator[str]:
    match evidence:
        case {"diff": {"files": [*files]}}:
            yield from (str(file["path"]) for file in files if isinstance(file, dict))


def _changed_by_branches(session: Session, state: RunState, record: StepRecord, flow: Flow) -> Iterator[str]:
    """What the branches of a join brought along, for which nobody could leave the fork."""
    if record.is_detour or not flow.has_step(record.step):
        return
    for branch in joined(state, flow, flow.step(record.step)).values():
        evidence = evidence_of(session, branch) if branch.result is not Result.FAILED else None
        yield from (file.path for file in evidence.diff.files) if evidence else ()


def _stall(session: Session, state: RunState, record: StepRecord, rules: Rules) -> StallState | None:
    """How long the loop that the step closes has made no progress; None for a step that closes none."""
    flow = session.specs.flows[record.flow]
    if record.is_detour or not flow.has_step(record.step):
        return None
    body = flow.loop_body(record.step)
    if not body:
        return None
    quests = rules.sidequests.values()
    counts = [t.count for quest in quests for t in quest.triggers if isinstance(t, StallTrigger)]
    rounds = _rounds(state.tally.entered.get(record.flow, ()), record.step, body, max([WINDOW, *counts]))
    return stall_state([_pass(session, flow, executed) for executed in rounds])


def _rounds(history: Sequence[StepRecord], closing: str, body: frozenset[str], most: int) -> list[list[StepRecord]]:
    """The newest rounds of a loop, the newest last; each ends with an execution of its closing step."""
    rounds: list[list[StepRecord]] = []
    for executed in reversed(history):
        if executed.step not in body:
            break
        if executed.step == closing:
            if len(rounds) == most:
                break
            rounds.append([])
        rounds[-1].append(executed)
    return [list(reversed(executed)) for executed in reversed(rounds)]


def _pass(session: Session, flow: Flow, executed: list[StepRecord]) -> Pass:
    last = executed[-1]
    objects = session.repository.objects
    step = flow.step(last.step)
    own = declared_artifacts(flow, step, session.specs.stations.get(step.station or ""))
    folder = f"{session.layout.base}/{flow.id}"
    names = [name for name in objects.names(last.tree, folder) if name not in _PAPERS]
    work = [name for name in names if f"{flow.id}/{name}" not in own]
    left = [f"{name} {objects.entry(last.tree, f'{folder}/{name}')}" for name in work]
    return Pass(failure=_failure(session, executed), work="\n".join([session.store.code(last.tree), *sorted(left)]))


def _failure(session: Session, executed: list[StepRecord]) -> str | None:
    """Signature of the failures that the round's newest test run left."""
    for record in reversed(executed):
        if record.engine == "command":
            evidence = evidence_of(session, record)
            return evidence.report.error_signature if evidence is not None and evidence.report else None
    return None


def mention_navigator(session: Session) -> None:
    """What keeps a run of agents without the navigator that its mode asks for."""
    spec, specs = session.spec, session.specs
    if spec.routing_mode is not RoutingMode.DETERMINISTIC_ONLY:
        choices = engines_of(spec.settings, specs.flows.values(), specs.sidequests.values())
        for line in notices(spec.settings, choices, session.context):
            session.context.observer.notice(line)


def _navigator(session: Session, record: StepRecord) -> Ask | None:
    """The engine that executed the step, else that of its flow, asked in its third phase."""
    settings = session.spec.settings
    own = session.engines.get((record.engine, record.mode))
    engine = own if own is not None and own.capabilities.session else None
    engine = engine or session.engines[flow_choice(settings, record.flow).key]

    def ask(question: RouteQuestion) -> RouteAnswer:
        wanted = ModelRequest(settings.model, settings.economy)
        env = agent_environment(session, NAVIGATOR)
        containment = contained_alone(session, NAVIGATOR, engine.hosts(env))
        terms = RouteTerms(
            flow_key=record.flow,
            step_id=record.step,
            execution=record.executions - 1,
            model=navigator_model(session.specs.policy, engine.engine_id, wanted),
            worktree=session.repository.swarm_dir,
            scratch=session.scratch,
            env={**env, **containment.environment},
            containment=containment,
        )
        answer = engine.route(question, terms)
        return replace(answer, cost_usd=usd(answer.cost_usd))

    return ask


def _stored(session: Session, record: StepRecord, path: str) -> JsonValue:
    content = session.repository.objects.file(record.tree, path)
    if content is None:
        raise SwarmError(
            f"{record.commit[:12]} has no {path}",
            hint=f"the commit is damaged: git show --stat {record.commit[:12]}",
        )
    value: JsonValue = parsed(json.loads, content, session.layout, f"{record.commit[:12]}:{path}")
    return value
