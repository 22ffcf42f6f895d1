"""A flow drawn for a terminal: steps downwards, ways back as brackets on the right."""

from __future__ import annotations

from gitswarm.specs.flow import Flow
from gitswarm.specs.graph import END, Edge, edges

_GAP = 2


def drawing(flow: Flow) -> str:
    """One line per step; `┐` marks where a way back arrives and `┘` where it starts, with its maximum."""
    names = [step.id for step in flow.steps]
    width = max(len(f"{step.id}  {step.station or 'command'}") for step in flow.steps) + _GAP
    backs = [edge for edge in edges(flow) if edge.limit is not None]
    lines = []
    for number, step in enumerate(flow.steps):
        label = f"{step.id}  {step.station or 'command'}".ljust(width)
        lines.append(f"{'●' if number == 0 else '│'} {label}{_brackets(names, number, backs)}".rstrip())
        jumps = [edge for edge in edges(flow) if edge.source == step.id and edge.limit is None and edge.label]
        following = names[number + 1] if number + 1 < len(names) else END
        lines += [f"│   ↳ {edge.target} if {edge.label}" for edge in jumps if edge.target != following]
    lines.append("○ end")
    return "\n".join(lines)


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
