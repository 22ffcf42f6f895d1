"""`fetch_upstream`, `rebase`, `carry_over`: where the target of a run is now, and the run's code on that base."""

from __future__ import annotations

import re
import shlex

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import ApprovalKind, latest_approval
from gitswarm.ledger.merging import is_in, merged_onto
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.state import GIVEN_UP, ONTO, REBASED
from gitswarm.ledger.steps import StepRecord
from gitswarm.processes import CommandLimits, run_shell
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import RUNS_FOLDER, Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import readable
from gitswarm.runner.deciding.preflight import newer, upstream_tip
from gitswarm.runner.landing.landing_plan import HEADS, LandingRequest, landing_target, short, users_git
from gitswarm.runner.step.operation import KernelStep, reported
from gitswarm.runner.stored import text_of
from gitswarm.worktree import snapshot

UPSTREAM = "reset/upstream.json"

_FETCH_S = 120.0
_MOST_COMMITS = 50
_MOST_PATHS = 200
_GONE = "couldn't find remote ref"
# Not FETCH_HEAD, no tag, no remote-tracking ref (`--refmap=`), no maintenance, no other repository.
_QUIETLY = (
    *("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-prune", "--no-prune-tags"),
    *("--no-recurse-submodules", "--no-auto-maintenance"),
)
# No terminal, no window: whoever has to be asked is not there.
_NOBODY = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}


class Tracked(Struct, frozen=True):
    """What a local branch follows. `ref`: a branch there, full name; `known`: where it was when the user fetched."""

    remote: str
    ref: str
    known: str | None


class UpstreamCommit(Struct, frozen=True):
    """Where a run should stand, as far as can be told. `commit` None: there is nothing to stand on.

    `rewritten`: the base of the run was part of it, and is not any more; `problem`: why less is known than asked.
    """

    commit: str | None
    name: str
    rewritten: bool = False
    deleted: bool = False
    problem: str = ""
    note: str = ""


def fetch_upstream(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Fetches and compares."""
    state = step.state
    if state.shared:
        upstream = UpstreamCommit(None, "", problem="a run that was forked from another one stays on that one's base")
    elif state.bases.before is not None:
        upstream = UpstreamCommit(None, "", problem="a rebase of this run is under way")
    else:
        upstream = _look(step)
    report = _report(step.session.repository, state.base, upstream)
    moved = report["moved"] is True
    summary = f"{upstream.name} has moved on, commits: {report['behind']}" if moved else "upstream has not moved"
    if upstream.problem:
        summary = f"{summary}; {upstream.problem}"
    handoff = Handoff(
        status=Status.UNVERIFIED if upstream.problem else Status.VERIFIED,
        summary=f"{summary}; its history was rewritten" if upstream.rewritten and moved else summary,
        concerns=tuple(text for text in (upstream.problem, upstream.note) if text),
    )
    return reported(step, request, handoff, report)


def _look(step: KernelStep) -> UpstreamCommit:
    """The target of the run, or what that follows where it is ahead."""
    session, repository, base = step.session, step.session.repository, step.state.base
    target = landing_target(session, LandingRequest())
    if target is None:
        return UpstreamCommit(
            None, "", problem="nothing says which branch the run lands on: git config swarm.deploy.target"
        )
    local = repository.refs.read(target)
    tracked = _tracked(step, target)
    fetched, problem, deleted = _fetch(step, tracked) if tracked is not None else (None, "", False)
    there = f"{short(tracked.ref)} of {tracked.remote}" if tracked is not None else ""
    chosen = newer(repository, base, local, fetched)
    if chosen is None:
        gone = problem or f"there is no branch {short(target)}"
        return UpstreamCommit(None, short(target), deleted=deleted or tracked is None, problem=gone)
    name = there if chosen == fetched else short(target)
    known = tracked.known if tracked is not None and chosen == fetched else _began(step, target)
    rewritten = known is not None and is_in(repository, base, known) and not is_in(repository, base, chosen)
    ref = session.layout.upstream_ref  # it keeps the commit from being collected, and travels with the run
    before = repository.refs.read(ref)
    if before != chosen:
        repository.refs.swap(ref, before, chosen, why="upstream")
    note = _note(repository, target, local, fetched, there)
    return UpstreamCommit(chosen, name, rewritten=rewritten, deleted=deleted, problem=problem, note=note)


def _note(repository: Repository, target: str, local: str | None, fetched: str | None, there: str) -> str:
    """What a person has to know who lands on the target."""
    if local is None or fetched is None or is_in(repository, local, fetched) or is_in(repository, fetched, local):
        return ""
    return f"{short(target)} and {there} have diverged: whoever lands there has to merge them"


def _began(step: KernelStep, target: str) -> str | None:
    """A commit that the target had: the run was started on it."""
    started = step.session.spec.base_ref
    return step.state.base if started in (target, short(target)) else None


def _tracked(step: KernelStep, target: str) -> Tracked | None:
    """The branch that the target follows; None: the target is of this repository alone."""
    users, repository = users_git(step.session), step.session.repository
    remote, ref = (users.config(f"branch.{short(target)}.{key}") for key in ("remote", "merge"))
    if not remote or remote == "." or not ref or not ref.startswith(HEADS):
        return None
    return Tracked(remote, ref, upstream_tip(repository, target))


def _fetch(step: KernelStep, tracked: Tracked) -> tuple[str | None, str, bool]:
    """The commit that upstream has; why it is not known; whether that is because the branch is gone there."""
    users, ref = users_git(step.session), step.session.layout.upstream_ref
    words = ["git", "fetch", *_QUIETLY, "--", tracked.remote, f"+{tracked.ref}:{ref}"]
    done = run_shell(
        shlex.join(words), cwd=users.folder, env={**users.own_env, **_NOBODY}, limits=CommandLimits(_FETCH_S)
    )
    if done.exit_code == 0:
        return step.session.repository.refs.read(ref), "", False
    if _GONE in done.output:
        return None, f"{tracked.remote} has no {short(tracked.ref)} any more", True
    line = next(iter(done.output.strip().splitlines()), "")
    why = done.error or f"exit code {done.exit_code}: {line}"
    return None, f"git fetch {tracked.remote} did not succeed ({why})", False


def _report(repository: Repository, base: str, upstream: UpstreamCommit) -> dict[str, JsonValue]:
    there = upstream.commit
    behind = _count(repository, base, there) if there is not None else 0
    ahead = _count(repository, there, base) if there is not None else 0
    moved = there is not None and (behind > 0 or upstream.rewritten)
    commits, paths = list[JsonValue](), list[JsonValue]()
    if moved and there is not None:
        listed = repository.git.output("log", f"-{_MOST_COMMITS}", "--format=%h %s", f"{base}..{there}")
        commits += listed.decode(errors="replace").splitlines()
        deltas = repository.diffs.between(*(repository.objects.commit(commit).tree for commit in (base, there)))
        paths += [delta.path for delta in deltas[:_MOST_PATHS]]
    return {
        "moved": moved,
        "base": base,
        "upstream": there,
        "branch": upstream.name,
        "behind": behind,
        "ahead": ahead,
        "commits": commits,
        "paths": paths,
        "rewritten": upstream.rewritten,
        "deleted": upstream.deleted,
        "reason": "; ".join(text for text in (upstream.problem, upstream.note) if text),
    }


def _count(repository: Repository, since: str, until: str) -> int:
    return int(repository.git.output("rev-list", "--count", f"{since}..{until}"))


REBASE = "reset/rebase.json"

_MARKER = re.compile(r"^(?:<{7}|\|{7}|>{7})(?: .*)?$", re.MULTILINE)
_MOST_NAMED = 50


def rebase(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Merges the run's code onto upstream; once that is done, counts the conflicts that are left."""
    if step.state.bases.before is not None:
        return _counted(step, request)
    state = step.state
    onto = step.earlier(UPSTREAM).get("upstream")
    if not isinstance(onto, str) or not step.session.repository.objects.has(onto):
        raise SwarmError(
            f"{UPSTREAM} names no commit that is here", hint=f"git swarm rollback reset --run {step.run}"
        )
    found = merged_onto(step.session.repository, state.base, onto, state.tip_tree)
    shadow = step.worktree.shadow
    tree = _with_runs(step, found.tree)
    occupied = [*map(readable, snapshot.in_the_way(shadow, tree))]
    if occupied:
        return _occupied(step, request, occupied)
    snapshot.restore(shadow, tree, step.session.layout.base)
    result = _rebased(step, request, list(found.paths), onto, state.base)
    return replace(result, brought=tree, trailers={ONTO: f"{onto} {state.base}"})


def _counted(step: KernelStep, request: StepRequest) -> StepResult:
    """After the agent step that settles conflicts."""
    state, begun = step.state, beginning(step)
    tree, objects = state.tip_tree, step.session.repository.objects
    before = objects.commit(begun.parent).tree
    changed = {delta.path for delta in step.session.repository.diffs.between(begun.tree, tree)}
    count = step.earlier(REBASE).get("files")
    named = {str(path) for path in count} if isinstance(count, list) else set()
    known = (before, objects.commit(state.base).tree)
    left = [path for path in sorted(changed | named) if _is_marked(step, path, tree, known)]
    return _rebased(step, request, left, state.base, state.bases.before or "")


def _is_marked(step: KernelStep, path: str, tree: str, known: tuple[str, ...]) -> bool:
    """Whether a file has markers of a conflict, and not only such as one of the two sides has in it."""
    objects = step.session.repository.objects
    marks = set(_MARKER.findall(text_of(objects, tree, path) or ""))
    return bool(marks) and not any(
        marks <= set(_MARKER.findall(text_of(objects, side, path) or "")) for side in known
    )


def _rebased(step: KernelStep, request: StepRequest, conflicts: list[str], onto: str, before: str) -> StepResult:
    state = step.state
    report: dict[str, JsonValue] = {
        "conflicts": len(conflicts),
        "files": [*conflicts],
        "onto": onto,
        "from": before,
        "old_tip": state.tip if state.bases.before is None else beginning(step).parent,
        "steps": len(state.own_steps),
    }
    files = "1 file" if len(conflicts) == 1 else f"{len(conflicts)} files"
    summary = f"{files} in conflict" if conflicts else "no conflict"
    handoff = Handoff(
        status=Status.UNVERIFIED if conflicts else Status.VERIFIED,
        summary=f"the code is merged onto {onto[:12]}: {summary}",
        concerns=tuple(f"{path}: in conflict" for path in conflicts[:_MOST_NAMED]),
    )
    return reported(step, request, handoff, report)


def _occupied(step: KernelStep, request: StepRequest, names: list[str]) -> StepResult:
    run, folder = step.run, step.worktree.shadow.path
    handoff = Handoff(
        status=Status.BLOCKED,
        summary=f"{names[0]}: a file that git ignores is where upstream has one now",
        blockers=(*names[:_MOST_NAMED], f"move it out of {folder}, then: git swarm resume {run}"),
    )
    report: dict[str, JsonValue] = {"conflicts": 0, "files": [], "in_the_way": [*names[:_MOST_NAMED]]}
    return reported(step, request, handoff, report)


def carry_over(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Says that the run belongs on its new base, or that it stays where it was. The commits follow by themselves:
    `runner/undo/rollback.py`."""
    state = step.state
    before = state.bases.before
    if before is None:
        return _carried(step, request, moved=False, reason="no rebase is under way")
    if step.earlier(REBASE).get("conflicts") != 0:
        return _given_up(step, request, before)
    latest = latest_approval(step.session.repository, state)
    approval = latest.commit if latest is not None and latest.kind is ApprovalKind.APPROVES else None
    trailers = {REBASED: f"{state.base} {before}"}
    if approval is not None:
        trailers[ApprovalKind.VOIDS] = approval
    result = _carried(step, request, moved=True, reason="", approval=approval)
    return replace(result, trailers=trailers)


def _given_up(step: KernelStep, request: StepRequest, before: str) -> StepResult:
    state = step.state
    code = step.session.repository.objects.commit(beginning(step).parent).tree
    tree = _with_runs(step, code)
    snapshot.restore(step.worktree.shadow, tree, step.session.layout.base)
    result = _carried(step, request, moved=False, reason="conflicts were left: the run stays on its base")
    is_there = state.base == state.bases.root  # rolled back into a rebase whose commits have moved
    return replace(result, brought=tree, trailers={REBASED: state.base} if is_there else {GIVEN_UP: before})


def _carried(
    step: KernelStep, request: StepRequest, *, moved: bool, reason: str, approval: str | None = None
) -> StepResult:
    state = step.state
    report: dict[str, JsonValue] = {
        "moved": moved,
        "base": state.base if moved else state.bases.before or state.base,
        "from": state.bases.before,
        "old_tip": state.tip,
        "commits": len(state.own_steps) + state.ends + 1,
        "voided_approval": approval,
        "reason": reason,
    }
    summary = f"the run is based on {state.base[:12]}" if moved else f"nothing has moved: {reason}"
    voided = ("the approval is void: it was about the old base",) if approval is not None else ()
    return reported(step, request, Handoff(status=Status.VERIFIED, summary=summary, concerns=voided), report)


def beginning(step: KernelStep) -> StepRecord:
    """The step that began the rebase which is under way.

    :raises SwarmError: there is none.
    """
    objects = step.session.repository.objects
    for record in reversed(step.state.own_steps):
        message = parse_message(objects.commit(record.commit).message)
        if message is not None and ONTO in message.trailers:
            return record
    raise SwarmError("no rebase is under way", hint=f"git swarm log {step.run}")


def _with_runs(step: KernelStep, code: str) -> str:
    objects = step.session.repository.objects
    return objects.with_subtree(code, RUNS_FOLDER, objects.entry(step.state.tip_tree, RUNS_FOLDER))
