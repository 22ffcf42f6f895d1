"""What people and programs say about a change: `harvest`, and files of a person; bounded, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import asdict, replace

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.errors import SpecError
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.record import Record, Text
from gitswarm.records.safety import Scrub
from gitswarm.records.worklists import Feedback, FeedbackItem
from gitswarm.runner.human_steps import OutOfBandStep, execute_out_of_band
from gitswarm.runner.operations.forge.branch import NO_FORGE, branch_of, configured_forge, is_ours
from gitswarm.runner.operations.forge.program import CiCheck, ForgeError, Remark
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.operation import KernelStep, handed_off, reported
from gitswarm.runner.stored import evidence_of

GIVEN = "feedback"
"""Step of agent `human` that hands in a file while a run is under way."""

MOST_ITEMS = 300
MOST_TEXT = 4_000
_MOST_NAME = 200
_MOST_PATH = 1_000
_MOST_KIND = 40
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]|<!--.*?-->", re.DOTALL)
_BEGINS = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_FENCE = ("```", "~~~")


class _Given(Record):
    """An item as a person writes it down."""

    text: Text
    id: str | None = None
    author: str = ""
    path: str | None = None
    line: int | None = None
    kind: str = "comment"


class _GivenItems(Record):
    items: tuple[_Given, ...]


def read_feedback(name: str, text: str) -> Feedback:
    """A file of feedback: JSON, a list of items or an object with `items`; else text, of which every entry of a list
    at the margin is an item, and everything else one.

    :raises SpecError: it begins as JSON and is none, or an item is not as docs/review.md says; or nothing is said.
    """
    items = _from_json(name, text) if text.lstrip()[:1] in ("[", "{") else list(_from_text(text))
    if not items:
        raise SpecError([f"{name}: nothing is said in it"], hint="docs/review.md says what a file of feedback holds")
    try:
        return bounded(items, str)
    except MistakesError as error:
        raise _wrong(name, error) from error


def _from_json(name: str, text: str) -> list[FeedbackItem]:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise SpecError([f"{name}:{line}: not JSON: {error}"], hint=f"python3 -m json.tool {name}") from error
    try:
        given = _GivenItems.from_plain({"items": value.get("items") if isinstance(value, dict) else value}).items
    except MistakesError as error:
        raise _wrong(name, error) from error
    return [
        FeedbackItem(
            id=item.id or f"file-{number}",
            author=item.author,
            path=item.path,
            line=item.line,
            text=item.text,
            kind=item.kind,
        )
        for number, item in enumerate(given, start=1)
    ]


def _wrong(name: str, error: MistakesError) -> SpecError:
    return SpecError([f"{name}: {error.mistakes[0].text}"], hint="docs/review.md says what an item holds")


def _from_text(text: str) -> Iterator[FeedbackItem]:
    for number, block in enumerate(_blocks(text), start=1):
        yield FeedbackItem(id=f"file-{number}", text=block)


def _blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    fenced = False
    for line in text.splitlines():
        begins = _BEGINS.match(line) if not fenced else None
        if begins is not None:
            yield from _nonempty(block)
            block = []
        block.append(line[begins.end() :] if begins is not None else line)
        fenced ^= block[-1].lstrip().startswith(_FENCE)
    yield from _nonempty(block)


def _nonempty(block: list[str]) -> Iterator[str]:
    whole = "\n".join(block).strip()
    if whole:
        yield whole


def bounded(items: Iterable[FeedbackItem], scrub: Scrub) -> Feedback:
    """At most so many items, none longer than may stand in a prompt; without secrets, and without what nobody sees.

    :raises MistakesError: two have the same id, or one has none.
    """
    found = [clean for item in items if (clean := _bounded(item, scrub)) is not None]
    kept = [each.to_plain() for each in found[:MOST_ITEMS]]
    return Feedback.from_plain({"items": kept, "left_out": max(0, len(found) - MOST_ITEMS)})


def _bounded(item: FeedbackItem, scrub: Scrub) -> FeedbackItem | None:
    """An item that can stand in a prompt; None: it says nothing that can be seen."""
    text = _UNSEEN.sub("", scrub(item.text)).strip()  # half a secret would not be found any more
    if not text:
        return None
    return FeedbackItem(
        id=_shown(item.id, scrub),
        author=_shown(item.author, scrub),
        path=_UNSEEN.sub("", scrub(item.path))[:_MOST_PATH] if item.path else None,
        line=item.line,
        text=text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "\n[… cut]",
        kind=_shown(item.kind, scrub)[:_MOST_KIND],
    )


def _shown(name: str, scrub: Scrub) -> str:
    return " ".join(_UNSEEN.sub("", scrub(name)).split())[:_MOST_NAME]


def from_forge(remarks: Iterable[Remark], checks: Iterable[CiCheck], run: str) -> Iterator[FeedbackItem]:
    """What others said, and what the checks of the request show."""
    for remark in remarks:
        if not is_ours(remark, run):
            said = asdict(remark)
            yield FeedbackItem(**{name: said[name] for name in FeedbackItem.__struct_fields__})
    for number, check in enumerate(checks, start=1):
        text = f"{check.name}: {check.state}\n{check.url}".strip()
        yield FeedbackItem(id=f"check-{number}", author=check.name, text=text, kind="check")


def given_feedback(session: Session, state: RunState) -> Feedback | None:
    """The newest file that a person handed in: during the run, else at its start."""
    for record in reversed(state.own_steps):
        if record.step == GIVEN and record.execution.agent == HUMAN and record.by_command:
            evidence = evidence_of(session, record)
            if evidence is not None:
                return Feedback.from_plain(evidence.operation)
    return session.specs.feedback


NOTHING = Feedback()


class _Harvest(Struct, frozen=True):
    """`source`: file, the name of the forge's command line, or none. `concerns`: what went wrong."""

    source: str
    feedback: Feedback = NOTHING
    reason: str = ""
    concerns: tuple[str, ...] = ()


def harvest(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """What a file says, else what the forge has; nothing to bring home is a result too."""
    found = _found(step)
    items = found.feedback.items
    report: dict[str, JsonValue] = {
        "source": found.source,
        "reason": found.reason,
        "left_out": found.feedback.left_out,
        "items": [item.to_plain() for item in items],
    }
    count = f"{len(items)} item{'' if len(items) == 1 else 's'} of feedback ({found.source})"
    handoff = Handoff(
        status=Status.UNVERIFIED if found.concerns else Status.VERIFIED,
        summary=f"{count}: {found.reason}" if found.reason else count,
        concerns=found.concerns,
    )
    return reported(step, request, handoff, report)


def _found(step: KernelStep) -> _Harvest:
    session = step.session
    given = given_feedback(session, step.state)
    if given is not None:
        return _Harvest("file", given)
    try:
        return _from_forge(step)
    except ForgeError as error:
        return _Harvest("none", reason=error.message, concerns=error.lines)


def _from_forge(step: KernelStep) -> _Harvest:
    """
    :raises ForgeError: it could not be asked.
    """
    session, run = step.session, step.run
    forge = configured_forge(session)
    if forge is None:
        return _Harvest("none", reason=NO_FORGE)
    request = forge.find(branch_of(run))
    if request is None:
        return _Harvest("none", reason="nothing was published")
    checks = forge.checks(request.head) if request.head else None
    items = from_forge(forge.remarks(request), checks or (), run)
    return _Harvest(forge.program.name, bounded(items, session.redactor.scrub))


def hand_in(session: Session, state: RunState, feedback: Feedback) -> RunState:
    """The next `harvest` brings it home, in place of what was handed in before.

    :param state: a run that has ended; it ends after it as it had ended.
    """
    clean = bounded(feedback.items, session.redactor.scrub)
    clean = replace(clean, left_out=feedback.left_out + clean.left_out)
    summary = f"feedback handed in: {len(clean.items)} item{'' if len(clean.items) == 1 else 's'}"
    handoff = Handoff(status=Status.VERIFIED, summary=summary)
    result = handed_off(GIVEN, handoff, clean.to_plain())
    return execute_out_of_band(session, state, OutOfBandStep.of(result))
