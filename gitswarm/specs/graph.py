"""A flow as a graph: its edges, a Mermaid drawing, how often each step can be executed at worst; and whether it can
be executed at all: every name in it known, every loop with an end, every fork with its join."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import TypeVar

from msgspec import Struct

from gitswarm.records.mistakes import Location
from gitswarm.records.text import did_you_mean
from gitswarm.specs.flow import Branch, Flow, Fork, Join, Linear, Microloop, ShellCommand, Step, Terminal
from gitswarm.specs.sidequest import NODE_PREFIX, SIDEQUEST_PREFIX
from gitswarm.specs.yaml_source import YamlSource

END = "end"
PARALLEL = "at the same time"
"""Label of the edges from a fork to its targets."""

_MERMAID_END = "over"  # `end` is a word of Mermaid


class Edge(Struct, frozen=True):
    """`label` says when it is taken; empty: always. `limit`: how often an edge that leads back is taken at most; None
    for one that leads on."""

    source: str
    target: str
    label: str = ""
    limit: int | None = None


def edges(flow: Flow) -> Iterator[Edge]:
    """Every transition from step to step, in the order of the flow; `end` is where it is over."""
    for step in flow.steps:
        onward = flow.following(step.id) or END
        routing = step.routing
        if isinstance(routing, Microloop):
            yield Edge(step.id, routing.loop_target, "else", routing.max_iterations)
            yield Edge(step.id, onward, " or ".join(routing.loop_success_values))
        elif isinstance(routing, Branch):
            yield from _branches(flow, step, routing, onward)
        elif isinstance(routing, Fork):
            yield from (Edge(step.id, target, PARALLEL) for target in routing.fork_targets)
        else:
            yield Edge(step.id, onward, _joining(flow, step))


def _branches(flow: Flow, step: Step, routing: Branch, onward: str) -> Iterator[Edge]:
    branches = [(when.next, when.if_, when.max_iterations) for when in routing.when]
    branches.append((routing.default or onward, "else", None))
    for target, label, own_limit in branches:
        is_back = target != END and bool(flow.steps_back_to(step.id, target))
        yield Edge(step.id, target, label, (own_limit or routing.max_iterations) if is_back else None)
    if onward not in (target for target, _label, _limit in branches):
        yield Edge(step.id, onward, "at the maximum")


def _joining(flow: Flow, step: Step) -> str:
    """The condition of the join that a parallel step leads to."""
    join = flow.join_of(step.id)
    routing = join.routing if join is not None else None
    if not isinstance(routing, Join):
        return ""
    return f"{routing.join_strategy} {routing.join_quorum}" if routing.join_quorum else routing.join_strategy


def unreachable(flow: Flow, entries: Collection[str] = ()) -> list[str]:
    """Steps that nothing leads to.

    :param entries: where a run may come from elsewhere, besides the first step.
    """
    targets: dict[str, list[str]] = {}
    for edge in edges(flow):
        targets.setdefault(edge.source, []).append(edge.target)
    reached: set[str] = set()
    pending = [flow.steps[0].id, *(name for name in entries if flow.has_step(name))]
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += targets.get(name, ())
    return [step.id for step in flow.steps if step.id not in reached]


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

    :param with_criteria: whether there is an acceptance matrix; without one no condition that asks for it holds.
    """
    limits = [loop for step in flow.steps for loop in _loops_of(flow, step, with_criteria=with_criteria)]
    return {step.id: prod(limit for body, limit in limits if step.id in body) for step in flow.steps}


def _loops_of(flow: Flow, step: Step, *, with_criteria: bool) -> Iterator[tuple[frozenset[str], int]]:
    """The steps that a step may send the run back through, and how often at most."""
    routing = step.routing
    if isinstance(routing, Microloop):
        yield flow.loop_body(step.id), routing.max_iterations
    elif isinstance(routing, Branch):
        limits = {routing.default: routing.max_iterations} if routing.default else {}
        possible = (when for when in routing.when if with_criteria or "evidence.ac" not in when.if_)
        limits |= {when.next: when.max_iterations or routing.max_iterations for when in possible}
        yield from ((flow.steps_back_to(step.id, target), limit) for target, limit in limits.items())


_R = TypeVar("_R", Fork, Join, Microloop)


def _routed(flow: Flow, kind: type[_R]) -> list[tuple[int, Step, _R]]:
    """The steps whose routing is of this kind, each with its index."""
    return [(index, step, step.routing) for index, step in enumerate(flow.steps) if isinstance(step.routing, kind)]


_RESERVED = (SIDEQUEST_PREFIX, NODE_PREFIX)


class KnownNames(Struct, frozen=True):
    """What a flow may name."""

    flows: Sequence[str]
    stations: Sequence[str]
    templates: Sequence[str]
    commands: Sequence[str]


def flow_problems(flow_id: str, flow: Flow, source: YamlSource, known: KnownNames) -> Iterator[str]:
    """Every problem of a flow with its place; its CEL conditions are routing's to check.

    :param flow_id: what its file is named after.
    """
    yield from id_problem(flow_id, flow.id, source)
    ids = list(_id_problems(flow, source))
    yield from ids
    for index, step in enumerate(flow.steps):
        yield from _name_problems(step, ("steps", index), source, known)
    for index, name in enumerate(flow.cross_cutting):
        if name not in known.stations:
            near = did_you_mean(name, list(known.stations))
            yield source.problem(("cross_cutting", index), f"cross_cutting: unknown station '{name}'{near}")
    for key, named in (("on_complete", flow.on_complete), ("on_failure", flow.on_failure)):
        if named is not None and (named not in known.flows or named == flow_id):
            near = did_you_mean(named, list(known.flows)) if named != flow_id else ": a flow cannot follow itself"
            yield source.problem((key,), f"{key}: unknown flow '{named}'{near}")
    targets = list(_target_problems(flow, source))
    yield from targets
    if not targets and not ids:
        yield from _shape_problems(flow, source)
        yield from _fork_problems(flow, source)


def id_problem(name: str, found: str, source: YamlSource) -> Iterator[str]:
    """
    :param name: what the file is named after.
    """
    if found != name:
        yield source.problem(("id",), f"id '{found}' in a file named '{name}'")


def _id_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    seen: set[str] = set()
    receipts: dict[str, str] = {}
    for index, step in enumerate(flow.steps):
        location: Location = ("steps", index, "id")
        receipt = f"{step.id}-{step.agent}"
        if step.id in seen:
            yield source.problem(location, f"the step '{step.id}' exists already")
        elif receipt in receipts:
            what = f"'{step.id}' by '{step.agent}' and '{receipts[receipt]}' would write one receipt, {receipt}"
            yield source.problem(location, what)
        if step.id.startswith(_RESERVED):
            yield source.problem(location, f"'{step.id}': steps of sidequests and injected nodes are named so")
        seen.add(step.id)
        receipts[receipt] = step.id


def _name_problems(step: Step, here: Location, source: YamlSource, known: KnownNames) -> Iterator[str]:
    command = step.command if isinstance(step.command, str) else None
    for key, name, names in (
        ("station", step.station, known.stations),
        ("template", step.template, known.templates),
        ("command", command, known.commands),
    ):
        if name is not None and name not in names:
            yield source.problem((*here, key), f"unknown {key} '{name}'{did_you_mean(name, list(names))}")
    if isinstance(step.command, ShellCommand) and not step.command.run.strip():
        yield source.problem((*here, "command", "run"), f"the command of '{step.id}' is empty")


def _targets(step: Step, here: Location) -> Iterator[tuple[Location, str]]:
    """Every step that a routing names, with its place."""
    routing = step.routing
    if isinstance(routing, Fork):
        yield from (((*here, "fork_targets", n), name) for n, name in enumerate(routing.fork_targets))
    if isinstance(routing, Join):
        yield from (((*here, "join_from", n), name) for n, name in enumerate(routing.join_from))
    if isinstance(routing, Microloop):
        yield (*here, "loop_target"), routing.loop_target
    if isinstance(routing, Branch):
        if routing.default is not None:
            yield (*here, "default"), routing.default
        yield from (((*here, "when", n, "next"), when.next) for n, when in enumerate(routing.when))
    if not isinstance(routing, Terminal | Fork) and routing.next is not None:
        yield (*here, "next"), routing.next


def _target_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    names = [step.id for step in flow.steps]
    known = set(names)
    for index, step in enumerate(flow.steps):
        for location, target in _targets(step, ("steps", index, "routing")):
            if target not in known:
                near = did_you_mean(target, names)
                key = next(part for part in reversed(location) if isinstance(part, str))
                yield source.problem(location, f"{key}: no step '{target}' in this flow{near}")


def _shape_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    """What would keep a run from ending: a loop that looks forward, loops that cross, a circle."""
    for index, step, loop in _routed(flow, Microloop):
        if flow.index(loop.loop_target) > index:
            location: Location = ("steps", index, "routing", "loop_target")
            yield source.problem(location, f"'{step.id}' loops to '{loop.loop_target}', which comes after it")
    for index, other in _crossed_loops(flow):
        yield source.problem(
            ("steps", other, "routing"),
            f"the loop of '{flow.steps[other].id}' starts inside the loop of "
            f"'{flow.steps[index].id}': loops may nest, not cross",
        )
    for index, step in enumerate(flow.steps):
        following = flow.following(step.id)
        if following is not None and flow.index(following) <= index:
            yield source.problem(
                ("steps", index, "routing", "next"),
                f"'{step.id}' leads back to '{following}' without a limit: only loops may go back",
            )


def _crossed_loops(flow: Flow) -> list[tuple[int, int]]:
    """Each loop with a later one that begins within it: the indexes of the steps that close them."""
    starts = {index: index - len(body) + 1 for index, body in _bodies(flow)}
    return sorted(
        (index, other)
        for other, start in starts.items()
        for index in range(start, other)
        if starts.get(index, start) < start
    )


def _bodies(flow: Flow) -> list[tuple[int, frozenset[str]]]:
    """The loops, by the index of the step that closes each."""
    found = ((index, flow.loop_body(step.id)) for index, step in enumerate(flow.steps))
    return [(index, body) for index, body in found if body]


def _fork_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    """
    :param flow: one in which every named step exists.
    """
    forks = _routed(flow, Fork)
    for index, step, fork in forks:
        yield from _problems_of_targets(flow, source, index, step, fork)
        yield from _problems_of_its_join(flow, source, index, step, fork)
    yield from _problems_of_joins(flow, source)
    if any(len(set(fork.fork_targets)) < len(fork.fork_targets) for _index, _step, fork in forks):
        return
    yield from _other_entries(flow, source)
    bodies = _bodies(flow) if forks else []
    for _index, step, fork in forks:
        yield from _crossing_loops(flow, source, bodies, step, fork)


def _problems_of_targets(flow: Flow, source: YamlSource, index: int, step: Step, fork: Fork) -> Iterator[str]:
    for n, name in enumerate(fork.fork_targets):
        here: Location = ("steps", index, "routing", "fork_targets", n)
        target, at = flow.step(name), flow.index(name)
        earlier = [s.id for i, s, other in _routed(flow, Fork) if i < index and name in other.fork_targets]
        if name in fork.fork_targets[:n]:
            yield source.problem(here, f"fork_targets: '{name}' is listed twice")
        elif at <= index:
            yield source.problem(here, f"fork_targets: '{name}' does not come after '{step.id}'")
        elif earlier:
            yield source.problem(here, f"fork_targets: '{name}' belongs to the fork '{earlier[0]}' already")
        elif not isinstance(target.routing, Linear) or target.routing.next is not None:
            what = f"'{name}' is executed in parallel: it leads to the join, and cannot have a routing of its own"
            yield source.problem(("steps", at, "routing"), what)
        elif target.is_kernel:
            what = f"'{name}' is git-swarm's own step: it cannot be executed in parallel"
            yield source.problem(("steps", at, "engine"), what)


def _problems_of_its_join(flow: Flow, source: YamlSource, index: int, step: Step, fork: Fork) -> Iterator[str]:
    joins = [each for each in _routed(flow, Join) if set(each[2].join_from) == set(fork.fork_targets)]
    names = ", ".join(fork.fork_targets)
    if not joins:
        what = f"no join names exactly the targets of '{step.id}': {names}"
        yield source.problem(("steps", index, "routing", "fork_targets"), what)
    for at, _join, _routing in joins[1:]:
        yield source.problem(("steps", at, "routing", "join_from"), f"'{joins[0][1].id}' joins {names} already")


def _problems_of_joins(flow: Flow, source: YamlSource) -> Iterator[str]:
    forked = [set(fork.fork_targets) for _index, _step, fork in _routed(flow, Fork)]
    for index, step, join in _routed(flow, Join):
        here: Location = ("steps", index, "routing", "join_from")
        names = join.join_from
        late = [name for name in names if flow.index(name) >= index]
        if late:
            yield source.problem(here, f"join_from: '{step.id}' does not come after '{late[0]}'")
        if len(set(names)) < len(names):
            yield source.problem(here, "join_from: a step is listed twice")
        elif set(names) not in forked:
            yield source.problem(here, f"no fork has exactly these targets: {', '.join(names)}")


def _other_entries(flow: Flow, source: YamlSource) -> Iterator[str]:
    """Steps that lead to the target of a fork: reached from elsewhere, it would never meet the others."""
    targets = {name: step.id for _index, step, fork in _routed(flow, Fork) for name in fork.fork_targets}
    for index, step in enumerate(flow.steps):
        here: Location = ("steps", index, "routing")
        if isinstance(step.routing, Fork | Terminal):
            continue
        named = [each for each in _targets(step, here) if "join_from" not in each[0]]
        following = flow.following(step.id)
        if step.routing.next is None and following is not None:
            named.append((here, following))
        for location, name in named:
            if name in targets:
                what = f"'{step.id}' leads to '{name}', which only the fork '{targets[name]}' may execute"
                yield source.problem(location, what)


def _crossing_loops(
    flow: Flow, source: YamlSource, bodies: Sequence[tuple[int, frozenset[str]]], fork: Step, routing: Fork
) -> Iterator[str]:
    join = flow.join_of(fork.id)
    if join is None:
        return
    inside = {fork.id, *routing.fork_targets}
    whole = inside | {join.id}
    for index, body in bodies:
        if body & inside and not whole <= body:
            loop = f"the loop of '{flow.steps[index].id}'"
            what = f"{loop} cuts the fork '{fork.id}': it has to hold all of it, its join included"
            yield source.problem(("steps", index, "routing"), what)
