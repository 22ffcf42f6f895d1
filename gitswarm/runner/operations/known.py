"""Which operations this version can carry out."""

from __future__ import annotations

from collections.abc import Iterable

from gitswarm.errors import SwarmError
from gitswarm.specs.flow import Flow, Operation, Step

_MISSING: frozenset[Operation] = frozenset()


def refuse_unknown_operations(flows: Iterable[Flow]) -> None:
    """Before a run begins: nobody pays for thirty steps of which the last cannot be executed.

    :raises SwarmError: a step of these flows needs an operation that this version does not have.
    """
    for flow in flows:
        for step in flow.steps:
            refuse_unknown_operation(flow, step)


def refuse_unknown_operation(flow: Flow, step: Step) -> None:
    """
    :raises SwarmError: the step needs an operation that this version does not have.
    """
    if step.operation in _MISSING:
        raise SwarmError(
            f"{flow.id}/{step.id} needs the operation '{step.operation}', which this version does not have",
            hint=f"git swarm flows show {flow.id}   (its steps; start flows without such a step)",
        )
