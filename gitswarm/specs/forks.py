"""Whether the forks of a flow come together again: each has its join, and nothing gets in between."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.specs.flow import Branch, Flow, Fork, Join, Linear, Microloop, Step, Terminal
from gitswarm.specs.yaml_source import Location, YamlSource


def named_targets(step: Step, here: Location) -> Iterator[tuple[Location, str]]:
    """The steps that a fork or a join names, with their places."""
    if isinstance(step.routing, Fork):
        yield from (((*here, "fork_targets", n), name) for n, name in enumerate(step.routing.fork_targets))
    if isinstance(step.routing, Join):
        yield from (((*here, "join_from", n), name) for n, name in enumerate(step.routing.join_from))


def fork_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    """
    :param flow: one in which every named step exists.
    """
    forks = [(index, step, step.routing) for index, step in enumerate(flow.steps) if isinstance(step.routing, Fork)]
    for index, step, routing in forks:
        yield from _problems_of_fork(flow, source, index, step, routing)
    yield from _problems_of_joins(flow, source)
    if any(len(set(routing.fork_targets)) < len(routing.fork_targets) for _index, _step, routing in forks):
        return
    yield from _ways_in(flow, source)
    for _index, step, routing in forks:
        yield from _crossing_loops(flow, source, step, routing)


def _problems_of_fork(flow: Flow, source: YamlSource, index: int, step: Step, routing: Fork) -> Iterator[str]:
    here: Location = ("steps", index, "routing", "fork_targets")
    seen: set[str] = set()
    for n, name in enumerate(routing.fork_targets):
        target = flow.step(name)
        others = (s for s in flow.steps if s is not step and isinstance(s.routing, Fork))
        other = next((s.id for s in others if isinstance(s.routing, Fork) and name in s.routing.fork_targets), None)
        if name in seen:
            yield source.problem((*here, n), f"fork_targets: '{name}' is listed twice")
        elif flow.index(name) <= index:
            yield source.problem((*here, n), f"fork_targets: '{name}' does not come after '{step.id}'")
        elif other is not None and flow.index(other) < index:
            yield source.problem((*here, n), f"fork_targets: '{name}' belongs to the fork '{other}' already")
        elif not isinstance(target.routing, Linear) or target.routing.next is not None:
            place: Location = ("steps", flow.index(name), "routing")
            what = f"'{name}' is executed in parallel: it leads to the join, and cannot have a routing of its own"
            yield source.problem(place, what)
        elif target.is_kernel:
            place = ("steps", flow.index(name), "engine")
            yield source.problem(place, f"'{name}' is git-swarm's own step: it cannot be executed in parallel")
        seen.add(name)
    joins = [s for s in flow.steps if isinstance(s.routing, Join) and set(s.routing.join_from) == seen]
    names = ", ".join(routing.fork_targets)
    if not joins:
        yield source.problem(here, f"no join names exactly the targets of '{step.id}': {names}")
    for join in joins[1:]:
        place = ("steps", flow.index(join.id), "routing", "join_from")
        yield source.problem(place, f"'{joins[0].id}' joins {names} already")


def _problems_of_joins(flow: Flow, source: YamlSource) -> Iterator[str]:
    forked = [set(step.routing.fork_targets) for step in flow.steps if isinstance(step.routing, Fork)]
    for index, step in enumerate(flow.steps):
        if not isinstance(step.routing, Join):
            continue
        here: Location = ("steps", index, "routing", "join_from")
        names = step.routing.join_from
        late = [name for name in names if flow.index(name) >= index]
        if late:
            yield source.problem(here, f"join_from: '{step.id}' does not come after '{late[0]}'")
        if len(set(names)) < len(names):
            yield source.problem(here, "join_from: a step is listed twice")
        elif set(names) not in forked:
            yield source.problem(here, f"no fork has exactly these targets: {', '.join(names)}")


def _ways_in(flow: Flow, source: YamlSource) -> Iterator[str]:
    """Only a fork leads to its targets: whoever came another way would never meet the others."""
    targets = {
        name: step.id for step in flow.steps if isinstance(step.routing, Fork) for name in step.routing.fork_targets
    }
    for index, step in enumerate(flow.steps):
        for location, name in _ways_out(flow, step, ("steps", index, "routing")):
            if name in targets:
                what = f"'{step.id}' leads to '{name}', which only the fork '{targets[name]}' may execute"
                yield source.problem(location, what)


def _ways_out(flow: Flow, step: Step, here: Location) -> Iterator[tuple[Location, str]]:
    routing = step.routing
    if isinstance(routing, Fork | Terminal):
        return
    if isinstance(routing, Microloop):
        yield (*here, "loop_target"), routing.loop_target
    if isinstance(routing, Branch):
        yield from (((*here, "when", n, "next"), when.next) for n, when in enumerate(routing.when))
        if routing.default is not None:
            yield (*here, "default"), routing.default
    following = flow.following(step.id)
    if following is not None:
        yield ((*here, "next") if routing.next is not None else here), following


def _crossing_loops(flow: Flow, source: YamlSource, fork: Step, routing: Fork) -> Iterator[str]:
    join = flow.join_of(fork.id)
    if join is None:
        return
    inside = {fork.id, *routing.fork_targets}
    for index, step in enumerate(flow.steps):
        body = flow.loop_body(step.id)
        whole = inside | {join.id}
        if body & inside and not whole <= body:
            what = f"the loop of '{step.id}' cuts the fork '{fork.id}': it has to hold all of it, its join included"
            yield source.problem(("steps", index, "routing"), what)
