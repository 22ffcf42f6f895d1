"""The conversation of a step that its provider ended: kept until the step is executed again, which continues it.

It does so only where the worktree can be made what it was then: its tree and its folder are kept with it.
"""

from __future__ import annotations

from pathlib import Path

from gitswarm.git.repository import Repository
from gitswarm.ledger.state import RunState
from gitswarm.records.evidence import Evidence
from gitswarm.records.execution import Execution
from gitswarm.records.receipt import KeptConversation
from gitswarm.records.routing import Decision
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.plan import OpenStep, StepPlan, declared_paths
from gitswarm.untrusted import files_below, remove_tree
from gitswarm.worktree import snapshot

_RECORD = "kept.json"


def conversations_of(repository: Repository, run_id: str) -> Path:
    """Agents in the sandbox see nothing of it."""
    return repository.swarm_dir / "conversations" / run_id


def conversation_folder(session: Session, execution: Execution) -> Path:
    name = f"{execution.flow}.{execution.step}@{execution.iteration}"
    return conversations_of(session.repository, session.layout.run_id) / name


def find_unfinished(session: Session, state: RunState, worktree: RunWorktree, decision: Decision) -> Path | None:
    """The conversation that the step that is next left when it failed, if nothing has happened since."""
    record = state.last_step
    if record is None or (record.flow, record.step) != (decision.next_flow, decision.to_step):
        return None
    if session.store.code(state.tip_tree) != session.store.code(record.tree):
        return None
    folder = conversation_folder(session, record.execution)
    try:
        kept = _kept_in(folder)
    except (OSError, ValueError):
        return None
    if (
        kept.before != record.parent
        or kept.worktree != str(worktree.shadow.path)
        or not session.repository.objects.has(kept.tree)
    ):
        return None
    return folder


def execution_of(folder: Path) -> str:
    """Whose conversation it is, as `step@n`."""
    return folder.name.partition(".")[2]


def _kept_in(folder: Path) -> KeptConversation:
    return KeptConversation.from_json((folder / _RECORD).read_bytes())


def restore_unfinished(session: Session, worktree: RunWorktree, plan: StepPlan) -> None:
    """Makes the worktree what it was when the conversation that the step continues ended."""
    # Of an execution with the same name that was taken back.
    remove_tree(conversation_folder(session, plan.execution))
    if plan.unfinished is None:
        return
    whose = execution_of(plan.unfinished)
    session.context.observer.notice(f"{plan.execution.name} continues the conversation of {whose}")
    worktree.index.leave()
    snapshot.restore(worktree.shadow, _kept_in(plan.unfinished).tree, session.layout.base)
    snapshot.align_index(worktree.shadow, plan.before.tip_tree)
    worktree.folder.examine(plan.before.tip_tree, declared_paths(worktree, plan))


def keep_conversation(session: Session, step: OpenStep, evidence: Evidence, tree: str) -> None:
    """Before the step's commit: what its engine left stays, where its worktree can be had again and nothing in it is
    a secret.

    :param tree: of the worktree as the step left it.
    """
    folder = conversation_folder(session, step.plan.execution)
    if not folder.exists():
        return
    repaired = evidence.tampered or evidence.quarantined or evidence.secrets or evidence.put_back
    if repaired or _has_secrets(session, folder):
        remove_tree(folder)
        return
    kept = KeptConversation(before=step.plan.before.tip, worktree=str(step.worktree.shadow.path), tree=tree)
    (folder / _RECORD).write_bytes(kept.to_json())


def drop_conversations(session: Session, execution: Execution) -> None:
    """Nobody continues any more what executions before this one left, whose commit is there."""
    for folder in conversations_of(session.repository, session.layout.run_id).glob("*"):
        if folder != conversation_folder(session, execution):
            remove_tree(folder)


def _has_secrets(session: Session, folder: Path) -> bool:
    """A conversation without its secrets would be another one: its provider has signed parts of it."""
    texts = (path.read_text("utf-8", "replace") for path, _about in files_below(folder))
    return any(session.redactor.scrub(text) != text for text in texts)
