"""The trash: runs that were discarded, under refs of their own."""

from __future__ import annotations

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import RunLayout

TRASH = "refs/swarm/trash/"


def discarded_runs(repository: RepositoryReader) -> list[RunLayout]:
    """Oldest created first."""
    names = {name.removeprefix(TRASH).partition("/")[0] for name in repository.refs.list(TRASH)}
    return [RunLayout(name) for name in sorted(names)]
