"""A flow as a graph: its edges, a Mermaid drawing, and how often each step can be executed at worst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from msgspec import Struct

from gitswarm.specs.flow import Branch, Flow, Fork, Join, Microloop, Step

END = "end"
PARALLEL = "at the same time"
"""Label of the ways from a fork to its targets."""

_MERMAID_END = "over"  # `end` is a word of Mermaid


class Edge(Struct, frozen=True):
    """`label` says when the way is taken; empty: always. `limit`: how often a way back is taken at most; None for one
    that leads on."""

    source: str
    target: str
    label: str = ""
    limit: int | None = None


def edges(flow: Flow) -> Iterator[Edge]:
    """Every way from step to step, in the order of the flow; `end` is where it is over."""
    for step in flow.steps:
        onward = flow.following(step.id) or END
        routing = step.routing
        if isinstance(routing, Microloop):
            yield Edge(step.id, routing.loop_target, "else", routing.max_iterations)
            yield Edge(step.id, onward, " or ".join(routing.loop_success_values))
        elif isinstance(routing, Branch):
            ways = [(when.next, when.if_, when.max_iterations) for when in routing.when]
            ways.append((routing.default or onward, "else", None))
            for target, label, own_limit in ways:
                back = target != END and bool(flow.steps_back_to(step.id, target))
                yield Edge(step.id, target, label, (own_limit or routing.max_iterations) if back else None)
            if onward not in (target for target, _label, _limit in ways):
                yield Edge(step.id, onward, "at the maximum")
        elif isinstance(routing, Fork):
            yield from (Edge(step.id, target, PARALLEL) for target in routing.fork_targets)
        else:
            yield Edge(step.id, onward, _joining(flow, step))


def _joining(flow: Flow, step: Step) -> str:
    """The condition of the join that a parallel step leads to."""
    join = flow.join_of(step.id)
    routing = join.routing if join is not None else None
    if not isinstance(routing, Join):
        return ""
    return f"{routing.join_strategy} {routing.join_quorum}" if routing.join_quorum else routing.join_strategy


def mermaid(flow: Flow) -> str:
    """The flow as a Mermaid flowchart; commands and git-swarm's own steps are drawn as rounded boxes."""
    lines = ["flowchart TD"]
    for step in flow.steps:
        who = step.agent if step.operation is None else f"{step.agent} {step.operation}"
        open_, close = ("[", "]") if step.station else ("([", "])")
        lines.append(f'  {step.id}{open_}"{step.id}<br/><i>{who}</i>"{close}')
    lines.append(f"  {_MERMAID_END}((end))")
    for edge in edges(flow):
        arrow = "-->" if edge.limit is None else "-.->"
        text = edge.label + ("" if edge.limit is None else f", at most {edge.limit}")
        label = "|" + '"' + text.replace('"', "'") + '"' + "|" if text else ""
        target = _MERMAID_END if edge.target == END else edge.target
        lines.append(f"  {edge.source} {arrow}{label} {target}")
    return "\n".join(lines)


def worst_executions(flow: Flow, *, with_criteria: bool) -> Mapping[str, int]:
    """How often each step is executed when every loop runs to its maximum.

    :param with_criteria: whether there is an acceptance matrix; without one no way is taken that asks for it.
    """
    limits = [way for step in flow.steps for way in _ways_back(flow, step, with_criteria=with_criteria)]
    return {step.id: prod(limit for body, limit in limits if step.id in body) for step in flow.steps}


def _ways_back(flow: Flow, step: Step, *, with_criteria: bool) -> Iterator[tuple[frozenset[str], int]]:
    """What is executed again, and how often at most."""
    routing = step.routing
    if isinstance(routing, Microloop):
        yield flow.loop_body(step.id), routing.max_iterations
    elif isinstance(routing, Branch):
        limits = {routing.default: routing.max_iterations} if routing.default else {}
        possible = (when for when in routing.when if with_criteria or "evidence.ac" not in when.if_)
        limits |= {when.next: when.max_iterations or routing.max_iterations for when in possible}
        yield from ((flow.steps_back_to(step.id, target), limit) for target, limit in limits.items())
