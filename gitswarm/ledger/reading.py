"""Questions that commands ask about runs and steps: which one is meant, and what is stored for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from gitswarm.errors import GarbledError, NotFoundError
from gitswarm.git.repository import Repository
from gitswarm.ledger.events import read_lines
from gitswarm.ledger.journal import OpenJournal, open_journals
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.routing_note import Entry, parse, standing
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.event import LoggedEvent
from gitswarm.records.routing import Decision
from gitswarm.records.run_spec import BRANCH_PREFIX, RUN_ID, RunSpec

_SHADOW = f"refs/heads/{BRANCH_PREFIX}"


def journal_folder(repository: Repository, layout: RunLayout) -> Path:
    return repository.swarm_dir / "journal" / layout.run_id


def live_journals(repository: Repository, layout: RunLayout) -> list[OpenJournal]:
    return open_journals(journal_folder(repository, layout))


def all_runs(repository: Repository) -> list[RunLayout]:
    """Every run that has a branch here, newest created first."""
    names = [name.removeprefix(_SHADOW) for name in repository.refs.list(_SHADOW)]
    runs = [name for name in names if RUN_ID.fullmatch(name)]
    return [RunLayout(run_id) for run_id in sorted(runs, reverse=True)]


def newest_run(repository: Repository) -> str | None:
    return next((layout.run_id for layout in all_runs(repository)), None)


def find_run(repository: Repository, text: str | None) -> RunLayout:
    """The run that a person means: an id, a unique part of one; None: the one we stand in, else the newest.

    :raises NotFoundError: none, or several.
    """
    runs = all_runs(repository)
    if not text:
        here = repository.head_branch() if repository.checkout else None
        standing = [run for run in runs if run.branch == here]
        if standing or runs:
            return (standing or runs)[0]
        raise NotFoundError("there is no run in this repository yet", hint="git swarm start build -m 'the task'")
    wanted = text.removeprefix(BRANCH_PREFIX)
    exact = [run for run in runs if run.run_id == wanted]
    matches = exact or [run for run in runs if wanted in run.run_id]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise NotFoundError(f"no run matches '{text}'", hint="git swarm list")
    some = ", ".join(run.run_id for run in matches[:4])
    raise NotFoundError(f"'{text}' matches {len(matches)} runs: {some}", hint="give more of the id")


def find_step(repository: Repository, state: RunState, text: str | None) -> StepRecord:
    """The step that a person means: `step`, `flow/step`, `step@2`, `7`, `#7`, a commit; None: the last one.

    :raises NotFoundError: the run has no such step.
    """
    steps = state.steps
    if not steps:
        raise NotFoundError(f"{state.layout.run_id} has no step yet", hint=f"git swarm status {state.layout.run_id}")
    if text is None:
        return steps[-1]
    found = _by_name(steps, text) or _by_number(steps, text) or _by_commit(repository, steps, text)
    if found is None:
        names = ", ".join(dict.fromkeys(record.step for record in steps))
        raise NotFoundError(
            f"{state.layout.run_id} has no step '{text}' (it has: {names})",
            hint=f"git swarm log {state.layout.run_id}",
        )
    return found


def is_named(text: str, flow: str, step: str, iteration: int) -> bool:
    """Whether a person who writes `step`, `flow/step`, `step@2` or `flow/step@2` means this execution."""
    name, at, number = text.partition("@")
    flow_part, slash, step_part = name.rpartition("/")
    return (
        step_part == step
        and (not slash or flow_part == flow)
        and (not at or (number.isdigit() and int(number) == iteration))
    )


def _by_name(steps: tuple[StepRecord, ...], text: str) -> StepRecord | None:
    matches = [record for record in steps if is_named(text, record.flow, record.step, record.execution.iteration)]
    return matches[-1] if matches else None


def _by_number(steps: tuple[StepRecord, ...], text: str) -> StepRecord | None:
    digits = text.removeprefix("#")
    if not re.fullmatch(r"[0-9]{1,6}", digits):
        return None
    return steps[int(digits) - 1] if 0 < int(digits) <= len(steps) else None


def _by_commit(repository: Repository, steps: tuple[StepRecord, ...], text: str) -> StepRecord | None:
    try:
        commit_id = repository.resolve(text)
    except NotFoundError:
        return None
    return next((record for record in steps if record.commit == commit_id), None)


def run_spec(repository: Repository, state: RunState) -> RunSpec:
    """
    :raises GarbledError: the run's first commit lacks its spec, or holds something else in its place.
    """
    tree = repository.objects.commit(state.run_commit).tree
    content = repository.objects.file(tree, state.layout.spec) or b""
    return parsed(RunSpec.from_json, content, state.layout, f"{state.run_commit[:12]}:{state.layout.spec}")


T = TypeVar("T")


def parsed(parse: Callable[[bytes], T], content: bytes, layout: RunLayout, where: str) -> T:
    """What we wrote, read again.

    :raises GarbledError: it is not what we wrote: somebody made the commit anew.
    """
    try:
        return parse(content)
    except ValueError as error:  # what pydantic, json and a decoder raise alike
        raise GarbledError(
            f"{where} is not what git-swarm wrote there", hint=f"git swarm resume {layout.run_id}"
        ) from error


def routing_entries(repository: Repository, layout: RunLayout, commit_id: str) -> list[Entry]:
    """Everything in the routing note of a commit, oldest first."""
    return parse(repository.notes(layout.routing_notes).read(commit_id) or b"")


def decisions(repository: Repository, layout: RunLayout, commit_id: str) -> list[Decision]:
    """What was decided after a commit, oldest first, also what does not hold any more."""
    return [entry for entry in routing_entries(repository, layout, commit_id) if isinstance(entry, Decision)]


def standing_decision(repository: Repository, layout: RunLayout, commit_id: str) -> Decision | None:
    """What is to happen after a commit; None when that is not decided, or not any more."""
    return standing(routing_entries(repository, layout, commit_id))


def stored_events(repository: Repository, state: RunState, *, after: str | None = None) -> list[LoggedEvent]:
    """Events of the chain, oldest first; with `after`, only those of the commits behind that one."""
    found: list[list[LoggedEvent]] = []
    cursor = state.tip
    while cursor != after:
        commit = repository.objects.commit(cursor)
        message = parse_message(commit.message)
        if message is None:
            break
        path = events_path(state.layout, message.trailers)
        found.append(read_lines(repository.objects.file(commit.tree, path) or b""))
        if message.trailers["Swarm-Kind"] == Kind.RUN:
            break
        cursor = commit.parents[0]
    return [event for events in reversed(found) for event in events]


def events_path(layout: RunLayout, said: Mapping[str, str]) -> str:
    """Where a commit with these trailers keeps its events."""
    kind = said["Swarm-Kind"]
    if kind == Kind.RUN:
        return layout.run_events
    if kind == Kind.END:
        return layout.end_events(int(said["Swarm-Iteration"]))
    return f"{layout.base}/{said['Swarm-Flow']}/events/{said['Swarm-Step']}@{said['Swarm-Iteration']}.jsonl"
