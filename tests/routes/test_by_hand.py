"""What people do to a run: skip, adopt, stop, begin elsewhere, go back."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Project
from tests.projects import ask, only_run
from tests.routed import Case, checked, drive, ended, fires_after, flow, lines, quest, routed, step, told_by_events
from tests.routes.common import BLOCKED, DOUBT, HALF, LINE, STRAIGHT, back_from_tests, by_name, critic_loop, exits

FAIL = {"fail": "model overloaded"}
TWO = [flow("f", step("a"), step("b")), flow("g", step("x"), step("y"))]
QUEST = quest("look", fires_after("a"), steps=[{"id": n, "station": "context-loader"} for n in ("one", "two")])

SKIPS = [
    Case(
        "a blocked step is skipped",
        [LINE],
        {"a": BLOCKED},
        """
        f/a BLOCKED > pause (deterministic)
        -- paused > repeat:a (deterministic)
        f/a@2 skipped > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("skip", "a")],
    ),
    Case(
        "a failed step is skipped by its flow and name",
        [LINE],
        {"b": FAIL},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b failed > terminate (deterministic)
        -- failed > repeat:b (deterministic)
        f/b@2 skipped > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("skip", "f/b")],
    ),
    Case(
        "the last step is skipped",
        [LINE],
        {"c": BLOCKED},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c BLOCKED > pause (deterministic)
        -- paused > repeat:c (deterministic)
        f/c@2 skipped > terminate (deterministic)
        """,
        then=[("skip", "c")],
    ),
    Case(
        "the next step is skipped before it is executed",
        [LINE],
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        -- stopped > advance:b (fast_path)
        f/b skipped > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=("--until", "a"),
        then=[("skip", "b")],
    ),
    Case(
        "a skipped critic leads out of its loop",
        [critic_loop(3)],
        {"critique": [DOUBT, BLOCKED]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 BLOCKED > pause (deterministic)
        -- paused > repeat:critique (deterministic)
        f/critique@3 skipped > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("skip", "critique")],
    ),
    Case(
        "a skipped command leads on as if it had passed",
        [back_from_tests()],
        {"test": {"fail": "no disk"}},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test failed > terminate (deterministic)
        -- failed > repeat:test (deterministic)
        f/test@2 skipped > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("skip", "test")],
    ),
    Case(
        "a sidequest's step is skipped: on with its next one",
        [LINE],
        {"a": HALF, "sq-look-one": BLOCKED},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one BLOCKED > pause (deterministic)
        -- paused > repeat:sq-look-one (deterministic)
          f/sq-look-one@2 skipped > advance:sq-look-two (deterministic)
          f/sq-look-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[QUEST],
        then=[("skip", "sq-look-one")],
    ),
    Case(
        "a sidequest's last step is skipped: back",
        [LINE],
        {"a": HALF, "sq-look-two": BLOCKED},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two BLOCKED > pause (deterministic)
        -- paused > repeat:sq-look-two (deterministic)
          f/sq-look-two@2 skipped > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[QUEST],
        then=[("skip", "sq-look-two")],
    ),
]

PLACES = [
    Case(
        "begin at a step",
        [LINE],
        {},
        """
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=("--from", "b"),
    ),
    Case(
        "begin in the middle of a loop",
        [critic_loop(2)],
        {"critique": DOUBT},
        """
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        options=("--from", "critique"),
    ),
    Case("until a step", [LINE], {}, "f/a VERIFIED > advance:b (fast_path)", end="stopped", options=("--until", "a")),
    Case(
        "until a step, then on",
        [LINE],
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        -- stopped > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=("--until", "a"),
        then=[("resume",)],
    ),
    Case("until the last step", [LINE], {}, STRAIGHT, options=("--until", "c")),
    Case(
        "from one step until another",
        [LINE],
        {},
        "f/b VERIFIED > advance:c (fast_path)",
        end="stopped",
        options=("--from", "b", "--until", "b"),
    ),
    Case(
        "until a step of the next flow",
        TWO,
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > advance:y (fast_path)
        -- stopped > advance:y (fast_path)
        g/y VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g", "--until", "g/x"),
        then=[("resume",)],
    ),
    Case(
        "stopped between two flows",
        TWO,
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:g/x (deterministic)
        -- stopped > advance:g/x (deterministic)
        g/x VERIFIED > advance:y (fast_path)
        g/y VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g", "--until", "f/b"),
        then=[("resume",)],
    ),
    Case(
        "stopped before a sidequest: it is taken when resumed",
        [LINE],
        {"a": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
        -- stopped > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[QUEST],
        options=("--until", "a"),
        then=[("resume",)],
        events="""
        stack_push frame=sidequest:look@1 depth=1 interrupted=f/a back_to=f/b
        routing_offroad candidate_id=detour:look from_step=a instead_of=advance:b why_now=[WHEN]
        stack_pop frame=sidequest:look@1 depth=0
        """.replace("WHEN", 'envelope.step_id == "a" && envelope.status == "PARTIAL"'),
    ),
]

ROLLBACKS = [
    Case(
        "rolled back and resumed: decided once more",
        [LINE],
        {},
        """
        f/a VERIFIED > advance:b (fast_path) > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("rollback", "a"), ("resume",)],
    ),
    Case(
        "rolled back into a loop: its count too",
        [critic_loop(2)],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic) > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("rollback", "critique@1"), ("resume",)],
    ),
    Case(
        "a rollback that is undone leaves the run as it was",
        [back_from_tests()],
        {"test": exits(1, 0)},
        """
        f/write VERIFIED > advance:test (fast_path) > advance:test (fast_path)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("rollback", "write@1"), ("rollback", "--undo")],
    ),
    Case(
        "rolled back into the middle of a sidequest",
        [LINE],
        {"a": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path) > advance:sq-look-two (fast_path)
          f/sq-look-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[QUEST],
        then=[("rollback", "sq-look-one"), ("resume",)],
    ),
    Case(
        "rolled back to before the last flow",
        TWO,
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:g/x (deterministic) > advance:g/x (deterministic)
        g/x VERIFIED > advance:y (fast_path)
        g/y VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
        then=[("rollback", "f/b"), ("resume",)],
    ),
]


@by_name(SKIPS)
def test_skip(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(PLACES)
def test_begin_and_stop(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(ROLLBACKS)
def test_rollback(project: Project, case: Case) -> None:
    checked(project, case)


def test_only_the_next_step_can_be_skipped(project: Project) -> None:
    run = drive(project, Case("", [LINE], {"a": BLOCKED}, ""))
    answer = ask(project, "skip", "b", "--run", run)
    assert (answer.code, answer.stderr.splitlines()[0]) == (1, "git-swarm: the next step is f/a, not b")


def adopt(project: Project) -> str:
    """Edits the run's worktree and goes on; the run."""
    run = only_run(project)
    worktree = Path(ask(project, "path", run).stdout.strip())
    (worktree / "by_hand.txt").write_text("mine\n", encoding="utf-8")
    answer = ask(project, "resume", "--adopt", run)
    assert answer.code == 0, answer.stderr
    return run


def test_adopted_edits_are_a_step_before_the_one_that_was_next(project: Project) -> None:
    drive(project, Case("", [LINE], {}, "", options=("--until", "a")))
    run = adopt(project)
    assert "\n".join(routed(project, run)) == lines(
        """
        f/a VERIFIED > advance:b (fast_path)
        -- stopped > advance:b (fast_path)
        f/adopt UNVERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """
    )
    assert ended(project, run) == "succeeded"


def test_edits_adopted_inside_a_sidequest_stay_inside_it(project: Project) -> None:
    case = Case("", [LINE], {"a": HALF, "sq-look-one": [BLOCKED, {}]}, "", sidequests=[QUEST])
    drive(project, case)
    run = adopt(project)
    assert "\n".join(routed(project, run)) == lines(
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one BLOCKED > pause (deterministic)
        -- paused > repeat:sq-look-one (deterministic)
          f/adopt UNVERIFIED > repeat:sq-look-one (deterministic)
          f/sq-look-one@2 VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """
    )


def test_a_sidequest_that_adopted_edits_come_before_begins_once(project: Project) -> None:
    drive(project, Case("", [LINE], {"a": HALF}, "", options=("--until", "a"), sidequests=[QUEST]))
    run = adopt(project)
    assert "\n".join(routed(project, run)) == lines(
        """
        f/a PARTIAL > detour:look (deterministic)
        -- stopped > detour:look (deterministic)
          f/adopt UNVERIFIED > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """
    )
    told = [line.split(" ")[0] for line in told_by_events(project, run)]
    assert told == ["stack_push", "routing_offroad", "stack_pop"]
