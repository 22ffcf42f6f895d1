"""`fetch_upstream`: where the target of a run is now, without touching a ref of the user's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.git.repository import Repository
from gitswarm.processes import CommandLimits, run_shell
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Status
from gitswarm.runner.deciding.divergence import followed, is_in, newer
from gitswarm.runner.landing.look import landing_target, users_git
from gitswarm.runner.landing.plan import HEADS, short
from gitswarm.runner.operations.kernel_step import KernelStep, reported

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


class FetchUpstream(Struct, frozen=True):
    """Fetches and compares."""

    step: KernelStep

    def __call__(self, request: StepRequest, _emit: Emit) -> StepResult:
        step, state = self.step, self.step.state
        if state.shared:
            told = UpstreamCommit(None, "", problem="a run that was forked from another one stays on that one's base")
        elif state.ground.before is not None:
            told = UpstreamCommit(None, "", problem="a rebase of this run is under way")
        else:
            told = _look(step)
        report = _report(step.session.repository, state.base, told)
        moved = report["moved"] is True
        summary = f"{told.name} has moved on, commits: {report['behind']}" if moved else "upstream has not moved"
        if told.problem:
            summary = f"{summary}; {told.problem}"
        handoff = Handoff(
            status=Status.UNVERIFIED if told.problem else Status.VERIFIED,
            summary=f"{summary}; its history was rewritten" if told.rewritten and moved else summary,
            concerns=tuple(text for text in (told.problem, told.note) if text),
        )
        return reported(step, request, handoff, report)


def _look(step: KernelStep) -> UpstreamCommit:
    """The target of the run, or what that follows where it is ahead."""
    session, repository, base = step.session, step.session.repository, step.state.base
    target = landing_target(session)
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
    _remember(repository, _ref(step), chosen)
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
    """None: the target is of this repository alone."""
    users, repository = users_git(step.session), step.session.repository
    remote, ref = (users.config(f"branch.{short(target)}.{key}") for key in ("remote", "merge"))
    if not remote or remote == "." or not ref or not ref.startswith(HEADS):
        return None
    return Tracked(remote, ref, followed(repository, target))


def _fetch(step: KernelStep, tracked: Tracked) -> tuple[str | None, str, bool]:
    """The commit that upstream has; why it is not known; whether that is because the branch is gone there."""
    users, ref = users_git(step.session), _ref(step)
    words = ["git", "fetch", *_QUIETLY, "--", tracked.remote, f"+{tracked.ref}:{ref}"]
    done = run_shell(
        shlex.join(words), cwd=users.folder, env={**users.own_env, **_NOBODY}, limits=CommandLimits(_FETCH_S)
    )
    if done.exit_code == 0:
        return step.session.repository.refs.read(ref), "", False
    if _GONE in done.output:
        return None, f"{tracked.remote} has no {short(tracked.ref)} any more", True
    said = next(iter(done.output.strip().splitlines()), "")
    why = done.error or f"exit code {done.exit_code}: {said}"
    return None, f"git fetch {tracked.remote} did not succeed ({why})", False


def _ref(step: KernelStep) -> str:
    return step.session.layout.upstream_ref


def _remember(repository: Repository, ref: str, commit: str) -> None:
    """Keeps it from being collected, and travels with the run."""
    found = repository.refs.read(ref)
    if found != commit:
        repository.refs.swap(ref, found, commit, why="upstream")


def _report(repository: Repository, base: str, told: UpstreamCommit) -> dict[str, JsonValue]:
    there = told.commit
    behind = _count(repository, base, there) if there is not None else 0
    ahead = _count(repository, there, base) if there is not None else 0
    moved = there is not None and (behind > 0 or told.rewritten)
    return {
        "moved": moved,
        "base": base,
        "upstream": there,
        "branch": told.name,
        "behind": behind,
        "ahead": ahead,
        "commits": _lines(repository, "log", f"-{_MOST_COMMITS}", "--format=%h %s", f"{base}..{there}")
        if moved
        else [],
        "paths": _changed(repository, base, there) if moved and there is not None else [],
        "rewritten": told.rewritten,
        "deleted": told.deleted,
        "reason": "; ".join(text for text in (told.problem, told.note) if text),
    }


def _count(repository: Repository, since: str, until: str) -> int:
    return int(repository.git.output("rev-list", "--count", f"{since}..{until}"))


def _lines(repository: Repository, *words: str) -> list[JsonValue]:
    return list(repository.git.output(*words).decode(errors="replace").splitlines())


def _changed(repository: Repository, base: str, there: str) -> list[JsonValue]:
    trees = [repository.objects.commit(commit).tree for commit in (base, there)]
    paths: Sequence[str] = [delta.path for delta in repository.diffs.between(*trees)]
    return list(paths[:_MOST_PATHS])
