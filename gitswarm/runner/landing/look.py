"""Gathers what a landing is decided from. Reads only."""

from __future__ import annotations

from gitswarm.git.as_user import UsersGit, spoken
from gitswarm.git.merge import Merged
from gitswarm.ledger.approval import Spoken, last_word, standing_approval
from gitswarm.ledger.conflicts import standing_conflict, way_out
from gitswarm.ledger.landed import grounds, landings, merged_code
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import BRANCH_PREFIX, RUNS_FOLDER
from gitswarm.runner.landing.plan import HEADS, LandingState, Refused, Way, Wish, short
from gitswarm.runner.landing.subject import was_played
from gitswarm.runner.session import Session
from gitswarm.worktree.land import HooksFolder, changed_hooks, checkouts_of, hooks_folder


def facts_of(session: Session, state: RunState, wish: Wish) -> LandingState:
    repository = session.repository
    standing = standing_approval(repository, state)
    target = _resolved(session, target_of(session, wish))
    tip = repository.refs.read(target) if target is not None else None
    found = landings(repository, tip, session.layout.run_id, state.base) if tip is not None else []
    bases = (
        grounds(repository, standing.about, found, ahead(session, state, tip))
        if standing is not None and tip is not None
        else ()
    )
    changed = _changed_paths(session, standing, bases) if standing is not None else ()
    return LandingState(
        run=session.layout.run_id,
        standing=standing,
        word=last_word(repository, state),
        played=was_played(session, state),
        allow_stub=session.spec.allow_stub,
        unsigned=_unsigned(session, standing),
        target=target,
        tip=tip,
        branches=_branches(session),
        landings=tuple(found),
        bases=bases,
        changed=bool(changed),
        hook_files=_hook_files(session, standing, bases, changed) if standing is not None else (),
        checkouts=tuple(checkouts_of(repository, target)) if tip is not None and target is not None else (),
        conflict=met_conflict(session, state, wish),
        blocking=tuple(concern.id for concern in state.blocking),
    )


def met_conflict(session: Session, state: RunState, wish: Wish) -> Refused | None:
    """Why there is no sense in approving or landing again: the code met a conflict, and the target still has it."""
    if standing_conflict(session.repository, state) is None:
        return None
    target = _resolved(session, target_of(session, wish))
    tip = session.repository.refs.read(target) if target is not None else None
    if target is None or tip is None:
        return None
    onto = ahead(session, state, tip)
    found = _merged(session, state.tip, onto)
    if not found.conflicts:
        return None
    return Refused(
        f"{session.layout.run_id} cannot land: it conflicts with {short(target)}",
        way_out(state, session.spec.flows, short(target)),
        found.conflicts,
    )


def landing_target(session: Session) -> str | None:
    """Full name of the branch that the run lands on when nobody asks for another one."""
    return _resolved(session, target_of(session, Wish()))


def target_of(session: Session, wish: Wish) -> str | None:
    """Full name of the branch to land on: as asked, as configured, else the one that the run was started on."""
    name = wish.target or session.spec.settings.deploy.target
    if name is not None:
        return name if name.startswith(HEADS) else HEADS + name
    started = session.spec.base_ref
    if started is None or started.startswith(HEADS):
        return started
    return HEADS + started if session.repository.refs.read(HEADS + started) is not None else None


def _resolved(session: Session, target: str | None) -> str | None:
    """The branch behind a name that only points to another one, as `master` does in some repositories."""
    if target is None:
        return None
    found = session.repository.git.run("symbolic-ref", "--quiet", target).stdout.decode(errors="replace").strip()
    return found if found.startswith(HEADS) else target


def users_hooks(session: Session) -> HooksFolder:
    repository = session.repository
    configured = users_git(session).config("core.hooksPath", "path")
    return hooks_folder(configured, repository.common_dir, repository.main_folder)


def users_git(session: Session) -> UsersGit:
    """Git as the user would call it in the main checkout: never in the run's, where much is forbidden."""
    repository = session.repository
    return UsersGit(session.around.env, repository.main_folder, repository.git.before)


def ahead(session: Session, state: RunState, tip: str) -> str:
    """Where a landing starts: the target's tip, or the base of the run if a reset brought that further."""
    if state.base == session.spec.base:
        return tip
    git = session.repository.git
    is_behind = git.run("merge-base", "--is-ancestor", tip, state.base).returncode == 0
    return state.base if is_behind else tip


def merged(session: Session, way: Way, tip: str) -> Merged:
    """The approved code on top of `tip`, a commit of the target."""
    return _merged(session, way.approval.about, tip)


def _merged(session: Session, approved: str, tip: str) -> Merged:
    repository = session.repository
    found = landings(repository, tip, session.layout.run_id, session.spec.base)
    return merged_code(repository, approved, tip, grounds(repository, approved, found, tip))


def _changed_paths(session: Session, approval: Spoken, bases: tuple[str, ...]) -> tuple[str, ...]:
    before, after = _code_trees(session, approval, bases)
    return tuple(
        path
        for delta in session.repository.diffs.between(before, after)
        for path in (delta.path, delta.old_path)
        if path is not None
    )


def _code_trees(session: Session, approval: Spoken, bases: tuple[str, ...]) -> tuple[str, str]:
    objects = session.repository.objects
    base = bases[0] if bases else session.spec.base
    before, after = (objects.commit(commit).tree for commit in (base, approval.about))
    return objects.with_subtree(before, RUNS_FOLDER, None), objects.with_subtree(after, RUNS_FOLDER, None)


def _hook_files(
    session: Session, approval: Spoken, bases: tuple[str, ...], changed: tuple[str, ...]
) -> tuple[str, ...]:
    trees = _code_trees(session, approval, bases)
    return changed_hooks(users_hooks(session), session.repository.objects, changed, trees)


def _branches(session: Session) -> tuple[str, ...]:
    """The branches that a run could land on; the one that is checked out first."""
    names = [name for name in session.repository.refs.list(HEADS) if not name.startswith(HEADS + BRANCH_PREFIX)]
    main = session.repository.main_branch()
    return tuple(sorted(names, key=lambda name: (name != main, name)))


def _unsigned(session: Session, approval: Spoken | None) -> Refused | None:
    if approval is None or not session.spec.settings.deploy.require_signature:
        return None
    users = users_git(session)
    done = users.run("verify-commit", approval.commit)
    if done.returncode == 0:
        return None
    run = session.layout.run_id
    if users.config("gpg.ssh.allowedSignersFile", "path") is None:
        return Refused(
            "this run asks for a signed approval, and git does not know whose signatures count",
            "git config gpg.ssh.allowedSignersFile ~/.config/git/allowed_signers",
            said=spoken(done),
        )
    return Refused(
        f"the approval {approval.commit[:12]} has no signature that git trusts",
        f"git verify-commit {approval.commit[:12]}   (then: git swarm land {run})",
        said=spoken(done),
    )
