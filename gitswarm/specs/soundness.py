"""Whether a flow can be executed: every name in it known, every loop with an end, every fork with its join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gitswarm.specs.flow import Branch, Flow, Fork, Microloop, Step, Terminal
from gitswarm.specs.forks import fork_problems, named_targets
from gitswarm.specs.sidequest import NODE_PREFIX, SIDEQUEST_PREFIX
from gitswarm.specs.yaml_source import Location, YamlSource, did_you_mean

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
    if flow.id != flow_id:
        yield source.problem(("id",), f"id '{flow.id}' in a file named '{flow_id}'")
    yield from _id_problems(flow, source)
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
    if not targets:
        yield from _shape_problems(flow, source)
        yield from fork_problems(flow, source)


def _id_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    seen: set[str] = set()
    receipts: dict[str, str] = {}
    for index, step in enumerate(flow.steps):
        place: Location = ("steps", index, "id")
        receipt = f"{step.id}-{step.agent}"
        if step.id in seen:
            yield source.problem(place, f"the step '{step.id}' exists already")
        elif receipt in receipts:
            what = f"'{step.id}' by '{step.agent}' and '{receipts[receipt]}' would write one receipt, {receipt}"
            yield source.problem(place, what)
        if step.id.startswith(_RESERVED):
            yield source.problem(place, f"'{step.id}': steps of sidequests and injected nodes are named so")
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


def _target_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    names = [step.id for step in flow.steps]
    for index, step in enumerate(flow.steps):
        routing = step.routing
        here: Location = ("steps", index, "routing")
        targets: list[tuple[Location, str]] = list(named_targets(step, here))
        if isinstance(routing, Microloop):
            targets.append(((*here, "loop_target"), routing.loop_target))
        if isinstance(routing, Branch):
            if routing.default is not None:
                targets.append(((*here, "default"), routing.default))
            for n, condition in enumerate(routing.when):
                targets.append(((*here, "when", n, "next"), condition.next))
        if not isinstance(routing, Terminal | Fork) and routing.next is not None:
            targets.append(((*here, "next"), routing.next))
        for location, target in targets:
            if target not in names:
                near = did_you_mean(target, names)
                key = next(part for part in reversed(location) if isinstance(part, str))
                yield source.problem(location, f"{key}: no step '{target}' in this flow{near}")


def _shape_problems(flow: Flow, source: YamlSource) -> Iterator[str]:
    """What would keep a run from ending: a loop that looks forward, loops that cross, a circle."""
    for index, step in enumerate(flow.steps):
        if isinstance(step.routing, Microloop) and flow.index(step.routing.loop_target) > index:
            yield source.problem(
                ("steps", index, "routing", "loop_target"),
                f"'{step.id}' loops to '{step.routing.loop_target}', which comes after it",
            )
    bodies = [(index, flow.loop_body(step.id)) for index, step in enumerate(flow.steps)]
    for index, body in bodies:
        for other, other_body in bodies[index + 1 :]:
            if body & other_body and not body <= other_body:
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
