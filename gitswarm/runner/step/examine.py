"""What really happened in the worktree, whatever the engine says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from gitswarm.engines.base import StepResult
from gitswarm.errors import GitFailedError
from gitswarm.ledger.journal import Journal
from gitswarm.ledger.layout import HUMAN, KERNEL
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import Event, EventKind
from gitswarm.records.evidence import CheckOutcome, Evidence
from gitswarm.records.execution import RUNS_FOLDER, Result, Status
from gitswarm.records.record import readable
from gitswarm.records.safety import SecretFound, scrubbed_record
from gitswarm.records.text import listed
from gitswarm.runner.containing import mention_refused
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.judge import described, judge_step
from gitswarm.runner.step.plan import OpenStep, StepOutcome, StepPlan
from gitswarm.runner.step.proving import with_proof
from gitswarm.runner.step.render import loop_verdict
from gitswarm.runner.step.test_steps import is_test_step
from gitswarm.worktree import snapshot
from gitswarm.worktree.index_entries import is_submodule, quarantine
from gitswarm.worktree.search import Flagged, Search, Staged, keep_copy, put_former_back
from gitswarm.worktree.shadow import Shadow, reattach

_REPORT_BYTES = 8_000_000


def examine(session: Session, step: OpenStep, result: StepResult) -> StepOutcome:
    """Stages what is there, compares and judges; everything odd goes into the journal and the evidence.

    Of a shared worktree only the step's own artifacts: `examine_shared` does the rest, once the outcome is known.
    """
    mention_refused(session, step.request.containment)
    look = _look if step.shared_tree is None else _look_shared
    seen = with_proof(session, step, look(session, step, _discreet(session, result)))
    return judge_step(session, step.plan, replace(seen, loop=loop_verdict(step, seen)))


def _discreet(session: Session, result: StepResult) -> StepResult:
    """What is quoted from, in evidence and reasons, may be cut: half a secret would not be found any more."""
    scrub = session.redactor.scrub
    return replace(
        result,
        output=scrub(result.output),
        report_text=scrub(result.report_text),
        error=scrub(result.error) if result.error else result.error,
        handoff=scrubbed_record(result.handoff, session.redactor) if result.handoff else None,
        handoff_problem=scrub(result.handoff_problem) if result.handoff_problem else result.handoff_problem,
    )


def _look(session: Session, step: OpenStep, result: StepResult) -> StepOutcome:
    worktree, journal, before = step.worktree, step.journal, step.plan.before.tip_tree
    tampered = _bring_back(session, step)
    worktree.index.repair(before)
    quarantined = _report_nested(session, worktree, journal)
    changes = worktree.folder.examine(before, step.declared)
    tampered.extend(readable(path) for path in changes.tampered)
    _report_tampering(journal, tampered)
    keeps_code = step.plan.keeps_code
    # What others have published is no secret of the step's.
    since = search_since(session, result.brought or before)
    staged = snapshot.unchanged(before) if keeps_code else snapshot.stage(worktree.shadow, since)
    result = _not_taken(step, result, staged.refused)
    secrets = take_out(session, worktree.shadow, staged, journal)
    objects = session.repository.objects
    code_tree = objects.with_subtree(staged.tree, RUNS_FOLDER, objects.entry(before, RUNS_FOLDER))
    reports = _reports(session, step, result, code_tree)
    put_back: list[str] = []
    if code_tree != before and _only_reads(session, step, result):
        put_back = _put_back(session, step, before, code_tree)
        worktree.folder.write(changes.declared)
        code_tree = before
    return StepOutcome(
        result=result,
        envelope=claimed_envelope(step.plan, result, changes.declared),
        evidence=Evidence(
            diff=session.repository.diffs.summary(before, code_tree),
            tests=CheckOutcome(),
            tampered=tuple(tampered),
            quarantined=tuple(quarantined),
            secrets=secrets,
            operation=dict(result.facts),
            put_back=tuple(put_back),
        ),
        code_tree=code_tree,
        artifacts=changes.declared,
        present=worktree.folder.paths(),
        ignored=_claimed_and_ignored(worktree.shadow, result),
        is_index_stale=code_tree != staged.tree,
        reports=reports,
    )


def _claimed_and_ignored(shadow: Shadow, result: StepResult) -> frozenset[str]:
    """Files that the handoff lists and that are there, but in no commit: git ignores them."""
    listed = [each.path for each in result.handoff.file_changes] if result.handoff else []
    names = [name for name in listed if ".." not in name.split("/") and not name.startswith("/")]
    there = [name for name in names if os.path.lexists(shadow.path / name)]
    return frozenset(snapshot.ignored(shadow, there) if there else ())


def _not_taken(step: OpenStep, result: StepResult, refused: str) -> StepResult:
    """The outcome of a step whose files git does not take: it has failed, and they are kept as they are.

    :raises GitFailedError: they are a person's, who can change them.
    """
    if not refused:
        return result
    if step.plan.execution.agent == HUMAN:
        raise GitFailedError(
            refused, hint=f"git swarm resume {step.plan.execution.run_id} --adopt   (when that is fixed)"
        )
    return replace(result, status=Result.FAILED, error=refused, handoff=None, check=None)


def _only_reads(session: Session, step: OpenStep, result: StepResult) -> bool:
    """Whether what became of the code is none of the step's business: a role that only reads it, or its tests."""
    plan = step.plan
    if not plan.before.is_judged or result.status is Result.FAILED or plan.execution.agent == HUMAN:
        return False
    return not plan.writes_code or is_test_step(session.spec.settings, plan.step)


def _reports(session: Session, step: OpenStep, result: StepResult, left: str) -> dict[str, bytes]:
    """What a command leaves in the tree, and may be a report.

    :param left: the tree as it leaves it.
    """
    if result.check is None or result.check.command is None:
        return {}
    objects, before = session.repository.objects, step.plan.before.tip_tree
    files: dict[str, bytes] = {}
    for delta in session.repository.diffs.between(before, left):
        content = objects.file(left, delta.path) if delta.path.endswith((".xml", ".json")) else None
        if content is not None and len(content) < _REPORT_BYTES:
            files[delta.path] = content
    return files


def _look_shared(session: Session, step: OpenStep, result: StepResult) -> StepOutcome:
    """The step wrote its own artifacts and nothing else."""
    before = step.plan.before.tip_tree
    tampered = _bring_back(session, step)
    artifacts = step.worktree.folder.peek(step.shared_tree or before, step.declared)
    diff = session.repository.diffs.summary(before, before)
    return StepOutcome(
        result=result,
        envelope=claimed_envelope(step.plan, result, artifacts),
        evidence=Evidence(diff=diff, tests=CheckOutcome(), tampered=tuple(tampered)),
        code_tree=before,
        artifacts=artifacts,
        present=step.worktree.folder.paths(),
    )


def examine_shared(
    session: Session, step: OpenStep, outcome: StepOutcome, declared: frozenset[str] | None
) -> StepOutcome:
    """Examines a step with what nobody may have changed in a shared worktree: its last step puts that back and
    reports it.

    :param declared: paths that any of its steps may write; None: others still work there.
    """
    evidence, tree = outcome.evidence, step.shared_tree or step.plan.before.tip_tree
    if declared is not None:
        step.worktree.index.repair(tree)
        quarantined = _report_nested(session, step.worktree, step.journal)
        changes = step.worktree.folder.examine(tree, declared)
        code = _put_code_back(session, step, tree)
        tampered = (*evidence.tampered, *(readable(path) for path in (*changes.tampered, *code)))
        evidence = replace(evidence, tampered=tampered, quarantined=tuple(quarantined))
    _report_tampering(step.journal, evidence.tampered)
    return replace(outcome, evidence=evidence)


def _put_code_back(session: Session, step: OpenStep, tree: str) -> list[str]:
    """As `_put_back`, of a worktree that several steps share and that nobody has staged yet."""
    shadow = step.worktree.shadow
    staged = snapshot.stage(shadow, search_since(session, tree))
    take_out(session, shadow, staged, step.journal)
    return _put_back(session, step, tree, staged.tree)


def _put_back(session: Session, step: OpenStep, tree: str, left: str) -> list[str]:
    """Makes the code of the worktree that of `tree` again, and keeps what it had become: it may be a person's.

    :param left: tree of the worktree as it is.
    :return: the paths that had changed.
    """
    store, name = session.store, step.name
    code, clean = store.code(left), store.code(tree)
    changed = [delta.path for delta in session.repository.diffs.between(clean, code)]
    if changed:
        before = step.plan.before
        kept = store.set_aside(
            before,
            store.with_run_files(code, before.tip_tree, {}),
            f"code that {name} changed, but may not change",
            {"Swarm-Step": name, "Swarm-Flow": step.plan.flow.id, "Swarm-Reason": "put back"},
        )
        session.context.observer.notice(
            f"{listed(changed)}: {name} may not change this; restored, and its version is kept in {kept}"
        )
        snapshot.restore(step.worktree.shadow, tree, session.layout.base)
    return changed


def _report_tampering(journal: Journal, tampered: Sequence[str]) -> None:
    if tampered:
        journal.append(Event(EventKind.EVIDENCE_TAMPERING, {"paths": list(tampered)}))


def _bring_back(session: Session, step: OpenStep) -> list[str]:
    """An agent that commits, switches branches or configures git by itself: its files count, nothing else does.

    In the sandbox the repository could not be written: what changed there is a person's.
    """
    refs = session.repository.refs
    kept = _quarantine(session)
    is_open = session.sandbox.backend is None and not step.plan.step.is_kernel
    found = [*map(readable, step.worktree.watch.put_back(kept))] if is_open else []
    if found:
        session.context.observer.notice(
            f"{listed(found)}: changed during {step.name}; restored, and the changed version is kept in {kept}"
        )
    found += [f"{name} of the worktree" for name in reattach(step.worktree.shadow)]
    branch = session.layout.branch
    moved = refs.read(branch)
    if moved != step.plan.branch_tip:
        refs.swap(branch, moved, step.plan.branch_tip, why="a step moved the shadow branch")
        found.append(f"{branch} (moved to {moved})")
    if step.plan.choice.engine != KERNEL:  # a reset moves them
        found.extend(session.store.bring_notes_back(step.notes))
    return found


def _report_nested(session: Session, worktree: RunWorktree, journal: Journal) -> list[str]:
    moved = []
    for name, kept_as in quarantine_nested(session, worktree):
        journal.append(Event(EventKind.REPOSITORY_QUARANTINED, {"path": f"{name}/.git", "kept_as": kept_as}))
        moved.append(name)
    return moved


def _quarantine(session: Session) -> Path:
    return session.repository.swarm_dir / "quarantine" / session.layout.run_id


def quarantine_nested(session: Session, worktree: RunWorktree) -> Iterator[tuple[str, str]]:
    """Takes the `.git` out of repositories in the worktree that are neither its submodules nor ignored.

    Yields the folder, and the name under which its `.git` is kept.
    """
    nested = worktree.nested.find(time.time_ns())
    found = [name for name in nested if not is_submodule(worktree.shadow, name)]
    ignored = snapshot.ignored(worktree.shadow, [f"{name}/" for name in found]) if found else set()
    store = _quarantine(session)
    for name in found:
        if name not in ignored:
            kept_as = quarantine(worktree.shadow.path, name, store).name
            snapshot.forget(worktree.shadow, [name])
            yield readable(name), kept_as


def claimed_envelope(plan: StepPlan, result: StepResult, artifacts: Mapping[str, bytes]) -> Envelope:
    """The handoff as the agent gave it; UNVERIFIED where it gave none."""
    keys, handoff = plan.execution.keys, result.handoff
    if handoff is None:
        reason = result.error or result.handoff_problem or "the engine returned without a handoff"
        return Envelope(status=Status.UNVERIFIED, summary=reason, status_reason=reason, **keys)
    fields = {name: getattr(handoff, name) for name in handoff.__struct_fields__}
    return Envelope(**fields | {"artifacts": handoff.artifacts or tuple(sorted(artifacts))}, **keys)


def search_since(session: Session, tree: str) -> Search:
    """What to look for in code that was `tree` before. What the run began with is not new either."""
    repository = session.repository
    base = repository.refs.read(session.layout.base_ref)
    known = (repository.objects.commit(base).tree,) if base is not None else ()
    return Search(session.redactor.find_in_code, tree, known, session.context.observer.notice)


def take_out(session: Session, shadow: Shadow, staged: Staged, journal: Journal) -> tuple[SecretFound, ...]:
    """Moves files that hold a secret out of the worktree; what was found in them goes into the journal."""
    for item, kept_as in keep(session, shadow, staged.flagged):
        for found in item.found:
            payload = found.to_plain()
            journal.append(Event(EventKind.SECRET_FOUND, {**payload, "kept_as": kept_as}))
    put_former_back(shadow, staged.flagged)
    return tuple(found for item in staged.flagged for found in item.found)


def keep(session: Session, shadow: Shadow, flagged: Sequence[Flagged]) -> list[tuple[Flagged, str]]:
    """Copies files that hold a secret, which stay where they are; each with the name of its copy."""
    store = session.repository.swarm_dir / "quarantine" / session.layout.run_id
    kept = []
    for item in flagged:
        if not item.found:
            session.context.observer.notice(
                f"{readable(item.path)} stays: the file that was to replace it was left out"
            )
            continue
        kept_as = keep_copy(shadow, item, store, session.redactor.scrub)
        first = item.found[0]
        session.context.observer.notice(f"{described(first)}: the file is kept as {store / kept_as}")
        kept.append((item, kept_as))
    return kept
