"""A flow of a run as a graph: its steps, and those that interruptions put between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct, to_builtins
from pydantic import JsonValue

from gitswarm.cli.opened import Opened, step_outcome
from gitswarm.cli.run_words import mark
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.steps import StepRecord
from gitswarm.specs.flow import Flow
from gitswarm.specs.graph import BESIDE, END, edges

Place = tuple[str, str]
"""A flow and a step of it."""


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
    """As the run froze it; None: it has no such flow."""
    path = f"{opened.layout.specs}/flows/{flow}.json"
    content = opened.repository.objects.file(opened.state.tip_tree, path)
    return None if content is None else parsed(Flow.from_json, content, opened.layout, path)


def run_graph(opened: Opened, flow: str, active: Sequence[Place], coming: Place | None) -> RunGraph:
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
            "" if each.label == BESIDE else each.label,
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
    """The ways to, between and from steps that are not of the flow's own graph, as they were taken."""
    ways = dict.fromkeys(pairwise([*(record.step for record in steps), *then[:1]]))
    for source, target in ways:
        if (source not in agents or target not in agents) and source != target:
            yield GraphEdge(source, target, "", back=False, aside=True)
