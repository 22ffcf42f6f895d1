"""Which processes belong to a run: marks in their environment, and the processes above them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gitswarm.errors import SwarmError
from gitswarm.git.owners import clone_id, live_owners
from gitswarm.process_table import ancestors

if TYPE_CHECKING:
    from gitswarm.git.repository import Repository
    from gitswarm.ledger.layout import RunLayout

MARKER = "SWARM_STEP_OF"
"""Environment variable of every process that works for a run; its value is `process_mark`."""

SIBLING_MARKER = "SWARM_SIBLING"
"""The same for every process of a step that is executed beside others, so that only those can be ended."""


def process_mark(repository: Repository, layout: RunLayout) -> str:
    """`<run>:<repository>`: another clone on this machine may have the same run."""
    return f"{layout.run_id}:{clone_id(repository.common_dir)}"


def refuse_agent(env: Mapping[str, str], command: str, common_dir: Path) -> None:
    """Looks at the environment, and at who started this process: a step's detached child with an empty environment is
    still below the process that executes the run.

    :param command: as it is typed behind `git swarm`.
    :param common_dir: of the repository.
    :raises SwarmError: this process belongs to a step.
    """
    run = env.get(MARKER, "").partition(":")[0] or _executed_by_ancestor(common_dir)
    if run is not None:
        raise SwarmError(
            f"an agent cannot {command}: this process belongs to a step of {run or 'a run'}",
            hint=f"git swarm {command}   (a person, in a shell of their own)",
        )


def _executed_by_ancestor(common_dir: Path) -> str | None:
    """The run that an ancestor of this process executes."""
    owners = {owner.pid: run for run, owner in live_owners(common_dir)}
    return next((owners[pid] for pid in ancestors() if pid in owners), None) if owners else None
