"""Files in RUN_BASE: each is of its kind, and only the commit that may write a path changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field

from gitswarm.git.objects import FILE
from gitswarm.ledger.journal import payload_problems
from gitswarm.ledger.layout import HUMAN, KERNEL, STORED_AS_THEY_ARE, expired_events
from gitswarm.ledger.message import Kind
from gitswarm.ledger.verify.commit_reader import Link, Mismatch, shown, step_files
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import LoggedEvent, transcript_line
from gitswarm.records.evidence import DiffSummary, Evidence
from gitswarm.records.execution import RUNS_FOLDER, Execution
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.receipt import PartialHandoff, Receipt
from gitswarm.records.record import Record
from gitswarm.records.routing import Proposal
from gitswarm.records.run_spec import RunSpec
from gitswarm.records.text import shorten
from gitswarm.specs.flow import Flow
from gitswarm.specs.fragments import StepTemplate
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.script import Script
from gitswarm.specs.sidequest import Sidequest
from gitswarm.specs.station import Station, declared_artifacts

PARTIAL = "handoff_partial.json"
PROPOSALS = "/routing/proposals/"

_FROZEN: Mapping[str, type[Record]] = {
    "flows": Flow,
    "stations": Station,
    "sidequests": Sidequest,
    "templates": StepTemplate,
    "policy": ModelPolicy,
}

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=Record)


class CommitFiles(Struct, frozen=True):
    """The files of one commit, understood; None: missing or not of its kind, or no file of such a commit.

    `events` has the lines that are events, `lines` says how many there are.
    """

    receipt: Receipt | None = None
    envelope: Envelope | None = None
    evidence: Evidence | None = None
    spec: RunSpec | None = None
    events: tuple[LoggedEvent, ...] = ()
    lines: int = 0
    flows: Mapping[str, Flow] = field(default_factory=dict)
    stations: Mapping[str, Station] = field(default_factory=dict)


class FileReader:
    """Reads the files of one commit; what is wrong with them is in `findings`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.findings: list[Mismatch] = []

    def read(self) -> CommitFiles:
        link = self._link
        events = self._lines(link.events, LoggedEvent.from_json, needed=True)
        lines = link.files.get(link.events, b"").count(b"\n")
        if link.kind is Kind.RUN:
            return self._run(events, lines)
        self._extras()
        if link.execution is None:
            return CommitFiles(events=events, lines=lines)
        execution = link.execution
        engine = link.engine
        self._lines(execution.transcript(engine), transcript_line, needed=False)
        return CommitFiles(
            receipt=self._record(execution.receipt, Receipt),
            envelope=self._record(execution.envelope, Envelope),
            evidence=self._record(execution.evidence, Evidence),
            events=events,
            lines=lines,
        )

    def _run(self, events: tuple[LoggedEvent, ...], lines: int) -> CommitFiles:
        layout = self._link.layout
        if self._link.files.get(layout.attributes, STORED_AS_THEY_ARE) != STORED_AS_THEY_ARE:
            self._add(layout.attributes, "has other rules than git-swarm writes")
        frozen: dict[str, dict[str, Record]] = {folder: {} for folder in _FROZEN}
        for path in self._link.files:
            if not path.startswith(f"{layout.specs}/"):
                continue
            folder, _slash, name = path.removeprefix(f"{layout.specs}/").partition("/")
            if folder in _FROZEN:
                found = self._record(path, _FROZEN[folder])
                frozen[folder] |= {name.removesuffix(".json"): found} if found else {}
            elif folder == "script.json":
                self._record(path, Script)
            else:
                self._parsed(path, bytes.decode)
        return CommitFiles(
            spec=self._record(layout.spec, RunSpec),
            events=events,
            lines=lines,
            flows=_only(Flow, frozen["flows"]),
            stations=_only(Station, frozen["stations"]),
        )

    def _extras(self) -> None:
        """What a commit need not have."""
        for path in self._link.files:
            if PROPOSALS in path:
                self._record(path, Proposal)
            elif path.endswith(f"/{PARTIAL}") and self._link.kind is Kind.END:
                self._record(path, PartialHandoff)

    def _record(self, path: str, model: type[RecordT]) -> RecordT | None:
        return self._parsed(path, model.from_json)

    def _parsed(self, path: str, parse: Callable[[bytes], T]) -> T | None:
        content = self._content(path)
        if content is None:
            return None
        try:
            return parse(content)
        except (ValueError, RecursionError) as error:
            self._add(path, _why(error))
            return None

    def _lines(self, path: str, parse: Callable[[bytes], T], *, needed: bool) -> tuple[T, ...]:
        content = self._content(path)
        if content is None:
            return ()
        lines = content.split(b"\n")
        if lines.pop() != b"":
            self._add(path, "its last line is incomplete")
        elif needed and not lines:
            self._add(path, "is empty")
        found: list[T] = []
        for number, line in enumerate(lines, start=1):
            try:
                found.append(parse(line))
            except (ValueError, RecursionError) as error:
                self._add(path, f"line {number}: {_why(error)}")
        return tuple(found)

    def _content(self, path: str) -> bytes | None:
        content = self._link.files.get(path)
        if content is None and path not in self._link.unreadable:
            self._add(path, "is missing")
        return content

    def _add(self, path: str, message: str) -> None:
        self.findings.append(self._link.finding("schemas", message, path))


def _only(model: type[RecordT], found: Mapping[str, Record]) -> dict[str, RecordT]:
    return {name: record for name, record in found.items() if isinstance(record, model)}


def check_payloads(link: Link, files: CommitFiles) -> Iterator[Mismatch]:
    """What is missing in the payloads."""
    for event in files.events:
        for problem in payload_problems(event):
            yield link.finding("schemas", f"line {event.seq}: {problem}", link.events)


def _why(error: Exception) -> str:
    if not isinstance(error, MistakesError):
        return "is not UTF-8" if isinstance(error, UnicodeDecodeError) else shorten(str(error), 120)
    return shorten(error.mistakes[0].text, 120)


def check_paths(link: Link, files: CommitFiles, begun: CommitFiles) -> Iterator[Mismatch]:
    """
    :param begun: of the first commit of its run.
    """
    own, base = _own(link, files, begun), f"{link.layout.base}/"
    code = set[str]()
    for change in link.changes:
        path = change.path
        if path != RUNS_FOLDER and not path.startswith(f"{RUNS_FOLDER}/"):
            code.add(shown(path))
        elif not path.startswith(base):
            yield link.finding("paths", "is in another run's folder", shown(path))
        elif change.after is None:
            if link.execution is None or not _is_expired(link.execution, path):
                yield link.finding("paths", "was removed", shown(path))
        elif path not in own and not _is_extra(link.kind, path.removeprefix(base)):
            yield link.finding("paths", "is not a file of this step", shown(path))
        elif change.after.mode != FILE:
            yield link.finding("paths", f"is not a plain file (mode {change.after.mode:o})", shown(path))
    yield from _agent(link, files, begun)
    yield from _code(link, code, files.evidence)


def _own(link: Link, files: CommitFiles, begun: CommitFiles) -> set[str]:
    """Paths that the commit may write."""
    layout, execution = link.layout, link.execution
    if link.kind is Kind.RUN:
        return {layout.spec, layout.attributes, layout.run_events}
    if execution is None:
        return {link.events}
    # What a failed step left is kept elsewhere, unless it was a parallel one, which has its own commit.
    declared = _declared(link, files, begun) if link.parallel or not link.is_failed else ()
    own = {f"{layout.base}/{name}" for name in declared}
    own -= {each for each in own if PROPOSALS in each} | {execution.base_tests}
    own |= {execution.base_tests} if link.engine == "command" else set()
    return own | {execution.events, *step_files(execution, link.engine)}


def _is_extra(kind: Kind, name: str) -> bool:
    """What a commit may write and need not; `name`: relative to RUN_BASE."""
    in_flow = name.partition("/")[2]
    if kind is Kind.RUN:
        return name.startswith("specs/")
    return in_flow.startswith(PROPOSALS.removeprefix("/")) or (kind is Kind.END and in_flow == PARTIAL)


def _is_expired(execution: Execution, path: str) -> bool:
    folder, _slash, name = path.rpartition("/")
    return folder == execution.events_folder and path in expired_events(execution, [name])


def _declared(link: Link, files: CommitFiles, begun: CommitFiles) -> Sequence[str]:
    """Files that the step or its station may write, relative to RUN_BASE."""
    execution = link.execution
    flow = begun.flows.get(execution.flow) if execution else None
    if execution is None or flow is None or execution.agent == HUMAN:
        return ()
    step = flow.step(execution.step) if flow.has_step(execution.step) else None
    if execution.agent == KERNEL and (step is None or not step.is_kernel):
        return ()  # typed by a person, out of band
    station = step.station if step is not None else files.receipt.station if files.receipt is not None else None
    return declared_artifacts(flow, step, begun.stations.get(station or ""))


def _agent(link: Link, files: CommitFiles, begun: CommitFiles) -> Iterator[Mismatch]:
    """Who executed the step is who the frozen flow says; of other steps only that there is such a station."""
    execution, receipt = link.execution, files.receipt
    if execution is None or receipt is None or execution.agent in (HUMAN, KERNEL):
        return
    flow = begun.flows.get(execution.flow)
    if flow is None:
        yield link.finding("trailers", f"the run has no flow {execution.flow}")
        return
    if flow.has_step(execution.step):
        step = flow.step(execution.step)
        if (step.agent, step.station) != (execution.agent, receipt.station):
            message = f"the flow has {step.agent} for this step, not {receipt.station}"
            yield link.finding("trailers", message, execution.receipt)
    elif receipt.station != execution.agent or execution.agent not in begun.stations:
        yield link.finding("trailers", f"the run has no station {execution.agent}", execution.receipt)


def _code(link: Link, changed: set[str], evidence: Evidence | None) -> Iterator[Mismatch]:
    """Checks that only steps changed code; a failed one's is kept elsewhere; what a step changed is what its evidence
    says."""
    if link.kind is not Kind.STEP or (link.is_failed and not link.parallel):
        for path in sorted(changed):
            yield link.finding("paths", "is code, which this commit may not change", path)
    elif evidence is not None and not link.replays:
        for path in sorted(changed ^ _changed_paths(evidence.diff)):
            claim = "does not say" if path in changed else "says"
            yield link.finding("paths", f"the evidence {claim} that it changed", path)


def _changed_paths(diff: DiffSummary) -> set[str]:
    renamed = {file.old_path for file in diff.files if file.old_path and file.change == "renamed"}
    return {file.path for file in diff.files} | renamed
