"""What authors and agents can do to routing, and what it makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask
from tests.routed import CRITIC, Case, checked, drive, fires_after, flow, quest, set_up, step
from tests.routes.common import HALF, LINE, WHY, chooses, writes
from tests.unseen import unseen_line

READER = "context-loader"


def fan(strategy: str, *, writer: str = READER) -> dict[str, Any]:
    """A fork of two branches, and its join."""
    return flow(
        "f",
        step("a", kind="fork", fork_targets=["b", "c"]),
        step("b", writer),
        step("c", READER),
        step("j", kind="join", join_from=["b", "c"], join_strategy=strategy),
    )


def refusal(project: Project, sidequest: dict[str, Any]) -> str:
    """What `start` says of a sidequest; nothing may exist afterwards."""
    case = Case("", [LINE], {}, (), sidequests=[sidequest])
    answer = ask(project, "start", "f", "--script", set_up(project, case))
    assert (answer.code, ask(project, "list").stdout) == (1, "no runs yet\n")
    return answer.stderr


def test_what_a_branch_changed_is_looked_at_at_the_join(project: Project) -> None:
    script = {"b": writes("src/auth/login.py")}
    route = """
        f/a VERIFIED > fork:b+c (fast_path)
        f/b VERIFIED > fork:c (fast_path)
        f/c VERIFIED > advance:j (fast_path)
        f/j VERIFIED > detour:security-audit (deterministic)
          f/sq-security-audit-audit VERIFIED > terminate (deterministic)
    """
    forked = fan("all_complete", writer="code-implementer")
    checked(project, Case("", [forked], script, route, bundled_sidequests=True))


@pytest.mark.parametrize("strategy", ["all_verified", "all_complete"])
def test_a_branch_that_a_person_skips_keeps_the_join_waiting_no_longer(project: Project, strategy: str) -> None:
    status = {"all_verified": "UNVERIFIED", "all_complete": "BLOCKED"}[strategy]
    script = {"b": {"status": status}}
    run = drive(project, Case("", [fan(strategy)], script, ()))
    assert project.json("status", run)["state"] == "paused"
    project.swarm("skip", "b", "--run", run)
    assert project.json("status", run)["state"] == "succeeded"


@pytest.mark.parametrize("pattern", ["a\\", "!", "\\", "[z-a]", " ", "# all"])
def test_a_pattern_that_can_never_match_is_refused_before_there_is_a_run(project: Project, pattern: str) -> None:
    said = refusal(project, quest("mine", {"kind": "paths", "patterns": ["src/**", pattern]}))
    assert ".swarm/sidequests/mine.yaml:10: not a pattern of paths: " in said


def test_a_step_to_bounce_to_that_no_flow_has_is_refused(project: Project) -> None:
    said = refusal(project, quest("mine", fires_after("a"), returns={"mode": "bounce_to", "target": "nowhere"}))
    assert ".swarm/sidequests/mine.yaml:4: no flow has a step 'nowhere'" in said


def test_a_condition_that_could_go_on_for_ever_is_refused(project: Project) -> None:
    nested = "true"
    for name in "abcde":
        nested = f"[1, 2, 3].all({name}, {nested})"
    said = refusal(project, quest("mine", {"kind": "condition", "if": nested}))
    assert "5 of all, exists, map and filter: at most 4 in one expression" in said


def test_a_sidequest_does_not_call_for_itself_after_its_last_step(project: Project) -> None:
    mine = quest("mine", {"kind": "paths", "patterns": ["mig/**"]}, max_uses_per_run=3)
    script = {"a": writes("mig/1"), "sq-mine-look": writes("mig/2")}
    route = """
        f/a VERIFIED > detour:mine (deterministic)
          f/sq-mine-look VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
    """
    checked(project, Case("", [LINE], script, route, sidequests=[mine]))


def test_a_run_that_waits_for_approval_says_how_to_give_it(project: Project) -> None:
    nodes = [{"id": "look", "station": READER, "objective": "look"}]
    wanted = {**HALF, **chooses("advance:b", why_now=WHY, extend_graph=nodes, reasoning="because")}
    with_reader = flow("f", step("a"), step("b", READER))
    run = drive(project, Case("", [with_reader], {"a": wanted}, ()))
    assert "`resume --approve` executes it" in ask(project, "log", "--graph", run).stdout.replace("\n", " ")
    assert project.json("status", run)["state"] == "paused"


def test_a_trigger_that_cannot_be_evaluated_is_in_the_record(project: Project) -> None:
    mine = quest("mine", {"kind": "condition", "if": 'envelope.concerns[5] == "x"'})
    run = drive(project, Case("", [LINE], {}, (), sidequests=[mine]))
    assert "index out of bounds: 5" in ask(project, "show", "a", "--routing", "--run", run).stdout


def test_what_a_person_edits_beside_a_fork_is_kept(project: Project) -> None:
    edit = {"b": {"run": [unseen_line('echo mine > "$RUN_BASE/../../../mine.txt"')]}}
    run = drive(project, Case("", [fan("all_complete", writer=CRITIC)], edit, ()))
    refs = project.git("for-each-ref", "--format=%(refname)", f"refs/swarm/{run}/rollback").splitlines()
    kept = [ref for ref in refs if "mine.txt" in project.git("ls-tree", "--name-only", ref)]
    assert len(kept) == 1
    assert "mine.txt" not in project.git("ls-tree", "--name-only", f"shadow/{run}")


def test_a_sidequest_without_a_title_is_refused(project: Project) -> None:
    assert "title: " in refusal(project, {**quest("mine", fires_after("a")), "title": ""})


def test_two_files_with_one_id_are_refused(project: Project) -> None:
    text = (
        'id: mine\ntitle: t\ntriggers: [{kind: condition, if: "true"}]\nsteps: [{id: s, station: context-loader}]\n'
    )
    project.commit({f".swarm/sidequests/mine.{suffix}": text for suffix in ("yaml", "yml")})
    answer = ask(project, "flows", "validate")
    assert answer.code == 1
    assert ".swarm/sidequests/mine.yml: .swarm/sidequests/mine.yaml has the same id" in answer.stderr
