"""Forks and joins through the product: what is executed at the same time, and how it comes together."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.forking import (
    AUDITS,
    WRITERS,
    check_tidy,
    envelope,
    events,
    sibling_refs,
    span,
    statuses,
    steps,
    trailers,
    with_flow,
)
from tests.leaks import token
from tests.routed import CRITIC, Case, checked, fires_after, flow, quest, step
from tests.test_guarantee_10_same import Run
from tests.unseen import unseen

READING = """\
steps:
  left: {delay_ms: 700, write: {RUN_BASE/fan/left.md: "left\\n"}}
  right: {delay_ms: 300, write: {RUN_BASE/fan/right.md: "right\\n"}}
"""
WRITING = """\
steps:
  left: {delay_ms: 400, write: {left.txt: "left\\n", RUN_BASE/fan/left.md: "l\\n"}}
  right: {write: {right.txt: "right\\n", src/app.py: "print('right')\\n"}, run: [pwd]}
"""


def test_stations_that_only_read_work_at_the_same_time_in_the_worktree_of_the_run(project: Project) -> None:
    with_flow(project, AUDITS)
    run = project.start(READING, flow="fan")

    assert steps(project) == ["begin@1", "left@1", "right@1", "both@1", "close@1"]
    left, right = span(project, "left"), span(project, "right")
    assert max(left[0], right[0]) < min(left[1], right[1]), "they did not overlap"
    assert right[1] < left[1], "the order of the commits is that of the flow, not of finishing"
    folder = f".swarm/runs/{run}/fan"
    assert project.git("show", f"shadow/{run}:{folder}/left.md") == "left"
    assert project.git("show", f"shadow/{run}:{folder}/right.md") == "right"
    check_tidy(project, run)


def test_stations_that_write_code_have_worktrees_of_their_own_and_their_changes_come_together(
    project: Project,
) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, flow="fan")

    assert steps(project) == ["begin@1", "left@1", "right@1", "both@1", "close@1"]
    assert project.git("show", f"shadow/{run}:left.txt") == "left"
    assert project.git("show", f"shadow/{run}:src/app.py") == "print('right')"
    begin, left, right = (entry["commit"] for entry in project.json("log")[:3])
    refs = sibling_refs(project, run)
    assert sorted(refs) == ["left", "right"]
    assert {project.git("rev-parse", f"{commit}^") for commit in refs.values()} == {begin}
    for name, commit in (("left", left), ("right", right)):
        said = trailers(project, commit)
        assert (said["Swarm-Fork"], said["Swarm-Fork-Commit"]) == (begin, refs[name])
        assert trailers(project, refs[name])["Swarm-Fork"] == begin
    check_tidy(project, run)


def test_a_command_beside_others_runs_in_a_worktree_of_its_own(project: Project) -> None:
    command = "{id: right, engine: command, command: {run: 'basename $PWD > where.txt'}}"
    with_flow(project, AUDITS, ("{id: right, station: reader, teaching: {outputs: [right.md]}}", command))
    run = project.start("{}", flow="fan")
    assert project.git("show", f"shadow/{run}:where.txt") == f"{run}.fork-right"
    check_tidy(project, run)


CLASH = """\
steps:
  left: {write: {src/app.py: "left\\n", RUN_BASE/fan/left.md: "l\\n"}}
  right: {write: {src/app.py: "right\\n", new.txt: "new\\n", RUN_BASE/fan/right.md: "r\\n"}}
"""


def test_a_conflict_is_a_status_and_its_code_stays_reachable(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(CLASH, flow="fan")

    assert statuses(project)["right"] == "PARTIAL"
    tip = f"shadow/{run}"
    assert project.git("show", f"{tip}:src/app.py") == "left"
    assert "new.txt" not in project.tree(tip)
    assert project.git("show", f"{tip}:.swarm/runs/{run}/fan/right.md") == "r"
    said = envelope(project, run, "right")
    reason = "its code is not on the branch: it conflicts with left in src/app.py"
    assert (said["status"], said["status_reason"]) == ("PARTIAL", reason)
    kept = sibling_refs(project, run)["right"]
    assert project.git("show", f"{kept}:src/app.py") == "right"
    prompt = project.swarm("show", "both", "--prompt").stdout
    assert f"- fan/left VERIFIED: ok\n- fan/right PARTIAL: ok ({reason})\n" in prompt
    assert envelope(project, run, "both")["status"] == "PARTIAL"
    assert envelope(project, run, "both")["status_reason"] == "limited by what it joins: left VERIFIED, right PARTIAL"
    check_tidy(project, run)


FAILING = """\
steps:
  left:
    - {fail: "model overloaded", write: {left.txt: "half\\n", RUN_BASE/fan/left.md: "half\\n"}}
    - {write: {left.txt: "whole\\n"}}
  right: {delay_ms: 500, write: {right.txt: "right\\n"}}
"""


def test_a_failed_step_waits_for_the_others_and_only_it_is_executed_again(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(FAILING, flow="fan", code=4)

    assert statuses(project) == {"begin": "VERIFIED", "left": "failed", "right": "VERIFIED"}
    assert "left.txt" not in project.tree(f"shadow/{run}")
    failed = sibling_refs(project, run)["left"]
    assert project.git("show", f"{failed}:left.txt") == "half"

    project.swarm("resume", run)

    assert steps(project) == ["begin@1", "left@1", "right@1", "left@2", "both@1", "close@1"]
    assert project.git("show", f"shadow/{run}:left.txt") == "whole"
    assert project.git("show", f"shadow/{run}:right.txt") == "right"
    assert sibling_refs(project, run)["left@1"] == failed
    check_tidy(project, run)


def test_a_failed_step_ends_the_others_at_once_if_the_fork_says_so(project: Project) -> None:
    with_flow(project, WRITERS, ("fork_targets: [left, right]", "fork_targets: [left, right], on_failure: cancel"))
    script = FAILING.replace("delay_ms: 500", "run: [sleep 1000]")
    run = project.start(script, flow="fan", code=4)

    assert statuses(project) == {"begin": "VERIFIED", "left": "failed"}
    assert sorted(sibling_refs(project, run)) == ["left"]
    kept = project.git("for-each-ref", "--format=%(contents:subject)", f"refs/swarm/{run}/rollback/")
    assert kept == "interrupted fan/right"
    check_tidy(project, run)

    status = project.json("status")
    assert (status["state"], status["next_step"]) == ("failed", "left")


@pytest.mark.parametrize(
    ("strategy", "left", "right", "code"),
    [
        ("all_verified", "VERIFIED", "VERIFIED", 0),
        ("all_verified", "VERIFIED", "UNVERIFIED", 5),
        ("any_verified", "UNVERIFIED", "VERIFIED", 0),
        ("any_verified", "UNVERIFIED", "PARTIAL", 5),
        ("quorum, join_quorum: 1", "BLOCKED", "VERIFIED", 0),
        ("quorum, join_quorum: 2", "UNVERIFIED", "VERIFIED", 5),
        ("all_complete", "PARTIAL", "UNVERIFIED", 0),
        ("all_complete", "VERIFIED", "BLOCKED", 5),
    ],
)
def test_a_join_goes_on_only_if_its_strategy_is_met(
    project: Project, strategy: str, left: str, right: str, code: int
) -> None:
    with_flow(
        project, AUDITS, ("right]}}\n  - {id: close", f"right], join_strategy: {strategy}}}}}\n  - {{id: close")
    )
    script = f"steps: {{left: {{status: {left}}}, right: {{status: {right}}}}}"
    project.start(script, flow="fan", code=code)
    assert steps(project) == ["begin@1", "left@1", "right@1", *([] if code else ["both@1", "close@1"])]


def test_a_join_is_no_better_than_the_worst_that_comes_together(project: Project) -> None:
    with_flow(project, AUDITS)
    run = project.start("steps: {left: {status: UNVERIFIED}}", flow="fan")
    said = envelope(project, run, "both")
    reason = "limited by what it joins: left UNVERIFIED, right VERIFIED"
    assert (said["status"], said["status_reason"]) == ("UNVERIFIED", reason)


def test_the_first_to_complete_ends_the_others(project: Project) -> None:
    first = "right], join_strategy: first_complete}}\n  - {id: close"
    with_flow(project, WRITERS, ("right]}}\n  - {id: close", first))
    script = """\
steps:
  left: {run: [sleep 1000], write: {left.txt: l}}
  right: {write: {right.txt: r}}
"""
    run = project.start(script, flow="fan")

    assert steps(project) == ["begin@1", "right@1", "both@1", "close@1"]
    assert sorted(sibling_refs(project, run)) == ["right"]
    assert "left.txt" not in project.tree(f"shadow/{run}")
    prompt = project.swarm("show", "both", "--prompt").stdout
    assert "- fan/left not executed\n- fan/right VERIFIED: ok\n" in prompt
    check_tidy(project, run)


def test_one_that_hangs_without_a_process_is_ended_too(project: Project) -> None:
    first = "right], join_strategy: first_complete}}\n  - {id: close"
    with_flow(project, AUDITS, ("right]}}\n  - {id: close", first))
    run = project.start("steps: {left: {hang: true}}", flow="fan")
    assert steps(project) == ["begin@1", "right@1", "both@1", "close@1"]
    check_tidy(project, run)


def test_a_failed_step_does_not_win(project: Project) -> None:
    first = "right], join_strategy: first_complete}}\n  - {id: close"
    with_flow(project, AUDITS, ("right]}}\n  - {id: close", first))
    run = project.start("steps: {left: {fail: overloaded}, right: {delay_ms: 500}}", flow="fan")
    assert statuses(project) == {
        "begin": "VERIFIED",
        "left": "failed",
        "right": "VERIFIED",
        "both": "VERIFIED",
        "close": "VERIFIED",
    }
    check_tidy(project, run)


def test_a_step_that_is_blocked_for_a_secret_does_not_win(project: Project) -> None:
    """It says VERIFIED; the others are ended for what it is found to be, and none of them is executed twice."""
    first = "right], join_strategy: first_complete}}\n  - {id: close"
    with_flow(project, WRITERS, ("right]}}\n  - {id: close", first))
    left = {"write": {"left.py": f"KEY = '{token(1)}'\n"}}
    right = {"write": {"right.txt": "r"}, "delay_ms": 900}
    run = project.start(json.dumps({"steps": {"left": left, "right": right}}), flow="fan")
    assert steps(project) == ["begin@1", "left@1", "right@1", "both@1", "close@1"]
    assert statuses(project)["left"] == "BLOCKED"
    assert statuses(project)["right"] == "VERIFIED"
    assert sorted(sibling_refs(project, run)) == ["left", "right"]
    check_tidy(project, run)


BLOCKED = """\
steps:
  left: {write: {left.txt: "left\\n"}}
  right:
    - {status: BLOCKED, summary: "which colour?", write: {right.txt: "?\\n"}}
    - {write: {right.txt: "blue\\n"}}
"""


def test_a_blocked_step_pauses_and_is_executed_again_with_the_answer(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(BLOCKED, flow="fan", code=5)
    assert steps(project) == ["begin@1", "left@1", "right@1"]
    begin = project.json("log")[0]["commit"]

    project.swarm("resume", run, "-m", "blue, of course")

    assert steps(project) == ["begin@1", "left@1", "right@1", "right@2", "both@1", "close@1"]
    again = project.json("log")[3]["commit"]
    assert trailers(project, again)["Swarm-Fork"] == begin
    assert "blue, of course" in project.swarm("show", "right@2", "--prompt").stdout
    assert envelope(project, run, "both")["status"] == "VERIFIED"
    check_tidy(project, run)


def test_a_pending_step_can_be_skipped_by_hand(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, "--until", "begin", flow="fan")

    said = project.swarm("skip", "close", "--run", run, code=1).stderr
    assert "the next step is fan/left or fan/right, not close" in said
    project.swarm("skip", "right", "--run", run, "-m", "not today")

    assert steps(project) == ["begin@1", "right@1", "left@1", "both@1", "close@1"]
    assert statuses(project)["right"] == "skipped"
    skipped = project.json("log")[1]["commit"]
    assert trailers(project, skipped)["Swarm-Fork"] == project.json("log")[0]["commit"]
    check_tidy(project, run)


def test_edits_made_by_hand_before_a_fork_are_seen_by_all(project: Project) -> None:
    with_flow(project, WRITERS)
    script = "steps: {left: {run: [cat by_hand.txt]}, right: {run: [cp by_hand.txt copy.txt]}}"
    run = project.start(script, "--until", "begin", flow="fan")
    (project.worktree(run) / "by_hand.txt").write_text("mine\n", encoding="utf-8")
    project.swarm("resume", run, "--adopt")
    assert project.git("show", f"shadow/{run}:copy.txt") == "mine"
    check_tidy(project, run)


TAMPERING = """\
steps:
  left:
    write: {RUN_BASE/fan/left.md: "left\\n"}
    run: ['echo forged > "$RUN_BASE/fan/forged.md"; echo changed > src/app.py; echo 1 > new.py']
  right: {delay_ms: 500, write: {RUN_BASE/fan/right.md: "right\\n"}}
"""


def test_what_readers_may_not_change_is_reported_and_put_back(project: Project) -> None:
    with_flow(project, AUDITS)
    run = project.start(unseen(TAMPERING), flow="fan")

    found = [event["payload"]["paths"] for event in events(project) if event["kind"] == "evidence_tampering"]
    assert found == [[f".swarm/runs/{run}/fan/forged.md", "new.py", "src/app.py"]]
    evidence = project.git("show", f"shadow/{run}:.swarm/runs/{run}/fan/evidence/right.json")
    assert "forged.md" in evidence
    assert project.tree(f"shadow/{run}") == project.tree("main")
    assert project.git("show", f"shadow/{run}:.swarm/runs/{run}/fan/left.md") == "left"
    check_tidy(project, run)


LOOPED = """\
id: fan
steps:
  - {id: begin, station: maker, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: maker}
  - {id: right, station: reader}
  - {id: both, station: maker, routing: {kind: join, join_from: [left, right]}}
  - {id: judge, station: reader, routing: {kind: microloop, loop_target: begin, max_iterations: 3}}
"""


def test_a_loop_executes_a_whole_fork_again(project: Project) -> None:
    with_flow(project, LOOPED)
    script = """\
steps:
  left: [{write: {left.txt: "1"}}, {write: {left.txt: "2"}}]
  judge: [{status: UNVERIFIED, can_further_iteration_help: "yes"}, {status: VERIFIED}]
"""
    run = project.start(script, flow="fan")
    once = ["begin@{0}", "left@{0}", "right@{0}", "both@{0}", "judge@{0}"]
    assert steps(project) == [name.format(number) for number in (1, 2) for name in once]
    assert project.git("show", f"shadow/{run}:left.txt") == "2"
    check_tidy(project, run)


MIXED = (
    ("{id: right, station: reader, teaching: {outputs: [right.md]}}", "{id: right, station: maker}"),
    ("fork_targets: [left, right]", "fork_targets: [left, right, third]"),
    ("  - {id: both", "  - {id: third, engine: command, command: {run: pwd; echo 3 > src/app.py}}\n  - {id: both"),
    ("join_from: [left, right]", "join_from: [left, right, third]"),
)
MIXED_SCRIPT = """\
steps:
  left: {delay_ms: 300, write: {RUN_BASE/fan/left.md: "left\\n"}}
  right: {write: {src/app.py: "2\\n"}, run: [pwd]}
"""


def test_the_same_script_gives_the_same_fork_once_ids_and_times_are_replaced(
    project: Project, tmp_path: Path
) -> None:
    with_flow(project, AUDITS, *MIXED)
    elsewhere = tmp_path / "another" / "place"
    shutil.copytree(project.root, elsewhere, symlinks=True)
    copy = replace(project, root=elsewhere)
    one, other = (Run(place, place.start(MIXED_SCRIPT, flow="fan")) for place in (project, copy))

    assert statuses(project)["third"] == "PARTIAL"
    assert one.code() == other.code()
    assert one.decisions() == other.decisions()
    assert dict(one.files()) == dict(other.files())
    assert (one.notes("events"), one.notes("routing")) == (other.notes("events"), other.notes("routing"))


def test_a_fork_leaves_everything_of_the_user_alone(project: Project) -> None:
    with_flow(project, AUDITS, *MIXED)
    script = project.script(MIXED_SCRIPT)
    before = fingerprint(project.root.parent)
    project.swarm("start", "fan", "--script", script)
    after = fingerprint(project.root.parent)
    assert after.entries == before.entries
    assert after.objects > before.objects


BEGIN = step("begin", kind="fork", fork_targets=["left", "right"])
BOTH = step("both", kind="join", join_from=["left", "right"])
SPLIT = flow("fan", BEGIN, step("left"), step("right", CRITIC), BOTH)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "a sidequest after the step that forks comes before the branches",
            [SPLIT],
            {"begin": {"status": "PARTIAL"}},
            [
                "fan/begin PARTIAL > detour:look (deterministic)",
                "  fan/sq-look-look VERIFIED > fork:left+right (deterministic)",
                "fan/left VERIFIED > fork:right (fast_path)",
                "fan/right VERIFIED > advance:both (fast_path)",
                "fan/both VERIFIED > terminate (fast_path)",
            ],
            sidequests=[quest("look", fires_after("begin"))],
        ),
        Case(
            "a branch calls for no sidequest",
            [SPLIT],
            {"left": {"status": "PARTIAL"}},
            [
                "fan/begin VERIFIED > fork:left+right (fast_path)",
                "fan/left PARTIAL > fork:right (fast_path)",
                "fan/right VERIFIED > advance:both (fast_path)",
                "fan/both PARTIAL > terminate (fast_path)",
            ],
            sidequests=[quest("look", fires_after("left"))],
        ),
        Case(
            "in autopilot a blocked branch is clarified and executed again",
            [SPLIT],
            {"right": [{"status": "BLOCKED"}, {"status": "VERIFIED"}]},
            [
                "fan/begin VERIFIED > fork:left+right (fast_path)",
                "fan/left VERIFIED > fork:right (fast_path)",
                "fan/right BLOCKED > detour:clarifier (deterministic)",
                "  fan/sq-clarifier-look VERIFIED > fork:right (deterministic)",
                "fan/right@2 VERIFIED > advance:both (fast_path)",
                "fan/both VERIFIED > terminate (fast_path)",
            ],
            options=["--autopilot"],
        ),
        Case(
            "after a failed branch the flow for that is executed, and resume goes back into the fork",
            [{**SPLIT, "on_failure": "after"}, flow("after", step("tidy"), utility=True)],
            {"right": [{"fail": "overloaded"}, {"status": "VERIFIED"}]},
            [
                "fan/begin VERIFIED > fork:left+right (fast_path)",
                "fan/left VERIFIED > fork:right (fast_path)",
                "fan/right failed > inject:after (deterministic)",
                "  after/tidy VERIFIED > terminate (fast_path)",
                "-- failed > repeat:right (deterministic)",
                "fan/right@2 VERIFIED > advance:both (fast_path)",
                "fan/both VERIFIED > terminate (fast_path)",
            ],
            then=[("resume",)],
        ),
        Case(
            "a fork in a flow that interrupts another one stays inside it when it is resumed",
            [{**flow("line", step("a")), "on_complete": "fan"}, {**SPLIT, "utility": True}],
            {"right": [{"fail": "overloaded"}, {"status": "BLOCKED"}, {"status": "VERIFIED"}]},
            [
                "line/a VERIFIED > inject:fan (deterministic)",
                "  fan/begin VERIFIED > fork:left+right (fast_path)",
                "  fan/left VERIFIED > fork:right (fast_path)",
                "  fan/right failed > terminate (deterministic)",
                "-- failed > fork:right (deterministic)",
                "  fan/right@2 BLOCKED > pause (deterministic)",
                "-- paused > fork:right (deterministic)",
                "  fan/right@3 VERIFIED > advance:both (fast_path)",
                "  fan/both VERIFIED > terminate (fast_path)",
            ],
            then=[("resume",), ("resume",)],
        ),
    ],
    ids=lambda case: case.name,
)
def test_route(project: Project, case: Case) -> None:
    run = checked(project, case)
    check_tidy(project, run)
