"""Forks and joins as the driver decides them: every strategy with every status, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from msgspec.structs import replace

from gitswarm.records.execution import Result, Status
from gitswarm.records.routing import Choice, ForkState, HumanPolicy
from gitswarm.routing.choices import ForkBranch, Progress, Rules, Situation
from gitswarm.routing.driver import decide, skip
from gitswarm.routing.forks import cap_of, is_decided, judge, unmet
from gitswarm.routing.loops import UncommittedExecution
from gitswarm.specs import flow as specs
from gitswarm.specs.flow import Flow, Join
from tests.tables import table

SAID = {
    "V": ForkBranch(Result.SUCCEEDED, Status.VERIFIED, "v"),
    "U": ForkBranch(Result.SUCCEEDED, Status.UNVERIFIED, "u"),
    "P": ForkBranch(Result.SUCCEEDED, Status.PARTIAL, "p"),
    "B": ForkBranch(Result.SUCCEEDED, Status.BLOCKED, "b"),
    "F": ForkBranch(Result.FAILED, Status.UNVERIFIED, "f"),
    "S": ForkBranch(Result.SKIPPED, Status.UNVERIFIED, "s"),
}
"""How a branch can end, by the first letter."""

MET = {
    "all_complete": "PP PS PU PV SP SS SU SV UP US UU UV VP VS VU VV",
    "all_verified": "VV",
    "any_verified": "BV FV PV SV UV VB VF VP VS VU VV",
    "first_complete": "BP BU BV FP FU FV PB PF PP PS PU PV SP SU SV UB UF UP US UU UV VB VF VP VS VU VV",
    "quorum": "VV",
}
"""The pairs of branches that meet each strategy; of the quorum: 2."""


def join(strategy: str, quorum: int | None = None) -> Join:
    return Join.from_plain(
        {"kind": "join", "join_from": ["left", "right"], "join_strategy": strategy, "join_quorum": quorum}
    )


def pair(letters: str) -> dict[str, ForkBranch]:
    """The two branches; `-` for one that was not executed to its end."""
    return {name: SAID[letter] for name, letter in zip(("left", "right"), letters, strict=True) if letter != "-"}


@table("strategy", MET)
def test_a_strategy_is_met_by_these_pairs_and_no_others(strategy: str) -> None:
    rule = join(strategy, 2 if strategy == "quorum" else None)
    met = ["".join(letters) for letters in product("BFPSUV", repeat=2) if judge(rule, pair("".join(letters))).is_met]
    assert " ".join(met) == MET[strategy]


@table("strategy", MET)
def test_a_branch_that_was_not_executed_counts_as_nothing(strategy: str) -> None:
    rule = join(strategy, 2 if strategy == "quorum" else None)
    met = [letters for letters in ("V-", "-V", "--") if judge(rule, pair(letters)).is_met]
    assert met == (["V-", "-V"] if strategy in ("any_verified", "first_complete") else [])


def test_a_quorum_may_be_smaller_than_the_number_of_branches() -> None:
    assert [judge(join("quorum", 1), pair(letters)).is_met for letters in ("VB", "UU")] == [True, False]


@table(
    ("letters", "worst"),
    [("VV", "VERIFIED"), ("VU", "UNVERIFIED"), ("UP", "PARTIAL"), ("PB", "BLOCKED"), ("FV", "BLOCKED")],
)
def test_the_worst_branch_is_what_a_join_starts_from(letters: str, worst: str) -> None:
    assert judge(join("all_complete"), pair(letters)).worst == worst


def test_a_skipped_branch_is_no_better_than_unverified() -> None:
    assert judge(join("all_complete"), pair("SV")).worst is Status.UNVERIFIED


def test_the_outcome_says_how_each_branch_ended_and_why() -> None:
    outcome = judge(join("all_verified"), pair("F-"))
    assert outcome.statuses == {"left": "failed", "right": "not executed"}
    assert (outcome.is_met, outcome.reason) == (False, "all_verified: 0 of 2 VERIFIED")


@table(
    ("strategy", "letters", "expected"),
    [
        ("all_complete", "SF", ("right",)),
        ("all_complete", "B-", ("left", "right")),
        ("all_verified", "VU", ("right",)),
        ("any_verified", "UP", ("left", "right")),
        ("first_complete", "BS", ("left", "right")),
    ],
)
def test_what_is_not_good_enough_is_executed_again(strategy: str, letters: str, expected: tuple[str, ...]) -> None:
    assert unmet(join(strategy), pair(letters)) == expected


@table(
    ("strategy", "policy", "letters", "over"),
    [
        ("all_complete", "wait", "F-", False),
        ("all_complete", "cancel", "F-", True),
        ("all_complete", "cancel", "B-", False),
        ("first_complete", "wait", "V-", True),
        ("first_complete", "wait", "S-", False),
        ("first_complete", "wait", "F-", False),
        ("any_verified", "wait", "V-", False),
    ],
)
def test_the_others_are_ended_when_nothing_depends_on_them(
    strategy: str, policy: str, letters: str, *, over: bool
) -> None:
    fork = specs.Fork.from_plain({"kind": "fork", "fork_targets": ["left", "right"], "on_failure": policy})
    assert is_decided(fork, join(strategy), pair(letters)) is over


@table(
    ("strategy", "letters", "cap"),
    [
        ("all_complete", "VV", None),
        ("all_complete", "VU", Status.UNVERIFIED),
        ("all_complete", "VB", Status.PARTIAL),
        ("any_verified", "VB", None),
    ],
)
def test_only_a_join_of_all_is_no_better_than_the_worst(strategy: str, letters: str, cap: Status | None) -> None:
    rule = join(strategy)
    assert cap_of(rule, judge(rule, pair(letters))) is cap


def flow(strategy: str = "all_complete", policy: str = "wait", **more: str) -> Flow:
    fork = {"kind": "fork", "fork_targets": ["left", "right"], "on_failure": policy}
    joining = {"kind": "join", "join_from": ["left", "right"], "join_strategy": strategy}
    return Flow.from_plain(
        {
            "id": "f",
            "steps": [
                {"id": "begin", "station": "s", "routing": fork},
                {"id": "left", "station": "s"},
                {"id": "right", "station": "s"},
                {"id": "both", "station": "s", "routing": joining},
            ],
            **more,
        }
    )


FORK = ForkState(commit="c" * 40, targets=("left", "right"), pending=("left", "right"), join="both")


def situation(
    step: str,
    branches: Mapping[str, ForkBranch] | None = None,
    *,
    graph: Flow | None = None,
    fork: ForkState | None = None,
    finished: frozenset[str] = frozenset(),
    rules: Rules | None = None,
) -> Situation:
    own = (branches or {}).get(step, SAID["V"])
    began = FORK if branches is not None else None
    return Situation(
        flow=graph or flow(),
        step_id=step,
        result=own.result,
        status=own.status,
        context={"receipt": {}, "envelope": {}, "evidence": {}, "run": {}},
        history=[UncommittedExecution(step, own.result)],
        rules=rules or Rules(),
        progress=Progress(fork=fork or began, branches=branches or {}, finished=finished),
    )


def gist(choice: Choice) -> tuple[str, str | None, tuple[str, ...]]:
    return choice.candidate_id, choice.to_step, choice.fork.pending if choice.fork else ()


def test_a_fork_leads_to_all_its_targets() -> None:
    choice = decide(situation("begin"))
    assert gist(choice) == ("fork:left+right", "left", ("left", "right"))
    assert choice.fork == replace(FORK, commit=None)


def test_a_fork_that_is_skipped_by_hand_forks_all_the_same() -> None:
    assert gist(skip(situation("begin"))) == ("fork:left+right", "left", ("left", "right"))


def test_the_others_are_waited_for() -> None:
    choice = decide(situation("left", pair("V-")))
    assert gist(choice) == ("fork:right", "right", ("right",))


def test_together_they_lead_to_the_join() -> None:
    choice = decide(situation("right", pair("VU")))
    assert gist(choice) == ("advance:both", "both", ())
    assert choice.join is not None
    assert choice.join.is_met
    assert choice.reason == "all_complete: 2 of 2 complete"


def test_what_a_rollback_took_back_is_executed_anew() -> None:
    fork = replace(FORK, void=("u",))
    assert gist(decide(situation("left", pair("VU"), fork=fork))) == ("fork:right", "right", ("right",))


def test_a_failed_branch_ends_the_run_and_only_it_is_tried_again() -> None:
    choice = decide(situation("right", pair("FV")))
    assert (choice.candidate_id, choice.failed, choice.to_step) == ("terminate", True, None)
    assert choice.resume_at is not None
    assert choice.resume_at.fork == replace(FORK, pending=("left",), void=("f",))


def test_a_branch_that_is_not_good_enough_makes_the_run_wait() -> None:
    choice = decide(situation("right", pair("VB")))
    assert choice.candidate_id == "pause"
    assert [candidate.candidate_id for candidate in choice.candidates] == ["pause", "escalate", "advance:both"]
    assert choice.resume_at is not None
    assert choice.resume_at.fork == replace(FORK, pending=("right",), void=("b",))


def test_nobody_waits_in_autopilot_without_a_clarifier() -> None:
    rules = Rules(human=HumanPolicy.AUTOPILOT)
    assert decide(situation("right", pair("VB"), rules=rules)).candidate_id == "pause"


def test_after_a_cancelled_fork_only_what_is_through_comes_onto_the_branch() -> None:
    cancelling = flow(policy="cancel")
    waiting = situation("left", pair("F-"), graph=cancelling, finished=frozenset({"right"}))
    assert gist(decide(waiting)) == ("fork:right", "right", ("right",))
    over = decide(situation("left", pair("F-"), graph=cancelling))
    assert (over.candidate_id, over.failed) == ("terminate", True)
    assert over.resume_at is not None
    assert over.resume_at.fork is not None
    assert over.resume_at.fork.pending == ("left", "right")


def test_the_first_that_is_complete_leads_to_the_join() -> None:
    choice = decide(situation("right", pair("-V"), graph=flow("first_complete")))
    assert gist(choice) == ("advance:both", "both", ())
    assert choice.reason == "first_complete: right was first"


def test_a_flow_that_follows_a_failure_knows_the_way_back_into_the_fork() -> None:
    after = Flow.from_plain({"id": "after", "steps": [{"id": "tidy", "station": "s"}]})
    graph = flow(on_failure="after")
    rules = Rules(flows={"f": graph, "after": after})
    choice = decide(situation("right", pair("VF"), graph=graph, rules=rules))
    assert (choice.candidate_id, choice.to_step) == ("inject:after", "tidy")
    back = choice.stack[-1].back
    assert (back.failed, back.fork) == (True, replace(FORK, pending=("right",), void=("f",)))
