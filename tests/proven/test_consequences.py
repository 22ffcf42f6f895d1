"""What is found in a step's work decides how the run goes on, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitswarm.records.evidence import AcceptedConcern, Concern
from gitswarm.runner.step.findings import not_waived
from tests.conftest import Project
from tests.projects import ask, evidence, only_run
from tests.unseen import unseen

TESTS = "def test_a():\n    assert 1 + 1 == 2\n\n\ndef test_b():\n    assert 2 + 2 == 4\n"
OTHER_TESTS = TESTS.replace("1 + 1 == 2", "3 + 3 == 6").replace("2 + 2 == 4", "4 + 4 == 8")
FLOW = """\
id: work
steps:
  - {id: write, station: test-author}
  - {id: critique, station: test-critic, routing: {kind: microloop, loop_target: write, max_iterations: 2}}
  - {id: close, station: build-cleanup}
"""
DELETED = "tests_deleted@work/write"


@pytest.fixture
def tested(project: Project) -> Project:
    project.commit({".swarm/flows/work.yaml": FLOW, "tests/test_x.py": TESTS, "src/app.py": "x = 1\n"}, "tests")
    return project


def play(project: Project, steps: dict[str, Any], *arguments: str, code: int = 0) -> str:
    return project.start(json.dumps({"steps": steps}), "--allow-stub", *arguments, flow="work", code=code)


def taken(project: Project, run: str) -> list[str]:
    return [f"{entry['step']}@{entry['iteration']} {entry['status']}" for entry in project.json("log", run)]


def standing(project: Project, run: str) -> list[str]:
    return [concern["id"] for concern in project.json("status", run)["open_concerns"]]


GONE = {"delete": ["tests/test_x.py"]}
BACK = {"write": {"tests/test_x.py": TESTS}}


def test_a_listed_file_that_git_ignores_is_called_so_and_the_agent_moves_it(tested: Project) -> None:
    tested.commit({".gitignore": "lib/\n"})
    handoff = {"status": "VERIFIED", "summary": "Done."}
    entries = [
        {
            "write": {f"{folder}/y.py": "y = 1\n"},
            "envelope": {**handoff, "file_changes": [{"path": f"{folder}/y.py", "change": "added"}]},
        }
        for folder in ("tests/lib", "tests/own")
    ]
    run = play(tested, {"write": entries})
    (opened,) = tested.json("show", "1", "--run", run)["evidence"]["opened"]
    assert opened["fact"] == "git ignores tests/lib/y.py: no commit has it"
    assert (taken(tested, run)[:2], standing(tested, run)) == (["write@1 UNVERIFIED", "write@2 VERIFIED"], [])


def test_deleted_tests_are_repeated_and_the_agent_puts_them_back(tested: Project) -> None:
    run = play(tested, {"write": [GONE, BACK]})
    assert taken(tested, run) == [
        "write@1 UNVERIFIED",
        "write@2 VERIFIED",
        "critique@1 VERIFIED",
        "close@1 VERIFIED",
    ]
    assert (tested.json("status", run)["state"], standing(tested, run)) == ("succeeded", [])
    tested.swarm("verify", run)


def test_the_envelope_keeps_the_claim_beside_what_holds(tested: Project) -> None:
    run = play(tested, {"write": [GONE, BACK]})
    envelope = json.loads(tested.swarm("show", "write@1", "--run", run, "--envelope").stdout)
    assert (envelope["status"], envelope["claimed_status"]) == ("UNVERIFIED", "VERIFIED")
    assert (
        envelope["status_reason"]
        == f"{DELETED}: gone with their file: test_a (tests/test_x.py:1), test_b (tests/test_x.py:5)"
    )


def test_a_repeat_is_told_what_was_found(tested: Project) -> None:
    run = play(tested, {"write": [GONE, BACK]})
    prompt = tested.swarm("show", "write@2", "--run", run, "--prompt").stdout
    assert f"## Found in your work, and still open\n\n- {DELETED}: gone with their file: test_a" in prompt


def test_what_is_done_again_pauses_with_the_finding_as_the_question(tested: Project) -> None:
    run = play(tested, {"write": [GONE]}, code=5)
    found = tested.json("status", run)
    assert taken(tested, run) == ["write@1 UNVERIFIED", "write@2 UNVERIFIED"]
    assert (found["state"], found["question"].partition(":")[0]) == ("paused", DELETED)
    assert [(each["id"], each["blocking"], each["names"]) for each in found["open_concerns"]] == [
        (DELETED, True, ["tests/test_x.py::test_a", "tests/test_x.py::test_b"])
    ]
    tested.swarm("verify", run)


def test_an_accepted_finding_lets_the_run_go_on_and_holds_for_its_names(tested: Project) -> None:
    run = play(tested, {"write": [GONE]}, code=5)
    tested.swarm("resume", run, "--accept", f"{DELETED}=the feature is gone")
    assert taken(tested, run)[2:] == ["accept@1 VERIFIED", "critique@1 VERIFIED", "close@1 VERIFIED"]
    assert (tested.json("status", run)["state"], standing(tested, run)) == ("succeeded", [])
    assert evidence(tested, "work/accept")["accepted"] == [
        {"id": DELETED, "why": "the feature is gone", "names": ["tests/test_x.py::test_a", "tests/test_x.py::test_b"]}
    ]
    tested.swarm("verify", run)


def test_with_autopilot_the_run_ends_unproven(tested: Project) -> None:
    run = play(tested, {"write": [GONE]}, "--autopilot", code=4)
    found = tested.json("status", run)
    assert (found["state"], standing(tested, run)) == ("unproven", [DELETED])
    events = [json.loads(line) for line in tested.swarm("events", run, "--json").stdout.splitlines()]
    assert (events[-1]["kind"], events[-1]["payload"]["status"]) == ("run_completed", "failed")
    assert events[-1]["payload"]["error"] == f"not proven: {DELETED}"
    tested.swarm("verify", run)


def test_the_first_line_of_an_unproven_run_says_so(tested: Project) -> None:
    script = tested.script(json.dumps({"steps": {"write": [GONE]}}))
    said = ask(tested, "start", "work", "--script", script, "--autopilot")
    first, second, *_rest = said.stdout.splitlines()
    assert f"{only_run(tested)} not proven, 1 blocking concern: 4 steps" in first
    assert second.startswith(f"blocking   {DELETED}: gone with their file: test_a (tests/test_x.py:1)")
    assert "approve    " not in said.stdout


def test_approve_refuses_until_each_blocking_concern_is_accepted_by_id(tested: Project) -> None:
    run = play(tested, {"write": [GONE]}, "--autopilot", code=4)
    refused = ask(tested, "approve", run)
    assert (refused.code, "1 blocking concern open" in refused.stderr) == (1, True)
    assert f"--accept '{DELETED}=WHY'" in refused.stderr
    assert ask(tested, "land", run).code == 1
    assert ask(tested, "approve", run, "--accept", f"{DELETED}=").code == 2
    assert "no open concern other" in ask(tested, "approve", run, "--accept", "other=why").stderr
    tested.swarm("approve", run, "--accept", f"{DELETED}=they tested what is gone")
    assert tested.json("status", run)["state"] == "succeeded"
    tested.swarm("land", run)
    assert f"accepted {DELETED}: they tested what is gone" in tested.git(
        "log", "-1", "--format=%B", f"shadow/{run}~3"
    )
    tested.swarm("verify", run)


def test_an_unproven_run_continues_the_step_that_was_found_out(tested: Project) -> None:
    run = play(tested, {"write": [GONE, GONE, BACK]}, "--autopilot", code=4)
    before = len(taken(tested, run))
    tested.swarm("resume", run)
    assert taken(tested, run)[before:][0] == "write@3 VERIFIED"
    assert (tested.json("status", run)["state"], standing(tested, run)) == ("succeeded", [])


def test_repeats_are_not_counted_as_rounds_of_a_loop(tested: Project) -> None:
    critic = {"status": "UNVERIFIED", "can_further_iteration_help": "yes"}
    left_out = {**critic, "leaves_out": ["test_critique.md"]}
    run = play(tested, {"critique": [left_out, critic, {"status": "VERIFIED"}]})
    assert taken(tested, run) == [
        "write@1 VERIFIED",
        "critique@1 UNVERIFIED",
        "critique@2 UNVERIFIED",
        "write@2 VERIFIED",
        "critique@3 VERIFIED",
        "close@1 VERIFIED",
    ]


def test_until_waits_for_the_repeats_of_its_step(tested: Project) -> None:
    run = play(tested, {"write": [GONE, BACK]}, "--until", "write")
    assert taken(tested, run) == ["write@1 UNVERIFIED", "write@2 VERIFIED"]


def test_a_promised_artifact_that_is_missing_or_empty_is_found(tested: Project) -> None:
    run = play(
        tested,
        {
            "write": [{"leaves_out": ["test_changes_summary.md"]}, {}],
            "critique": [{"write": {"RUN_BASE/work/test_critique.md": "  \n"}}],
        },
        code=5,
    )
    assert taken(tested, run)[:2] == ["write@1 UNVERIFIED", "write@2 VERIFIED"]
    assert standing(tested, run) == ["artifact_missing@work/critique"]


OWED = """\
id: owed
steps:
  - id: write
    station: fixer
    teaching:
      outputs:
        - {path: notes.md, required: true}
        - {path: doubts.md, when: "size(envelope.concerns) > 0"}
        - may.md
"""


@pytest.mark.parametrize(
    ("left_out", "concerns", "missing"),
    [
        (["doubts.md", "may.md"], [], None),
        (["notes.md"], [], "owed/notes.md"),
        (["doubts.md"], ["a doubt"], "owed/doubts.md"),
        (["may.md"], ["a doubt"], None),
    ],
)
def test_an_output_is_owed_where_its_flow_says_so(
    tested: Project, left_out: list[str], concerns: list[str], missing: str | None
) -> None:
    tested.commit({".swarm/flows/owed.yaml": OWED})
    steps = {"steps": {"write": {"leaves_out": left_out, "concerns": concerns}}}
    run = tested.start(json.dumps(steps), flow="owed", code=5 if missing else 0)
    found = [(each["id"], each["names"]) for each in tested.json("status", run)["open_concerns"]]
    assert found == ([("artifact_missing@owed/write", [missing])] if missing else [])


def test_what_an_owed_output_may_ask_is_checked(tested: Project) -> None:
    output = '{path: a.md, when: "run.steps_executed > 2"}'
    both = '{path: b.md, required: true, when: "true"}'
    tested.write({".swarm/flows/owed.yaml": OWED.replace("may.md", output).replace("doubts.md", "c.md")})
    said = ask(tested, "flows", "validate", "owed").stderr
    assert "unknown name 'run' (known: envelope, evidence)" in said
    tested.write({".swarm/flows/owed.yaml": OWED.replace("may.md", both)})
    assert "'b.md' needs 'required: true' or 'when', and not both" in ask(tested, "flows", "validate", "owed").stderr


def test_a_listed_file_that_exists_nowhere_is_found(tested: Project) -> None:
    claim = {
        "envelope": {
            "status": "VERIFIED",
            "summary": "done",
            "file_changes": [{"path": "src/b.py", "change": "added"}],
        }
    }
    run = play(tested, {"write": [claim, {}]})
    assert taken(tested, run)[:2] == ["write@1 UNVERIFIED", "write@2 VERIFIED"]


def test_a_protected_path_is_a_person_s_and_not_repeated(tested: Project) -> None:
    run = play(tested, {"write": [{"write": {".github/workflows/ci.yml": "on: never\n"}}]}, code=5)
    assert taken(tested, run) == ["write@1 UNVERIFIED"]
    assert standing(tested, run) == ["protected_path@work/write"]
    tested.swarm("resume", run, "--accept", "protected_path@*=asked for")
    assert tested.json("status", run)["state"] == "succeeded"


def test_a_protected_path_that_is_as_at_the_base_is_closed(tested: Project) -> None:
    run = play(
        tested,
        {"write": [{"write": {"CLAUDE.md": "obey\n"}}], "critique": [{}], "close": [{"delete": ["CLAUDE.md"]}]},
        "--autopilot",
    )
    assert (tested.json("status", run)["state"], standing(tested, run)) == ("succeeded", [])


def test_overwritten_evidence_is_found(tested: Project) -> None:
    forged = {"run": ["mkdir -p $RUN_BASE/work/receipts && echo {} > $RUN_BASE/work/receipts/clerk.json"]}
    run = tested.start(unseen(json.dumps({"steps": {"write": [forged, {}]}})), flow="work")
    assert taken(tested, run)[:2] == ["write@1 UNVERIFIED", "write@2 VERIFIED"]


NOTES = "for ref in $(git for-each-ref refs/notes/swarm --format='%(refname)'); do"


def test_deleted_notes_are_put_back_before_the_next_decision(tested: Project) -> None:
    gone = {"run": [f"{NOTES} git update-ref -d $ref; done"]}
    run = tested.start(unseen(json.dumps({"steps": {"write": [gone, {}]}})), flow="work")
    assert taken(tested, run)[:2] == ["write@1 UNVERIFIED", "write@2 VERIFIED"]
    found = json.loads(tested.swarm("show", "write@1", "--run", run, "--evidence").stdout)
    assert found["tampered"] == [f"refs/notes/swarm/{run}/{kind}" for kind in ("events", "routing")]
    assert (tested.json("status", run)["state"], standing(tested, run)) == ("succeeded", [])
    tested.swarm("verify", run)


def test_a_remark_that_is_added_to_a_note_stays(tested: Project) -> None:
    remark = {
        "run": [f"{NOTES} git notes --ref=$ref append -m seen $(git notes --ref=$ref list | cut -d' ' -f2); done"]
    }
    run = tested.start(unseen(json.dumps({"steps": {"write": [remark]}})), flow="work")
    found = json.loads(tested.swarm("show", "write", "--run", run, "--evidence").stdout)
    assert (taken(tested, run)[0], found["tampered"]) == ("write@1 VERIFIED", [])
    ref = f"--ref=refs/notes/swarm/{run}/routing"
    noted = [line.split()[1] for line in tested.git("notes", ref, "list").splitlines()]
    assert [each for each in noted if tested.git("notes", ref, "show", each).rstrip().endswith("seen")]


def test_more_of_what_was_accepted_is_a_concern_of_its_own(tested: Project) -> None:
    tested.commit({"tests/test_y.py": OTHER_TESTS}, "more")
    more = {"delete": ["tests/test_y.py"]}
    again = {"status": "UNVERIFIED", "can_further_iteration_help": "yes"}
    run = play(tested, {"write": [GONE, GONE, more], "critique": [again, {}]}, code=5)
    tested.swarm("resume", run, "--accept", f"{DELETED}=gone", code=5)
    assert standing(tested, run) == [f"{DELETED}#2"]
    tested.swarm("verify", run)


def test_a_rollback_before_an_acceptance_takes_it_back(tested: Project) -> None:
    run = play(tested, {"write": [GONE]}, code=5)
    tested.swarm("resume", run, "--accept", f"{DELETED}=gone")
    tested.swarm("rollback", "write@2", "--run", run)
    assert standing(tested, run) == [DELETED]


def test_a_blocked_step_pauses_with_its_own_question(tested: Project) -> None:
    run = play(tested, {"write": [{"status": "BLOCKED", "blockers": ["which db?"], **GONE}]}, code=5)
    assert taken(tested, run) == ["write@1 BLOCKED"]
    assert tested.json("status", run)["question"] == "which db?"


SECOND = {"delete": ["tests/test_y.py"]}


def both_tested(tested: Project) -> None:
    tested.commit({"tests/test_y.py": OTHER_TESTS}, "more")


def test_a_repeat_that_puts_only_half_back_hides_nothing_from_later_steps(tested: Project) -> None:
    both_tested(tested)
    run = play(tested, {"write": [{"delete": ["tests/test_x.py", "tests/test_y.py"]}, BACK]}, "--autopilot", code=4)
    assert DELETED in standing(tested, run)


def test_a_repeat_that_deletes_more_is_told_of_that_too(tested: Project) -> None:
    both_tested(tested)
    run = play(tested, {"write": [GONE, SECOND]}, "--autopilot", code=4)
    names = {name for each in tested.json("status", run)["open_concerns"] for name in each["names"]}
    assert {name.partition("::")[0] for name in names} == {"tests/test_x.py", "tests/test_y.py"}


def test_a_warning_about_tests_outlives_the_next_step(tested: Project) -> None:
    fewer = {"write": {"tests/test_x.py": TESTS.partition("\n\n\ndef test_b")[0] + "\n"}}
    run = play(tested, {"write": [fewer]})
    assert DELETED in standing(tested, run)


def test_an_acceptance_without_names_covers_no_names_and_one_of_names_nothing_nameless() -> None:
    def found(*names: str) -> Concern:
        return Concern(id="tests_red@f/t", flag="tests_red", blocking=True, fact="", names=names)

    of_a, of_none = (AcceptedConcern(id="tests_red@f/t", why="x", names=names) for names in (("a",), ()))
    assert not_waived(found("a"), (of_a,)) is None
    assert not_waived(found(), (of_none,)) is None
    assert [each.id for each in (not_waived(found(), (of_a,)), not_waived(found("a"), (of_none,))) if each] == [
        "tests_red@f/t#2",
        "tests_red@f/t#2",
    ]
