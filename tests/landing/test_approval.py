"""What an approval is: a commit of the run about the code that it has now."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project
from tests.landing.common import TWO_STEPS, WRITES, Run, code_of, hook, make_run, ready, refusal, tidy, with_flow
from tests.projects import ask, only_run
from tests.unseen import unseen_line


def approval(run: Run) -> str | None:
    found = run.project.git("for-each-ref", "--format=%(objectname)", f"refs/swarm/{run.id}/approval")
    return found or None


def test_it_is_a_commit_of_the_run_about_its_parent_and_that_ones_code(project: Project) -> None:
    run = ready(project)
    before = run.tip
    said = run.approve()
    commit = approval(run)
    assert commit is not None
    found = run.trailers(commit)
    assert project.git("rev-parse", f"{commit}^", f"shadow/{run.id}~1").split() == [before, commit]
    assert found["Swarm-Approves"].split()[0] == before
    approved = found["Swarm-Approves"].split()[1]
    assert project.tree(approved) == project.tree(before) != project.tree("main")
    assert project.git("ls-tree", "-r", "--name-only", approved, ".swarm/runs") == ""
    assert {name: found[name] for name in ("Swarm-Agent", "Swarm-Engine", "Swarm-Step", "Swarm-By")} == {
        "Swarm-Agent": "human",
        "Swarm-Engine": "kernel/local",
        "Swarm-Step": "approve",
        "Swarm-By": "command",
    }
    assert said.stdout == (
        f"{run.id} approved\n"
        f"changes    2 files, +2 -1 since {run.head()[:12]}\n"
        "tests      no tests have run on this code\n"
        f"code       {approved} in {before[:12]}\n"
        "note       a stub or a script did this work, not a model\n"
        f"next       git swarm land {run.id}\n"
    )
    tidy(run)


def test_a_finished_run_stays_finished_and_a_paused_one_paused(project: Project) -> None:
    finished = ready(project)
    finished.approve()
    paused = make_run(project, {"make": {"status": "BLOCKED", "write": WRITES, "blockers": ["why?"]}}, code=5)
    paused.approve()
    assert (finished.status()["state"], paused.status()["state"]) == ("succeeded", "paused")
    assert ask(project, "resume", finished.id).code == 0
    assert finished.steps() == [("make@1", "VERIFIED"), ("approve@1", "VERIFIED")]


def test_a_paused_run_goes_on_behind_it_as_it_would_have(project: Project) -> None:
    blocked = {"status": "BLOCKED", "write": WRITES, "blockers": ["why?"]}
    run = make_run(with_flow(project, TWO_STEPS), {"make": [blocked, {"status": "VERIFIED"}]}, code=5)
    run.approve()
    assert ask(project, "resume", run.id).code == 0
    assert run.steps() == [
        ("make@1", "BLOCKED"),
        ("approve@1", "VERIFIED"),
        ("make@2", "VERIFIED"),
        ("more@1", "VERIFIED"),
    ]


def test_a_stopped_run_goes_on_behind_it_at_its_next_step(project: Project) -> None:
    run = make_run(with_flow(project, TWO_STEPS), None, "--until", "make")
    run.approve()
    assert run.status()["state"] == "stopped"
    assert ask(project, "resume", run.id).code == 0
    assert run.steps() == [("make@1", "VERIFIED"), ("approve@1", "VERIFIED"), ("more@1", "VERIFIED")]


def test_a_step_that_was_cut_off_still_waits_behind_it(project: Project) -> None:
    """`stop --now` leaves work in the worktree that the next `resume` goes on from."""
    partial = {"run": [unseen_line("echo half > half.txt; kill -TERM $PPID; sleep 60")]}
    script = project.script(json.dumps({"steps": {"make": {"write": WRITES}, "more": [partial]}}))
    with_flow(project, TWO_STEPS).swarm_process("start", "mini", "--allow-stub", "--script", script, code=5)
    run = Run(project, only_run(project))
    run.approve()
    folder = project.worktree(run.id)
    assert (run.status()["state"], run.status()["next_step"]) == ("paused", "more")
    assert not (folder / "half.txt").exists()
    script = project.git("show", f"shadow/{run.id}:.swarm/runs/{run.id}/mini/handoff_partial.json")
    assert '"end": 2' in script


def test_its_commit_takes_nothing_that_a_step_left_that_was_cut_off(project: Project) -> None:
    """Ignored by rules that go with that step's work, the file stays."""
    line = unseen_line("echo left.txt > .gitignore; echo mine > left.txt; kill -TERM $PPID; sleep 60")
    script = project.script(json.dumps({"steps": {"make": {"write": WRITES}, "more": [{"run": [line]}]}}))
    with_flow(project, TWO_STEPS).swarm_process("start", "mini", "--allow-stub", "--script", script, code=5)
    run = Run(project, only_run(project))
    run.approve()
    assert (project.worktree(run.id) / "left.txt").exists()
    assert code_of(project, run.tip) == code_of(project, run.approved)


def test_approving_twice_changes_nothing(project: Project) -> None:
    run = ready(project)
    run.approve()
    before = run.tip
    said = run.approve()
    assert said.stdout.splitlines()[0] == f"{run.id} was approved already: its code is the same"
    assert run.tip == before


def test_a_rejection_takes_an_approval_back_and_an_approval_a_rejection(project: Project) -> None:
    run = ready(project)
    run.approve()
    run.approve("--reject", "-m", "too clever")
    rejected = run.status()
    assert (approval(run), rejected["approved"]) == (None, None)
    reason, _files, _hint = refusal(run.land(code=1))
    assert reason == f"{run.id} cannot land: it was rejected"
    run.approve("-m", "on second thought")
    again = approval(run)
    assert run.status()["approved"] == {"commit": again, "by": "human", "valid": True}
    assert run.steps()[1:] == [("approve@1", "VERIFIED"), ("approve@2", "BLOCKED"), ("approve@3", "VERIFIED")]


def test_a_rejection_needs_a_reason(project: Project) -> None:
    answer = ready(project).approve("--reject", code=2)
    assert answer.stderr == "git-swarm: --reject needs a reason\nhint: git swarm approve --reject -m 'why'\n"


def test_code_after_it_voids_it_and_evidence_after_it_does_not(project: Project) -> None:
    steps = {"make": {"write": WRITES}, "more": [{"summary": "looked"}]}
    run = make_run(with_flow(project, TWO_STEPS), steps, "--until", "make")
    run.approve()
    first = approval(run)
    assert ask(project, "resume", run.id).code == 0
    assert run.status()["approved"] == {"commit": first, "by": "human", "valid": True}
    worked = make_run(project, {"make": {"write": WRITES}, "more": {"write": {"x": "1\n"}}}, "--until", "make")
    worked.approve()
    second = approval(worked)
    assert ask(project, "resume", worked.id).code == 0
    assert worked.status()["approved"] == {"commit": second, "by": "human", "valid": False}
    reason, _files, hint = refusal(worked.land(code=1))
    assert (reason, hint) == (
        f"{worked.id} cannot land: its code has changed since it was approved",
        f"git swarm approve {worked.id}",
    )
    worked.approve()
    assert worked.status()["approved"]["valid"]
    worked.land()


def test_a_rollback_below_it_voids_it_and_its_undo_brings_it_back(project: Project) -> None:
    run = ready(project)
    run.approve()
    commit = approval(run)
    assert ask(project, "rollback", "make", "--run", run.id).code == 0
    assert (approval(run), run.status()["approved"]) == (None, None)
    assert ask(project, "rollback", "--undo", "--run", run.id).code == 0
    assert approval(run) == commit


@pytest.mark.parametrize("wrong", ["deleted", "moved"])
def test_its_ref_is_made_again_from_the_chain(project: Project, wrong: str) -> None:
    run = ready(project)
    run.approve()
    commit = approval(run)
    name = f"refs/swarm/{run.id}/approval"
    project.git(*(("update-ref", "-d", name) if wrong == "deleted" else ("update-ref", name, "main")))
    run.land("--dry-run")
    assert approval(run) == commit


def test_a_fork_has_no_approval_of_its_own(project: Project) -> None:
    run = make_run(with_flow(project, TWO_STEPS), {"make": {"write": WRITES}}, "--until", "make")
    run.approve()
    assert ask(project, "fork", "approve", "--run", run.id).code == 0
    fork = Run(project, str(project.json("list")[0]["run_id"]))
    assert fork.id != run.id
    assert fork.status()["approved"] is None


def test_edits_that_no_step_committed_are_not_approved(project: Project) -> None:
    run = ready(project)
    folder = project.worktree(run.id)
    (folder / "src/mine.py").write_text("mine\n", encoding="utf-8")
    before = run.tip
    reason, files, hint = refusal(run.approve(code=1))
    assert (reason, files) == (
        f"{folder} has uncommitted edits: they are not part of the run",
        ["src/mine.py"],
    )
    assert hint == f"git swarm resume {run.id} --adopt"
    assert (run.tip, (folder / "src/mine.py").read_text(encoding="utf-8")) == (before, "mine\n")


def test_a_failed_run_is_not_approved(project: Project) -> None:
    run = make_run(with_flow(project), {"make": {"fail": "model overloaded"}}, code=4)
    reason, _files, hint = refusal(run.approve(code=1))
    assert (reason, hint) == (
        f"{run.id} failed: resume it, or roll it back, before you approve",
        f"git swarm resume {run.id}",
    )


@pytest.mark.parametrize(
    ("check", "words", "said"),
    [
        ("true", [], "tests passed (mini/test)"),
        ("false", ["--accept", "tests_red@*=known"], "tests failed (mini/test)"),
    ],
)
def test_it_says_what_the_tests_said(project: Project, check: str, words: list[str], said: str) -> None:
    flow = TWO_STEPS.replace("id: more, station: maker", "id: test, engine: command, command: test")
    run = make_run(with_flow(project, flow, f"commands: {{test: '{check}'}}\n"), code=4 if words else 0)
    assert f"tests      {said}" in run.approve(*words).stdout.splitlines()


def test_a_command_that_ends_well_is_no_test_run(project: Project) -> None:
    flow = TWO_STEPS.replace("id: more, station: maker", "id: run_tests, engine: command, command: {run: 'true'}")
    run = make_run(with_flow(project, flow))
    assert project.json("list")[0]["tests"] is None
    assert run.approve().stdout.splitlines()[2] == "tests      no tests have run on this code"


@pytest.mark.parametrize("command", ["'true'", "{run: 'true'}", "test"])
def test_one_with_a_report_or_the_command_of_the_tests_is(project: Project, command: str) -> None:
    said = "echo '=== 3 passed in 0.01s ==='"
    run_it = command.replace("'true'", f'"{said}"') if "run" in command else "test" if command == "test" else "lint"
    flow = TWO_STEPS.replace("id: more, station: maker", f"id: more, engine: command, command: {run_it}")
    run = make_run(with_flow(project, flow, f'commands: {{test: "{said}", lint: "{said}"}}\n'))
    assert project.json("list")[0]["tests"]["step"] == "mini/more"
    assert run.approve().stdout.splitlines()[2] == "tests      tests passed (mini/more)"


def test_it_says_that_the_run_is_stopped_and_its_tests_were_not_executed(project: Project) -> None:
    flow = TWO_STEPS.replace("id: more, station: maker", "id: test, engine: command, command: test")
    run = make_run(with_flow(project, flow, "commands: {test: 'true'}\n"), None, "--until", "make")
    said = run.approve("--accept", "tests_not_run@mini/tests=tried by hand").stdout.splitlines()
    assert said[:5] == [
        "state      the run is stopped: it is not complete",
        "accepted   tests_not_run@mini/tests: the run is stopped, and no test of mini ran on its code",
        f"{run.id} approved",
        f"changes    2 files, +2 -1 since {run.head()[:12]}",
        "tests      no tests have run on this code: mini/test was not executed",
    ]


def test_it_names_critics_that_were_not_content(project: Project) -> None:
    loop = "routing: {kind: microloop, loop_target: make, max_iterations: 2}"
    flow = f"id: mini\nsteps:\n  - {{id: make, station: maker}}\n  - {{id: look, station: code-critic, {loop}}}\n"
    doubt = {"status": "UNVERIFIED", "can_further_iteration_help": "yes", "concerns": ["CC-1: no case", "CC-2: slow"]}
    run = make_run(with_flow(project, flow), {"make": {"write": WRITES}, "look": doubt})
    assert run.approve().stdout.splitlines()[:2] == [
        "open       critic_open@mini/look: UNVERIFIED (max_iterations_reached:2): CC-1: no case; CC-2: slow",
        f"{run.id} approved",
    ]


def test_it_names_no_critic_that_was_content_at_last(project: Project) -> None:
    loop = "routing: {kind: microloop, loop_target: make}"
    flow = f"id: mini\nsteps:\n  - {{id: make, station: maker}}\n  - {{id: look, station: code-critic, {loop}}}\n"
    doubt = {"status": "UNVERIFIED", "can_further_iteration_help": "yes", "concerns": ["CC-1: no case"]}
    run = make_run(with_flow(project, flow), {"make": {"write": WRITES}, "look": [doubt, {}]})
    assert run.approve().stdout.splitlines()[0] == f"{run.id} approved"


def test_it_says_that_the_last_step_was_blocked_and_what_was_left_out(project: Project) -> None:
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
    make = {"write": WRITES | {"src/key.py": f"KEY = '{token}'\n"}, "summary": "made it"}
    run = make_run(with_flow(project), {"make": make}, code=5)
    said = run.approve().stdout.splitlines()
    assert said[0] == "state      the run is paused: it is not complete"
    assert said[1].startswith("blocked    mini/make: ")
    assert said[2:4] == ["left out   src/key.py: a secret (github-token)", f"{run.id} approved"]


def test_a_rehearsal_is_not_approved(project: Project) -> None:
    run = make_run(with_flow(project), allow=False)
    before = run.world()
    said = run.approve(code=1).stderr.splitlines()
    assert said[0].startswith(f"git-swarm: {run.id} is a rehearsal: a stub or a script did the work, not a model")
    assert said[1].startswith("hint: git swarm start FLOW --mode cli")
    assert run.world() == before
    run.approve("--reject", "-m", "a rehearsal")


def test_only_a_flow_that_asks_models_is_called_a_stub(project: Project) -> None:
    flow = "id: mini\ntitle: Mini\nsteps:\n  - {id: make, engine: command, command: {run: 'echo 1 > new.txt'}}\n"
    with_flow(project, flow)
    answer = ask(project, "start", "mini", "--mode", "stub")
    assert (answer.code, "STUB MODE" in answer.stderr) == (0, False)
    run = Run(project, str(project.json("list")[0]["run_id"]))
    run.landed()
    assert project.git("show", "main:new.txt") == "1"


def test_the_hints_lead_from_success_to_home(project: Project) -> None:
    run = ready(project)
    hints = [run.status()["hint"]]
    run.approve()
    hints.append(run.status()["hint"])
    run.land()
    hints.append(run.status()["hint"])
    assert hints == [f"git swarm approve {run.id}", f"git swarm land {run.id}", ""]


def test_a_run_that_changes_nothing_is_not_sent_to_land(project: Project) -> None:
    run = ready(project, {"make": {"summary": "looked around"}})
    said = run.approve().stdout.splitlines()
    assert [line for line in said if line.startswith("go on")] == []
    assert run.status()["hint"] == ""


def test_after_a_conflict_it_names_the_flow_of_the_run(project: Project) -> None:
    run = ready(project, {"make": {"write": {"README.md": "# mine\n"}}})
    run.approve()
    project.commit({"README.md": "# yours\n"}, "meanwhile")
    _reason, _files, hint = refusal(run.land(code=1))
    assert hint == "git swarm start mini -m '…'"
    found = run.status()
    said = f"main and {run.id} conflict in 1 file: the approval is void"
    assert found["conflict"] == {"summary": said, "files": ["README.md"]}
    assert found["hint"] == "git swarm start mini -m '…'   (on the current target)"
    assert "  conflict  main and " in ask(project, "status", run.id).stdout
    assert refusal(run.approve(code=1)) == (
        f"{run.id} cannot land: it conflicts with main",
        ["README.md"],
        hint,
    )
    make_run(project, {"make": {"write": {"README.md": "# both\n"}}}).landed()


def test_code_that_changed_since_has_met_no_conflict(project: Project) -> None:
    run = ready(project, {"make": {"write": {"README.md": "# mine\n"}}})
    run.approve()
    project.commit({"README.md": "# yours\n"}, "meanwhile")
    run.land(code=1)
    (project.worktree(run.id) / "README.md").write_text("# yours\n", encoding="utf-8")
    assert ask(project, "resume", run.id, "--adopt").code == 0
    assert run.status()["conflict"] is None


def test_status_says_that_a_run_was_rejected(project: Project) -> None:
    run = ready(project)
    run.approve("--reject", "-m", "too clever")
    commit = run.status()["rejected"]["commit"]
    assert commit == project.git("rev-parse", f"shadow/{run.id}^")
    assert run.status()["rejected"] == {"commit": commit, "by": "human", "valid": True}
    shown = ask(project, "status", run.id).stdout.splitlines()
    assert f"  rejected  by human in {commit[:12]}" in shown
    assert run.status()["hint"] == f"git swarm diff {run.id}"
    run.approve()
    assert run.status()["rejected"] is None


def test_status_says_it_to_people(project: Project) -> None:
    run = ready(project)
    landed = run.landed()
    shown = ask(project, "status", run.id).stdout.splitlines()
    commit = approval(run)
    assert commit is not None
    assert [line for line in shown if "by human" in line or " as " in line] == [
        f"  approved  by human in {commit[:12]}",
        f"  landed    on main as {landed[:12]}",
    ]


def test_a_conflict_that_is_gone_is_in_nobody_s_way(project: Project) -> None:
    run = ready(project, {"make": {"write": {"README.md": "# mine\n"}}})
    before = project.git("show", "main:README.md") + "\n"
    run.approve()
    project.commit({"README.md": "# yours\n"}, "meanwhile")
    run.land(code=1)
    project.commit({"README.md": before}, "as it was")
    run.landed()
    assert (run.status()["conflict"], run.status()["hint"]) == (None, "")


def test_what_landed_stays_when_the_run_is_rolled_back(project: Project) -> None:
    run = make_run(with_flow(project, TWO_STEPS), {"make": {"write": {"a.txt": "a\n"}}})
    landed = run.landed()
    said = ask(project, "rollback", "make", "--run", run.id).stdout
    assert f"landed     on main as {landed[:12]}: that stays there" in said.splitlines()
    assert run.status()["landed"] == {"commit": landed, "target": "main"}
    project.swarm("resume", run.id)
    assert [line for line in run.approve().stdout.splitlines() if line.startswith("next")] == []
    found = run.status()
    assert (found["hint"], found["landed"]) == ("", {"commit": landed, "target": "main"})


def test_a_run_of_a_commit_without_a_branch_is_told_where_to_land(project: Project) -> None:
    with_flow(project)
    project.commit({"README.md": "# newer\n"}, "newer")
    run = make_run(project, {"make": {"write": {"a.txt": "a\n"}}}, "--base", "HEAD~1")
    said = run.approve().stdout
    assert f"git swarm land {run.id} --target main" in said
    run.land("--target", "main")
    assert run.status()["hint"] == ""


def test_status_names_edits_that_approve_would_refuse(project: Project) -> None:
    run = ready(project)
    place = project.worktree(run.id)
    project.git("config", "status.showUntrackedFiles", "no")
    (place / "src/app.py").write_text("print('by hand')\n", encoding="utf-8")
    (place / "more.txt").write_text("more\n", encoding="utf-8")

    said = ask(project, "status", run.id).stdout

    assert "  edits     not committed: src/app.py, more.txt\n" in said
    hint = run.status()["hint"]
    assert hint == f"git swarm resume {run.id} --adopt   (makes the edits a step of yours)"
    ask(project, *hint.partition("   ")[0].split()[2:])
    assert run.status()["hint"] == f"git swarm approve {run.id}"


def test_status_says_why_it_could_not_land(project: Project) -> None:
    run = ready(project)
    run.approve()
    project.commit({"elsewhere.txt": "1\n"}, "meanwhile")
    file = hook(project, "pre-commit", ["echo no; exit 1"])
    run.land(code=1)

    found = run.status()

    assert found["last_error"] == "your commit hooks refused the commit"
    assert (
        found["hint"] == f"git swarm show land --run {run.id}   (why it did not land; then: git swarm land {run.id})"
    )
    ask(project, "show", "land", "--run", run.id)
    file.unlink()
    run.land()
    assert (run.status()["last_error"], run.status()["hint"]) == (None, "")
