"""What a rollback leaves behind: a ref that holds what went, and a line in the routing note of where it led."""

from __future__ import annotations

from gitswarm.ledger.state import RunState
from gitswarm.runner.session import Session

ROLLED_BACK = "rollback"


def keep_rolled_back(session: Session, went: RunState, target: str) -> str:
    """Keeps commits that somebody took off the branch, as `rollback` would have; `rollback --undo` brings them back.

    :param went: the run as it was before.
    """
    trailers = {"Swarm-Reason": ROLLED_BACK, "Swarm-Target": target}
    tree = session.repository.objects.commit(went.tip).tree
    kept = session.store.set_aside(went, tree, f"moved back by hand to {target[:12]}", trailers)
    session.store.supersede(target, kept, f"moved back to here by hand: what followed is kept in {kept}")
    return kept
