"""What only people may type: a process that works for a run is none of them."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.errors import SwarmError
from gitswarm.runner.session import MARKER


def refuse_agent(env: Mapping[str, str], command: str) -> None:
    """
    :param command: as it is typed behind `git swarm`.
    :raises SwarmError: the environment is that of a step.
    """
    run = env.get(MARKER)
    if run is not None:
        raise SwarmError(
            f"an agent cannot {command}: this process belongs to a step of {run or 'a run'}",
            hint=f"git swarm {command}   (a person, in a shell of their own)",
        )
