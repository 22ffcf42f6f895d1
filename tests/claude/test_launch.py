"""What stands above the CLI: nothing below it outlives it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gitswarm.engines import launch
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the CLI takes its place")

ESCAPES = [
    "setsid sleep {s} &",
    "env -i setsid nohup sleep {s} >/dev/null 2>&1 &",
    "exec -c setsid sleep {s} &",
    "(setsid sleep {s} &)",
    "(trap '' TERM; exec setsid sleep {s}) &",
    "setsid sh -c 'sleep {s} & wait' &",
]


def launched(program: str, *, names: str = "PATH") -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), names, "0", "/bin/bash", "-c", program]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def sleeping(seconds: int) -> list[int]:
    words = ["sleep", str(seconds)]
    living = [each for each in psutil.process_iter(["cmdline", "status"]) if each.info["cmdline"] == words]
    return [each.pid for each in living if each.info["status"] != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(("number", "escape"), list(enumerate(ESCAPES)))
def test_what_left_its_session_and_its_environment_is_ended_with_the_cli(number: int, escape: str) -> None:
    seconds = 70_000 + os.getpid() % 1000 * 10 + number
    with launched(f"{escape.format(s=seconds)}\nread line") as above:
        wait_until(lambda: bool(sleeping(seconds)), "its escaped child")
        above.communicate(b"go\n", timeout=20)
    assert above.returncode == 0
    assert sleeping(seconds) == []


def test_a_cli_that_will_not_go_is_killed_and_so_is_what_it_started() -> None:
    seconds = 69_000 + os.getpid() % 1000
    with launched(f"trap '' TERM; env -i setsid sleep {seconds} & while true; do sleep 0.1; done") as above:
        wait_until(lambda: bool(sleeping(seconds)), "its escaped child")
        above.terminate()
        above.communicate(timeout=20)
    assert above.returncode == -9
    assert sleeping(seconds) == []


@pytest.mark.parametrize(("program", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9), ("kill $$", -15)])
def test_it_ends_as_the_cli_ended(program: str, code: int) -> None:
    with launched(program) as above:
        above.communicate(timeout=20)
    assert above.returncode == code


def test_only_the_named_variables_get_through() -> None:
    with launched("export -p; cat", names="PATH,HOME") as above:
        said = above.communicate(b"typed", timeout=20)[0].decode()
    names = {line.split()[2].split("=")[0] for line in said.splitlines() if line.startswith("declare -x")}
    assert names - {"OLDPWD", "PWD", "SHLVL", "_"} == {"PATH", "HOME"} & set(os.environ)
    assert said.endswith("typed")


def test_its_owner_is_who_started_it(tmp_path: Path) -> None:
    words = [sys.executable, "-I", "-S", launch.__file__, "1", "PATH", "/bin/sh", "-c", f"touch {tmp_path}/x"]
    assert subprocess.run(words, check=False).returncode == 1
    assert not (tmp_path / "x").exists()


def test_a_program_that_cannot_be_started_is_told() -> None:
    words = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), "PATH", "0", "/nowhere/claude"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (127, b"cannot start /nowhere/claude: No such file or directory\n")
