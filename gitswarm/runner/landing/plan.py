"""Whether a run may be landed, and how: decided from facts, before anything happens. A refusal is a value."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.ledger.approval import ApprovalKind, Spoken
from gitswarm.ledger.landed import Landing
from gitswarm.records.execution import BRANCH_PREFIX
from gitswarm.records.run_spec import LandStrategy
from gitswarm.worktree.land import Checkout


class Refused(Struct, frozen=True):
    """Why a run may not be landed; `paths` are the files that it is about, `said` the end of what a hook, a test run
    or git printed.
    `voids`: an approval does not stand any more after it."""

    reason: str
    hint: str
    paths: tuple[str, ...] = ()
    said: str = ""
    voids: bool = False


def refuse_rehearsal(run: str) -> Refused:
    """What a stub or a script did is not approved, and does not land."""
    return Refused(
        f"{run} is a rehearsal: a stub or a script did the work, not a model, so it cannot be approved or landed",
        "git swarm start FLOW --mode cli   (with a model; --allow-stub lets a rehearsal land)",
    )


HEADS = "refs/heads/"
_BRANCHES_NAMED = 6


class Wish(Struct, frozen=True):
    """What a person or a flow asks for. `target`: a branch; None: the configured one, else the run's own.
    `message`: of the landed commit, in the words of a person."""

    strategy: LandStrategy | None = None
    target: str | None = None
    trust_hooks: bool = False
    message: str = ""


class LandingState(Struct, frozen=True):
    """Everything that the decision is taken from.

    `standing`: the approval of exactly the run's code; `word`: the newest one about any code. `unsigned`: why the
    approval's signature does not count, when one is required. `target`: full name, None when nothing says which;
    `tip`: where it is, None when it does not exist. `landings` are the run's own on it, newest first. `bases`: where
    target and run parted. `changed`: the code of the run differs from there; `hook_files`: what of that decides
    what the user's hooks do. `checkouts` stand on the target. `blocking`: ids of open concerns that block.
    `conflict`: the code met one that is still there.
    """

    run: str
    standing: Spoken | None
    word: Spoken | None
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


class Way(Struct, frozen=True):
    """How a run lands: what was approved, onto which branch (full name), in which shape.
    `message`: what a person wants its commit to say."""

    approval: Spoken
    target: str
    strategy: LandStrategy
    message: str = ""


class Landed(Struct, frozen=True):
    """The approved code has landed before."""

    landing: Landing
    target: str


def decide_landing(facts: LandingState, wish: Wish, strategy: LandStrategy) -> Way | Landed | Refused:
    """
    :param strategy: the configured one.
    """
    refused = _unapproved(facts) or _untargeted(facts)
    if refused is not None or facts.standing is None or facts.target is None:
        return refused or Refused("nothing to land", f"git swarm status {facts.run}")
    earlier = next((found for found in facts.landings if found.approved == facts.standing.about), None)
    if earlier is not None:
        return Landed(earlier, facts.target)
    refused = _unproven(facts) or facts.unsigned or _unrelated(facts) or _untrusted(facts, wish) or _occupied(facts)
    return refused or Way(facts.standing, facts.target, wish.strategy or strategy, wish.message)


def short(branch: str) -> str:
    """A branch as people name it."""
    return branch.removeprefix(HEADS)


def _unapproved(facts: LandingState) -> Refused | None:
    run, word = facts.run, facts.word
    if facts.played and not facts.allow_stub:
        return refuse_rehearsal(run)
    if facts.standing is not None:
        return None
    if facts.conflict is not None:
        return facts.conflict
    why = {
        None: "it is not approved",
        ApprovalKind.APPROVES: "its code has changed since it was approved",
        ApprovalKind.REJECTS: "it was rejected",
        ApprovalKind.VOIDS: "its approval was voided by a conflict or a new base",
    }[word.word if word is not None else None]
    look = f"git swarm diff {run}"
    return Refused(f"{run} cannot land: {why}", f"git swarm approve {run}   (look first: {look})")


def _unproven(facts: LandingState) -> Refused | None:
    """What was found after the approval: the code is the same, and what is known of it is not."""
    if not facts.blocking:
        return None
    count = len(facts.blocking)
    ids = " ".join(f"--accept '{each}=WHY'" for each in facts.blocking)
    return Refused(
        f"{count} blocking concern{'' if count == 1 else 's'} open: {facts.blocking[0]}",
        f"git swarm approve {facts.run} {ids}",
    )


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


def _untrusted(facts: LandingState, wish: Wish) -> Refused | None:
    if not facts.hook_files or wish.trust_hooks:
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
        places = tuple(str(checkout.path) for checkout in facts.checkouts)
        return Refused(
            f"{target} is checked out in {len(places)} places: only one of them could follow",
            f"git -C {places[-1]} checkout --detach",
            places,
        )
    for checkout in facts.checkouts:
        if checkout.busy is not None:
            return Refused(
                f"{target} is checked out in {checkout.path}, in the middle of a {checkout.busy}",
                f"git -C {checkout.path} status   (finish or abort it)",
            )
    return None
