"""Stored JSON as reading commands need it: a few fields of it, without the models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.errors import NotFoundError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import parsed, step_json
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.budget import OPTIONS, UNLIMITED, BudgetLimits
from gitswarm.records.execution import TEST, Status

if TYPE_CHECKING:
    from pydantic import JsonValue


RUNS_COMMANDS = ("command", KERNEL)
"""Engines whose tool calls are commands of the project, carried out by git-swarm."""

_INDENT = "  "


class SpecFields(Struct, frozen=True):
    flows: tuple[str, ...]
    scripted: bool
    allow_stub: bool
    task: str
    budget: BudgetLimits = UNLIMITED
    base_ref: str | None = None
    target: str | None = None
    engine: str = ""
    test_command: str | None = None
    initiator: str = ""


class Timing(Struct, frozen=True):
    started_at: str
    duration_ms: int


class ReturnAddress(Struct, frozen=True):
    """Where a flow continues; `step` None: it is at its end then."""

    flow: str
    step: str | None


class FrameFields(Struct, frozen=True):
    """One interruption."""

    kind: str
    id: str
    back: ReturnAddress


class DecisionFields(Struct, frozen=True):
    """A recorded decision. `plain`: all of it; `resume_at`: where a run that pauses there continues."""

    decision: Any
    routing_source: Any
    candidate_id: Any
    candidates: Any
    seq: Any
    ts: Any
    flow_key: Any
    routing_mode: Any
    to_step: str | None
    reason: str
    stack: tuple[FrameFields, ...] = ()
    resume_at: ReturnAddress | None = None
    plain: dict[str, Any] = field(default_factory=dict)


class ConcernFields(Struct, frozen=True):
    """What is open: `Concern` without its model."""

    id: str
    blocking: bool
    fact: str
    names: tuple[str, ...]


def concern_fields(repository: RepositoryReader, state: RunState) -> tuple[ConcernFields, ...]:
    """The open ones, the oldest first, as the evidence of the steps that opened them has them."""
    found = []
    for concern in state.concerns:
        record = concern.opened_by
        evidence = step_json(repository, state, record, record.execution.evidence)
        about = {each["id"]: each for each in evidence.get("opened", ())}.get(concern.id, {})
        names = tuple(map(str, about.get("names", ())))
        found.append(ConcernFields(concern.id, concern.blocking, str(about.get("fact", "")), names))
    return tuple(found)


def spec_fields(repository: RepositoryReader, state: RunState) -> SpecFields:
    """
    :raises CorruptError: the run's first commit lacks its spec, or holds something else in its place.
    """
    tree = repository.objects.commit(state.run_commit).tree
    content = repository.objects.file(tree, state.layout.spec) or b""
    return parsed(_spec, content, state.layout, f"{state.run_commit[:12]}:{state.layout.spec}")


def _spec(content: bytes) -> SpecFields:
    fields = json.loads(content)
    task = fields.get("task", "") if isinstance(fields, dict) else ""
    match fields:
        case {
            "flows": [str(), *_] as flows,
            "scripted": bool(scripted),
            "allow_stub": bool(allowed),
            "settings": dict(own),
        }:
            base, deploy, engine = fields.get("base_ref"), own.get("deploy"), own.get("default_engine")
            target = deploy.get("target") if isinstance(deploy, dict) else None
            commands = own.get("commands")
            test = commands.get(TEST) if isinstance(commands, dict) else None
            return SpecFields(
                tuple(map(str, flows)),
                scripted,
                allowed,
                str(task),
                _budget(own.get("budget")),
                str(base) if base else None,
                str(target) if target else None,
                str(engine.get("engine", "")) if isinstance(engine, dict) else "",
                str(test) if test else None,
                str(fields.get("initiator", "")),
            )
    raise ValueError("no spec of a run")


def _budget(budget: JsonValue) -> BudgetLimits:
    fields = budget if isinstance(budget, dict) else {}
    return BudgetLimits.of({name: fields.get(f"max_{name.removesuffix('_s')}") for name in OPTIONS})


def timing(content: bytes) -> Timing:
    """When a receipt says that its step was executed.

    :raises ValueError: it is no receipt.
    """
    return msgspec.json.decode(content, type=Timing)


def timings(repository: RepositoryReader, state: RunState) -> list[Timing]:
    """Of all steps.

    :raises NotFoundError: one has no receipt.
    :raises CorruptError: what it has is none.
    """
    places = [(record.tree, record.execution.receipt) for record in state.steps]
    contents = repository.objects.files_of(places)
    return [
        parsed(timing, existing(content, record, path), state.layout, f"{record.commit[:12]}:{path}")
        for record, (_tree, path), content in zip(state.steps, places, contents, strict=True)
    ]


def existing(content: bytes | None, record: StepRecord, path: str) -> bytes:
    """
    :raises NotFoundError: the step's commit has no such file.
    """
    if content is None:
        raise NotFoundError(f"{record.commit[:12]} has no {path}", hint=f"git show --stat {record.commit[:12]}")
    return content


def limited_until(receipt: JsonValue) -> str | None:
    """When the usage limit ends that the step met (`EngineOutcome.resets_at`); None: it met none."""
    outcome = receipt.get("outcome") if isinstance(receipt, dict) else None
    until = outcome.get("resets_at") if isinstance(outcome, dict) else None
    return until if isinstance(until, str) else None


def sandbox_of(receipt: JsonValue) -> str | None:
    """What confined the programs of the step; None: nobody asked for anything."""
    name = receipt.get("sandbox") if isinstance(receipt, dict) else None
    return name if isinstance(name, str) else None


def hosts_of(receipt: JsonValue) -> list[str] | None:
    """What the programs of the step could reach; `*`: every host. None: that was not recorded."""
    hosts = receipt.get("network") if isinstance(receipt, dict) else None
    return [str(host) for host in hosts] if isinstance(hosts, list) else None


def failed_output(receipt: JsonValue) -> str | None:
    """The output of the last command that git-swarm ran for the step; None: it did not fail, or there was none."""
    if not isinstance(receipt, dict) or receipt.get("engine") not in RUNS_COMMANDS:
        return None
    calls = tool_calls(receipt)
    last = calls[-1] if calls else None
    return last.output if last is not None and not (last.success or last.blocked) else None


class CallFields(Struct, frozen=True):
    """A tool call: `ToolCall` without its model, of any format. `wanted`: the first thing that it was given."""

    tool: str
    wanted: str
    success: bool
    blocked: bool
    blocked_reason: str
    output: str


def tool_calls(receipt: JsonValue) -> list[CallFields]:
    """Those of a receipt; what is no call is passed over."""
    calls = receipt.get("tool_calls") if isinstance(receipt, dict) else None
    return [_call(call) for call in (calls if isinstance(calls, list) else ()) if isinstance(call, dict)]


def _call(call: Mapping[str, JsonValue]) -> CallFields:
    given = call.get("input")
    return CallFields(
        tool=str(call.get("tool_name", call.get("tool"))),
        wanted=next((str(value) for value in given.values()), "") if isinstance(given, dict) else "",
        success=call.get("success") is True,
        blocked=call.get("blocked") is True,
        blocked_reason=str(call.get("blocked_reason")),
        output=str(call.get("output", "")),
    )


def status_reasons(repository: RepositoryReader, state: RunState) -> dict[int, str]:
    """Of the steps that are not VERIFIED, by their numbers: why, where that is not the agent's own word."""
    found = {}
    steps = [record for record in state.steps if record.status is not Status.VERIFIED]
    contents = repository.objects.files_of([(record.tree, record.execution.envelope) for record in steps])
    for record, content in zip(steps, contents, strict=True):
        where = f"{record.commit[:12]}:{record.execution.envelope}"
        envelope = parsed(json.loads, content or b"{}", state.layout, where)
        reason = status_reason(envelope, record.summary)
        if reason is not None:
            found[record.number] = reason
    return found


def status_reason(envelope: JsonValue, summary: str) -> str | None:
    """Why the status is what it is, unless the summary says so."""
    reason = envelope.get("status_reason") if isinstance(envelope, dict) else None
    return reason if isinstance(reason, str) and reason.strip() != summary.strip() else None


def decisions_after(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> list[DecisionFields]:
    """What was decided after a commit, oldest first, also what does not hold any more."""
    return [entry for entry in _entries(repository, layout, commit_id) if entry is not None]


def standing_after(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> DecisionFields | None:
    """What is to happen after a commit; None when that is not decided, or not any more."""
    entries = _entries(repository, layout, commit_id)
    return entries[-1] if entries else None


def _entries(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> list[DecisionFields | None]:
    """Entries of a routing note; None: it takes the decisions before it back."""
    note = repository.notes(layout.routing_notes).read(commit_id) or b""
    found: list[DecisionFields | None] = []
    for packed in folded(note):
        try:
            fields = json.loads(packed)
            decision = None if "superseded_by" in fields else msgspec.convert(fields, DecisionFields)
            found.append(replace(decision, plain=fields) if decision is not None else None)
        except (ValueError, TypeError, RecursionError):
            continue  # not an entry of ours
    return found


def folded(note: bytes) -> Iterator[str]:
    """The JSON of each entry of a routing note: each run of indented lines, unfolded."""
    lines: list[str] = []
    for line in [*note.decode(errors="replace").split("\n"), ""]:
        if line.startswith(_INDENT):
            lines.append(line.removeprefix(_INDENT))
        elif lines:
            yield " ".join(lines)
            lines = []


def deployed_as(repository: RepositoryReader, state: RunState) -> tuple[str, str] | None:
    """What became of a run that came to its Deploy: `landed` or `not landed`, and where it landed or why not."""
    content = repository.objects.file(state.tip_tree, f"{state.layout.base}/deploy/merge_result.json")
    try:
        fields = json.loads(content or b"null")
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    if fields.get("landed") is True:
        return "landed", f"{fields.get('target')}, as {str(fields.get('commit'))[:12]}"
    return "not landed", str(fields.get("reason"))
