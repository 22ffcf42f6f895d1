"""`transcript`: what was said and done in a step, also while it executes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec.structs import replace

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import err, harmless, out_json, out_json_line, out_lines, out_verbatim
from gitswarm.cli.folded import Folding, Line, folded_lines, in_words, line_of, out_prompt, placed, transcript_lines
from gitswarm.cli.live_events import events_as_they_come, hint_at_resume, open_steps, place
from gitswarm.cli.opened import Opened, RunOption, StepArgument, open_run, step_outcome, understood
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.ledger.finding import find_step, is_named
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.overview import overview
from gitswarm.ledger.state import replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import timing
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.outcome import RunStatus


def transcript(
    step: StepArgument = None,
    run: RunOption = None,
    follow: Annotated[bool, Option("--follow", "-f", help="The step that executes now, and those after it.")] = False,
    full: Annotated[bool, Option("--full", help="Every line whole, with its time.")] = False,
    prompt: Annotated[bool, Option("--prompt", help="Only the prompt.")] = False,
    as_json: Annotated[bool, Option("--json", help="One JSON document; with --follow one per line.")] = False,
) -> None:
    """Every message and tool call of a step."""
    opened = open_run(run)
    if prompt and (full or follow or as_json):
        raise UsageError(
            "--prompt stands alone", hint=f"git swarm transcript {step or ''} --prompt".replace("  ", " ")
        )
    if follow:
        followed = _followed(opened, step)
        if full or as_json:
            _print_lines(followed, as_json=as_json)
        else:
            out_lines(_folded(opened, followed))
        return
    record = find_step(opened.repository, opened.state, step)
    if prompt:
        out_prompt(opened, record)
        return
    lines = all_lines(opened, record)
    if as_json:
        out_json(lines)
    elif full:
        _print_lines(lines, as_json=False)
    else:
        this = f"git swarm transcript {record.number} --run {opened.layout.run_id}"
        out_lines(folded_lines(lines, f"{this} --full", f"{this} --prompt"))


def all_lines(opened: Opened, record: StepRecord) -> list[Line]:
    """As stored; of a step of git-swarm's own, which nobody talks in, at the end what was done."""
    lines = transcript_lines(opened, record)
    return [*lines, _done(opened, record)] if record.engine == KERNEL else lines


def _done(opened: Opened, record: StepRecord) -> Line:
    execution = record.execution
    envelope = understood(opened, record, execution.envelope, json.loads)
    evidence = understood(opened, record, execution.evidence, json.loads)
    lines = [f"{step_outcome(record)}: {record.summary}"]
    for file in evidence.get("diff", {}).get("files") or ():
        counts = "binary" if file["insertions"] is None else f"+{file['insertions']} -{file['deletions']}"
        lines.append(f"{file['change']}: {file['path']} ({counts})")
    for kind in ("observations", "concerns", "blockers", "artifacts"):
        lines += [f"{kind[:-1]}: {item}" for item in envelope.get(kind) or ()]
    operation = evidence.get("operation") or {}
    lines += [
        f"{name}: {value}" for name, value in operation.items() if isinstance(value, str | int | float) and value
    ]
    started = understood(opened, record, execution.receipt, timing).started_at
    return {"timestamp": started, "role": execution.agent, "content": "\n".join(lines)}


def _folded(opened: Opened, lines: Iterable[Line]) -> Iterator[str]:
    """Of each step its own folding, below its name; a step is named again where others spoke in between."""
    foldings: dict[str, Folding] = {}
    last = ""
    for line in lines:
        name = place(str(line["flow_key"]), str(line["step_id"]), int(str(line["iteration"])))
        folding = foldings.setdefault(name, Folding())
        shown = folding.take(line)
        if shown and name != last:
            yield f"── {name}"
            last = name
        yield from shown
    for name, folding in foldings.items():
        if folding.is_cut:
            yield f"whole: git swarm transcript {name} --full --run {opened.layout.run_id}"


def _print_lines(lines: Iterable[Line], *, as_json: bool) -> None:
    for line in lines:
        if as_json:
            out_json_line(line)
        else:
            out_verbatim(harmless(in_words(line)))


def _followed(opened: Opened, step: str | None) -> Iterator[Line]:
    """Of a step that is in a commit, its transcript; else what is said in the steps behind the tip, as they execute.

    :raises NotFoundError: there is no such step, and nobody is there to execute it.
    """
    is_live = overview(opened.repository, opened.layout).state is RunStatus.RUNNING
    opened = replace(opened, state=replay(opened.repository, opened.layout))
    executing = [
        journal
        for journal in open_steps(opened)
        if step is None or is_named(step, journal.flow, journal.step, journal.iteration)
    ]
    if executing or (is_live and step is None):
        yield from _live(opened, step)
    elif step is None:
        if opened.state.steps:
            yield from _stored(opened, opened.state.steps[-1])
        if opened.state.end is None:
            hint_at_resume(opened)
    else:
        try:
            record = find_step(opened.repository, opened.state, step)
        except NotFoundError:
            if not is_live:
                raise
            err(f"waiting for {step}")
            yield from _live(opened, step)
        else:
            yield from _stored(opened, record)


def _stored(opened: Opened, record: StepRecord) -> Iterator[Line]:
    for line in all_lines(opened, record):
        yield placed(line, record.flow, record.step, record.execution.iteration)


def _live(opened: Opened, step: str | None) -> Iterator[Line]:
    """What is said behind the tip; with `step` only in that one, up to its end."""
    for event in events_as_they_come(opened, opened.state.tip):
        if step is not None and not _is_of(event, step):
            continue
        line = line_of(event)
        if line is not None:
            yield line
        if step is not None and event.kind in (EventKind.STEP_END, EventKind.STEP_ERROR):
            return


def _is_of(event: LoggedEvent, step: str) -> bool:
    flow, name, iteration = event.flow_key, event.step_id, event.iteration
    return flow is not None and name is not None and iteration is not None and is_named(step, flow, name, iteration)
