"""What becomes of a tool call that the policy denies: not carried out, the agent goes on, everybody can see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project
from tests.routed import AUTHOR, CRITIC, command, flow, step

FLOW_FILE = ".swarm/flows/one.yaml"


def one_step(project: Project, entry: dict[str, Any], station: str = AUTHOR) -> str:
    """A run of one step; its id."""
    project.commit({FLOW_FILE: yaml.safe_dump(flow("one", step("work", station)))})
    return project.start(yaml.safe_dump({"steps": {"work": entry}}), flow="one")


def calls(project: Project) -> list[tuple[str, bool, str]]:
    """Tool, whether it was blocked, and the rule."""
    receipt = project.json("show", "work")["receipt"]
    return [
        (call["tool_name"], call["blocked"], str(call["blocked_reason"]).split(":")[0])
        for call in receipt["tool_calls"]
    ]


@pytest.fixture
def remote(project: Project) -> Path:
    path = project.root.parent / "origin.git"
    project.git("init", "-q", "--bare", str(path))
    project.git("remote", "add", "origin", str(path))
    return path


def test_a_denied_command_is_not_carried_out_and_the_step_goes_on(project: Project, remote: Path) -> None:
    run = one_step(
        project, {"write": {"a.txt": "a"}, "run": ["git push origin HEAD:refs/heads/x && touch b.txt", "touch c.txt"]}
    )
    assert sorted(set(project.tree(f"shadow/{run}")) - {FLOW_FILE}) == [
        "README.md",
        "a.txt",
        "c.txt",
        "src/app.py",
    ]
    assert calls(project) == [("Write", False, "None"), ("Bash", True, "git-push"), ("Bash", False, "None")]
    assert project.git("for-each-ref", cwd=remote) == ""


def test_a_denied_call_stands_in_events_transcript_and_on_the_screen(project: Project) -> None:
    project.commit({FLOW_FILE: yaml.safe_dump(flow("one", step("work")))})
    script = project.script(yaml.safe_dump({"steps": {"work": {"run": ["git stash"]}}}))
    done = project.swarm("start", "one", "--script", script)
    assert "\n     denied Bash: git-stash: " in done.stderr
    told = [json.loads(line) for line in project.swarm("events", "--json").stdout.splitlines()]
    ends = [event["payload"] for event in told if event["kind"] == "tool_end"]
    assert [(end["success"], end["blocked"], end["blocked_reason"].split(":")[0]) for end in ends] == [
        (False, True, "git-stash")
    ]
    results = [line for line in project.json("transcript") if line.get("type") == "tool_result"]
    assert [(line["success"], line["output"].split(":")[0]) for line in results] == [(False, "denied (git-stash)")]
    shown = project.swarm("show", "work").stdout.splitlines()
    assert "  denied    Bash git stash" in shown


def test_a_critic_changes_no_code(project: Project) -> None:
    run = one_step(project, {"write": {"src/app.py": "mine\n", "RUN_BASE/one/notes.md": "x"}}, CRITIC)
    assert project.git("show", f"shadow/{run}:src/app.py") == "print('hello')"
    assert calls(project)[0][:2] == ("Write", True)


def test_a_command_step_whose_line_is_denied_fails_and_says_what_to_do(project: Project) -> None:
    project.commit({FLOW_FILE: yaml.safe_dump(flow("one", command("work", "git push --force")))})
    done = project.swarm("start", "one", code=4)
    assert "    denied Bash: git-push: " in done.stderr
    receipt = project.json("show", "work")["receipt"]
    assert (receipt["status"], receipt["tool_calls"][0]["blocked"]) == ("failed", True)
    said = "git push --force: sending commits anywhere is not allowed here; leave your work in the worktree; Deploy"
    assert done.stdout.splitlines()[1].startswith(f"because    one/work failed: denied (git-push): {said}")
    assert done.stdout.count("git push --force") == 1


def test_a_team_and_a_person_forbid_more(project: Project) -> None:
    project.commit(
        {".swarm/config.yaml": "policy:\n  deny: [npm publish, make release]\n  protected_paths: ['infra/**']\n"}
    )
    project.git("config", "swarm.policy.deny", "make clean")
    one_step(
        project,
        {
            "write": {"infra/main.tf": "x", "src/infra/main.tf": "x"},
            "run": ["make release V=1", "make clean || true", "true"],
        },
    )
    assert [blocked for _tool, blocked, _rule in calls(project)] == [True, False, True, True, False]


def test_what_loosens_is_the_team_s_alone(project: Project) -> None:
    project.git("config", "swarm.secrets.allowPaths", "[tests/**]")
    done = project.swarm("start", "build", code=1)
    assert "secrets.allow_paths: this would loosen what the team agreed on" in done.stderr


def test_artifacts_are_written_under_their_own_name_and_where_they_belong(project: Project) -> None:
    run = one_step(project, {"write": {"RUN_BASE/one/impl_changes_summary.md": "done\n"}})
    assert project.git("show", f"shadow/{run}:.swarm/runs/{run}/one/impl_changes_summary.md") == "done"
    call = project.json("show", "work")["receipt"]["tool_calls"][0]
    assert call["input"] == {"file_path": "RUN_BASE/one/impl_changes_summary.md"}
    assert call["executed_input"] == {"file_path": f"$WORKTREE/.swarm/runs/{run}/one/impl_changes_summary.md"}
