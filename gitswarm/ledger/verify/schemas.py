"""Every file that git-swarm itself wrote in RUN_BASE is of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from gitswarm.ledger.events import payload_problems
from gitswarm.ledger.layout import STORED_AS_THEY_ARE
from gitswarm.ledger.message import Kind
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.link import Link
from gitswarm.records.base import Record
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import Event, LoggedEvent
from gitswarm.records.evidence import Evidence
from gitswarm.records.partial import PartialHandoff
from gitswarm.records.receipt import Receipt
from gitswarm.records.routing import Proposal
from gitswarm.records.run_spec import RunSpec
from gitswarm.records.text import shorten
from gitswarm.records.transcript import TranscriptLine
from gitswarm.specs.flow import Flow
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.script import Script
from gitswarm.specs.sidequest import Sidequest
from gitswarm.specs.station import Station
from gitswarm.specs.template import StepTemplate

PARTIAL = "handoff_partial.json"
PROPOSALS = "/routing/proposals/"

_FROZEN: Mapping[str, type[Record]] = {
    "flows": Flow,
    "stations": Station,
    "sidequests": Sidequest,
    "templates": StepTemplate,
    "policy": ModelPolicy,
}
_TRANSCRIPT: TypeAdapter[TranscriptLine] = TypeAdapter(TranscriptLine)

T = TypeVar("T")


class Papers(Struct, frozen=True):
    """The files of one commit, understood; None: missing or not of its kind, or no file of such a commit.

    `events` has the lines that are events, `lines` says how many there are.
    """

    receipt: Receipt | None = None
    envelope: Envelope | None = None
    evidence: Evidence | None = None
    spec: RunSpec | None = None
    events: tuple[LoggedEvent, ...] = ()
    lines: int = 0
    flows: Mapping[str, Flow] | None = None
    stations: Mapping[str, Station] | None = None


class PaperReader:
    """Reads the files of one commit; what is wrong with them is in `findings`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.findings: list[Mismatch] = []

    def read(self) -> Papers:
        link = self._link
        events = self._lines(link.events, LoggedEvent.model_validate_json, needed=True)
        lines = link.papers.get(link.events, b"").count(b"\n")
        if link.kind is Kind.RUN:
            return self._run(events, lines)
        self._extras()
        if link.execution is None:
            return Papers(events=events, lines=lines)
        execution = link.execution
        engine = link.said.get("Swarm-Engine", "").partition("/")[0]
        self._lines(execution.transcript(engine), _TRANSCRIPT.validate_json, needed=False)
        return Papers(
            receipt=self._record(execution.receipt, Receipt),
            envelope=self._record(execution.envelope, Envelope),
            evidence=self._record(execution.evidence, Evidence),
            events=events,
            lines=lines,
        )

    def _run(self, events: tuple[LoggedEvent, ...], lines: int) -> Papers:
        layout = self._link.layout
        if self._link.papers.get(layout.attributes, STORED_AS_THEY_ARE) != STORED_AS_THEY_ARE:
            self._add(layout.attributes, "has other rules than git-swarm writes")
        frozen: dict[str, dict[str, Record]] = {folder: {} for folder in _FROZEN}
        for path in self._link.papers:
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
        return Papers(
            spec=self._record(layout.spec, RunSpec),
            events=events,
            lines=lines,
            flows=_only(Flow, frozen["flows"]),
            stations=_only(Station, frozen["stations"]),
        )

    def _extras(self) -> None:
        """What a commit need not have."""
        for path in self._link.papers:
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
        content = self._link.papers.get(path)
        if content is None and path not in self._link.unreadable:
            self._add(path, "is missing")
        return content

    def _add(self, path: str, message: str) -> None:
        self.findings.append(self._link.finding("schemas", message, path))


RecordT = TypeVar("RecordT", bound=Record)


def _only(model: type[RecordT], found: Mapping[str, Record]) -> dict[str, RecordT]:
    return {name: record for name, record in found.items() if isinstance(record, model)}


def event_problems(link: Link, papers: Papers) -> Iterator[Mismatch]:
    """What is missing in the payloads."""
    for event in papers.events:
        for problem in payload_problems(Event(event.kind, event.payload)):
            yield link.finding("schemas", f"line {event.seq}: {problem}", link.events)


def _why(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "is not UTF-8" if isinstance(error, UnicodeDecodeError) else shorten(str(error), 120)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return shorten(f"{where}: {first['msg']}" if where else first["msg"], 120)
