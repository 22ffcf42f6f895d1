"""Whether the target of a run has moved in a way that its code cannot follow: looked at before each step, locally."""

from __future__ import annotations

from gitswarm.git.repository import Repository
from gitswarm.ledger.copies import merged_onto
from gitswarm.ledger.state import RunState
from gitswarm.records.text import listed
from gitswarm.routing.macro import RESET
from gitswarm.runner.landing.look import target_of
from gitswarm.runner.landing.plan import Wish, short
from gitswarm.runner.session import Session

_MOST_RESETS = 3
"""Resets that one run is interrupted for."""


def diverged(session: Session, state: RunState) -> str | None:
    """What a reset is called for by; None: nothing, or the run has no such flow. Nothing is fetched."""
    if RESET not in session.specs.flows or state.shared or state.ground.before is not None:
        return None
    if state.tally.uses("flow", RESET) >= _MOST_RESETS:
        return None
    repository, target = session.repository, target_of(session, Wish())
    local = repository.refs.read(target) if target is not None else None
    if target is None or local is None:
        return None
    tip = newer(repository, state.base, local, followed(repository, target))
    looked_at = repository.refs.read(session.layout.upstream_ref)
    if tip in (None, state.base, looked_at) or is_in(repository, tip or "", state.base):
        return None
    found = merged_onto(repository, state.base, tip or "", state.tip_tree)
    if not found.conflicts:
        return None
    return f"{short(target)} moved to {(tip or '')[:12]}, which conflicts with the run in {listed(found.conflicts)}"


def followed(repository: Repository, branch: str) -> str | None:
    """Where the remote-tracking branch of a local one was when the user fetched."""
    name = repository.git.output("for-each-ref", "--format=%(upstream)", branch).decode(errors="replace").strip()
    return repository.refs.read(name) if name else None


def newer(repository: Repository, base: str, local: str | None, there: str | None) -> str | None:
    """Of a target and what it follows the one that is ahead. Where they have gone apart: the one that moved since
    the base, else the target, which is what a run lands on."""
    if local is None or there is None or local == there:
        return local or there
    if is_in(repository, local, there) or is_in(repository, local, base):
        return local if is_in(repository, there, local) else there
    return local


def is_in(repository: Repository, commit: str, tip: str) -> bool:
    """Whether a commit is part of the history of another one."""
    return commit == tip or repository.git.run("merge-base", "--is-ancestor", commit, tip).returncode == 0
