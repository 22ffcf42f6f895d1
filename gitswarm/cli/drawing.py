"""A flow drawn for a terminal: steps downwards, ways back as brackets on the right."""

from __future__ import annotations

import textwrap

from gitswarm.cli.terminal import text_width
from gitswarm.specs.flow import Flow, Fork, Join
from gitswarm.specs.graph import END, Edge, edges

_GAP = 2


def drawing(flow: Flow) -> str:
    """One line per step; `┐` marks where a way back arrives and `┘` where it starts, with its maximum; `║` steps that
    are executed in parallel."""
    names = [step.id for step in flow.steps]
    width = max(len(f"{step.id}  {step.agent}") for step in flow.steps) + _GAP
    backs = [edge for edge in edges(flow) if edge.limit is not None]
    beside = {name for step in flow.steps if isinstance(step.routing, Fork) for name in step.routing.fork_targets}
    lines: list[str] = []
    for number, step in enumerate(flow.steps):
        label = f"{step.id}  {step.agent}".ljust(width)
        mark = "●" if number == 0 else "║" if step.id in beside else "│"
        lines.append(f"{mark} {label}{_brackets(names, number, backs)}".rstrip())
        if isinstance(step.routing, Fork):
            lines += _wrapped(f"⇉ at the same time: {', '.join(step.routing.fork_targets)}")
            continue
        if isinstance(step.routing, Join):
            lines += _wrapped(f"⇇ {step.routing.join_strategy} of {', '.join(step.routing.join_from)}")
        if step.id in beside:
            continue
        forward = [edge for edge in edges(flow) if edge.source == step.id and edge.limit is None]
        following = names[number + 1] if number + 1 < len(names) else END
        if [edge.target for edge in forward] != [following]:
            lines += [line for edge in forward for line in _wrapped(f"↳ {_way(edge)}")]
    lines.append("○ end")
    return "\n".join(lines)


def _way(edge: Edge) -> str:
    """Of several, or one that is not the next step: to where, and when."""
    if edge.label in ("", "else"):
        return f"{edge.target}{', else' if edge.label else ''}"
    return f"{edge.target} if {edge.label}"


def _wrapped(text: str) -> list[str]:
    """Lines below a step, as narrow as a terminal."""
    return textwrap.wrap(
        text, text_width(), initial_indent="│   ", subsequent_indent="│     ", break_long_words=False
    )


def _brackets(names: list[str], row: int, backs: list[Edge]) -> str:
    """The columns of this row, one per way back, and where those lead that start here."""
    columns = []
    said = []
    for edge in backs:
        top, bottom = names.index(edge.target), names.index(edge.source)
        if row == bottom == top:
            columns.append("⟲")
        elif row == top:
            columns.append("┐")
        elif row == bottom:
            columns.append("┘")
        else:
            columns.append("│" if top < row < bottom else " ")
        if row == bottom:
            said.append(f"{edge.target} ≤{edge.limit}")
    return f"{' '.join(columns).rstrip()}  ↑ {', '.join(said)}" if said else " ".join(columns).rstrip()
