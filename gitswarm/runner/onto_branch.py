"""Replays the commit of a parallel step on the branch, and finds those that still count after an interruption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

from msgspec.structs import replace

from gitswarm.git.merge import Merged, merge_trees
from gitswarm.ledger.message import CommitMessage, parse_message
from gitswarm.ledger.reading import siblings
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord, Tally
from gitswarm.ledger.store import StagedCommit
from gitswarm.records.execution import Result, Status, worse
from gitswarm.records.routing import ForkState
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.stored import envelope_of, incoming_decision
from gitswarm.worktree import snapshot

_ADDED_AGAIN = ("Swarm-Format", "Swarm-Prev-Notes")


def bring_onto_branch(session: Session, worktree: RunWorktree, state: RunState, sibling: StepRecord) -> RunState:
    """Merges the change of a parallel step with what the others changed; its records and artifacts stay as they are.

    Of a failed step only the evidence is taken. A change that conflicts is left out: the step is PARTIAL then, and
    its envelope says why.
    """
    merged = _merged(session, state, sibling)
    files = dict(_files(session, sibling))
    message = _message(session, sibling)
    if merged.conflicts:
        files |= _envelope_of_conflict(session, state, sibling, merged.paths)
        status = worse(sibling.status, Status.PARTIAL)
        message = replace(message, trailers={**message.trailers, "Swarm-Status": status})
        others = ", ".join(merged.paths)
        session.context.observer.notice(f"{sibling.step} conflicts in {others}: its code is left out")
    after = session.store.commit(state, StagedCommit(message, sibling.execution.agent, merged.tree, files))
    worktree.index.leave()
    snapshot.restore(worktree.shadow, after.tip_tree, session.layout.base)
    worktree.index.leave()
    return after


def _merged(session: Session, state: RunState, sibling: StepRecord) -> Merged:
    """The code as it is then; where there are conflicts, without the change."""
    if sibling.result is Result.FAILED:
        return Merged(state.tip_tree, ())
    repository = session.repository
    base, ours, theirs = (
        session.store.code(tree) for tree in (_start(session, sibling), state.tip_tree, sibling.tree)
    )
    earlier = _earlier(session, state, sibling)
    if earlier is not None:
        # The change of the earlier execution is replaced, so it is taken out before the merge.
        undone = merge_trees(repository, earlier, ours, base)
        if undone.conflicts:
            return Merged(state.tip_tree, undone.conflicts)
        ours = undone.tree
    if base in (ours, theirs):
        return Merged(ours if theirs == base else theirs, ())
    found = merge_trees(repository, base, ours, theirs)
    return Merged(state.tip_tree, found.conflicts) if found.conflicts else found


def _earlier(session: Session, state: RunState, sibling: StepRecord) -> str | None:
    """The code of an earlier execution of the step in the same fork, if that changed the branch."""
    objects = session.repository.objects
    for record in reversed(state.steps):
        same = (record.flow, record.step, record.fork) == (sibling.flow, sibling.step, sibling.fork)
        if same and record.sibling is not None:
            before = objects.commit(record.parent).tree
            if session.store.code(record.tree) != session.store.code(before):
                return session.store.code(objects.commit(record.sibling).tree)
    return None


def _start(session: Session, sibling: StepRecord) -> str:
    return session.repository.objects.commit(sibling.parent).tree


def _files(session: Session, sibling: StepRecord) -> Iterator[tuple[str, str | None]]:
    """What it changed in RUN_BASE: path and blob id, None: it goes."""
    objects, base = session.repository.objects, session.layout.base
    before, after = dict(objects.files(_start(session, sibling), base)), dict(objects.files(sibling.tree, base))
    execution = sibling.execution
    records = {
        execution.receipt,
        execution.envelope,
        execution.evidence,
        execution.transcript(sibling.engine),
    }
    for path in sorted({*before, *after}):
        is_evidence = path in records or path.startswith(f"{execution.events_folder}/")
        if before.get(path) != after.get(path) and (is_evidence or sibling.result is not Result.FAILED):
            yield path, after.get(path)


def _message(session: Session, sibling: StepRecord) -> CommitMessage:
    found = parse_message(session.repository.objects.commit(sibling.commit).message)
    if found is None:
        raise ValueError(f"{sibling.commit} is not a commit of ours")
    trailers = {name: value for name, value in found.trailers.items() if name not in _ADDED_AGAIN}
    return CommitMessage(found.subject, found.body, {**trailers, "Swarm-Fork-Commit": sibling.commit})


def _envelope_of_conflict(
    session: Session, state: RunState, sibling: StepRecord, conflicts: tuple[str, ...]
) -> Mapping[str, str | None]:
    """The envelope with the reason why the code was left out."""
    envelope = envelope_of(session, sibling)
    if envelope is None:
        return {}
    others = ", ".join(_colliding(session, state, sibling, conflicts)) or "what is on the branch"
    paths = ", ".join(conflicts)
    reason = f"its code is not on the branch: it conflicts with {others} in {paths}"
    kept = f"{reason}; the commit that Swarm-Fork-Commit names has it"
    status = worse(envelope.status, Status.PARTIAL)
    claimed = envelope.claimed_status or (envelope.status if status is not envelope.status else None)
    changed = replace(
        envelope,
        status=status,
        claimed_status=claimed if state.is_judged else None,
        status_reason=reason,
        concerns=(*envelope.concerns, kept),
    )
    return session.store.write_blobs(session.store.scrubbed({sibling.execution.envelope: changed.to_json()}))


def _colliding(session: Session, state: RunState, sibling: StepRecord, conflicts: tuple[str, ...]) -> Iterator[str]:
    """The siblings that are on the branch already and changed these paths."""
    start = session.store.code(_start(session, sibling))
    for record in state.steps:
        if record.fork == sibling.parent and record.sibling is not None and record.step != sibling.step:
            theirs = session.store.code(session.repository.objects.commit(record.sibling).tree)
            deltas = session.repository.diffs.between(start, theirs)
            if any(delta.path in conflicts for delta in deltas):
                yield record.step


def fork_commit(fork: ForkState) -> str:
    """The commit that a fork's branches start from. Every recorded decision says it."""
    if fork.commit is None:
        raise ValueError("the fork was not recorded yet")
    return fork.commit


def finished(session: Session, fork: ForkState) -> dict[str, StepRecord]:
    """The fork's targets that have a commit of their own, by step, whether it was replayed on the branch or not.

    Only those of the same round: after a rollback of a target only later executions count.
    """
    found: dict[str, StepRecord] = {}
    for record in siblings(session.repository, session.layout, fork_commit(fork)):
        if record.step in fork.targets and record.step not in found and _round(session, record) == fork.void:
            found[record.step] = record
    return found


def has_begun(session: Session, state: RunState, fork: ForkState) -> bool:
    """Whether any step of the fork was committed, on the branch or not."""
    on_branch = any(record.fork == fork.commit for record in state.steps)
    return on_branch or bool(siblings(session.repository, session.layout, fork.commit))


def void_commits(session: Session, state: RunState, fork: ForkState) -> tuple[str, ...]:
    """Commits that no longer count when the fork begins again after a rollback: all that are not on the branch."""
    on_branch = {record.sibling for record in state.steps}
    known = siblings(session.repository, session.layout, fork.commit) if fork.commit else []
    gone = (record.commit for record in known if record.commit not in on_branch)
    return tuple(dict.fromkeys((*fork.void, *gone)))


def state_at(session: Session, state: RunState, commit: str) -> RunState:
    """The run as it was when `commit` was its tip."""
    if commit == state.tip:
        return state
    number = next((record.number for record in state.steps if record.commit == commit), None)
    if number is None:
        return replay(session.repository, session.layout, commit)
    steps = state.steps[:number]
    last = steps[-1]
    return RunState(
        layout=state.layout,
        run_commit=state.run_commit,
        bases=state.bases,
        tip=commit,
        tip_tree=last.tree,
        tip_events=last.execution.events,
        steps=steps,
        tally=reduce(Tally.after, steps, Tally()),
        shared=min(state.shared, number),
        format=state.format,
    )


def _round(session: Session, record: StepRecord) -> tuple[str, ...] | None:
    fork = incoming_decision(session, record).fork
    return fork.void if fork is not None else None
