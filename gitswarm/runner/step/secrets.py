"""What becomes of files in which a secret was found: they are kept aside, and a person is told where."""

from __future__ import annotations

from collections.abc import Sequence

from gitswarm.ledger.journal import Journal
from gitswarm.records.base import readable
from gitswarm.records.event import Event, EventKind
from gitswarm.records.secrets import SecretFound
from gitswarm.runner.session import Session
from gitswarm.worktree.apart import keep_copy, put_former_back
from gitswarm.worktree.search import Flagged, Search, Staged
from gitswarm.worktree.shadow import Shadow


def search_since(session: Session, tree: str) -> Search:
    """What to look for in code that was `tree` before. What the run began with is not new either."""
    repository = session.repository
    base = repository.refs.read(session.layout.base_ref)
    known = (repository.objects.commit(base).tree,) if base is not None else ()
    return Search(session.redactor.find_in_code, tree, known, session.around.observer.notice)


def take_out(session: Session, shadow: Shadow, staged: Staged, journal: Journal) -> tuple[SecretFound, ...]:
    """Moves the flagged files out of the worktree; what was found in them goes into the journal."""
    for item, kept_as in keep(session, shadow, staged.flagged):
        for found in item.found:
            payload = found.model_dump(mode="json")
            journal.append(Event(EventKind.SECRET_FOUND, {**payload, "kept_as": kept_as}))
    put_former_back(shadow, staged.flagged)
    return tuple(found for item in staged.flagged for found in item.found)


def keep(session: Session, shadow: Shadow, flagged: Sequence[Flagged]) -> list[tuple[Flagged, str]]:
    """Copies flagged files, which stay where they are; each with the name of its copy."""
    store = session.repository.swarm_dir / "quarantine" / session.layout.run_id
    kept = []
    for item in flagged:
        if not item.found:
            session.around.observer.notice(
                f"{readable(item.path)} stays: the file that was to replace it was left out"
            )
            continue
        kept_as = keep_copy(shadow, item, store, session.redactor.scrub)
        first = item.found[0]
        session.around.observer.notice(f"{described(first)}: the file is kept as {store / kept_as}")
        kept.append((item, kept_as))
    return kept


def described(found: SecretFound) -> str:
    """One finding for a person, without the secret."""
    if found.line == 0:
        return f"{found.path}: a secret in its name ({found.kind})"
    return f"{found.path}:{found.line}: a secret ({found.kind})"
