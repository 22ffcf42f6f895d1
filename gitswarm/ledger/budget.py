"""What a run may still spend, as its commits, its journals and people's words say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from gitswarm.git.commits import NewCommit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.message import CommitMessage
from gitswarm.ledger.spent import Payments, cut_off_events, payments
from gitswarm.ledger.state import RunState
from gitswarm.records.budget import OPTIONS, UNLIMITED, BudgetLimits, Use

if TYPE_CHECKING:
    from gitswarm.git.repository import Repository

SAID = "Swarm-Budget"
"""Trailer of what a person said of the limits: `cost_usd=8.0 time_s=none`, all that was said so far."""

_NO_MODEL = ("command", KERNEL)
_ANNOUNCED = b'"step_start"'


def uses(repository: RepositoryReader, state: RunState, *, timed: bool, paid: Payments | None = None) -> list[Use]:
    """Everything that the run executed, each once.

    :param timed: whether times are asked for: they take reading the events of every step.
    """
    paid = paid or payments(repository, state)
    wanted = [record for record in paid.committed if timed or record.cost_usd is None]
    places = [(record.tree, record.execution.events) for record in wanted]
    contents = repository.objects.files_of(places) if places else []
    events = {record.commit: content or b"" for record, content in zip(wanted, contents, strict=True)}
    found = [
        _use(
            f"{each.flow}/{each.step}@{each.execution.iteration}", each.flow, events.get(each.commit, b"")
        ).with_amounts(each.tokens, each.cost_usd)
        for each in paid.committed
    ]
    for execution, used in paid.cut_off.items():
        name = f"{execution.flow}/{execution.step}@{execution.iteration}"
        raw = cut_off_events(repository, state.layout, execution)
        found.append(_use(name, execution.flow, raw, cut_off=True).with_amounts(used.tokens, used.cost_usd))
    return [*found, *(Use("a navigator", "", used.tokens, used.cost_usd) for used in paid.navigators)]


def _use(name: str, flow: str, events: bytes, *, cut_off: bool = False) -> Use:
    """
    :param events: JSON lines, the last one perhaps torn.
    """
    lines = events.splitlines()
    start = next(filter(None, (_read(line) for line in lines if _ANNOUNCED in line)), {})
    payload = start.get("payload")
    said = payload if isinstance(payload, dict) else {}
    allowed = said.get("budget")
    times = [moment for line in (lines[:1] + lines[-2:]) if (moment := _moment(_read(line))) is not None]
    return Use(
        name=name,
        flow=flow,
        tokens=0,
        cost_usd=0.0,
        allowed=BudgetLimits.of(allowed) if isinstance(allowed, dict) else UNLIMITED,
        in_flight=cut_off and said.get("mode") != "stub" and said.get("engine") not in _NO_MODEL,
        begun=min(times, default=0.0),
        ended=max(times, default=0.0),
    )


def _read(line: bytes) -> Mapping[str, object]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _moment(event: Mapping[str, object]) -> float | None:
    try:
        return datetime.fromisoformat(str(event.get("ts"))).timestamp()
    except ValueError:
        return None


def said_limits(repository: RepositoryReader, layout: RunLayout) -> dict[str, float | None]:
    """What people said on `resume`, by name of the limit; None: there is none any more."""
    commit_id = repository.refs.read(layout.budget_ref)
    text = repository.objects.commit(commit_id).message if commit_id is not None else ""
    said = (line.removeprefix(f"{SAID}: ") for line in text.splitlines() if line.startswith(f"{SAID}: "))
    return dict(_said(next(said, "")))


def _said(trailer: str) -> Iterator[tuple[str, float | None]]:
    for word in trailer.split():
        name, _equals, value = word.partition("=")
        if name in OPTIONS:
            yield name, None if value == "none" else float(value)


def say_limits(repository: Repository, state: RunState, said: Mapping[str, float | None], when: datetime) -> None:
    """Records what a person says: a commit of theirs under the run's refs, which no rollback takes back."""
    name = state.layout.budget_ref
    before = repository.refs.read(name)
    whole = said_limits(repository, state.layout) | dict(said)
    words = " ".join(f"{key}={'none' if value is None else value}" for key, value in whole.items())
    message = CommitMessage(f"budget: {words}", "", {"Swarm-Run": state.layout.run_id, SAID: words}).render()
    person = repository.committer()
    parents = (before,) if before is not None else ()
    new = NewCommit(state.tip_tree, parents, message, person, person, when)
    repository.refs.swap(name, before, repository.objects.write_commit(new), why="budget")
