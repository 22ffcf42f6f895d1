"""`git swarm verify` as people and programs call it."""

from __future__ import annotations

import json

from tests.projects import ask
from tests.verify.forging import Run, only


def test_a_sound_run(run: Run) -> None:
    answer = ask(run.project, "verify")
    assert (answer.code, answer.stdout, answer.stderr) == (
        0,
        "9 commits verified, no changes found\n",
        f"hint: git swarm verify {run.run} --tip COMMIT   (compares it with a tip that you noted elsewhere)\n",
    )


def test_relative_to_a_trusted_tip(run: Run) -> None:
    commit = run.named()["small/write@2"]
    answer = ask(run.project, "verify", run.run[-6:], "--tip", commit[:12])
    assert (answer.code, answer.stderr) == (0, "")
    assert answer.stdout == (
        f"9 commits verified, no changes found\ncompared with {commit}; later commits are known only here\n"
    )


def test_a_tag_is_not_taken_for_the_short_id_that_it_is_named_as(run: Run) -> None:
    commit = run.named()["small/write@2"]
    run.project.git("tag", commit[:12], run.tip)
    answer = ask(run.project, "verify", "--tip", commit[:12])
    assert (answer.code, answer.stderr.splitlines()) == (
        2,
        [
            f"git-swarm: {commit[:12]} is the name of a branch or tag here, of {run.tip[:12]}",
            "hint: git swarm verify --tip WHOLE-ID",
        ],
    )
    assert ask(run.project, "verify", "--tip", commit).code == 0


def test_findings_are_one_line_each_and_end_with_what_to_type(run: Run) -> None:
    tip = run.tip
    path = "small/receipts/write-code-implementer.json"
    run.rewrite(only("small/write@1", lambda forged: forged.change(path, b'"total": 12', b'"total": 13')), whole=True)
    answer = ask(run.project, "verify", "--tip", tip)
    commit = run.named()["small/write@1"]
    assert answer.code == 1
    assert answer.stdout.splitlines() == [
        f"{commit[:8]} small/write@1 trailers: {path}: Swarm-Tokens says 12, the file says 13",
        f"{commit[:8]} small/write@1 events: small/events/write@1.jsonl: step_end says tokens 12, the files say 13",
        f"{tip[:8]} - chain: the trusted tip is not on the branch",
    ]
    told = f"git-swarm: 3 findings in 9 commits of {run.run}\n"
    assert answer.stderr == f"{told}hint: git show --stat {commit[:12]}\n"


def test_as_one_json_document(run: Run) -> None:
    run.project.git("update-ref", "-d", run.layout.events_notes)
    answer = ask(run.project, "verify", "--json", "--tip", run.tip)
    found = json.loads(answer.stdout)
    assert (answer.code, answer.stderr) == (0, "")
    checks = found.pop("checks")
    assert list(checks) == [
        "objects", "chain", "schemas", "trailers", "events", "numbers", "notes", "paths", "forks", "approval",
    ]  # fmt: skip
    assert found == {
        "run_id": run.run,
        "tip": run.tip,
        "trusted": run.tip,
        "commits": 9,
        "findings": [
            {
                "commit": None,
                "step": None,
                "check": "notes",
                "path": None,
                "message": f"{run.layout.events_notes} is missing: the run's notes cannot be compared",
                "severity": "warning",
            }
        ],
    }


def test_warnings_alone_are_no_failure(run: Run) -> None:
    run.project.git("update-ref", "-d", run.layout.events_notes)
    answer = ask(run.project, "verify")
    missing = f"{run.layout.events_notes} is missing: the run's notes cannot be compared"
    assert (answer.code, answer.stdout) == (
        0,
        f"- - warning notes: {missing}\n9 commits verified, no changes found, 1 warning\n",
    )


def test_damage_is_explained_by_git(run: Run) -> None:
    blob = run.project.git("rev-parse", f"{run.branch}:{run.layout.spec}")
    (run.project.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    answer = ask(run.project, "verify")
    assert answer.code == 1
    assert answer.stderr.endswith("hint: git fsck --full   (says what is damaged or missing)\n")


def test_a_run_that_is_not_there(run: Run) -> None:
    answer = ask(run.project, "verify", "nothing")
    assert (answer.code, answer.stderr) == (1, "git-swarm: no run matches 'nothing'\nhint: git swarm list\n")
