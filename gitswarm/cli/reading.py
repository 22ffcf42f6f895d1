"""Commands that only read: log, show, transcript, diff, status, list, path, events."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic import JsonValue

from gitswarm.cli.console import duration, err, money, out, out_bytes, out_json, table
from gitswarm.cli.here import repository_here
from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.events import current
from gitswarm.ledger.layout import RUNS_FOLDER, RunLayout
from gitswarm.ledger.reading import all_runs, decisions, find_run, find_step, live_journals, stored_events
from gitswarm.ledger.state import RunState, StepRecord, replay
from gitswarm.records.base import shorten
from gitswarm.records.event import TERMINAL_KINDS, LoggedEvent
from gitswarm.records.outcome import Result
from gitswarm.records.receipt import Receipt
from gitswarm.runner.overview import RunOverview, overview, overviews

RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="An id or a part of it; else the run you stand in, or the newest."),
]
StepArgument = Annotated[
    str | None,
    typer.Argument(metavar="STEP", help="step, flow/step, step@2, 7, or a commit; else the last one."),
]
RunOption = Annotated[str | None, typer.Option("--run", metavar="RUN", help="The run; else as for `log`.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document.")]

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that a command is about."""

    repository: Repository
    layout: RunLayout
    state: RunState


def _open(run: str | None) -> Opened:
    repository = repository_here()
    layout = find_run(repository, run)
    return Opened(repository, layout, replay(repository, layout))


def log(
    run: RunArgument = None,
    as_json: JsonFlag = False,
    oneline: Annotated[bool, typer.Option("--oneline", help="One short line per step.")] = False,
) -> None:
    """The steps of a run, oldest first."""
    opened = _open(run)
    rows = [_log_entry(opened, record) for record in opened.state.steps]
    if as_json:
        out_json(rows)
        return
    if oneline:
        for record in opened.state.steps:
            out(f"{record.commit[:9]} {_name(record)} {_outcome(record)} {shorten(record.summary, 40)}")
        return
    out(f"{opened.layout.run_id}  {_state_line(opened)}")
    table(
        ("#", "step", "outcome", "time", "commit", "summary"),
        [
            (
                str(record.number),
                _name(record),
                _outcome(record),
                duration(int(str(row["duration_ms"]))),
                record.commit[:8],
                shorten(record.summary, 200),
            )
            for record, row in zip(opened.state.steps, rows, strict=True)
        ],
    )


def show(
    step: StepArgument = None,
    run: RunOption = None,
    envelope: Annotated[bool, typer.Option("--envelope", help="The handoff, as stored.")] = False,
    receipt: Annotated[bool, typer.Option("--receipt", help="The receipt, as stored.")] = False,
    evidence: Annotated[bool, typer.Option("--evidence", help="What git and the tests prove, as stored.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="What the agent was told.")] = False,
    routing: Annotated[bool, typer.Option("--routing", help="The decisions after the step.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """One step: what was done, what is proven, where it led."""
    opened = _open(run)
    record = find_step(opened.repository, opened.state, step)
    execution = record.execution
    files = [(envelope, execution.envelope), (receipt, execution.receipt), (evidence, execution.evidence)]
    wanted = [path for asked, path in files if asked]
    if as_json and not (wanted or prompt or routing):
        out_json(_whole_step(opened, record))
    elif not (wanted or prompt or routing):
        _show_step(opened, record)
    for path in wanted:
        out_bytes(_stored(opened, record, path))
    if prompt:
        _show_prompt(opened, record)
    if routing:
        _show_routing(opened, record, as_json=as_json)


def transcript(step: StepArgument = None, run: RunOption = None, as_json: JsonFlag = False) -> None:
    """What was said and done in a step."""
    opened = _open(run)
    record = find_step(opened.repository, opened.state, step)
    content = _stored(opened, record, record.execution.transcript(record.engine))
    lines: list[dict[str, JsonValue]] = [json.loads(line) for line in content.splitlines()]
    if as_json:
        out_json([dict(line) for line in lines])
        return
    for line in lines:
        kind = line.get("role") or line.get("type")
        title = f"{line['timestamp']} {kind} {line.get('tool', '')}".rstrip()
        body = line.get("content") or line.get("output") or line.get("input") or ""
        out(f"── {title}")
        out(str(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).rstrip())


def diff(
    what: Annotated[
        str | None, typer.Argument(metavar="RUN|STEP", help="A run, or a step of the current run.")
    ] = None,
    run: RunOption = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="The run's evidence files too.")] = False,
    stat: Annotated[bool, typer.Option("--stat", help="Only how much changed in which file.")] = False,
) -> None:
    """What a run, or one step of it, changed in the code; git shows it."""
    repository = repository_here()
    old, new = _diff_ends(repository, what, run)
    arguments = ["diff", *(["--stat"] if stat else []), old, new]
    if not evidence:
        arguments += ["--", f":(top,exclude){RUNS_FOLDER}"]
    git = repository.checkout_git if repository.checkout else repository.git
    sys.stdout.flush()
    pager = ["--paginate"] if sys.stdout.isatty() else ["--no-pager"]
    colour = ["-c", "color.ui=auto"]
    argv = git.argv()
    done = subprocess.run(
        [*argv, *colour, *pager, *arguments], env=dict(git.env), cwd=repository.checkout, check=False
    )
    if done.returncode != 0:
        raise SwarmError(f"git diff ended with {done.returncode}", hint=f"git diff {old[:12]} {new[:12]}")


def status(run: RunArgument = None, as_json: JsonFlag = False) -> None:
    """How a run stands, and the next command to type."""
    repository = repository_here()
    found = overview(repository, find_run(repository, run))
    if as_json:
        out_json(found.model_dump(mode="json"))
        return
    out(f"{found.run_id}  {found.state}")
    rows = [
        ("flow", found.flow),
        ("now", found.current_step or "-"),
        ("next", found.next_step or "-"),
        ("steps", f"{found.steps_completed} completed, {found.tokens} tokens, {money(found.cost_usd)}"),
        ("branch", found.branch),
        ("worktree", found.worktree or "gone (resume makes it again)"),
        ("error", found.last_error or ""),
        ("review", f"git diff {found.base[:12]}...{found.branch} -- ':(top,exclude){RUNS_FOLDER}'"),
        ("try", found.hint),
    ]
    for name, value in rows:
        if value:
            out(f"  {name:<9} {value}")


def list_runs(as_json: JsonFlag = False) -> None:
    """All runs of this repository, newest first."""
    repository = repository_here()
    found = overviews(repository, all_runs(repository))
    if as_json:
        out_json([item.model_dump(mode="json") for item in found])
        return
    if not found:
        out("no runs yet")
        err("hint: git swarm start build -m 'the task'")
        return
    table(
        ("run", "state", "flow", "steps", "cost", "next"),
        [_list_row(item) for item in found],
    )


def path(run: RunArgument = None) -> None:
    """Where the run's worktree lies: cd "$(git swarm path)"."""
    repository = repository_here()
    layout = find_run(repository, run)
    found = overview(repository, layout)
    if found.worktree is None:
        raise NotFoundError(
            f"{layout.run_id} has no worktree here any more", hint=f"git swarm resume {layout.run_id}"
        )
    out(found.worktree)


def events(
    run: RunArgument = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document per line.")] = False,
) -> None:
    """Everything that happened in a run, in order."""
    opened = _open(run)
    if not follow:
        for event in current(_so_far(opened)):
            _print_event(event, as_json=as_json)
        return
    _follow(opened, as_json=as_json)


def _so_far(opened: Opened) -> list[LoggedEvent]:
    """Events of the chain and of the step that executes now."""
    found = stored_events(opened.repository, opened.state)
    done = {(e.flow_key, e.step_id, e.iteration) for e in found}
    for journal in live_journals(opened.repository, opened.layout):
        if (journal.flow, journal.step, journal.iteration) not in done:
            found.extend(journal.read())
    return found


def _follow(opened: Opened, *, as_json: bool) -> None:
    """Prints what is there and what comes, each event once, until the stream ends or nobody owns the run."""
    shown: set[tuple[str | None, str | None, int | None, int, str]] = set()
    state = opened.state
    while True:
        state = replay(opened.repository, opened.layout)
        fresh = []
        for event in current(_so_far(Opened(opened.repository, opened.layout, state))):
            key = (event.flow_key, event.step_id, event.iteration, event.seq, event.kind)
            if key not in shown:
                shown.add(key)
                fresh.append(event)
        for event in fresh:
            _print_event(event, as_json=as_json)
        if fresh and fresh[-1].kind in TERMINAL_KINDS:
            return
        live = overview(opened.repository, opened.layout).state == "running"
        if not live and not fresh:
            err(f"hint: nobody executes this run now: git swarm resume {opened.layout.run_id}")
            return
        sys.stdout.flush()
        time.sleep(POLL_S)


def _print_event(event: LoggedEvent, *, as_json: bool) -> None:
    if as_json:
        out(event.to_line().decode().rstrip("\n"))
        return
    where = f"{event.flow_key}/{event.step_id}@{event.iteration}" if event.step_id else event.flow_key or "run"
    about = ", ".join(f"{key}={_short(value)}" for key, value in event.payload.items() if value not in (None, ""))
    out(f"{event.ts[11:23]} {event.kind:<15} {where}  {about}")


def _short(value: JsonValue) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)


def _name(record: StepRecord) -> str:
    iteration = record.execution.iteration
    return f"{record.flow}/{record.step}" + (f"@{iteration}" if iteration > 1 else "")


def _outcome(record: StepRecord) -> str:
    return record.status.value if record.result is Result.SUCCEEDED else record.result.value


def _state_line(opened: Opened) -> str:
    found = overview(opened.repository, opened.layout)
    return f"{found.state}, {len(opened.state.steps)} steps, {found.tokens} tokens, {money(found.cost_usd)}"


def _list_row(item: RunOverview) -> tuple[str, ...]:
    return (
        item.run_id,
        item.state.value,
        item.flow,
        str(item.steps_completed),
        money(item.cost_usd),
        item.next_step or "-",
    )


def _log_entry(opened: Opened, record: StepRecord) -> dict[str, JsonValue]:
    """One entry of `log --json` (design section 8)."""
    receipt = Receipt.from_json(_stored(opened, record, record.execution.receipt))
    taken = decisions(opened.repository, opened.layout, record.commit)
    last = taken[-1] if taken else None
    return {
        "n": record.number,
        "commit": record.commit,
        "flow": record.flow,
        "step": record.step,
        "iteration": record.execution.iteration,
        "agent": record.execution.agent,
        "engine": record.engine,
        "mode": record.mode,
        "model": record.model,
        "result": record.result.value,
        "status": record.status.value,
        "summary": record.summary,
        "started_at": receipt.started_at,
        "duration_ms": receipt.duration_ms,
        "tokens": record.tokens,
        "cost_usd": record.cost_usd,
        "routing": None
        if last is None
        else {
            "decision": last.decision.value,
            "to_step": last.to_step,
            "routing_source": last.routing_source.value,
            "reason": last.reason,
        },
    }


def _whole_step(opened: Opened, record: StepRecord) -> dict[str, JsonValue]:
    execution = record.execution
    stored = {
        name: json.loads(_stored(opened, record, path))
        for name, path in (
            ("receipt", execution.receipt),
            ("envelope", execution.envelope),
            ("evidence", execution.evidence),
        )
    }
    taken = decisions(opened.repository, opened.layout, record.commit)
    return {
        **_log_entry(opened, record),
        **stored,
        "decisions": [decision.model_dump(mode="json") for decision in taken],
    }


def _show_step(opened: Opened, record: StepRecord) -> None:
    entry = _log_entry(opened, record)
    whole = _whole_step(opened, record)
    out(f"{_name(record)}  {_outcome(record)}  commit {record.commit[:12]}  (#{record.number})")
    out(f"  by        {record.execution.agent}, {record.engine}/{record.mode}, {record.model}")
    out(f"  took      {duration(int(str(entry['duration_ms'])))}, {record.tokens} tokens, {money(record.cost_usd)}")
    out(f"  summary   {record.summary}")
    envelope, evidence = whole["envelope"], whole["evidence"]
    if isinstance(envelope, dict):
        for kind in ("concerns", "blockers", "artifacts"):
            items = envelope.get(kind)
            for item in items if isinstance(items, list) else ():
                out(f"  {kind[:-1]:<9} {item}")
    if isinstance(evidence, dict):
        _show_evidence(evidence)
    for decision in decisions(opened.repository, opened.layout, record.commit):
        out(f"  led to    {decision.to_step or 'the end'}: {decision.reason} ({decision.routing_source})")
    out(f"  changes   git swarm diff {record.number} --run {opened.layout.run_id}")


def _show_evidence(evidence: dict[str, JsonValue]) -> None:
    found = evidence["diff"]
    files = found.get("files") if isinstance(found, dict) else None
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict):
            counts = "binary" if file["insertions"] is None else f"+{file['insertions']} -{file['deletions']}"
            out(f"  {file['change']!s:<9} {file['path']}  {counts}")
    tests = evidence["tests"]
    if isinstance(tests, dict) and tests.get("command"):
        said = {True: "passed", False: "failed", None: "judged nothing"}[
            tests["passed"] if isinstance(tests["passed"], bool) else None
        ]
        out(f"  tests     {tests['command']}: {said}")
    for kind in ("tampered", "quarantined"):
        items = evidence.get(kind)
        for item in items if isinstance(items, list) else ():
            out(f"  {kind:<9} {item}")


def _show_prompt(opened: Opened, record: StepRecord) -> None:
    content = _stored(opened, record, record.execution.transcript(record.engine))
    for line in content.splitlines():
        said = json.loads(line)
        if said.get("role") in ("system", "user"):
            out(f"── {said['role']}")
            out(said["content"])


def _show_routing(opened: Opened, record: StepRecord, *, as_json: bool) -> None:
    taken = decisions(opened.repository, opened.layout, record.commit)
    if as_json:
        out_json([decision.model_dump(mode="json") for decision in taken])
        return
    for decision in taken:
        out(f"{decision.from_step} -> {decision.to_step or 'end'}: {decision.decision} ({decision.routing_source})")
        out(f"  why       {decision.reason}")
        if decision.loop_state:
            out(f"  loop      {decision.loop_state.iteration} of {decision.loop_state.max_iterations}")
        for trace in decision.explanation.conditions:
            out(f"  if        {trace.expression} = {trace.error or trace.value}")
        for candidate in decision.candidates:
            mark = "*" if candidate.is_default else " "
            out(f"  {mark} {candidate.priority:>3}   {candidate.candidate_id}: {candidate.reason}")


def _stored(opened: Opened, record: StepRecord, path: str) -> bytes:
    content = opened.repository.objects.file(record.tree, path)
    if content is None:
        raise NotFoundError(f"{record.commit[:12]} has no {path}", hint=f"git show --stat {record.commit[:12]}")
    return content


def _diff_ends(repository: Repository, what: str | None, run: str | None) -> tuple[str, str]:
    """The two commits to compare. A step name wins over a run's, as everywhere."""
    layout = find_run(repository, run) if run or what is None else None
    if layout is not None and what is None:
        state = replay(repository, layout)
        return state.base, state.tip
    try:
        state = replay(repository, layout or find_run(repository, None))
        record = find_step(repository, state, what)
    except NotFoundError:
        if layout is not None:
            raise
        state = replay(repository, find_run(repository, what))
        return state.base, state.tip
    return record.parent, record.commit
