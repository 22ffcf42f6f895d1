"""The decision alone: from facts to a way, a landing of before, or a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gitswarm.ledger.approval import ApprovalKind, RecordedApproval
from gitswarm.ledger.merging import Landing
from gitswarm.runner.landing.landing_plan import (
    LandedBefore,
    LandingPlan,
    LandingRequest,
    LandingState,
    Refused,
    decide_landing,
)
from gitswarm.worktree.target_checkouts import Checkout, HooksFolder, hooks_folder

A, P, T, L, X = ("a" * 40, "b" * 40, "c" * 40, "d" * 40, "e" * 40)
YES = RecordedApproval(P, ApprovalKind.APPROVES, A, "f" * 40, "human")
MAIN = "refs/heads/main"
HERE = Checkout(Path("/here"), Path("/here/.git"), None)
FACTS = LandingState(
    run="run-1",
    approval=YES,
    latest=YES,
    played=False,
    allow_stub=False,
    unsigned=None,
    target=MAIN,
    tip=T,
    branches=(MAIN,),
    landings=(),
    bases=(T,),
    changed=True,
    hook_files=(),
    checkouts=(HERE,),
)
EARLIER = Landing(L, T, A)
UNSIGNED = Refused("not signed", "git verify-commit")


def test_with_nothing_in_the_way_it_lands_as_configured() -> None:
    assert decide_landing(FACTS, LandingRequest(), "merge") == LandingPlan(YES, MAIN, "merge")


def test_a_wish_counts_before_the_configuration() -> None:
    assert decide_landing(FACTS, LandingRequest(strategy="evidence"), "merge") == LandingPlan(YES, MAIN, "evidence")


REFUSED: dict[str, tuple[LandingState, str]] = {
    "nobody said anything": (replace(FACTS, approval=None, latest=None), "run-1 cannot land: it is not approved"),
    "other code was approved": (
        replace(FACTS, approval=None),
        "run-1 cannot land: its code has changed since it was approved",
    ),
    "rejected": (
        replace(FACTS, approval=None, latest=replace(YES, kind=ApprovalKind.REJECTS)),
        "run-1 cannot land: it was rejected",
    ),
    "void": (
        replace(FACTS, approval=None, latest=replace(YES, kind=ApprovalKind.VOIDS)),
        "run-1 cannot land: its approval was voided by a conflict or a new base",
    ),
    "played": (
        replace(FACTS, played=True),
        "run-1 is a rehearsal: a stub or a script did the work, not a model, so it cannot be approved or landed",
    ),
    "played, not approved": (
        replace(FACTS, played=True, approval=None, latest=None),
        "run-1 is a rehearsal: a stub or a script did the work, not a model, so it cannot be approved or landed",
    ),
    "no target": (
        replace(FACTS, target=None, tip=None),
        "run-1 was started on a commit without a branch: it has no target branch (there are: main)",
    ),
    "no such target": (replace(FACTS, tip=None), "there is no branch main (there are: main)"),
    "no branch at all": (replace(FACTS, tip=None, branches=()), "there is no branch main (there is no branch)"),
    "many branches": (
        replace(FACTS, tip=None, branches=tuple(f"refs/heads/b{number}" for number in range(9))),
        "there is no branch main (there are: b0, b1, b2, b3, b4, b5 and 3 more)",
    ),
    "a shadow branch": (
        replace(FACTS, target="refs/heads/shadow/run-2"),
        "shadow/run-2 is the branch of a run, and cannot be a target (there are: main)",
    ),
    "not signed": (replace(FACTS, unsigned=UNSIGNED), "not signed"),
    "unrelated": (replace(FACTS, bases=()), "main and run-1 have no history in common"),
    "no code": (replace(FACTS, changed=False), "run-1 changes nothing in the code of main"),
    "hooks": (
        replace(FACTS, hook_files=(".husky/a", ".husky/b")),
        "run-1 changes 2 files that decide what your commit hooks do",
    ),
    "busy": (
        replace(FACTS, checkouts=(replace(HERE, busy="rebase"),)),
        "main is checked out in /here, in the middle of a rebase",
    ),
    "two checkouts": (
        replace(FACTS, checkouts=(HERE, replace(HERE, path=Path("/there")))),
        "main is checked out in 2 places: only one of them could follow",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_says_why_and_what_to_type(what: str) -> None:
    facts, reason = REFUSED[what]
    decided = decide_landing(facts, LandingRequest(), "squash")
    assert isinstance(decided, Refused)
    assert (decided.reason, decided.hint.startswith("git ")) == (reason, True)


def test_a_stub_that_was_allowed_lands() -> None:
    facts = replace(FACTS, played=True, allow_stub=True)
    assert decide_landing(facts, LandingRequest(), "squash") == LandingPlan(YES, MAIN, "squash")


def test_hooks_that_a_person_trusts_land() -> None:
    facts = replace(FACTS, hook_files=(".husky/a",))
    assert decide_landing(facts, LandingRequest(trust_hooks=True), "squash") == LandingPlan(YES, MAIN, "squash")


@pytest.mark.parametrize("reverted_by", [None, X])
def test_what_has_landed_has_landed_whatever_else_is_wrong(reverted_by: str | None) -> None:
    earlier = replace(EARLIER, reverted_by=reverted_by)
    facts = replace(FACTS, landings=(earlier,), unsigned=UNSIGNED, changed=False, checkouts=(HERE, HERE))
    assert decide_landing(facts, LandingRequest(), "squash") == LandedBefore(earlier, MAIN)


def test_a_landing_of_other_code_is_none_of_this() -> None:
    facts = replace(FACTS, landings=(replace(EARLIER, approved=X),))
    assert decide_landing(facts, LandingRequest(), "squash") == LandingPlan(YES, MAIN, "squash")


@pytest.mark.parametrize(
    ("configured", "folder"),
    [
        (None, HooksFolder(Path("/r/.git/hooks"))),
        ("", HooksFolder(Path("/r/.git/hooks"))),
        (".husky/_", HooksFolder(Path("/r/.husky/_"), ".husky/_", is_relative=True)),
        ("/r/tools/hooks", HooksFolder(Path("/r/tools/hooks"), "tools/hooks")),
        ("/home/me/hooks", HooksFolder(Path("/home/me/hooks"))),
        (".git/hooks", HooksFolder(Path("/r/.git/hooks"))),
        ("../hooks", HooksFolder(Path("/hooks"))),
    ],
)
def test_where_hooks_lie(configured: str | None, folder: HooksFolder) -> None:
    assert hooks_folder(configured, Path("/r/.git"), Path("/r")) == folder
