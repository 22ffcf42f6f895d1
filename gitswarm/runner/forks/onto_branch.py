"""Brings a step that was executed beside others onto the branch, as a commit like any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitswarm.git.merge import merge_trees
from gitswarm.ledger.layout import RUNS_FOLDER
from gitswarm.ledger.message import Message, parse_message
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.store import Draft
from gitswarm.records.outcome import Result, Status
from gitswarm.routing.joins import worse
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.stored import envelope_of
from gitswarm.worktree import snapshot

_ADDED_AGAIN = ("Swarm-Format", "Swarm-Prev-Notes")


def bring_onto_branch(session: Session, place: Workplace, state: RunState, sibling: StepRecord) -> RunState:
    """Its change to the code over what the others changed, its papers and artifacts as they are.

    Of a failed step only the evidence comes. Where its change collides with theirs it stays behind: the step is
    PARTIAL then, and says why.
    """
    merged = _merged(session, state, sibling)
    files = dict(_files(session, sibling))
    message = _message(session, sibling)
    if merged.conflicts:
        files |= _told(session, state, sibling, merged.conflicts)
        message = _with_status(message, worse(sibling.status, Status.PARTIAL))
    draft = Draft(message=message, author=sibling.execution.agent, code_tree=merged.code, files=files)
    after = session.store.commit(state, draft)
    place.index.leave()
    snapshot.restore(place.shadow, after.tip_tree, session.layout.base)
    place.index.leave()
    return after


@dataclass(frozen=True, slots=True)
class _Merged:
    code: str
    conflicts: tuple[str, ...] = ()


def _merged(session: Session, state: RunState, sibling: StepRecord) -> _Merged:
    if sibling.result is Result.FAILED:
        return _Merged(state.tip_tree)
    repository = session.repository
    base, ours, theirs = (_code(session, tree) for tree in (_start(session, sibling), state.tip_tree, sibling.tree))
    earlier = _earlier(session, state, sibling)
    if earlier is not None:
        # What it is executed again for is no part of what it is to be merged with.
        undone = merge_trees(repository, earlier, ours, base)
        if undone.conflicts:
            return _Merged(state.tip_tree, undone.conflicts)
        ours = undone.tree
    if theirs == base:
        return _Merged(ours)
    if ours == base:
        return _Merged(theirs)
    found = merge_trees(repository, base, ours, theirs)
    return _Merged(state.tip_tree, found.conflicts) if found.conflicts else _Merged(found.tree)


def _earlier(session: Session, state: RunState, sibling: StepRecord) -> str | None:
    """The code as an earlier execution of the step left it beside the others, if that is on the branch."""
    objects = session.repository.objects
    for record in reversed(state.steps):
        same = (record.flow, record.step, record.fork) == (sibling.flow, sibling.step, sibling.fork)
        if same and record.sibling is not None:
            before = objects.commit(record.parent).tree
            if _code(session, record.tree) != _code(session, before):
                return _code(session, objects.commit(record.sibling).tree)
    return None


def _start(session: Session, sibling: StepRecord) -> str:
    return session.repository.objects.commit(sibling.parent).tree


def _code(session: Session, tree: str) -> str:
    return session.repository.objects.with_subtree(tree, RUNS_FOLDER, None)


def _files(session: Session, sibling: StepRecord) -> Iterator[tuple[str, str | None]]:
    """What it changed in RUN_BASE: path and blob id, None: it goes."""
    objects, base = session.repository.objects, session.layout.base
    before, after = dict(objects.files(_start(session, sibling), base)), dict(objects.files(sibling.tree, base))
    execution = sibling.execution
    papers = {
        execution.receipt,
        execution.envelope,
        execution.evidence,
        execution.transcript(sibling.engine),
    }
    for path in sorted({*before, *after}):
        is_evidence = path in papers or path.startswith(f"{execution.events_folder}/")
        if before.get(path) != after.get(path) and (is_evidence or sibling.result is not Result.FAILED):
            yield path, after.get(path)


def _message(session: Session, sibling: StepRecord) -> Message:
    found = parse_message(session.repository.objects.commit(sibling.commit).message)
    if found is None:
        raise ValueError(f"{sibling.commit} is not a commit of ours")
    trailers = {name: value for name, value in found.trailers.items() if name not in _ADDED_AGAIN}
    return Message(found.subject, found.body, {**trailers, "Swarm-Fork-Commit": sibling.commit})


def _with_status(message: Message, status: Status) -> Message:
    return Message(message.subject, message.body, {**message.trailers, "Swarm-Status": status})


def _told(
    session: Session, state: RunState, sibling: StepRecord, conflicts: tuple[str, ...]
) -> Mapping[str, str | None]:
    """The envelope with what became of the code."""
    envelope = envelope_of(session, sibling)
    if envelope is None:
        return {}
    others = ", ".join(_colliding(session, state, sibling, conflicts)) or "what is on the branch"
    paths = ", ".join(conflicts)
    reason = f"its code is not on the branch: it conflicts with {others} in {paths}"
    kept = f"{reason}; the commit that Swarm-Fork-Commit names has it"
    changed = envelope.model_copy(
        update={
            "status": worse(envelope.status, Status.PARTIAL),
            "status_reason": reason,
            "concerns": (*envelope.concerns, kept),
        }
    )
    return session.store.stored({sibling.execution.envelope: changed.to_json()}).blobs


def _colliding(session: Session, state: RunState, sibling: StepRecord, conflicts: tuple[str, ...]) -> Iterator[str]:
    """The siblings that are on the branch already and changed these paths."""
    start = _code(session, _start(session, sibling))
    for record in state.steps:
        if record.fork == sibling.parent and record.sibling is not None and record.step != sibling.step:
            theirs = _code(session, session.repository.objects.commit(record.sibling).tree)
            deltas = session.repository.diffs.between(start, theirs)
            if any(delta.path in conflicts for delta in deltas):
                yield record.step
