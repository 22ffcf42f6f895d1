"""The page of one run: how it stands, where it went, and one of its steps up close."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from gitswarm.cli.decisions import step_lines, turn_of
from gitswarm.cli.live_events import is_committed, step_label
from gitswarm.cli.runs import Opened, mark, step_outcome
from gitswarm.cli.show import whole_step
from gitswarm.cli.transcript import Line, all_lines, in_words, prompt_lines
from gitswarm.errors import NotFoundError
from gitswarm.ledger.archive import is_read_from_archive
from gitswarm.ledger.finding import find_step, journal_files, journal_folder, parsed, whole_lines
from gitswarm.ledger.journal import read_lines
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.reading import RunEnd, history, run_spec
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import (
    CallFields,
    EvidenceFields,
    ReceiptFields,
    Timing,
    command_summary,
    evidence_of_command,
    is_of_tests,
    timings,
)
from gitswarm.ledger.work import CountedFile, changed_files
from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import Decision
from gitswarm.specs.flow import Flow
from gitswarm.specs.graph import END, PARALLEL, edges
from gitswarm.web.cut_diff import CutDiff, file_diffs, git_diff
from gitswarm.web.forensic import Topic, topics
from gitswarm.web.stream import Cursor, LiveLine, live_lines

StepKey = tuple[str, str]
"""A flow and a step of it."""

TABS = ("evidence", "diff", "transcript", "receipt", "prompt", "routing")
_MOST_LIVE = 200
_MOST_LINES = 400
"""Lines of a transcript; the others are behind a link."""
_MAX_CHARS = 20_000
"""Of one of them."""


class GraphNode(Struct, frozen=True):
    """`number`: of its newest execution, None: there is none. `aside`: no step of the flow's own graph."""

    id: str
    agent: str
    aside: bool
    active: bool
    coming: bool
    number: int | None
    outcome: str
    sign: str
    times: int


class GraphEdge(Struct, frozen=True):
    source: str
    target: str
    label: str
    back: bool
    aside: bool


class RunGraph(Struct, frozen=True):
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    def to_plain(self) -> dict[str, JsonValue]:
        plain: dict[str, JsonValue] = to_builtins(self)
        return plain


def frozen_flow(opened: Opened, flow: str) -> Flow | None:
    """A flow as the run froze it; None: it has no such flow."""
    path = f"{opened.layout.specs}/flows/{flow}.json"
    content = opened.repository.objects.file(opened.state.tip_tree, path)
    return None if content is None else parsed(Flow.from_json, content, opened.layout, path)


def run_graph(opened: Opened, flow: str, active: Sequence[StepKey], coming: StepKey | None) -> RunGraph:
    """
    :param active: what is executed now; `coming`: what would be executed next.
    """
    found = frozen_flow(opened, flow)
    agents = {step.id: step.agent for step in found.steps} if found is not None else {}
    steps = [
        record
        for record in opened.state.steps
        if record.flow == flow and (record.step in agents or not (record.by_command or record.by_human))
    ]
    now = [step for where, step in active if where == flow]
    following = coming[1] if coming is not None and coming[0] == flow else None
    names = dict.fromkeys([*agents, *(record.step for record in steps), *now, *([following] if following else [])])
    nodes = tuple(
        _node(name, agents, [each for each in steps if each.step == name], name in now, name == following)
        for name in names
        if name is not None
    )
    own = [
        GraphEdge(
            each.source,
            each.target,
            "" if each.label == PARALLEL else each.label,
            back=each.limit is not None,
            aside=False,
        )
        for each in (edges(found) if found is not None else ())
        if each.target != END
    ]
    return RunGraph(nodes, (*own, *_detours(steps, agents, now or ([following] if following else []))))


def _node(name: str, agents: dict[str, str], executed: Sequence[StepRecord], active: bool, coming: bool) -> GraphNode:  # noqa: FBT001
    last = executed[-1] if executed else None
    outcome = step_outcome(last) if last is not None else ""
    return GraphNode(
        id=name,
        agent=agents.get(name) or (last.execution.agent if last is not None else ""),
        aside=name not in agents,
        active=active,
        coming=coming and not active,
        number=last.number if last is not None else None,
        outcome="running" if active else outcome or ("next" if coming else "not yet"),
        sign="▸" if active else mark(outcome) if outcome else "·",
        times=len(executed),
    )


def _detours(steps: Sequence[StepRecord], agents: dict[str, str], then: Sequence[str]) -> Iterator[GraphEdge]:
    """The transitions to, between and from steps that are not of the flow's own graph, as they were taken."""
    transitions = dict.fromkeys(pairwise([*(record.step for record in steps), *then[:1]]))
    for source, target in transitions:
        if (source not in agents or target not in agents) and source != target:
            yield GraphEdge(source, target, "", back=False, aside=True)


class Row(Struct, frozen=True):
    """A committed step in the timeline, with its tool calls and the decision after it. `turn` None: simply the next
    step."""

    record: StepRecord
    took: Timing
    summary: str
    calls: tuple[CallFields, ...]
    decision: Decision | None
    turn: str | None


class Executing(Struct, frozen=True):
    """A step that is in no commit: it executes now, or was cut off. `earlier`: lines that are not shown."""

    name: str
    flow: str
    step: str
    lines: list[LiveLine]
    earlier: int


class RunPage(Struct, frozen=True):
    """`forked_from`: the run whose steps the first ones are."""

    opened: Opened
    found: RunOverview
    archived: bool
    flows: tuple[str, ...]
    flow: str
    graph: RunGraph
    timeline: Sequence[Row | RunEnd]
    executing: Sequence[Executing]
    cursor: Cursor
    projected_usd: float | None
    files: Sequence[CountedFile]
    forked_from: str | None


def run_page(opened: Opened, flow: str | None) -> RunPage:
    """
    :param flow: the one whose graph is shown; None: where the run is.
    """
    repository, layout, state = opened.repository, opened.layout, opened.state
    cursor, executing = _executing(opened)
    found = overview(repository, layout, state)
    is_live = found.state is RunStatus.RUNNING
    spec = run_spec(repository, state)
    flows = tuple(dict.fromkeys([*spec.flows, *(record.flow for record in state.steps)]))
    at = executing[-1].flow if executing and is_live else found.flow
    shown = flow if flow in flows else at
    own = frozen_flow(opened, found.flow)
    # Which flow the next step is in an overview does not say: where blocking concerns send a run, it may be another.
    is_here = found.next_step is not None and (
        bool(found.stack) or (own is not None and own.has_step(found.next_step))
    )
    coming = (found.flow, found.next_step) if found.next_step and is_here else None
    return RunPage(
        opened=opened,
        found=found,
        archived=is_read_from_archive(repository, layout),
        flows=flows,
        flow=shown,
        graph=run_graph(opened, shown, [(each.flow, each.step) for each in executing if is_live], coming),
        timeline=_timeline(opened),
        executing=executing,
        cursor=cursor,
        projected_usd=_projected(opened, found, spec.flows, executing),
        files=changed_files(repository, state.base, state.tip),
        forked_from=_forked_from(opened),
    )


def _executing(opened: Opened) -> tuple[Cursor, list[Executing]]:
    """Up to where everything is known, and what executes."""
    found, read = [], {}
    for journal in journal_files(journal_folder(opened.repository, opened.layout)):
        name = step_label(journal.flow, journal.step, journal.iteration)
        content = whole_lines(journal.path, 0)
        read[name] = len(content)
        if not is_committed(opened.state, journal):
            lines = live_lines(read_lines(content))
            shown = lines[-_MOST_LIVE:]
            found.append(Executing(name, journal.flow, journal.step, shown, len(lines) - len(shown)))
    return Cursor(opened.state.tip, read), found


def _timeline(opened: Opened) -> list[Row | RunEnd]:
    """Oldest first."""
    took = dict(zip(opened.state.steps, timings(opened.repository, opened.state), strict=True))
    return [
        entry.record
        if isinstance(entry.record, RunEnd)
        else _row(opened, entry.record, took[entry.record], entry.decision)
        for entry in history(opened.repository, opened.state)
    ]


def _row(opened: Opened, record: StepRecord, took: Timing, decision: Decision | None) -> Row:
    turn = turn_of(decision) if decision is not None else None
    receipt = opened.repository.objects.file(record.tree, record.execution.receipt)
    return Row(
        record=record,
        took=took,
        summary=command_summary(record, evidence_of_command(opened.repository, opened.state, record)),
        calls=ReceiptFields.from_json(receipt).tool_calls if receipt is not None else (),
        decision=decision,
        turn=turn.text if turn is not None else None,
    )


def _forked_from(opened: Opened) -> str | None:
    message = parse_message(opened.repository.objects.commit(opened.state.run_commit).message)
    return message.trailers.get("Swarm-Forked-From", "").partition(" ")[0] or None if message is not None else None


def _projected(
    opened: Opened, found: RunOverview, flows: Sequence[str], executing: Sequence[Executing]
) -> float | None:
    """What the run costs in the end if its other steps cost as much as those so far; None: nobody can know."""
    begun = found.steps_executed + len(executing)
    if found.state is not RunStatus.RUNNING or not found.cost_usd or not begun:
        return None
    known = [flow for name in flows if (flow := frozen_flow(opened, name)) is not None]
    done = {(record.flow, record.step) for record in opened.state.steps} | {
        (each.flow, each.step) for each in executing
    }
    left = sum((flow.id, step.id) not in done for flow in known for step in flow.steps)
    return found.cost_usd / begun * (begun + left)


class Detail(Struct, frozen=True):
    """One step up close. `commands`: the same in plain git, for the tab that is shown."""

    record: StepRecord
    tab: str
    whole: Mapping[str, JsonValue]
    commands: Sequence[str]
    topics: Sequence[Topic] = ()
    changed: CutDiff | None = None
    lines: Sequence[tuple[str, str]] = ()
    more_lines: int = 0
    text: str = ""


def first_shown(opened: Opened) -> str | None:
    """The step that is opened by itself: of a run that has ended the one that blocks it; None: the last one."""
    state = opened.state
    return str(state.blocking[0].opened_by.number) if state.end is not None and state.blocking else None


def step_detail(opened: Opened, step: str | None, tab: str, *, everything: bool = False) -> Detail | None:
    """One step up close; None: no step is in a commit yet, or nobody executed that one.

    :param everything: the whole transcript.
    """
    record = None
    with suppress(NotFoundError):
        record = find_step(opened.repository, opened.state, step)
    if record is None:
        return None
    tab = tab if tab in TABS else TABS[0]
    execution, commit = record.execution, record.commit[:12]
    whole = whole_step(opened, record)
    transcript = execution.transcript(record.engine)
    shown = {
        "evidence": (execution.envelope, execution.evidence),
        "transcript": (transcript,),
        "prompt": (transcript,),
        "receipt": (execution.receipt,),
    }
    commands = [f"git show {commit}:{path}" for path in shown.get(tab, ())]
    detail = Detail(record, tab, whole, commands)
    match tab:
        case "diff":
            commands.append(shlex.join(["git", *git_diff(record.parent[:12], commit)]))
            detail = replace(detail, changed=file_diffs(opened.repository, record.parent, record.commit))
        case "transcript":
            lines = all_lines(opened, record)
            kept = lines if everything else lines[:_MOST_LINES]
            spoken = [_shown_line(line, None if everything else _MAX_CHARS) for line in kept]
            detail = replace(detail, lines=spoken, more_lines=len(lines) - len(kept))
        case "receipt":
            detail = replace(detail, text=json.dumps(whole["receipt"], indent=2, ensure_ascii=False))
        case "prompt":
            detail = replace(detail, text="\n".join(prompt_lines(opened, record)))
        case "routing":
            commands.append(f"git notes --ref={opened.layout.routing_notes} show {commit}")
            detail = replace(detail, text="\n".join(step_lines(opened, record)))
        case _:
            evidence = whole["evidence"]
            proven = convert(evidence, EvidenceFields)
            of_tests = is_of_tests(opened.repository, opened.state, record, proven)
            detail = replace(detail, topics=topics(whole["envelope"], evidence, of_tests=of_tests))
    return detail


def _shown_line(line: Line, most: int | None) -> tuple[str, str]:
    """Who spoke, and what."""
    title, _end, body = in_words(line).partition("\n")
    cut = f"\n… {len(body) - most} more characters" if most is not None and len(body) > most else ""
    return title.removeprefix("── "), body[:most] + cut
