"""What really happened in the worktree, whatever the engine says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from gitswarm.engines.base import StepResult
from gitswarm.evidence.diff_scan import scan
from gitswarm.ledger.journal import Journal
from gitswarm.ledger.layout import RUNS_FOLDER
from gitswarm.ledger.scrubbed import scrubbed_record
from gitswarm.ledger.state import RunState
from gitswarm.records.base import readable
from gitswarm.records.event import Event, EventKind
from gitswarm.records.evidence import CheckOutcome, Evidence
from gitswarm.records.secrets import SecretFound
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.acceptance import artifact_problems, count_after
from gitswarm.runner.step.judging import Left, check_of, report_of, verdict_of
from gitswarm.runner.step.plan import StepPlan
from gitswarm.runner.step.secrets import search_since, take_out
from gitswarm.worktree import snapshot, submodules
from gitswarm.worktree.nested import quarantine
from gitswarm.worktree.shadow import reattach


@dataclass(frozen=True, slots=True)
class Shared:
    """A worktree that several steps only read at the same time.

    `tree`: what it was when they began; `declared`: paths that any of them may write; `is_last`: nobody else works
    in it any more.
    """

    tree: str
    declared: frozenset[str]
    is_last: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine said, and when it was asked and done; `shared`: where it worked, if others did so too."""

    result: StepResult
    started: datetime
    completed: datetime
    shared: Shared | None = None


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


@dataclass(frozen=True, slots=True)
class _Found:
    """What lies in the worktree. `code_tree`, `artifacts` as in `Worked`; `present`: every file in RUN_BASE;
    `tampered`: what the step may not have changed."""

    code_tree: str
    artifacts: Mapping[str, bytes]
    present: frozenset[str]
    tampered: Sequence[str]
    quarantined: Sequence[str] = ()
    index_strayed: bool = False
    secrets: tuple[SecretFound, ...] = ()


def examine(session: Session, place: Workplace, plan: StepPlan, answer: Answer, journal: Journal) -> Worked:
    """Stages what is there and compares; everything odd goes into the journal and the evidence."""
    look = _look if answer.shared is None else partial(_look_beside_others, answer.shared)
    answer = replace(answer, result=_discreet(session, answer.result))
    return _weigh(session, plan, answer, look(session, place, plan, journal), journal)


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


def _look(session: Session, place: Workplace, plan: StepPlan, journal: Journal) -> _Found:
    objects = session.repository.objects
    place.index.mend(plan.before.tip_tree)
    tampered = list(_bring_refs_back(session, place, plan))
    quarantined = _report_nested(session, place, journal)
    changes = place.folder.examine(plan.before.tip_tree, declared_paths(session, plan))
    tampered.extend(readable(path) for path in changes.tampered)
    _report_tampering(journal, tampered)
    before = plan.before.tip_tree
    staged = snapshot.stage(place.shadow, search_since(session, before))
    secrets = take_out(session, place.shadow, staged, journal)
    code_tree = objects.with_subtree(staged.tree, RUNS_FOLDER, objects.entry(before, RUNS_FOLDER))
    return _Found(
        code_tree,
        changes.declared,
        place.folder.paths(),
        tampered,
        quarantined,
        index_strayed=code_tree != staged.tree,
        secrets=secrets,
    )


def _look_beside_others(
    shared: Shared, session: Session, place: Workplace, plan: StepPlan, journal: Journal
) -> _Found:
    """A step wrote its own artifacts and nothing else. What nobody may have changed is reported by the last one, and
    put back then."""
    tampered = list(_bring_refs_back(session, place, plan))
    own = declared_paths(session, plan)
    quarantined: list[str] = []
    if shared.is_last:
        place.index.mend(shared.tree)
        quarantined = _report_nested(session, place, journal)
        changes = place.folder.examine(shared.tree, shared.declared)
        artifacts = {path: content for path, content in changes.declared.items() if path in own}
        tampered.extend(
            readable(path)
            for path in (*changes.tampered, *_put_code_back(session, place, plan.before, shared.tree, journal))
        )
    else:
        artifacts = place.folder.peek(shared.tree, own)
    _report_tampering(journal, tampered)
    present = place.folder.paths() | frozenset(artifacts)
    return _Found(plan.before.tip_tree, artifacts, present, tampered, quarantined)


def declared_paths(session: Session, plan: StepPlan) -> frozenset[str]:
    """The files in RUN_BASE that the step may write, relative to the worktree."""
    return frozenset(f"{session.layout.base}/{path}" for path in plan.artifacts)


def _put_code_back(session: Session, place: Workplace, state: RunState, tree: str, journal: Journal) -> list[str]:
    """Makes the code what it was, and keeps what it had become; the paths that had changed."""
    objects = session.repository.objects
    staged = snapshot.stage(place.shadow, search_since(session, tree))
    take_out(session, place.shadow, staged, journal)
    code = objects.with_subtree(staged.tree, RUNS_FOLDER, None)
    clean = objects.with_subtree(tree, RUNS_FOLDER, None)
    changed = [delta.path for delta in session.repository.diffs.between(clean, code)]
    if changed:
        kept = _keep_foreign_code(session, state, code)
        session.around.observer.notice(
            f"{len(changed)} files that nobody may change beside a fork are kept in {kept}"
        )
        snapshot.restore(place.shadow, tree, session.layout.base)
    return changed


def _keep_foreign_code(session: Session, state: RunState, code: str) -> str:
    """It may be a person's. Returns the ref that keeps it."""
    tree = session.store.with_run_files(code, state.tip_tree, {})
    trailers = {"Swarm-Reason": "changed beside a fork"}
    return session.store.set_aside(state, tree, "code that was changed beside a fork", trailers)


def _report_tampering(journal: Journal, tampered: Sequence[str]) -> None:
    if tampered:
        journal.append(Event(EventKind.EVIDENCE_TAMPERING, {"paths": list(tampered)}))


def _weigh(session: Session, plan: StepPlan, answer: Answer, found: _Found, journal: Journal) -> Worked:
    """What the step changed, and what can be said for and against it."""
    diff = scan(session.repository.diffs, plan.before.tip_tree, found.code_tree)
    journal.append(
        Event(
            EventKind.FILE_CHANGES,
            {"files": len(diff.files), "insertions": diff.insertions, "deletions": diff.deletions},
        )
    )
    left = Left(diff, found.code_tree, found.artifacts, found.present)
    report = report_of(session, answer.result, left)
    evidence = Evidence(
        diff=diff,
        tests=answer.result.check or CheckOutcome(),
        tampered=tuple(found.tampered),
        quarantined=tuple(found.quarantined),
        report=report,
        verdict=verdict_of(session, plan, answer.result, left, check_of(answer.result.check, report)),
        ac=count_after(session, plan.before, (plan.flow.id, plan.step.id), found.artifacts),
        artifact_problems=tuple(artifact_problems(session, found.artifacts)),
        secrets=found.secrets,
    )
    return Worked(
        result=answer.result,
        started=answer.started,
        completed=answer.completed,
        code_tree=found.code_tree,
        evidence=evidence,
        artifacts=found.artifacts,
        index_strayed=found.index_strayed,
    )


def _bring_refs_back(session: Session, place: Workplace, plan: StepPlan) -> list[str]:
    """An agent that commits or switches branches by itself: its files count, its refs do not."""
    refs = session.repository.refs
    found = [f"{name} of the worktree" for name in reattach(place.shadow)]
    branch = session.layout.branch
    moved = refs.read(branch)
    if moved != plan.branch_tip:
        refs.swap(branch, moved, plan.branch_tip, why="a step moved the shadow branch")
        found.append(f"{branch} (moved to {moved})")
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
