"""One commit against its own files: trailers, receipt and envelope agree, and the events file is whole and in
order.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from gitswarm.ledger.derived import (
    changes_fields,
    end_fields,
    envelope_trailers,
    evidence_trailers,
    receipt_trailers,
    subject_start,
)
from gitswarm.ledger.layout import HUMAN, KERNEL, agent_identity
from gitswarm.ledger.message import Kind, without_scissors
from gitswarm.ledger.verify.commit_reader import Link, Mismatch
from gitswarm.ledger.verify.run_files import CommitFiles
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import ANNOUNCED, END_KINDS, TERMINAL_KINDS, EventKind, LoggedEvent
from gitswarm.records.execution import Execution, RunStatus, Status, worse
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Receipt
from gitswarm.records.routing import Frame
from gitswarm.records.run_spec import RunSpec

STEP_ENDS = (EventKind.STEP_END, EventKind.STEP_ERROR)
_RUN_EVENTS = frozenset({EventKind.RUN_CREATED, EventKind.RUN_STARTED, *TERMINAL_KINDS})
_COMPLETED: dict[str, str] = {RunStatus.UNPROVEN: RunStatus.FAILED}
"""What `run_completed` says where it is not the state."""


def check_trailers(link: Link, files: CommitFiles) -> Iterator[Mismatch]:
    """The message against what the files make of it, and the author against the message."""
    yield from _differing(link, None, {"Swarm-Run": link.layout.run_id})
    execution, author = link.execution, link.commit.author
    agent = execution.agent if execution is not None else KERNEL
    if author != agent_identity(agent):
        yield link.finding("chain", f"the author is {author.name} <{author.email}>, not {agent}")
    if execution is None:
        if files.spec is not None:
            yield from _spec(link, files.spec, files.flows)
        return
    start = subject_start(execution)
    if not link.message.subject.startswith(start.rstrip()):
        yield link.finding("trailers", f"the subject does not begin with '{start}'")
    if files.receipt is not None:
        yield from _differing(link, execution.receipt, receipt_trailers(files.receipt))
        yield from _position(link, execution, files.receipt)
    if files.evidence is not None:
        yield from _differing(link, execution.evidence, evidence_trailers(files.evidence))
    if files.envelope is not None:
        yield from _differing(link, execution.envelope, envelope_trailers(files.envelope))
        if _plain(without_scissors(files.envelope.summary)) != _plain(link.message.body):
            yield link.finding("trailers", "the message is not the summary of the envelope", execution.envelope)


def _differing(link: Link, path: str | None, expected: Mapping[str, str]) -> Iterator[Mismatch]:
    """Trailers that say something else than `path` does; a trailer is on one line whatever its value was."""
    for name, value in expected.items():
        trailer = link.trailers.get(name, "")
        if trailer != " ".join(value.split()):
            where = "the file" if path else "the run"
            yield link.finding("trailers", f"{name} says {trailer or 'nothing'}, {where} says {value}", path)


def _position(link: Link, execution: Execution, receipt: Receipt) -> Iterator[Mismatch]:
    """The receipt names the commit that the step started from, and its transcript."""
    # One that a person skipped did not start with the others.
    start = link.trailers.get("Swarm-Fork") if link.parallel or link.replays else link.parent
    if receipt.commit_before != start:
        message = f"commit_before is {receipt.commit_before}, the step started from {start}"
        yield link.finding("trailers", message, execution.receipt)
    if receipt.transcript_path != execution.transcript_in_flow(receipt.engine):
        yield link.finding("trailers", f"transcript_path is {receipt.transcript_path}", execution.receipt)


def _spec(link: Link, spec: RunSpec, flows: Container[str]) -> Iterator[Mismatch]:
    path = link.layout.spec
    if spec.run_id != link.layout.run_id:
        yield link.finding("trailers", f"run_id is {spec.run_id}", path)
    if "Swarm-Forked-From" not in link.trailers and spec.base != link.parent:
        yield link.finding("trailers", f"base is {spec.base}, the run branches off {link.parent}", path)
    missing = [flow for flow in spec.flows if flow not in flows]
    if missing:
        yield link.finding("schemas", f"no frozen flow {', '.join(missing)}", link.layout.specs)


def _plain(text: str) -> str:
    """The text as a commit message can hold it."""
    return text.strip().replace("\0", "").encode(errors="replace").decode()


def check_events(link: Link, files: CommitFiles) -> Iterator[Mismatch]:
    """Lines, places and kinds of the events; then what they say against trailers, receipt and evidence."""
    for message in _problems(link, files):
        yield link.finding("events", message, link.events)


def _problems(link: Link, files: CommitFiles) -> Iterator[str]:
    events = files.events
    if link.trailers.get("Swarm-Seq") != str(files.lines):
        yield f"Swarm-Seq says {link.trailers.get('Swarm-Seq')}, the file has {files.lines} lines"
    if len(events) != files.lines or not events:
        return  # which lines are none is a finding of the schemas
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "seq does not count from 1 without gaps"
    yield from _positions(link, events)
    if link.kind is Kind.RUN:
        yield from _run(events, files)
    elif link.kind is Kind.END:
        yield from _end(link, events)
    else:
        yield from _step(link, events)
        yield from _facts(link, events, files)


def _positions(link: Link, events: Sequence[LoggedEvent]) -> Iterator[str]:
    """Each event names its step; the first one that names another is a problem."""
    execution = link.execution
    own = (execution.flow, execution.step, execution.iteration, execution.agent) if execution else None
    for event in events:
        if event.run_id != link.layout.run_id:
            yield f"line {event.seq} is of {event.run_id}"
            return
        position = (event.flow_key, event.step_id, event.iteration, event.agent_key)
        if own is not None and position != own:
            yield f"line {event.seq} is of {event.flow_key}/{event.step_id}@{event.iteration} by {event.agent_key}"
            return
        if own is None and position[1:] != (None, None, None):
            yield f"line {event.seq} is of a step"
            return


def _run(events: Sequence[LoggedEvent], files: CommitFiles) -> Iterator[str]:
    kinds = [event.kind for event in events]
    if kinds != [EventKind.RUN_CREATED, EventKind.RUN_STARTED]:
        yield f"has {', '.join(kinds)}, not run_created and run_started"
        return
    spec = files.spec
    if spec is not None and (list(spec.flows), spec.initiator) != (
        events[0].payload.get("flows"),
        events[0].payload.get("initiator"),
    ):
        yield "run_created has other flows, or another initiator, than spec.json"
    if spec is not None and {event.ts for event in events} != {spec.created_at}:
        yield "run_created has another time than spec.json"


def _end(link: Link, events: Sequence[LoggedEvent]) -> Iterator[str]:
    result, last = link.trailers.get("Swarm-Result", ""), events[-1]
    if last.kind is not END_KINDS.get(result):
        yield f"ends with {last.kind}, Swarm-Result says {result}"
    elif last.kind is EventKind.RUN_COMPLETED and last.payload.get("status") != _COMPLETED.get(str(result), result):
        yield f"run_completed says {last.payload.get('status')}, Swarm-Result says {result}"
    if any(event.kind in _RUN_EVENTS for event in events[:-1]):
        yield "an end comes before the last line"
    for event in events:
        if event.kind in ANNOUNCED and last.kind is not ANNOUNCED[event.kind]:
            yield f"{event.kind} is followed by {last.kind}"
    if events[0].kind is not EventKind.ROUTE_DECISION:
        yield "does not begin with the decision that led there"


def _step(link: Link, events: Sequence[LoggedEvent]) -> Iterator[str]:
    kinds = [event.kind for event in events]
    first = events[0]
    if first.kind is EventKind.ROUTE_DECISION:
        yield from _led(link, first)
    else:
        yield "does not begin with the decision that led there"
    if kinds.count(EventKind.ROUTE_DECISION) > 1:
        yield "has a second route_decision"
    if any(kind in _RUN_EVENTS or kind in ANNOUNCED for kind in kinds):
        yield "has an event of the run as a whole"
    starts, ends = kinds.count(EventKind.STEP_START), sum(kinds.count(kind) for kind in STEP_ENDS)
    if (starts, ends) != (1, 1) or kinds[-1] not in STEP_ENDS:
        yield f"the step starts {starts} times and ends {ends} times, last is {kinds[-1]}"


def _led(link: Link, first: LoggedEvent) -> Iterator[str]:
    """The decision leads to the step, with the interruptions and the fork that the step belongs to."""
    to_step, by_hand = first.payload.get("to_step"), link.trailers.get("Swarm-Agent") in (HUMAN, KERNEL)
    if not by_hand and to_step != link.trailers.get("Swarm-Step"):
        yield f"the decision that led there leads to {to_step}"
    tokens = _tokens(first.payload.get("stack"))
    if tokens is None or " ".join(tokens) != link.trailers.get("Swarm-Stack", ""):
        yield f"Swarm-Stack says {link.trailers.get('Swarm-Stack')}, the decision that led there something else"
    fork = first.payload.get("fork")
    if isinstance(fork, dict):
        pending = fork.get("pending")
        within = isinstance(pending, list) and link.trailers.get("Swarm-Step") in pending
        if link.trailers.get("Swarm-Fork") != (fork.get("commit") if within else None):
            trailer = link.trailers.get("Swarm-Fork")
            yield f"Swarm-Fork says {trailer}, the decision that led there {fork.get('commit')}"
    elif "Swarm-Fork" in link.trailers:
        yield "Swarm-Fork names a fork, the decision that led there none"


def _tokens(stack: JsonValue) -> list[str] | None:
    try:
        return [Frame.from_plain(frame).token for frame in stack] if isinstance(stack, list) else []
    except ValueError:
        return None


def _facts(link: Link, events: Sequence[LoggedEvent], files: CommitFiles) -> Iterator[str]:
    """Start and end of the step against what its receipt and its evidence make of them."""
    receipt, envelope, evidence = files.receipt, files.envelope, files.evidence
    logged = {event.kind: event for event in events}
    if receipt is not None:
        begun: dict[str, JsonValue] = {"engine": receipt.engine, "mode": receipt.mode}
        begun |= {"commit_before": receipt.commit_before, "agents": [receipt.agent_key]}
        yield from _unlike(logged.get(EventKind.STEP_START), begun)
        for kind in STEP_ENDS:
            yield from _unlike(logged.get(kind), end_fields(receipt) | {"status": link.trailers.get("Swarm-Result")})
    end = logged.get(EventKind.STEP_END)
    if envelope is not None and end is not None:
        yield from _status(end, envelope, replayed=link.replays is not None)
    if evidence is not None:
        yield from _unlike(logged.get(EventKind.FILE_CHANGES), changes_fields(evidence))


def _status(end: LoggedEvent, envelope: Envelope, *, replayed: bool) -> Iterator[str]:
    """The last event has the status of the envelope, and the agent's claim where that was judged to be worse.

    Two events differ for a reason that the envelope has: one of an earlier version, which logged the claim alone, and
    one of a parallel step whose code conflicted afterwards; that one is compared with its own commit.
    """
    status, is_explained = end.payload.get("handoff_status"), envelope.status_reason is not None
    better = _better_than(envelope.status) if is_explained else ()
    claim = end.payload.get("claimed_status")
    if "claimed_status" in end.payload and claim not in better:
        yield f"{end.kind} says claimed_status {claim}, which nothing explains"
    may_differ = status in better and (replayed or "claimed_status" not in end.payload)
    if not may_differ:
        yield from _unlike(end, {"handoff_status": envelope.status})
    if "status_reason" in end.payload and not replayed:
        yield from _unlike(end, {"status_reason": envelope.status_reason})


def _better_than(status: Status) -> tuple[str, ...]:
    return tuple(other for other in Status if worse(other, status) is not other)


def _unlike(event: LoggedEvent | None, expected: Mapping[str, JsonValue]) -> Iterator[str]:
    """Where an event differs from the other files; that there is none is another problem."""
    if event is not None:
        for name, value in expected.items():
            if event.payload.get(name) != value:
                yield f"{event.kind} says {name} {event.payload.get(name)}, the files say {value}"
