"""Stored JSON as reading commands need it: a few fields of it, without the models; and the test runs among it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from gitswarm.errors import NotFoundError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import is_code
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.budget import OPTIONS, BudgetLimits
from gitswarm.records.execution import OTHER_COMMANDS, TEST, Status

RUNS_COMMANDS = ("command", KERNEL)
"""Engines whose tool calls are commands of the project, carried out by git-swarm."""

_INDENT = "  "


class StoredFields(Struct, frozen=True):
    """Some fields of a stored file or object, of any format; what else is in it does not matter."""

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """
        :raises ValueError: a field is missing, or holds something else.
        """
        return msgspec.json.decode(content, type=cls)


FieldsT = TypeVar("FieldsT", bound=StoredFields)


def step_fields(
    repository: RepositoryReader, state: RunState, record: StepRecord, path: str, kind: type[FieldsT]
) -> FieldsT:
    """The fields of a file of a step's commit; where it has no such file, the defaults.

    :raises CorruptError: it is not what we wrote.
    """
    content = repository.objects.file(record.tree, path) or b"{}"
    return parsed(kind.from_json, content, state.layout, f"{record.commit[:12]}:{path}")


class SettingsFields(StoredFields, frozen=True):
    default_engine: dict[str, Any] = {}
    commands: dict[str, str | None] = {}
    deploy: dict[str, Any] = {}
    budget: dict[str, float | None] = {}


class SpecFields(StoredFields, frozen=True):
    """`spec.json`."""

    flows: Annotated[tuple[str, ...], Meta(min_length=1)]
    scripted: bool
    allow_stub: bool
    settings: SettingsFields
    task: str = ""
    base_ref: str | None = None
    initiator: str = ""

    @property
    def budget(self) -> BudgetLimits:
        limits = self.settings.budget
        return BudgetLimits.of({name: limits.get(f"max_{name.removesuffix('_s')}") for name in OPTIONS})

    @property
    def target(self) -> str | None:
        target = self.settings.deploy.get("target")
        return str(target) if target else None

    @property
    def engine(self) -> str:
        return str(self.settings.default_engine.get("engine", ""))

    @property
    def test_command(self) -> str | None:
        return self.settings.commands.get(TEST)


def spec_fields(repository: RepositoryReader, state: RunState) -> SpecFields:
    """
    :raises CorruptError: the run's first commit lacks its spec, or holds something else in its place.
    """
    tree = repository.objects.commit(state.run_commit).tree
    content = repository.objects.file(tree, state.layout.spec) or b""
    return parsed(SpecFields.from_json, content, state.layout, f"{state.run_commit[:12]}:{state.layout.spec}")


class Timing(StoredFields, frozen=True):
    """When a receipt says that its step was executed."""

    started_at: str
    duration_ms: int


def timings(repository: RepositoryReader, state: RunState) -> list[Timing]:
    """The timings of all steps.

    :raises NotFoundError: one has no receipt.
    :raises CorruptError: what it has is none.
    """
    places = [(record.tree, record.execution.receipt) for record in state.steps]
    contents = repository.objects.files_of(places)
    return [
        parsed(Timing.from_json, existing(content, record, path), state.layout, f"{record.commit[:12]}:{path}")
        for record, (_tree, path), content in zip(state.steps, places, contents, strict=True)
    ]


def existing(content: bytes | None, record: StepRecord, path: str) -> bytes:
    """
    :raises NotFoundError: the step's commit has no such file.
    """
    if content is None:
        raise NotFoundError(f"{record.commit[:12]} has no {path}", hint=f"git show --stat {record.commit[:12]}")
    return content


class CallFields(StoredFields, frozen=True):
    """A tool call: `ToolCall` without its model."""

    success: bool = False
    tool_name: str = ""
    name_in_format_1: str = field(name="tool", default="")
    input: dict[str, Any] = {}
    blocked: bool = False
    blocked_reason: str | None = None
    output: str = ""

    @property
    def tool(self) -> str:
        return self.tool_name or self.name_in_format_1

    @property
    def wanted(self) -> str:
        """The first thing that it was given."""
        return next(map(str, self.input.values()), "")


class ReceiptFields(StoredFields, frozen=True):
    """`sandbox`: what confined the programs of the step; None: nobody asked for anything. `network`: what they could
    reach; `*`: every host; None: that was not recorded."""

    engine: str = ""
    sandbox: str | None = None
    network: tuple[str, ...] | None = None
    outcome: dict[str, Any] = {}
    tool_calls: tuple[CallFields, ...] = ()

    @property
    def limited_until(self) -> str | None:
        """When the usage limit ends that the step met; None: it met none."""
        resets_at = self.outcome.get("resets_at")
        return None if resets_at is None else str(resets_at)

    @property
    def failed_output(self) -> str | None:
        """What the last command printed that git-swarm ran for the step; None: it did not fail, or there was none."""
        last = self.tool_calls[-1] if self.tool_calls and self.engine in RUNS_COMMANDS else None
        return last.output if last is not None and not (last.success or last.blocked) else None


class EnvelopeFields(StoredFields, frozen=True):
    blockers: tuple[str, ...] = ()
    status_reason: str | None = None

    def reason(self, summary: str) -> str | None:
        """Why the status is what it is, where that is not the agent's own word; None: the summary says so."""
        is_said = self.status_reason is None or self.status_reason.strip() == summary.strip()
        return None if is_said else self.status_reason


def status_reasons(repository: RepositoryReader, state: RunState) -> dict[int, str]:
    """Why steps are not VERIFIED, by their numbers."""
    found = {}
    steps = [record for record in state.steps if record.status is not Status.VERIFIED]
    contents = repository.objects.files_of([(record.tree, record.execution.envelope) for record in steps])
    for record, content in zip(steps, contents, strict=True):
        where = f"{record.commit[:12]}:{record.execution.envelope}"
        envelope = parsed(EnvelopeFields.from_json, content or b"{}", state.layout, where)
        if (reason := envelope.reason(record.summary)) is not None:
            found[record.number] = reason
    return found


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


def decisions_after(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> list[DecisionFields]:
    """What was decided after a commit, oldest first, also what does not hold any more."""
    return [entry for entry in _entries(repository, layout, commit_id) if entry is not None]


def decision_after(repository: RepositoryReader, layout: RunLayout, commit_id: str) -> DecisionFields | None:
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
    """The outcome of a run that reached its Deploy: `landed` or `not landed`, and where it landed or why not."""
    content = repository.objects.file(state.tip_tree, f"{state.layout.base}/deploy/merge_result.json")
    try:
        fields = msgspec.json.decode(content or b"", type=dict[str, Any])
    except ValueError:
        return None
    if fields.get("landed") is True:
        return "landed", f"{fields.get('target')}, as {str(fields.get('commit'))[:12]}"
    return "not landed", str(fields.get("reason"))


class ConcernFields(StoredFields, frozen=True):
    """What is open: `Concern` without its model."""

    id: str
    blocking: bool
    fact: str = ""
    names: tuple[str, ...] = ()


class EvidenceFields(StoredFields, frozen=True):
    tests: dict[str, Any] = {}
    report: dict[str, Any] | None = None
    opened: tuple[ConcernFields, ...] = ()


def concern_fields(repository: RepositoryReader, state: RunState) -> tuple[ConcernFields, ...]:
    """The open ones, the oldest first, as the evidence of the steps that opened them has them."""
    found = []
    for concern in state.concerns:
        record = concern.opened_by
        opened = step_fields(repository, state, record, record.execution.evidence, EvidenceFields).opened
        plain = ConcernFields(concern.id, concern.blocking)
        found.append(next((each for each in opened if each.id == concern.id), plain))
    return tuple(found)


_PYTEST_ENDS = {
    2: "interrupted, mostly by an error while tests were collected",
    3: "an internal error of pytest",
    4: "pytest did not understand its command line or configuration, no test ran",
    5: "no tests found",
}


class LastTests(Struct, frozen=True):
    """
    :ivar passed: None: nothing was judged.
    :ivar current: it was the code that the run has now.
    :ivar summary: `31 passed`.
    :ivar red_before: they failed on the base as well.
    """

    step: str
    passed: bool | None
    current: bool
    summary: str
    red_before: bool = False


def last_tests(repository: RepositoryReader, state: RunState) -> LastTests | None:
    """The newest run of the project's tests; None: there was none."""
    for record in reversed(state.steps):
        evidence = evidence_of_command(repository, state, record)
        if evidence is None or not is_of_tests(repository, state, record, evidence):
            continue
        tested = repository.objects.commit(record.sibling).tree if record.sibling else record.tree
        return LastTests(
            step=record.execution.name,
            passed=evidence.tests.get("passed"),
            current=is_code(repository, tested, state.tip_tree),
            summary=command_summary(record, evidence),
            red_before=evidence.tests.get("reason") == "red_before",
        )
    return None


def evidence_of_command(repository: RepositoryReader, state: RunState, record: StepRecord) -> EvidenceFields | None:
    """The evidence of a step that executed a command of the project; None for other steps."""
    if record.engine != "command":
        return None
    evidence = step_fields(repository, state, record, record.execution.evidence, EvidenceFields)
    return evidence if evidence.tests.get("command") else None


def is_of_tests(repository: RepositoryReader, state: RunState, record: StepRecord, evidence: EvidenceFields) -> bool:
    """Whether a command step ran tests, as `runner.step.test_steps.is_test_step`; a step that its flow does not list
    is a closing test."""
    if evidence.report is not None:
        return True
    path = f"{state.layout.specs}/flows/{record.flow}.json"
    content = repository.objects.file(repository.objects.commit(state.run_commit).tree, path) or b"{}"
    flow = parsed(json.loads, content, state.layout, f"{state.run_commit[:12]}:{path}")
    step = next((step for step in flow.get("steps", ()) if step.get("id") == record.step), None)
    if step is None or step.get("tests"):
        return True
    match step.get("command"):
        case {"run": line}:
            return bool(line == spec_fields(repository, state).test_command)
        case name:
            return name is not None and name not in OTHER_COMMANDS


def command_summary(record: StepRecord, evidence: EvidenceFields | None) -> str:
    """`31 passed`, `2 failed, 29 passed`; without a report, how the command ended; else the step's summary."""
    if evidence is None or record.engine != "command":
        return record.summary
    report, code = evidence.report, evidence.tests.get("exit_code")
    if report is not None and report.get("total"):
        kinds = ("failed", "passed", "skipped")
        counts = ", ".join(f"{report[kind]} {kind}" for kind in kinds if report.get(kind)) or "no test ran"
        return f"at least {counts}" if report.get("partial") else counts
    if "pytest" in (evidence.tests.get("command") or "") and code in _PYTEST_ENDS:
        return f"exit code {code}: {_PYTEST_ENDS[code]}"
    return record.summary
