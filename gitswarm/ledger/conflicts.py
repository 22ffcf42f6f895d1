"""A landing that met a conflict, as the run records it, and the way out of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import ApprovalKind, is_code, last_word
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.state import RunState

_LAND = "land"
RESET = "reset"
_AT_THE_END = (RESET, "gate", "deploy")
"""Flows that come after the work; no reset begins within the last two."""


class LandingConflict(Struct, frozen=True):
    """What `land` reported, and the files in which target and run change the same places."""

    summary: str
    files: tuple[str, ...]


def standing_conflict(repository: RepositoryReader, state: RunState) -> LandingConflict | None:
    """The conflict that the code which the run has now met when it was to land; None: it met none, or was approved
    again since."""
    word = last_word(repository, state)
    if word is None or word.word is not ApprovalKind.VOIDS:
        return None
    record = next((each for each in state.steps if each.commit == word.commit), None)
    if record is None or record.step != _LAND or not is_code(repository, record.tree, state.tip_tree):
        return None
    path = record.execution.envelope
    content = repository.objects.file(record.tree, path) or b"{}"
    envelope = parsed(json.loads, content, state.layout, f"{record.commit[:12]}:{path}")
    return LandingConflict(record.summary, tuple(map(str, envelope.get("blockers", ()))))


def way_out(state: RunState, flows: Sequence[str], target: str) -> str:
    """The command that leads out of a conflict: back to before the landing, where the run has the flow that merges
    what its target got; else the same task again, on the commit that the target has now."""
    run = state.layout.run_id
    steps = [
        each for each in state.steps if not each.by_command and each.flow in flows and each.flow not in _AT_THE_END
    ]
    if RESET in flows and steps and not state.shared:
        return f"git swarm rollback {steps[-1].number} --run {run}   (then git swarm resume {run}: reset merges)"
    return f"git swarm start {' '.join(flows)} -m '…'   (on the current {target})"
