from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import structs

from gitswarm.process_table import end_processes_with, ending_strays
from gitswarm.processes import CommandLimits, CommandOutcome, Ending, _Child, project_environment, run_shell

LIMITS = CommandLimits(timeout_s=20)
ENV = {"PATH": os.environ["PATH"]}
MARKER = "GITSWARM_TEST_MARKER"


def run(command: str, cwd: Path, limits: CommandLimits = LIMITS) -> CommandOutcome:
    return run_shell(command, cwd=cwd, env=ENV, limits=limits)


def timeless(outcome: CommandOutcome) -> CommandOutcome:
    return structs.replace(outcome, duration_ms=0)


def exited(exit_code: int, output: str) -> CommandOutcome:
    return CommandOutcome(Ending.EXITED, exit_code, output, 0, None)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(autouse=True)
def _no_child_of_ours_is_left() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


def test_output_of_both_streams_is_interleaved_and_the_exit_code_kept(tmp_path: Path) -> None:
    assert timeless(run("echo one; echo two >&2; echo three; exit 3", tmp_path)) == exited(3, "one\ntwo\nthree\n")


def test_the_command_runs_in_its_directory_with_exactly_its_environment(tmp_path: Path) -> None:
    outcome = run_shell('pwd -P; echo "$A-$HOME"', cwd=tmp_path, env={**ENV, "A": "a"}, limits=LIMITS)
    assert timeless(outcome) == exited(0, f"{tmp_path.resolve()}\na-\n")


def test_the_command_has_no_input(tmp_path: Path) -> None:
    assert timeless(run("cat; echo end", tmp_path)) == exited(0, "end\n")


def test_the_command_leads_its_own_session(tmp_path: Path) -> None:
    code = "import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())"
    assert timeless(run(f"exec '{sys.executable}' -c '{code}'", tmp_path)) == exited(0, "True\n")


@pytest.mark.parametrize(
    ("command", "exit_code"), [("exit 126", 126), ("exit 127", 127), ("kill -9 $$", -9), ("kill -15 $$", -15)]
)
def test_any_end_of_its_own_is_an_exit(tmp_path: Path, command: str, exit_code: int) -> None:
    assert timeless(run(command, tmp_path)) == exited(exit_code, "")


def test_an_interrupt_that_meets_a_child_before_it_has_begun_is_none_of_its_own(tmp_path: Path) -> None:
    """Between its start and its own session a child hears the terminal's Ctrl-C."""
    first = "test -e begun || { touch begun; kill -INT $$; }"
    assert run(f"{first}; echo done", tmp_path).output == "done\n"
    assert run("echo said; kill -INT $$", tmp_path).exit_code == -signal.SIGINT
    assert run("sleep 0.3; kill -INT $$", tmp_path).exit_code == -signal.SIGINT


def test_the_duration_is_that_of_the_command(tmp_path: Path) -> None:
    assert 200 <= run("sleep 0.2", tmp_path).duration_ms < 5_000


def test_without_its_directory_a_command_is_not_started(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert timeless(run("echo no", gone)) == CommandOutcome(
        Ending.NOT_STARTED, None, "", 0, f"cannot start: {gone}: No such file or directory"
    )


def test_without_a_shell_a_command_is_not_started(tmp_path: Path) -> None:
    outcome = run_shell("echo no", cwd=tmp_path, env={"PATH": str(tmp_path)}, limits=LIMITS)
    assert timeless(outcome) == CommandOutcome(
        Ending.NOT_STARTED, None, "", 0, "cannot start: sh: No such file or directory"
    )


def test_a_command_that_no_process_can_be_given_is_not_started(tmp_path: Path) -> None:
    assert timeless(run("echo \0", tmp_path)) == CommandOutcome(
        Ending.NOT_STARTED, None, "", 0, "cannot start: embedded null byte"
    )


def test_output_is_passed_on_while_the_command_runs(tmp_path: Path) -> None:
    chunks: list[bytes] = []

    def answer(chunk: bytes) -> None:
        chunks.append(chunk)
        (tmp_path / "seen").touch()

    command = "echo first; until [ -e seen ]; do sleep 0.01; done; echo second"
    outcome = run_shell(command, cwd=tmp_path, env=ENV, limits=LIMITS, on_output=answer)
    assert (timeless(outcome), chunks) == (exited(0, "first\nsecond\n"), [b"first\n", b"second\n"])


def test_too_much_output_keeps_its_head_and_tail(tmp_path: Path) -> None:
    limits = CommandLimits(timeout_s=20, output_bytes=149)
    outcome = run("printf '%01000d' 0; printf '%01000d' 0 | tr 0 1", tmp_path, limits)
    assert outcome.output == "0" * 50 + "\n[… 1900 bytes left out …]\n" + "1" * 50


@pytest.mark.parametrize(("length", "cut"), [(98, False), (99, False), (100, True), (101, True), (200, True)])
def test_kept_output_is_always_shorter_than_the_limit(tmp_path: Path, length: int, *, cut: bool) -> None:
    output = run(f"printf '%0{length}d' 0", tmp_path, CommandLimits(timeout_s=20, output_bytes=100)).output
    assert (len(output.encode()) < 100, " bytes left out " in output) == (True, cut)


def test_a_limit_without_room_for_the_note_is_refused() -> None:
    with pytest.raises(ValueError, match="output_bytes is 99"):
        CommandLimits(timeout_s=1, output_bytes=99)


def test_a_cut_goes_between_characters(tmp_path: Path) -> None:
    command = f"'{sys.executable}' -c 'print(\"€\" * 1000, end=\"\")'"
    limits = CommandLimits(timeout_s=20, output_bytes=149)
    assert run(command, tmp_path, limits).output == "€" * 16 + "\n[… 2904 bytes left out …]\n" + "€" * 16


def test_a_character_split_between_two_reads_stays_whole(tmp_path: Path) -> None:
    command = f"printf x; '{sys.executable}' -c 'print(\"€\" * 100000, end=\"\")'"
    limits = CommandLimits(timeout_s=20, output_bytes=1_000_000)
    assert timeless(run(command, tmp_path, limits)) == exited(0, "x" + "€" * 100_000)


def test_bytes_that_are_not_text_are_replaced_and_counted_as_what_they_become(tmp_path: Path) -> None:
    assert run(r"printf 'a\377b\342\202'", tmp_path).output == "a\ufffdb\ufffd"
    limits = CommandLimits(timeout_s=20, output_bytes=149)
    assert len(run(r"head -c 1000 /dev/zero | tr '\0' '\377'", tmp_path, limits).output.encode()) < 149


def test_a_flood_of_output_does_not_grow_us(tmp_path: Path) -> None:
    received = 0

    def count(chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)

    tracemalloc.start()
    try:
        outcome = run_shell("head -c 50000000 /dev/zero", cwd=tmp_path, env=ENV, limits=LIMITS, on_output=count)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (outcome.exit_code, received, len(outcome.output) < 50_000) == (0, 50_000_000, True)
    assert peak < 2_000_000


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    outcome = run("echo begun; sleep 60; echo no", tmp_path, CommandLimits(timeout_s=1))
    assert timeless(outcome) == CommandOutcome(Ending.TIMED_OUT, None, "begun\n", 0, "timed out after 1 s")
    assert 1_000 <= outcome.duration_ms < 3_000  # nobody needed the grace


def test_what_a_command_says_when_it_is_ended_is_kept(tmp_path: Path) -> None:
    command = "trap 'head -c 100000 /dev/zero; echo bye; exit 0' TERM; while :; do sleep 0.02; done"
    outcome = run(command, tmp_path, CommandLimits(timeout_s=1, output_bytes=200_000))
    assert (outcome.ending, outcome.exit_code) == (Ending.TIMED_OUT, None)
    # dash says "Terminated" before it runs the trap
    assert outcome.output.removeprefix("Terminated\n") == "\0" * 100_000 + "bye\n"


def test_what_a_command_says_that_ends_at_once_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminate = _Child._terminate

    def slowly(child: _Child, group: int) -> bool:
        done = terminate(child, group)
        child.process.wait(10)
        return done

    monkeypatch.setattr(_Child, "_terminate", slowly)
    command = "trap 'echo bye; exit 0' TERM; while :; do sleep 0.02; done"
    assert run(command, tmp_path, CommandLimits(timeout_s=1)).output.endswith("bye\n")


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    outcome = run("trap '' TERM; echo $$; sleep 60; sleep 60", tmp_path, CommandLimits(timeout_s=1))
    assert (outcome.ending, lives(int(outcome.output))) == (Ending.TIMED_OUT, False)
    assert 3_000 <= outcome.duration_ms < 10_000


def test_a_command_that_closed_its_output_is_still_waited_for(tmp_path: Path) -> None:
    assert timeless(run("exec >/dev/null 2>&1; sleep 0.2; exit 4", tmp_path)) == exited(4, "")


def test_a_command_that_closed_its_output_is_still_bounded(tmp_path: Path) -> None:
    outcome = run("exec >/dev/null 2>&1; sleep 60", tmp_path, CommandLimits(timeout_s=0.3))
    assert (outcome.ending, outcome.duration_ms < 5_000) == (Ending.TIMED_OUT, True)


def test_a_background_process_is_ended_and_not_waited_for(tmp_path: Path) -> None:
    outcome = run("sleep 60 & echo $!", tmp_path)
    assert (outcome.exit_code, outcome.error, outcome.duration_ms < 2_000) == (0, None, True)
    assert not lives(int(outcome.output))


def test_a_background_process_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitswarm.processes._GRACE_S", 0.2)
    wait = "until [ -e up ]; do sleep 0.01; done"
    outcome = run(f"(trap '' TERM; touch up; sleep 60; :) & {wait}; echo $!", tmp_path)
    assert (outcome.exit_code, lives(int(outcome.output))) == (0, False)


def test_a_background_process_that_never_stops_talking_does_not_hold_us(tmp_path: Path) -> None:
    outcome = run("yes & exit 5", tmp_path)
    assert (outcome.ending, outcome.exit_code, outcome.duration_ms < 5_000) == (Ending.EXITED, 5, True)


def test_a_daemon_in_another_session_does_not_hold_us(tmp_path: Path) -> None:
    (tmp_path / "daemon.py").write_text(
        "import os, pathlib\nos.setsid()\nprint(os.getpid(), flush=True)\npathlib.Path('up').touch()\n"
        "os.execvp('sleep', ['sleep', '60'])\n"
    )
    outcome = run(f"'{sys.executable}' daemon.py & until [ -e up ]; do sleep 0.01; done", tmp_path)
    pid = int(outcome.output)
    daemon_lives = lives(pid)
    os.kill(pid, signal.SIGKILL)
    assert (outcome.exit_code, daemon_lives) == (0, True)


def test_an_interrupt_ends_the_whole_group_and_passes_through(tmp_path: Path) -> None:
    pids: list[int] = []

    def note(chunk: bytes) -> None:
        pids.extend(int(word) for word in chunk.split())
        (tmp_path / "noted").touch()

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_shell(
                'sleep 60 & echo "$$ $!"; until [ -e noted ]; do sleep 0.01; done; kill -USR1 $PPID; wait',
                cwd=tmp_path,
                env=ENV,
                limits=LIMITS,
                on_output=note,
            )
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert [lives(pid) for pid in pids] == [False, False]


def test_an_interrupt_while_a_command_starts_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command runs before `Popen` is back: a Ctrl-C between the two meets nobody who knows its pid."""
    pids: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    class Slow(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            pids.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    with pytest.raises(KeyboardInterrupt):
        run_shell("sleep 60", cwd=tmp_path, env=ENV, limits=LIMITS)
    assert ([lives(pid) for pid in pids], signal.getsignal(signal.SIGINT)) == ([False], before)


@pytest.mark.parametrize("command", ["echo $$; sleep 60", "echo $$"])
@pytest.mark.parametrize("error", [BrokenPipeError, BlockingIOError])
def test_an_error_of_the_listener_ends_the_whole_group_and_passes_through(
    tmp_path: Path, command: str, error: type[OSError]
) -> None:
    pids: list[int] = []

    def fail(chunk: bytes) -> None:
        pids.append(int(chunk))
        raise error

    with pytest.raises(error):
        run_shell(command, cwd=tmp_path, env=ENV, limits=LIMITS, on_output=fail)
    assert [lives(pid) for pid in pids] == [False]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_orphans_that_we_adopt_are_reaped(tmp_path: Path) -> None:
    program = """
import ctypes, os, pathlib, psutil
from gitswarm.processes import CommandLimits, run_shell
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
limits = CommandLimits(timeout_s=20)
outcome = run_shell("sleep 60 &", cwd=pathlib.Path.cwd(), env=dict(os.environ), limits=limits)
print(outcome.ending, psutil.Process().children())
"""
    (tmp_path / "program.py").write_text(program)
    env = {**ENV, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("exited []\n", "")


def test_marked_processes_are_ended_and_no_others(tmp_path: Path) -> None:
    ours = str(tmp_path)  # other test sessions on this machine look for theirs

    def start(value: str, command: str) -> subprocess.Popen[bytes]:
        env = {**ENV, MARKER: value}
        process = subprocess.Popen(["sh", "-c", command], cwd=tmp_path, env=env, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process

    polite = start(ours, "echo up; exec sleep 60")
    stubborn = start(ours, "trap '' TERM; echo up; exec sleep 60")
    other = start(f"{ours}/other", "echo up; exec sleep 60")
    with polite, stubborn, other:
        ended = end_processes_with(MARKER, ours)
        other_lives = lives(other.pid)
        other.kill()
    assert (ended, other_lives) == (2, True)
    assert (polite.returncode, stubborn.returncode) == (-signal.SIGTERM, -signal.SIGKILL)


def test_nothing_marked_ends_nothing(tmp_path: Path) -> None:
    assert end_processes_with(MARKER, str(tmp_path)) == 0


def test_a_process_that_is_gone_while_all_are_looked_at_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path, **_how: object) -> os.stat_result:
        raise ProcessLookupError(errno.ESRCH, "No such process", str(path))

    monkeypatch.setattr(Path, "stat", gone)
    assert end_processes_with(MARKER, str(tmp_path)) == 0
    with ending_strays():
        pass


def test_we_and_our_ancestors_are_spared(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from gitswarm.process_table import end_processes_with\n"
        f"print(end_processes_with({MARKER!r}, {str(tmp_path)!r}))\n"
    )
    env = {**ENV, MARKER: str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = f"'{sys.executable}' program.py; echo survived"
    outcome = run_shell(command, cwd=tmp_path, env=project_environment(env), limits=LIMITS)
    assert timeless(outcome) == exited(0, "0\nsurvived\n")


def test_the_environment_of_commands_has_nothing_of_our_git_and_leaves_no_bytecode() -> None:
    env = {
        "PATH": "/bin",
        "GIT_DIR": "/elsewhere/.git",
        "GIT_CONFIG_COUNT": "1",
        "GIT_TERMINAL_PROMPT": "1",
        "GITHUB_TOKEN": "kept",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    assert project_environment(env) == {
        "PATH": "/bin",
        "GITHUB_TOKEN": "kept",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
