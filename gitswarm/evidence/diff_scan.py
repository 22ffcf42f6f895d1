"""The step's own change, from git trees."""

from __future__ import annotations

from gitswarm.git.diff import Diffs
from gitswarm.records.evidence import ChangedFile, DiffSummary


def scan(diffs: Diffs, before: str, after: str) -> DiffSummary:
    """
    :param before: the tree that the step started from; both have the same `.swarm/runs`.
    """
    return DiffSummary.of(
        tuple(
            ChangedFile(
                path=delta.path,
                change=delta.change,
                old_path=delta.old_path,
                insertions=delta.insertions,
                deletions=delta.deletions,
            )
            for delta in diffs.between(before, after)
        )
    )
