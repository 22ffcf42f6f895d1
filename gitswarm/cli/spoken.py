"""Lines of a transcript: read from a step's commit, or made of the events of a step that executes; and in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from gitswarm.cli.console import err, harmless, out_verbatim
from gitswarm.cli.live_events import place
from gitswarm.cli.opened import Opened, step_name, understood
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.evidence import extra_run_words

Line = Mapping[str, JsonValue]


def transcript_lines(opened: Opened, record: StepRecord) -> list[Line]:
    """As stored.

    :raises GarbledError: it is no transcript.
    """

    def parse(content: bytes) -> list[Line]:
        return [dict(json.loads(line)) for line in content.splitlines()]

    return understood(opened, record, record.execution.transcript(record.engine), parse)


def placed(line: Line, flow: str | None, step: str | None, iteration: int | None) -> Line:
    """The line, and the execution that it belongs to."""
    return {"flow_key": flow, "step_id": step, "iteration": iteration, **line}


def line_of(event: LoggedEvent) -> Line | None:
    """What an event says was said or done, with its place; None: it tells of something else."""
    given = event.payload
    match event.kind:
        case EventKind.MESSAGE:
            line: Line = {"role": given["role"], "content": given["text"]}
        case EventKind.TOOL_START:
            line = {"type": "tool_use", "tool": given["tool"], "input": given["input"], **_by(given)}
        case EventKind.TOOL_END:
            done = {name: given[name] for name in ("tool", "success", "output")}
            line = {"type": "tool_result", **done, **_by(given)}
        case EventKind.EXTRA_RUN:
            line = {"role": "git-swarm", "content": extra_run_words(str(given["of"]))}
        case EventKind.ENGINE_RETRY:
            line = {"type": "retry", **{name: given[name] for name in ("attempt", "of", "wait_s", "reason")}}
        case _:
            return None
    return placed({"timestamp": event.ts, **line}, event.flow_key, event.step_id, event.iteration)


def _by(given: Line) -> Line:
    """The subagent that made the call, where one did."""
    return {"agent": given["agent"]} if given.get("agent") else {}


def in_words(line: Line) -> str:
    """`── time [place] who or what`, and below it the text, whole."""
    step, flow, iteration = line.get("step_id"), line.get("flow_key"), line.get("iteration")
    where = place(str(flow), str(step), int(str(iteration))) if step else ""
    agent = f"({line['agent']})" if line.get("agent") else ""
    kind = line.get("role") or line.get("type")
    title = " ".join(str(part) for part in (line.get("timestamp"), where, kind, line.get("tool"), agent) if part)
    if kind == "retry":
        return f"── {title}\n{retry_in_words(line)}"
    body = line.get("content") or line.get("output") or line.get("input") or ""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return f"── {title}\n{text.rstrip()}"


def retry_in_words(said: Line) -> str:
    """`2 of 3 in 4 s: reason`."""
    wait_s = said["wait_s"]
    wait = f"{wait_s:g}" if isinstance(wait_s, int | float) else wait_s
    return f"{said['attempt']} of {said['of']} in {wait} s: {said['reason']}"


def out_prompt(opened: Opened, record: StepRecord) -> None:
    """What the agent was told, for a person."""
    lines = list(prompt_lines(opened, record))
    for line in lines:
        out_verbatim(harmless(line))
    if not lines:
        err(f"{step_name(record)} has no prompt: {record.engine} executed it, no model was asked")


def prompt_lines(opened: Opened, record: StepRecord) -> Iterator[str]:
    """What the agent was told."""
    for said in transcript_lines(opened, record):
        if said.get("role") in ("system", "user"):
            yield f"── {said['role']}"
            yield str(said.get("content", ""))
