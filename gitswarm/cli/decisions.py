"""A decision for a person: where it leads, in half a line; or all that was recorded of it, what was not taken too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gitswarm.cli.console import FIELD, hanging, labelled, padded, plural
from gitswarm.cli.runs import Opened, reason_words, step_outcome
from gitswarm.ledger.reading import ends_after, routing_entries
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.event import Event, EventKind
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import (
    Action,
    Candidate,
    ConditionTrace,
    Continuation,
    Decision,
    Elimination,
    Frame,
    LoopState,
    RoutingSource,
    Superseded,
)
from gitswarm.records.text import columns

_QUIET = frozenset({RoutingSource.FAST_PATH, RoutingSource.DETERMINISTIC})
_ON = (Action.ADVANCE, Action.TERMINATE)
_BACK = (Action.LOOP, Action.REPEAT)
OFF_THE_GRAPH = frozenset({Action.DETOUR, Action.INJECT_FLOW, Action.INJECT_NODES, Action.SKIP})
_RESIGNED = ("max_iterations_reached", "no_further_help")
_ENDINGS = {Action.PAUSE: "pause", Action.ESCALATE: "escalate"}


class Turn(Struct, frozen=True):
    """`sign`: `↺` for a jump back, `→` for every other one. `who` decided, where the flow's own rules did not."""

    sign: str
    text: str
    who: str | None = None


def is_jump_back(visited: Sequence[object], target: object, here: object) -> bool:
    """Whether the run came to the target before it first came here, or at that moment.

    :param visited: flows and steps in the order in which the run first came to them.
    """
    return target in visited and visited.index(target) <= visited.index(here)


def where_to(decision: Decision) -> str:
    """The next step, with its flow where that is another one."""
    if decision.to_step is None:
        return "a person" if decision.decision in (Action.PAUSE, Action.ESCALATE) else "the end"
    return f"{decision.to_flow}/{decision.to_step}" if decision.to_flow else decision.to_step


def turn_of(decision: Decision, *, is_behind: bool = False) -> Turn | None:
    """None for the next step of the flow.

    :param is_behind: the run has been at the target already, before or at the step that this is decided after.
    """
    is_back = decision.decision in _BACK or (is_behind and decision.decision in (Action.BRANCH, Action.ADVANCE))
    if _is_quiet(decision) and (_is_return(decision) or (decision.decision in _ON and not is_back)):
        return None
    passes = _passes(decision) if is_back else ""
    reason = short_reason(decision)
    who = None if decision.routing_source in _QUIET else decision.routing_source.value
    text = f"{target_text(decision)}{passes}{f' ({who})' if who else ''}"
    return Turn("↺" if is_back else "→", f"{text}: {reason}" if reason else text, who)


def short_reason(decision: Decision) -> str:
    """The reason in one line; what triggered it, where a navigator gave no other reason."""
    reason = " ".join(decision.reason.split())
    if decision.why_now is not None and reason.endswith("the navigator's choice"):
        reason = " ".join(decision.why_now.trigger.split())
    return reason_words(reason)


def gave_up(decision: Decision) -> bool:
    """Whether a loop ended though its critic was not content."""
    return decision.reason.startswith(_RESIGNED)


def _is_quiet(decision: Decision) -> bool:
    """Whether nobody asks why: the graph or an interruption that is over decided, and nothing was given up."""
    if decision.routing_source not in _QUIET or decision.join is not None or decision.failed:
        return False
    return not gave_up(decision)


def _is_return(decision: Decision) -> bool:
    """Back from an interruption: what is done then was decided before it began."""
    popped = any(event.kind is EventKind.STACK_POP for event in decision.events)
    return popped and decision.decision not in OFF_THE_GRAPH


def _passes(decision: Decision) -> str:
    state = decision.loop_state
    if state is None or decision.decision not in (Action.LOOP, Action.BRANCH):
        return ""
    return f" ({state.iteration} of {state.max_iterations})"


def target_text(decision: Decision) -> str:
    """Where a decision leads, and by what kind of transition."""
    if decision.proposal is not None and decision.to_step is None:
        return f"proposes {', '.join(node.id for node in decision.proposal.nodes)}"
    if decision.to_step is None:
        return _ENDINGS.get(decision.decision, "the end")
    return _off_the_graph(decision) or where_to(decision)


def _off_the_graph(decision: Decision) -> str | None:
    """An interruption by its name, a skip by what is left out, a fork by its branches."""
    frame = decision.stack[-1] if decision.stack else None
    kind = decision.decision
    if kind is Action.DETOUR and frame is not None:
        return f"sidequest {frame.id}"
    if kind is Action.INJECT_FLOW:
        return f"flow {decision.next_flow}"
    if kind is Action.INJECT_NODES and frame is not None:
        return f"new {', '.join(node.id for node in frame.nodes)}"
    if kind is Action.SKIP:
        return f"{where_to(decision)} without {decision.candidate_id.removeprefix('skip:')}"
    if kind is Action.FORK and decision.fork is not None:
        return f"{', '.join(decision.fork.targets)} in parallel"
    return None


_ID_WIDTH = 30
_TRUTH = {True: "true", False: "false", None: "null"}


def entry_lines(entry: Decision | Superseded) -> list[str]:
    """One entry of a routing note."""
    if isinstance(entry, Decision):
        return decision_lines(entry)
    text = f"undone, what is above: {entry.reason}"
    kept = [] if entry.superseded_by in entry.reason else labelled("kept in", entry.superseded_by)
    return [*hanging(f"{entry.seq}. ", text), *labelled("at", entry.ts), *kept]


def decision_lines(decision: Decision) -> list[str]:
    """Everything that was recorded of it, in 80 columns; what it does not have is left out."""
    lines = [
        *hanging(f"{decision.seq}. ", f"{_from(decision)} -> {_to(decision)}: {decision.decision}"),
        *labelled("because", decision.reason),
        *labelled("decided", _how(decision)),
        *labelled("at", decision.ts),
        *_options(decision),
    ]
    for label, said in (*_weighed(decision), *_justified(decision), *_leading_to(decision)):
        lines += _said_lines(label, [said] if isinstance(said, str) else said)
    return lines


def _said_lines(label: str, said: Sequence[str | tuple[str, str]]) -> list[str]:
    """Texts below each other, or names in a column, as far as they are short, and a text behind each."""
    pairs = [each for each in said if isinstance(each, tuple) and each[1]]
    if not pairs:
        return labelled(label, *(each for each in said if isinstance(each, str) and each))
    room = min(_ID_WIDTH, max(columns(name) for name, _text in pairs))
    lines: list[str] = []
    for name, text in pairs:
        first = labelled("" if lines else label, padded(name, room))
        if len(first) == 1 and columns(name) <= room:
            lines += hanging(f"{padded(first[0], FIELD + room)}  ", text)
        else:
            lines += [*first, *hanging(" " * (FIELD + 2), text)]
    return lines


_Said = Iterator[tuple[str, str | Sequence[str | tuple[str, str]]]]
"""Labels, and for each a text, several, or names with texts; empty ones are left out."""


def _weighed(decision: Decision) -> _Said:
    """What spoke for and against the candidates."""
    why = decision.explanation
    yield "not taken", _not_taken(why.eliminated, decision.reason)
    yield "if", [line for trace in why.conditions for line in (trace.expression, _outcome(trace))]
    loop = decision.loop_state
    if loop is not None and _is_of_loop(decision, loop):
        yield "loop", f"pass {loop.iteration} of at most {loop.max_iterations}"
    if (stall := why.stall) is not None:
        same = "the same failing tests" if stall.same_failure else "the same work"
        passes = "1 pass" if stall.passes == 1 else f"{stall.passes} passes in a row"
        text = f"{'stalled' if stall.is_stalled else 'no stall'}: {passes} with {same}"
        yield "stall", f"{text}, {stall.window} are a stall ({stall.signature})"
    if (asked := why.navigator) is not None:
        none = "chose no candidate" if asked.problem else "proposed steps of its own"
        is_new = asked.reasoning != decision.reason
        yield (
            "navigator",
            [
                f"chose {asked.chosen}" if asked.chosen else none,
                f"because {asked.reasoning}" if asked.reasoning and is_new else "",
                f"its answer was rejected: {asked.problem}" if asked.problem else "",
            ],
        )


def _justified(decision: Decision) -> _Said:
    """Why the run may leave the flow's own graph."""
    if (why := decision.why_now) is not None:
        fields = [("trigger", why.trigger), ("relevance", why.relevance_to_charter), ("analysis", why.analysis)]
        fields += [("instead of", alternative) for alternative in why.alternatives_considered]
        yield "why now", [*fields, ("expected", why.expected_outcome)]
    if (skip := decision.skip_justification) is not None:
        not_needed = ("not needed", skip.why_not_needed_for_exit)
        yield "skip", [("reason", skip.skip_reason), not_needed, ("instead", skip.replacement_assurance)]
    yield "charter", decision.offroad_rule or ""
    if (proposal := decision.proposal) is not None:
        nodes = [f"{node.id} (station {node.station}): {node.objective}" for node in proposal.nodes]
        because = f"because {proposal.reasoning}" if proposal.reasoning else ""
        yield "proposal", [f"{proposal.id}: after {proposal.flow_key}/{proposal.after_step}", *nodes, because]


def _leading_to(decision: Decision) -> _Said:
    """What is open behind it, and what happened with it."""
    if (fork := decision.fork) is not None:
        left = f"still to come: {', '.join(fork.pending) or 'none'}" if fork.pending != fork.targets else ""
        yield (
            "fork",
            [
                f"{', '.join(fork.targets)} in parallel, then {fork.join}",
                f"all of them start from {fork.commit[:12]}" if fork.commit else "",
                left,
                f"undone: {', '.join(commit[:12] for commit in fork.void)}" if fork.void else "",
            ],
        )
    if (join := decision.join) is not None:
        statuses = ", ".join(f"{step} {status}" for step, status in join.statuses.items())
        met = f"{join.strategy} is {'met' if join.is_met else 'not met'}: {join.reason}"
        yield "join", [met, f"{statuses}; worst: {join.worst}"]
    if decision.stack:
        frames = (f"{number}. {_frame(frame)}" for number, frame in enumerate(decision.stack, 1))
        yield "within", [f"{plural(len(decision.stack), 'interruption')} open", *frames]
    if (resume_at := decision.resume_at) is not None:
        yield "resume", f"continues at {_continues_at(resume_at)} ({resume_at.decision}): {resume_at.reason}"
    yield "events", [f"{event.kind}: {_event(event, decision)}" for event in decision.events]
    if (replaced := decision.supersedes) is not None:
        yield "replaces", f"decision {replaced.seq} after {replaced.commit[:12]}"


def _from(decision: Decision) -> str:
    if decision.from_step is None:
        return f"start of {decision.flow_key}"
    again = f"@{decision.iteration}" if decision.iteration and decision.iteration > 1 else ""
    return f"{decision.flow_key}/{decision.from_step}{again}"


def _to(decision: Decision) -> str:
    if decision.to_step is not None:
        return f"{decision.next_flow}/{decision.to_step}"
    if decision.decision in (Action.PAUSE, Action.ESCALATE):
        return "a person"
    return "end, as failed" if decision.failed else "end"


def _how(decision: Decision) -> str:
    ms = None if decision.elapsed_us is None else decision.elapsed_us / 1000
    took = "" if ms is None else f", in {ms:.1f}ms" if ms < 1000 else f", in {ms / 1000:.1f}s"
    return f"{decision.routing_source}, mode {decision.routing_mode}{took}"


def _options(decision: Decision) -> list[str]:
    """The candidates as a table; an id that is wider than its column has its reason below it."""
    if not decision.candidates:
        return []
    room = min(_ID_WIDTH, max(columns(candidate.candidate_id) for candidate in decision.candidates))
    lines = labelled("options", "> taken, * the default; priority, id, reason")
    for candidate in decision.candidates:
        lines += _option(candidate, room, is_taken=candidate.candidate_id == decision.candidate_id)
    return lines


def _option(candidate: Candidate, room: int, *, is_taken: bool) -> list[str]:
    marks = f"{'>' if is_taken else ' '}{'*' if candidate.is_default else ' '}"
    first = f"{'':<{FIELD}}{marks} {candidate.priority:>3}  "
    if columns(candidate.candidate_id) <= room:
        return hanging(f"{first}{padded(candidate.candidate_id, room)}  ", candidate.reason)
    indent = " " * (columns(first) + room + 2)
    return [*hanging(first, candidate.candidate_id), *hanging(indent, candidate.reason)]


def _not_taken(eliminated: Sequence[Elimination], reason: str) -> list[tuple[str, str]]:
    """Those against which nothing speaks are named together: the table has their ids."""
    plain = f"not taken: {reason}"
    reasons = [
        (one.candidate_id, one.reason.removesuffix(f": {reason}")) for one in eliminated if one.reason != plain
    ]
    others = [one.candidate_id for one in eliminated if one.reason == plain]
    if others:
        reasons.append((others[0] if len(others) == 1 else "the others", "another candidate was taken"))
    return reasons


def _outcome(trace: ConditionTrace) -> str:
    found = f"cannot be evaluated: {trace.error}" if trace.error is not None else f"is {_plain(trace.value)}"
    return f"{found} (for {trace.target})"


def _is_of_loop(decision: Decision, state: LoopState) -> bool:
    """Not at a step that no loop ends at: it counts its executions all the same."""
    may_loop = any(candidate.candidate_id.startswith("loop:") for candidate in decision.candidates)
    return may_loop or state.iteration > 1 or decision.decision in (*_BACK, Action.BRANCH)


def _frame(frame: Frame) -> str:
    nodes = f" ({', '.join(node.id for node in frame.nodes)})" if frame.nodes else ""
    after = f"after {frame.flow}/{frame.step}" if frame.step else f"before {frame.flow}"
    return f"{frame.kind} {frame.id}{nodes}, begun {after}; returns to {_continues_at(frame.back)}"


def _continues_at(resume_at: Continuation) -> str:
    if resume_at.step is not None:
        return f"{resume_at.flow}/{resume_at.step}"
    if resume_at.decision in (Action.PAUSE, Action.ESCALATE):
        return "a person"
    return f"the end of {resume_at.flow}" + (", as failed" if resume_at.failed else "")


def _event(event: Event, decision: Decision) -> str:
    """What it says beyond what stands above."""
    payload = event.payload
    if event.kind in (EventKind.STACK_PUSH, EventKind.STACK_POP):
        return _plain(payload.get("frame"))
    if event.kind is EventKind.ROUTING_OFFROAD:
        return f"instead of {_plain(payload.get('instead_of'))}"
    if event.kind is EventKind.ROUTING_REJECTED:
        asked = decision.explanation.navigator
        is_told = payload.get("from") == "navigator" and asked is not None and asked.problem == payload.get("problem")
        problem = "" if is_told else f": {_plain(payload.get('problem'))}"
        return f"from {_plain(payload.get('from'))}, {payload.get('candidate_id') or 'no candidate'}{problem}"
    return ", ".join(f"{name} {_plain(value)}" for name, value in payload.items())


def _plain(value: JsonValue) -> str:
    if isinstance(value, bool) or value is None:
        return _TRUTH[value]
    if isinstance(value, list):
        return " ".join(_plain(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def step_lines(opened: Opened, record: StepRecord) -> list[str]:
    """The decisions after a step, and those that took the run on when it had ended there."""
    entries = routing_entries(opened.repository, opened.layout, record.commit)
    lines = [f"{record.name}  {step_outcome(record)}  (#{record.number})"]
    lines += [] if entries else ["   this run has no decision after it"]
    lines += [line for entry in entries for line in entry_lines(entry)]
    for end in ends_after(opened.repository, opened.state, record):
        lines += hanging(f"the run {end.status}: ", end.reason)
        entries = routing_entries(opened.repository, opened.layout, end.commit)
        lines += [line for entry in entries for line in entry_lines(entry)]
    return lines
