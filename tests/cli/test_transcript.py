"""`transcript --follow`: what is said and done in the steps of a run, while they execute."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from gitswarm.cli.transcript import in_words, line_of
from gitswarm.records.event import EventKind, LoggedEvent
from tests.cli.gated import GATE, following, gated, open_gate, open_nobody_s_gate, read_until, running, start
from tests.conftest import Project
from tests.projects import ask, only_run

FLOW = """\
id: talk
steps:
  - {id: write, station: fixer}
  - {id: test, engine: command, command: {run: "true"}}
"""
FAN = """\
id: fan
steps:
  - {id: begin, station: fixer, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: code-critic}
  - {id: right, station: code-critic}
  - {id: both, station: fixer, routing: {kind: join, join_from: [left, right]}}
"""
WRITE: dict[str, Any] = {"run": ["echo one", GATE], "summary": "written"}
TEST: dict[str, Any] = {"run": [GATE]}


def plain(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "T", text)


def timeless(text: str) -> str:
    """Folded lines without their times."""
    return re.sub(r"^\+\S+ +", "+T ", text, flags=re.MULTILINE)


def lines_of(text: str) -> list[Any]:
    """JSON lines without their times."""
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        del line["timestamp"]
    return found


def used(step: str, command: str) -> dict[str, Any]:
    where = {"flow_key": "talk", "step_id": step, "iteration": 1}
    return {**where, "type": "tool_use", "tool": "Bash", "input": {"command": command}}


def returned(step: str, output: str) -> dict[str, Any]:
    where = {"flow_key": "talk", "step_id": step, "iteration": 1}
    return {**where, "type": "tool_result", "tool": "Bash", "success": True, "output": output}


def said(step: str, content: str) -> dict[str, Any]:
    return {"flow_key": "talk", "step_id": step, "iteration": 1, "role": "assistant", "content": content}


WRITTEN = [
    used("write", "echo one"),
    returned("write", "one\n"),
    used("write", GATE),
    returned("write", "open\n"),
    said("write", "written"),
]


def test_it_goes_on_into_the_following_step_until_the_run_ends(tmp_path: Path) -> None:
    project = gated(tmp_path, FLOW, {"write": WRITE, "test": TEST})
    with running(project, *start(project, "talk")) as run:
        read_until(run, GATE)
        with following(project, "--json") as follower:
            seen = read_until(follower, GATE)
            open_gate(project)
            seen += read_until(follower, GATE)
            open_gate(project)
            seen += follower.communicate(timeout=60)[0]
        assert run.wait(60) == 0
    tested = [used("test", GATE), returned("test", "open\n"), said("test", f"passed: {GATE}")]
    assert (follower.returncode, lines_of(seen)) == (0, [*WRITTEN, *tested])


def test_a_named_step_is_followed_to_its_end_and_no_further(tmp_path: Path) -> None:
    """Also when it is to be executed later; the run still waits in the next step when the follower has ended."""
    project = gated(tmp_path, FLOW, {"write": WRITE, "test": TEST})
    with running(project, *start(project, "talk")) as run:
        read_until(run, GATE)
        with following(project, "write", "--json") as write, following(project, "talk/test") as test:
            seen = read_until(write, GATE)
            assert read_until(test, "waiting", "stderr") == "waiting for talk/test\n"
            open_gate(project)
            seen += write.communicate(timeout=60)[0]
            assert run.poll() is None
            open_gate(project)
            tested = test.communicate(timeout=60)[0]
        assert run.wait(60) == 0
    assert lines_of(seen) == WRITTEN
    assert timeless(tested) == f"── talk/test@1\n+T Bash {GATE}\n          open\n+T passed: {GATE}\n"


def test_of_a_run_that_is_killed_it_tells_what_there_is_and_how_to_go_on(tmp_path: Path) -> None:
    project = gated(tmp_path, FLOW, {"write": WRITE})
    with running(project, *start(project, "talk")) as run:
        run_id = json.loads(read_until(run, GATE).splitlines()[0])["run_id"]
        with following(project) as follower:
            seen = read_until(follower, GATE)
            run.send_signal(signal.SIGKILL)
            rest, hint = follower.communicate(timeout=60)
    open_nobody_s_gate(project)
    assert (follower.returncode, rest, hint) == (
        0,
        "",
        f"hint: git swarm resume {run_id}   (no process executes this run now)\n",
    )
    later = ask(project, "transcript", "--follow")
    assert (later.code, later.stdout, later.stderr) == (0, seen, hint)


def test_branches_of_a_fork_are_told_apart(tmp_path: Path) -> None:
    branches = ("left", "right")
    steps = {step: {"run": [f"echo {step}", f'cat "$HOME/{step}"']} for step in branches}
    project = gated(tmp_path, FAN, steps, *branches)
    with running(project, *start(project, "fan")) as run:
        read_until(run, "tool_start", times=4)
        with following(project, "--full") as whole, following(project) as folded:
            seen, shown = plain(read_until(whole, "$HOME", times=2)), read_until(folded, "$HOME", times=2)
            for step in branches:
                open_gate(project, step)
            seen += plain(whole.communicate(timeout=60)[0])
            shown += folded.communicate(timeout=60)[0]
        assert run.wait(60) == 0
    for step in branches:
        assert f"── T fan/{step}@1 tool_result Bash\n{step}\n" in seen
        assert f"── T fan/{step}@1 assistant\nok\n" in seen
    assert "── T fan/both@1 assistant\nok\n" in seen
    told = {part.partition("\n")[0]: "" for part in timeless(shown).split("── ")[1:]}
    for part in timeless(shown).split("── ")[1:]:
        name, _newline, lines = part.partition("\n")
        told[name] += lines
    branch = '+T Bash echo {0}\n          {0}\n+T Bash cat "$HOME/{0}"\n          open\n+T ok\n'
    assert told == {**{f"fan/{step}@1": branch.format(step) for step in branches}, "fan/both@1": "+T ok\n"}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = gated(tmp_path_factory.mktemp("ended"), FLOW, {"write": {"run": ["echo one"], "summary": "written"}})
    project.swarm(*start(project, "talk"))
    return project


@pytest.mark.parametrize("step", ["write", "talk/write@1", "1"])
def test_of_a_committed_step_it_tells_the_whole_transcript(ended: Project, step: str) -> None:
    answer = ask(ended, "transcript", step, "--follow", "--json")
    stored = json.loads(ask(ended, "transcript", step, "--json").stdout)
    where = {"flow_key": "talk", "step_id": "write", "iteration": 1}
    assert (answer.code, answer.stderr) == (0, "")
    assert [json.loads(line) for line in answer.stdout.splitlines()] == [{**where, **line} for line in stored]
    assert [line.get("role") or line["type"] for line in stored] == [
        "system",
        "user",
        "tool_use",
        "tool_result",
        "assistant",
    ]


def test_of_a_run_that_is_over_it_tells_the_last_step(ended: Project) -> None:
    answer = ask(ended, "transcript", "--follow")
    assert (answer.code, answer.stderr) == (0, "")
    assert timeless(answer.stdout) == "── talk/test@1\n+T Bash true\n+T passed: true\n"
    whole = ask(ended, "transcript", "--follow", "--full")
    assert plain(whole.stdout).endswith("── T talk/test@1 assistant\npassed: true\n")


def test_of_a_committed_step_it_folds_as_the_plain_transcript(ended: Project) -> None:
    followed = timeless(ask(ended, "transcript", "write", "--follow").stdout).splitlines()
    told = timeless(ask(ended, "transcript", "write").stdout).splitlines()
    assert (followed[0], followed[2:]) == ("── talk/write@1", told[2:])
    assert told[0].startswith(followed[1])


def test_a_kernel_step_says_what_it_did(tmp_path: Path) -> None:
    project = gated(tmp_path, FLOW, {"write": {"write": {"a.txt": "a\n"}, "summary": "written"}})
    project.swarm(*start(project, "talk"), "--allow-stub")
    project.swarm("approve", "-m", "it is short")
    said = ["VERIFIED: approved: 1 file, +1 -0; no tests have run on this code", "observation: it is short"]
    folded = f"+T {said[0]}\n        {said[1]}\n"
    assert timeless(ask(project, "transcript", "approve").stdout) == folded
    assert timeless(ask(project, "transcript", "approve", "-f").stdout) == f"── talk/approve@1\n{folded}"
    (line,) = json.loads(ask(project, "transcript", "approve", "--json").stdout)
    assert (line["role"], line["content"].splitlines()) == ("human", said)


def test_edits_that_a_person_made_are_named(tmp_path: Path) -> None:
    project = gated(tmp_path, FLOW, {})
    project.swarm(*start(project, "talk"), "--until", "write")
    (project.worktree(only_run(project)) / "by_hand.txt").write_text("one\n", encoding="utf-8")
    project.swarm("resume", "--adopt")
    told = timeless(ask(project, "transcript", "adopt").stdout).splitlines()
    assert told == ["+T UNVERIFIED: edits made by hand, before talk/test", "        added: by_hand.txt (+1 -0)"]


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        ("message", {"role": "assistant", "text": "I begin.\n"}, "assistant\nI begin."),
        ("tool_start", {"tool": "Bash", "input": {"command": "ls"}}, 'tool_use Bash\n{"command": "ls"}'),
        (
            "tool_start",
            {"tool": "Read", "input": {"file_path": "a"}, "agent": "Explore"},
            'tool_use Read (Explore)\n{"file_path": "a"}',
        ),
        (
            "tool_end",
            {"tool": "Bash", "success": False, "output": "denied (git-push): no", "blocked": True},
            "tool_result Bash\ndenied (git-push): no",
        ),
        (
            "engine_retry",
            {"attempt": 2, "of": 3, "wait_s": 4.0, "reason": "529 overloaded_error"},
            "retry\n2 of 3 in 4 s: 529 overloaded_error",
        ),
        ("file_changes", {"files": 1, "insertions": 1, "deletions": 0}, None),
    ],
)
def test_an_event_in_words(kind: str, payload: dict[str, Any], told: str | None) -> None:
    event = LoggedEvent(
        run_id="r", seq=1, ts="T", kind=EventKind(kind), flow_key="f", step_id="s", iteration=2, payload=payload
    )
    line = line_of(event)
    assert (None if line is None else in_words(line)) == (None if told is None else f"── T f/s@2 {told}")
