"""`record-event`: an outside program tells a run something."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Annotated, Any

import msgspec

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import advise, err, out
from gitswarm.cli.invocation import read_text, repository_here
from gitswarm.errors import UsageError
from gitswarm.git.owners import owner_of
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.journal import Inbox, InboxEvent
from gitswarm.ledger.overview import overview
from gitswarm.ledger.reading import run_spec
from gitswarm.ledger.state import replay
from gitswarm.records.event import EventKind
from gitswarm.records.json_value import JsonValue
from gitswarm.safety.redact.redactor import Redactor

MOST_CHARS = 65_536
"""Of a payload: an event is one line that people read; what is larger belongs into a file that the event names."""

_MOST_LEVELS = 200
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_COMMIT_A_STEP = ("git swarm resume ", "git swarm approve ", "git swarm land ")
_EXAMPLE = """git swarm record-event --kind checked --payload '{"ok": true}'"""


def record_event(
    message: Annotated[str | None, Argument(help="What happened.")] = None,
    source: Annotated[str, Option(help="Who reports it.")] = "user",
    kind: Annotated[str | None, Option(metavar="KIND", help="The kind of event: critic_result …")] = None,
    flow: Annotated[
        str | None, Option("--flow", "--flow-key", metavar="FLOW", help="The flow that it is about.")
    ] = None,
    step: Annotated[
        str | None, Option("--step", "--step-id", metavar="STEP", help="The step that it is about.")
    ] = None,
    agent: Annotated[
        str | None, Option("--agent", "--agent-key", metavar="AGENT", help="The agent that it is about.")
    ] = None,
    payload: Annotated[str | None, Option(metavar="JSON", help="A JSON object with more about it.")] = None,
    payload_file: Annotated[
        str | None, Option(metavar="FILE", help="The same from a file; - reads standard input.")
    ] = None,
    run: Annotated[str | None, Option("--run", "--run-id", metavar="RUN", help="The run; else as for `log`.")] = None,
) -> None:
    """Add an event to a run's history: the next step that is committed stores it."""
    if message is None and kind is None:
        raise UsageError("say what happened: a message, or --kind", hint=_EXAMPLE)
    event = InboxEvent(
        source=source,
        message=message or "",
        kind=kind,
        flow_key=flow,
        step_id=step,
        agent_key=agent,
        payload=_payload(payload, payload_file),
    )
    _refuse_odd(event)
    repository = repository_here()
    layout = find_run(repository, run)
    state = replay(repository, layout)
    rules = run_spec(repository, state).settings.secrets
    clean = InboxEvent.from_plain(Redactor(rules, os.environ).scrub_json(event.to_plain()))
    Inbox(repository.swarm_dir, layout.run_id).put(clean, f"{time.time_ns():020d}-{os.getpid()}")
    out(f"Recorded event: {kind or EventKind.EXTERNAL} for {layout.run_id}")
    if state.end is not None and owner_of(repository.common_dir, layout.run_id) is None:
        err(f"{layout.run_id} has ended: `events` shows it as soon as another step is committed, as by:")
        step = overview(repository, layout, state).hint
        again = f"git swarm rollback STEP --run {layout.run_id}   (then git swarm resume {layout.run_id})"
        advise(step if step.startswith(_COMMIT_A_STEP) else again)


def _refuse_odd(event: InboxEvent) -> None:
    """
    :raises UsageError: a word of it cannot be stored, or could not be asked for later.
    """
    for name, text in event.to_plain({"payload"}).items():
        if any("\ud800" <= letter <= "\udfff" for letter in str(text)):
            raise UsageError(f"{name.removesuffix('_key').removesuffix('_id')} is not UTF-8 text", hint=_EXAMPLE)
    if event.kind is not None and not _KIND.fullmatch(event.kind):
        allowed = "a letter, then letters, digits, _ . : -, 64 at most"
        raise UsageError(f"--kind {event.kind}: {allowed}", hint=_EXAMPLE)


def _payload(text: str | None, file: str | None) -> dict[str, JsonValue] | None:
    """
    :raises UsageError: it is no JSON object, is too long, or is given twice.
    """
    if text is not None and file is not None:
        raise UsageError("--payload and --payload-file both give the payload", hint="leave one of them out")
    option = "--payload" if file is None else f"--payload-file {file}"
    if file is not None:
        text = sys.stdin.buffer.read().decode(errors="surrogateescape") if file == "-" else read_text(file)
    if text is None:
        return None
    if len(text) > MOST_CHARS:
        hint = "commit the file, or keep it elsewhere, and name it in the payload"
        raise UsageError(f"{option}: {len(text):,} characters, {MOST_CHARS:,} at most", hint=hint)
    try:
        found = msgspec.json.decode(text.encode(errors="surrogateescape"), type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{option}: no JSON object: {error}", hint=_EXAMPLE) from error
    if _is_deep(found):
        raise UsageError(f"{option}: nested more than {_MOST_LEVELS} levels deep", hint=_EXAMPLE)
    return found


def _is_deep(value: JsonValue) -> bool:
    level = [value]
    for _ in range(_MOST_LEVELS):
        inside = [
            each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)
        ]
        level = [each for values in inside for each in values]
    return bool(level)
