"""Whether a run may be landed, and how: the facts, gathered without a change, and what follows from them."""

from __future__ import annotations

import shlex

from msgspec import Struct

from gitswarm.git.as_user import UsersGit, output_of
from gitswarm.git.merge import Merged
from gitswarm.ledger.approval import (
    ApprovalKind,
    RecordedApproval,
    current_approval,
    latest_approval,
)
from gitswarm.ledger.merging import Landing, common_bases, is_in, landings, merged_code
from gitswarm.ledger.next_command import accepting, command_after_conflict, current_conflict
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import BRANCH_PREFIX
from gitswarm.records.run_spec import LandStrategy
from gitswarm.runner.run_session import Session
from gitswarm.runner.stored import was_played
from gitswarm.worktree.target_checkouts import Checkout, HooksFolder, changed_hooks, checkouts_of, hooks_folder


class Refused(Struct, frozen=True):
    """Why a run may not be landed. `paths`: the files that it is about; `output`: the end of what a hook, a test run
    or git printed; `voids`: an approval does not stand any more after it."""

    reason: str
    hint: str
    paths: tuple[str, ...] = ()
    output: str = ""
    voids: bool = False


def refuse_rehearsal(run: str) -> Refused:
    """What a stub or a script did is not approved, and does not land."""
    return Refused(
        f"{run} is a rehearsal: a stub or a script did the work, not a model, so it cannot be approved or landed",
        "git swarm start FLOW --mode cli   (with a model; --allow-stub lets a rehearsal land)",
    )


HEADS = "refs/heads/"
_BRANCHES_NAMED = 6


class LandingRequest(Struct, frozen=True):
    """What a person or a flow asks for. `target`: a branch; None: the configured one, else the run's own.
    `message`: of the landed commit, in the words of a person."""

    strategy: LandStrategy | None = None
    target: str | None = None
    trust_hooks: bool = False
    message: str = ""


class LandingState(Struct, frozen=True):
    """Everything that the decision is taken from.

    `approval`: the one of exactly the run's code; `latest`: the newest one about any code. `unsigned`: why the
    approval's signature does not count, when one is required. `target`: full name, None when nothing says which;
    `tip`: where it is, None when it does not exist. `landings` are the run's own on it, newest first. `bases`: where
    target and run parted. `changed`: the code of the run differs from there; `hook_files`: what of that decides
    what the user's hooks do. `checkouts` stand on the target. `blocking`: ids of open concerns that block.
    `conflict`: the code met one that is still there.
    """

    run: str
    approval: RecordedApproval | None
    latest: RecordedApproval | None
    played: bool
    allow_stub: bool
    unsigned: Refused | None
    target: str | None
    tip: str | None
    branches: tuple[str, ...]
    landings: tuple[Landing, ...]
    bases: tuple[str, ...]
    changed: bool
    hook_files: tuple[str, ...]
    checkouts: tuple[Checkout, ...]
    blocking: tuple[str, ...] = ()
    conflict: Refused | None = None


class LandingPlan(Struct, frozen=True):
    """How a run lands: what was approved, onto which branch (full name), in which shape.
    `message`: what a person wants its commit to say."""

    approval: RecordedApproval
    target: str
    strategy: LandStrategy
    message: str = ""


class LandedBefore(Struct, frozen=True):
    """The approved code has landed before."""

    landing: Landing
    target: str


def landing_decision(
    session: Session, state: RunState, request: LandingRequest
) -> LandingPlan | LandedBefore | Refused:
    """How the run would land now, as asked, else as configured. Reads only, but that git may learn merged trees."""
    return decide_landing(facts_of(session, state, request), request, session.spec.settings.deploy.strategy)


def decide_landing(
    facts: LandingState, request: LandingRequest, strategy: LandStrategy
) -> LandingPlan | LandedBefore | Refused:
    """
    :param strategy: the configured one.
    """
    refused = _unapproved(facts) or _untargeted(facts)
    if refused is not None or facts.approval is None or facts.target is None:
        return refused or Refused("nothing to land", f"git swarm status {facts.run}")
    earlier = next((found for found in facts.landings if found.approved == facts.approval.about), None)
    if earlier is not None:
        return LandedBefore(earlier, facts.target)
    refused = (
        _unproven(facts) or facts.unsigned or _unrelated(facts) or _untrusted(facts, request) or _occupied(facts)
    )
    return refused or LandingPlan(facts.approval, facts.target, request.strategy or strategy, request.message)


def short(branch: str) -> str:
    """A branch as people name it."""
    return branch.removeprefix(HEADS)


def _unapproved(facts: LandingState) -> Refused | None:
    run, latest = facts.run, facts.latest
    if facts.played and not facts.allow_stub:
        return refuse_rehearsal(run)
    if facts.approval is not None:
        return None
    if facts.conflict is not None:
        return facts.conflict
    why = {
        None: "it is not approved",
        ApprovalKind.APPROVES: "its code has changed since it was approved",
        ApprovalKind.REJECTS: "it was rejected",
        ApprovalKind.VOIDS: "its approval was voided by a conflict or a new base",
    }[latest.kind if latest is not None else None]
    look = f"git swarm diff {run}"
    return Refused(f"{run} cannot land: {why}", f"git swarm approve {run}   (look first: {look})")


def _unproven(facts: LandingState) -> Refused | None:
    """What was found after the approval: the code is the same, and what is known of it is not."""
    if not facts.blocking:
        return None
    count = len(facts.blocking)
    what = f"{count} blocking concern{'' if count == 1 else 's'} open: {facts.blocking[0]}"
    return Refused(what, accepting(facts.run, facts.blocking))


def _untargeted(facts: LandingState) -> Refused | None:
    names = ", ".join(map(short, facts.branches[:_BRANCHES_NAMED]))
    first = short(facts.branches[0]) if facts.branches else "BRANCH"
    more = f" and {len(facts.branches) - _BRANCHES_NAMED} more" if len(facts.branches) > _BRANCHES_NAMED else ""
    there = f"there are: {names}{more}" if names else "there is no branch"
    hint = f"git swarm land {facts.run} --target {first}"
    if facts.target is None:
        return Refused(
            f"{facts.run} was started on a commit without a branch: it has no target branch ({there})", hint
        )
    if short(facts.target).startswith(BRANCH_PREFIX):
        return Refused(f"{short(facts.target)} is the branch of a run, and cannot be a target ({there})", hint)
    if facts.tip is None:
        return Refused(f"there is no branch {short(facts.target)} ({there})", hint)
    return None


def _unrelated(facts: LandingState) -> Refused | None:
    target = short(facts.target or "")
    if not facts.bases:
        return Refused(
            f"{target} and {facts.run} have no history in common", f"git swarm land {facts.run} --target BRANCH"
        )
    if len(facts.bases) > 1:
        parted = ", ".join(base[:12] for base in facts.bases)
        return Refused(
            f"{target} and {facts.run} have {len(facts.bases)} merge bases ({parted}): git-swarm cannot choose one",
            f"git merge {BRANCH_PREFIX}{facts.run}   (by hand, on {target})",
        )
    if not facts.changed:
        return Refused(f"{facts.run} changes nothing in the code of {target}", f"git swarm diff {facts.run}")
    return None


def _untrusted(facts: LandingState, request: LandingRequest) -> Refused | None:
    if not facts.hook_files or request.trust_hooks:
        return None
    count = len(facts.hook_files)
    return Refused(
        f"{facts.run} changes {count} {'file that decides' if count == 1 else 'files that decide'} "
        "what your commit hooks do",
        f"git swarm land {facts.run} --trust-hooks   (when you have read them)",
        facts.hook_files,
    )


def _occupied(facts: LandingState) -> Refused | None:
    target = short(facts.target or "")
    if len(facts.checkouts) > 1:
        folders = tuple(str(checkout.path) for checkout in facts.checkouts)
        return Refused(
            f"{target} is checked out in {len(folders)} places: only one of them could follow",
            f"git -C {shlex.quote(folders[-1])} checkout --detach",
            folders,
        )
    for checkout in facts.checkouts:
        if checkout.busy is not None:
            return Refused(
                f"{target} is checked out in {checkout.path}, in the middle of a {checkout.busy}",
                f"git -C {shlex.quote(str(checkout.path))} status   (finish or abort it)",
            )
    return None


def facts_of(session: Session, state: RunState, request: LandingRequest) -> LandingState:
    repository = session.repository
    approval = current_approval(repository, state)
    target = landing_target(session, request)
    tip = repository.refs.read(target) if target is not None else None
    found = landings(repository, tip, session.layout.run_id, state.base) if tip is not None else []
    bases = (
        common_bases(repository, approval.about, found, ahead(session, state, tip))
        if approval is not None and tip is not None
        else ()
    )
    changed, hook_files = _changes(session, approval, bases) if approval is not None else ((), ())
    return LandingState(
        run=session.layout.run_id,
        approval=approval,
        latest=latest_approval(repository, state),
        played=was_played(session, state),
        allow_stub=session.spec.allow_stub,
        unsigned=_unsigned(session, approval),
        target=target,
        tip=tip,
        branches=_branches(session),
        landings=tuple(found),
        bases=bases,
        changed=bool(changed),
        hook_files=hook_files,
        checkouts=tuple(checkouts_of(repository, target)) if tip is not None and target is not None else (),
        conflict=met_conflict(session, state, request),
        blocking=tuple(concern.id for concern in state.blocking),
    )


def met_conflict(session: Session, state: RunState, request: LandingRequest) -> Refused | None:
    """Why there is no sense in approving or landing again: the code met a conflict, and the target still has it."""
    if current_conflict(session.repository, state) is None:
        return None
    target = landing_target(session, request)
    tip = session.repository.refs.read(target) if target is not None else None
    if target is None or tip is None:
        return None
    onto = ahead(session, state, tip)
    found = _merged(session, state.tip, onto)
    if not found.conflicts:
        return None
    return Refused(
        f"{session.layout.run_id} cannot land: it conflicts with {short(target)}",
        command_after_conflict(state, session.spec.flows, short(target)),
        found.paths,
    )


def target_of(session: Session, request: LandingRequest) -> str | None:
    """Full name of the branch to land on: as asked, as configured, else the one that the run was started on."""
    name = request.target or session.spec.settings.deploy.target
    if name is not None:
        return name if name.startswith(HEADS) else HEADS + name
    started = session.spec.base_ref
    if started is None or started.startswith(HEADS):
        return started
    return HEADS + started if session.repository.refs.read(HEADS + started) is not None else None


def landing_target(session: Session, request: LandingRequest) -> str | None:
    """As `target_of`; the branch behind a name that only points to another one, as `master` does in some
    repositories."""
    target = target_of(session, request)
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
    return UsersGit(session.context.env, repository.main_folder, repository.git.before)


def ahead(session: Session, state: RunState, tip: str) -> str:
    """Where a landing starts: the target's tip, or the base of the run if a reset brought that further."""
    if state.base == session.spec.base:
        return tip
    return state.base if is_in(session.repository, tip, state.base) else tip


def merged(session: Session, plan: LandingPlan, tip: str) -> Merged:
    """The approved code on top of `tip`, a commit of the target."""
    return _merged(session, plan.approval.about, tip)


def _merged(session: Session, approved: str, tip: str) -> Merged:
    repository = session.repository
    found = landings(repository, tip, session.layout.run_id, session.spec.base)
    return merged_code(repository, approved, tip, common_bases(repository, approved, found, tip))


def _changes(
    session: Session, approval: RecordedApproval, bases: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paths that the code changes since it left the target; those of them that decide what the user's hooks do."""
    repository, store = session.repository, session.store
    base = bases[0] if bases else session.spec.base
    before, after = (store.code(repository.objects.commit(commit).tree) for commit in (base, approval.about))
    deltas = repository.diffs.between(before, after)
    changed = tuple(path for delta in deltas for path in (delta.path, delta.old_path) if path is not None)
    return changed, changed_hooks(users_hooks(session), repository.objects, changed, (before, after))


def _branches(session: Session) -> tuple[str, ...]:
    """The branches that a run could land on; the one that is checked out first."""
    names = [name for name in session.repository.refs.list(HEADS) if not name.startswith(HEADS + BRANCH_PREFIX)]
    main = session.repository.main_branch()
    return tuple(sorted(names, key=lambda name: (name != main, name)))


def _unsigned(session: Session, approval: RecordedApproval | None) -> Refused | None:
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
            output=output_of(done),
        )
    return Refused(
        f"the approval {approval.commit[:12]} has no signature that git trusts",
        f"git verify-commit {approval.commit[:12]}   (then: git swarm land {run})",
        output=output_of(done),
    )
