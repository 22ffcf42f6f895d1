"""Steps that were executed beside others: their own commits, before and after they came onto the branch."""

from __future__ import annotations

from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.state import step_record
from gitswarm.ledger.steps import StepRecord


def siblings(repository: Repository, layout: RunLayout, fork: str | None = None) -> list[StepRecord]:
    """Every such commit of a run, of one step the newest first; `number` is 0, as they are on no branch.

    :param fork: only those that started there.
    """
    prefix = layout.sibling_ref(fork, "") if fork else layout.fork_prefix
    found = []
    for name in repository.refs.list(prefix):
        commit_id = repository.refs.read(name)
        record = _record(repository, layout, commit_id) if commit_id else None
        if record is not None and (fork is None or record.fork == fork):
            found.append(record)
    return found


def _record(repository: Repository, layout: RunLayout, commit_id: str) -> StepRecord | None:
    """None for what a person may have put there."""
    commit = repository.objects.commit(commit_id)
    message = parse_message(commit.message)
    if message is None or not commit.parents:
        return None
    try:
        record = step_record(layout, 0, commit, message)
    except (KeyError, ValueError):
        return None
    return record if record.fork == record.parent else None
