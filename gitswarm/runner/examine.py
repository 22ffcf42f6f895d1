"""What really happened in the worktree, whatever the engine says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from gitswarm.engines.base import StepResult
from gitswarm.evidence.diff_scan import scan
from gitswarm.ledger.journal import Journal
from gitswarm.ledger.layout import RUNS_FOLDER
from gitswarm.ledger.state import RunState
from gitswarm.records.base import readable
from gitswarm.records.event import Event, EventKind
from gitswarm.records.evidence import CheckOutcome, Evidence
from gitswarm.runner.acceptance import artifact_problems, count_after
from gitswarm.runner.judging import Left, check_of, report_of, verdict_of
from gitswarm.runner.plan import StepPlan
from gitswarm.runner.session import Session, Workplace
from gitswarm.worktree import snapshot, submodules
from gitswarm.worktree.nested import quarantine
from gitswarm.worktree.shadow import reattach


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine said, and when it was asked and done."""

    result: StepResult
    started: datetime
    completed: datetime


@dataclass(frozen=True, slots=True)
class Worked:
    """An answer with what it left in the worktree. `code_tree` has the staged code, and `.swarm/runs` as it was
    before; `artifacts` are the declared files of RUN_BASE that changed, path → content."""

    result: StepResult
    started: datetime
    completed: datetime
    code_tree: str
    evidence: Evidence
    artifacts: Mapping[str, bytes]
    index_strayed: bool


def examine(session: Session, place: Workplace, plan: StepPlan, answer: Answer, journal: Journal) -> Worked:
    """Stages what is there and compares; everything odd goes into the journal and the evidence."""
    objects = session.repository.objects
    place.index.mend(plan.before.tip_tree)
    tampered = list(_bring_refs_back(session, place, plan.before))
    quarantined = _report_nested(session, place, journal)
    declared = frozenset(f"{session.layout.base}/{path}" for path in plan.artifacts)
    changes = place.folder.examine(plan.before.tip_tree, declared)
    tampered.extend(readable(path) for path in changes.tampered)
    if tampered:
        journal.append(Event(EventKind.EVIDENCE_TAMPERING, {"paths": list(tampered)}))
    staged = snapshot.stage(place.shadow)
    before = plan.before.tip_tree
    code_tree = objects.with_subtree(staged, RUNS_FOLDER, objects.entry(before, RUNS_FOLDER))
    diff = scan(session.repository.diffs, before, code_tree)
    journal.append(
        Event(
            EventKind.FILE_CHANGES,
            {"files": len(diff.files), "insertions": diff.insertions, "deletions": diff.deletions},
        )
    )
    left = Left(diff, code_tree, changes.declared, place.folder.paths())
    report = report_of(session, answer.result, left)
    evidence = Evidence(
        diff=diff,
        tests=answer.result.check or CheckOutcome(),
        tampered=tuple(tampered),
        quarantined=tuple(quarantined),
        report=report,
        verdict=verdict_of(session, plan, answer.result, left, check_of(answer.result.check, report)),
        ac=count_after(session, plan.before, (plan.flow.id, plan.step.id), changes.declared),
        artifact_problems=tuple(artifact_problems(session, changes.declared)),
    )
    return Worked(
        result=answer.result,
        started=answer.started,
        completed=answer.completed,
        code_tree=code_tree,
        evidence=evidence,
        artifacts=changes.declared,
        index_strayed=code_tree != staged,
    )


def _bring_refs_back(session: Session, place: Workplace, before: RunState) -> list[str]:
    """An agent that commits or switches branches by itself: its files count, its refs do not."""
    refs = session.repository.refs
    found = [f"{name} of the worktree" for name in reattach(place.shadow)]
    moved = refs.read(before.layout.branch)
    if moved != before.tip:
        refs.swap(before.layout.branch, moved, before.tip, why="a step moved the shadow branch")
        found.append(f"{before.layout.branch} (moved to {moved})")
    return found


def _report_nested(session: Session, place: Workplace, journal: Journal) -> list[str]:
    moved = []
    for name, kept_as in quarantine_nested(session, place):
        journal.append(Event(EventKind.REPOSITORY_QUARANTINED, {"path": f"{name}/.git", "kept_as": kept_as}))
        moved.append(name)
    return moved


def quarantine_nested(session: Session, place: Workplace) -> Iterator[tuple[str, str]]:
    """Takes the `.git` out of repositories in the worktree that are neither its submodules nor ignored.

    Yields the folder, and the name under which its `.git` is kept.
    """
    nested = place.nested.find(time.time_ns())
    found = [name for name in nested if not submodules.is_own(place.shadow, name)]
    ignored = snapshot.ignored(place.shadow, found) if found else set()
    store = session.repository.swarm_dir / "quarantine" / session.layout.run_id
    for name in found:
        if name not in ignored:
            kept_as = quarantine(place.shadow.path, name, store).name
            snapshot.forget(place.shadow, [name])
            yield name, kept_as
