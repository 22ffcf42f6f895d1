"""Step templates: what every step of a kind is told, whatever its station."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.records.base import Record
from gitswarm.specs.flow import Flow, Identifier, Microloop, Step


class StepTemplate(Record):
    """`flows/templates/<id>.yaml`. Fragments are paths below `flows/fragments/`."""

    id: Identifier
    title: str
    fragments: tuple[str, ...] = ()
    emphasizes: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


ASIDE_TEMPLATE = "artifact-writer"
"""What steps of sidequests and injected nodes are told."""


def template_id(flow: Flow, step: Step) -> str:
    """The template that a step names, else the one of its place in a microloop."""
    if step.template is not None:
        return step.template
    if isinstance(step.routing, Microloop):
        return "microloop-critic"
    return "microloop-writer" if critics_of(flow, step) else ASIDE_TEMPLATE


def critics_of(flow: Flow, step: Step) -> tuple[Step, ...]:
    """Steps that send the flow back to this one."""
    return tuple(
        other for other in flow.steps if isinstance(other.routing, Microloop) and other.routing.loop_target == step.id
    )


def loop_variables(flow: Flow, step: Step) -> Mapping[str, str]:
    """What authored text may say about the microloop of a step; empty for a step in none."""
    if isinstance(step.routing, Microloop):
        author, limit = step.routing.loop_target, step.routing.max_iterations
        return {"loop.author": author, "loop.critic": step.id, "loop.max_iterations": str(limit)}
    critics = critics_of(flow, step)
    return {"loop.author": step.id, "loop.critic": ", ".join(c.id for c in critics)} if critics else {}
