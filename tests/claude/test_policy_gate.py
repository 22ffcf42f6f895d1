"""A call that the policy does not let through is not carried out, whatever becomes of the policy's side."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gitswarm.containment import Containment
from gitswarm.engines import hook_client
from gitswarm.engines.claude import transports
from gitswarm.engines.claude.session import HookPolicy
from gitswarm.engines.hook_server import serve_hooks
from gitswarm.records.receipt import ToolCall
from gitswarm.records.safety import Allow, Deny, Rewrite, Verdict
from tests.claude.stage import EVERYTHING, Given, Stage, allow, by, quick
from tests.loopback.api import Reply, Use, use
from tests.loopback.replies import always, bash, working
from tests.waiting import wait_until

TWO = (bash("echo x > first.txt"), bash("echo x > second.txt"))
LINES = ("echo allowed > yes.txt", "echo kept > RUN_BASE/kept.txt")


def shown(call: ToolCall) -> tuple[str, bool, str | None]:
    return call.tool_name, call.success, call.blocked_reason


@by("cli")
def test_each_of_several_calls_in_one_message_is_judged_by_itself(stage: Stage, mode: str) -> None:
    writing = Use("Write", {"file_path": str(stage.worktree / "no.txt"), "content": "x"})
    model = working(Reply((writing, *(Use("Bash", {"command": line}) for line in LINES))))

    def decide(tool: str, given: Given) -> Verdict:
        if tool == "Write":
            return Deny("test-rule", "no files here", "say it instead")
        command = str(given["command"])
        if "RUN_BASE" in command:
            return Rewrite({"command": command.replace("RUN_BASE", "base")}, "spelled out")
        return Allow()

    told = stage.run(mode, model, decide=decide)
    assert told.files == {"yes.txt": "allowed\n", "base/kept.txt": "kept\n"}
    assert told.outcome == {"kind": "ok"}
    assert told.handoff is not None
    assert "denied (test-rule): no files here\nsay it instead" in str(told.at_work[-1].answers[0]["content"])
    calls = {str(call.input.get("command")): call for call in told.calls}
    denied, allowed, rewritten = (calls[line] for line in ("None", *LINES))
    assert shown(denied) == ("Write", False, "test-rule: no files here")
    assert (denied.blocked, denied.input) == (True, {"file_path": "$WORKTREE/no.txt", "content": "x"})
    assert (shown(allowed), allowed.executed_input) == (("Bash", True, None), None)
    assert rewritten.executed_input == {"command": "echo kept > base/kept.txt"}


@by("sdk")
def test_what_the_policy_cannot_decide_is_denied(stage: Stage, mode: str) -> None:
    release = threading.Event()

    def decide(_tool: str, given: Given) -> Verdict:
        if "raise" in str(given["command"]):
            raise RuntimeError("broken")
        if "hang" in str(given["command"]):
            release.wait(30)
            return Allow()
        nonsense: Any = "yes"
        return nonsense  # type: ignore[no-any-return]

    model = working(*(bash(f"echo x > {name}.txt") for name in ("raise", "hang", "neither")))
    told = stage.run(mode, model, decide=decide, profile=quick(decision_s=0.3))
    release.set()
    assert told.files == {}
    assert told.blocked == [
        "policy: the policy could not decide (RuntimeError: broken)",
        "policy: the policy could not decide (no decision within 0.3 s)",
        "policy: the policy could not decide (it says 'yes')",
    ]
    assert told.outcome == {"kind": "ok"}


@by("sdk")
def test_what_claude_code_itself_refuses_is_recorded_as_blocked(stage: Stage, mode: str) -> None:
    names = (".git/hooks/pre-commit", ".claude/settings.json")
    model = working(*(use("Write", file_path=str(stage.worktree / name), content="x") for name in names))
    told = stage.run(mode, model)
    assert told.files == {}
    assert [(call.blocked, str(call.blocked_reason).partition(":")[0]) for call in told.calls] == [
        (True, "claude"),
        (True, "claude"),
    ]


def gate_of(stage: Stage) -> Path:
    (path,) = (stage.folder / "scratch").glob("*/gate")
    return path


def test_with_the_socket_gone_every_call_is_denied(stage: Stage) -> None:
    stage.settings("home", EVERYTHING)

    def decide(_tool: str, _given: Given) -> Verdict:
        gate_of(stage).unlink()
        return Allow()

    told = stage.run("cli", working(*TWO), decide=decide, profile=quick(setting_sources=("user",)))
    assert told.files == {"first.txt": "x\n"}
    assert [call.blocked for call in told.calls] == [False, True]
    assert "cannot be reached" in str(told.calls[1].blocked_reason)


IMPOSTOR = """
import json, os, socket, sys
os.unlink(sys.argv[1])
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen()
print("listening", flush=True)
while True:
    caller, _ = door.accept()
    while caller.recv(65536):
        pass
    yes = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    caller.sendall(json.dumps(yes).encode() + b"\\n")
    caller.close()
"""


def test_somebody_else_at_the_socket_allows_nothing(stage: Stage) -> None:
    impostors: list[subprocess.Popen[str]] = []

    def decide(_tool: str, _given: Given) -> Verdict:
        command = [sys.executable, "-c", IMPOSTOR, str(gate_of(stage))]
        impostors.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert impostors[0].stdout is not None
        assert impostors[0].stdout.readline() == "listening\n"
        return Allow()

    try:
        told = stage.run("cli", working(*TWO), decide=decide)
    finally:
        for impostor in impostors:
            impostor.kill()
            impostor.communicate()
    assert told.files == {"first.txt": "x\n"}
    assert "another process listens" in str(told.calls[1].blocked_reason)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("exit 1", id="fails"),
        pytest.param("exec sleep 60", id="hangs"),
        pytest.param("/nowhere/python -I shim.py", id="missing", marks=pytest.mark.soak),
        pytest.param("kill -9 $$", id="killed", marks=pytest.mark.soak),
        pytest.param("echo no JSON; exit 3", id="babbles", marks=pytest.mark.soak),
    ],
)
def test_a_hook_that_does_not_work_lets_nothing_through(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Everything is allowed but for the hook, so that nothing else can be what denies."""
    ours = transports._hooks

    def broken(path: Path, containment: Containment) -> Any:
        found: Any = ours(path, containment)
        found["PreToolUse"][0]["hooks"][0] |= {"command": command, "timeout": 1}
        return found

    monkeypatch.setattr(transports, "_hooks", broken)
    stage.settings("home", EVERYTHING)
    told = stage.run("cli", working(bash("echo x > f.txt")), profile=quick(setting_sources=("user",)))
    assert told.files == {}
    assert [call.blocked for call in told.calls] == [True]


def test_a_shim_that_is_not_there_lets_nothing_through(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_client, "__file__", "/nowhere/hook_client.py")
    stage.settings("home", EVERYTHING)
    told = stage.run("cli", working(bash("echo x > f.txt")), profile=quick(setting_sources=("user",)))
    assert told.files == {}
    assert [call.blocked for call in told.calls] == [True]


@pytest.mark.parametrize("reply", [b"", b"garbage", b'{"hookSpecificOutput": {"permissionDecision": "allow"'])
def test_the_shim_denies_what_is_no_whole_answer(tmp_path: Path, reply: bytes) -> None:
    path = tmp_path / "gate"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        shim = subprocess.Popen(
            [sys.executable, "-I", "-S", hook_client.__file__, str(path), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert shim.stdin is not None
        shim.stdin.write(b"{}")
        shim.stdin.close()
        shim.stdin = None
        caller, _address = door.accept()
        with caller:
            while caller.recv(100):
                pass
            caller.sendall(reply)
        answer = shim.communicate(timeout=30)
    assert (shim.returncode, answer) == (2, (b"", b"denied: git-swarm gave no answer\n"))


@pytest.mark.parametrize("asked", [b"", b"[]", b"nonsense", b'{"tool_name": 3}', b"[" * 100_000])
def test_a_question_that_is_none_is_answered_with_no(tmp_path: Path, asked: bytes) -> None:
    gate = HookPolicy(allow, 1.0)
    with serve_hooks(tmp_path, gate) as path, socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        caller.sendall(asked)
        caller.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: caller.recv(4096), b""))
    assert said == b"" or b'"permissionDecision": "deny"' in said


def test_a_deep_folder_has_its_socket_too(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-folder-with-a-name"] * 6)
    deep.mkdir(parents=True)
    with serve_hooks(deep, HookPolicy(allow, 1.0)) as path:
        assert path == deep / "gate"
        assert path.is_socket()
        words = [sys.executable, "-I", "-S", hook_client.__file__, str(path), str(os.getpid())]
        question = b'{"tool_name": "Bash", "tool_input": {"command": "true"}, "tool_use_id": "toolu_1"}'
        asked = subprocess.run(words, input=question, capture_output=True, check=True)
    assert b'"permissionDecision": "allow"' in asked.stdout
    assert not path.exists()


def test_who_asks_again_about_a_call_does_not_change_what_is_recorded() -> None:
    gate = HookPolicy(lambda _tool, given: Allow() if given["command"] == "true" else Deny("x", "y", "z"), 1.0)
    for command in ("true", "git push"):
        gate.answer({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "toolu_1"})
    assert gate.verdicts == {"toolu_1": Allow()}


# The owner is gone.


@by("cli")
@pytest.mark.parametrize("moment", ["deciding", "working"])
def test_with_its_owner_killed_a_session_writes_nothing_more(stage: Stage, mode: str, moment: str) -> None:
    """Killed while the policy decides, and while a tool works: the CLI and its shells end by themselves.

    In its last moments it may tell the model that a call was denied."""
    stage.play(always(bash("while :; do date >> f.txt; sleep 0.02; done")))
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.claude.owner", str(stage.folder), mode, moment],
        env={**stage.env, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "deciding\n"
        if moment == "working":
            wait_until((stage.worktree / "f.txt").exists, "the tool works")
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    wait_until(lambda: not stage.processes, "everything of the session has ended", seconds=20)
    assert (stage.worktree / "f.txt").exists() == (moment == "working")
    assert all(answer["is_error"] for asked in stage.asked[1:] for answer in asked.answers)
