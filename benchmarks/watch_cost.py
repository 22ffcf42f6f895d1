"""What `git swarm watch` costs while the steps of two runs sleep: CPU of its process, in per cent of a core.

python -m benchmarks.watch_cost [--seconds 30]
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.command_cost import swarm
from benchmarks.projects import FLOW, Checkout, environment, make_checkout

_RUNS = 2
_BEGUN_S = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")


def watching(project: Checkout) -> tuple[int, int]:
    """Process id of `watch` on a pseudo terminal, and the terminal's other end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project.root)
        argv = [sys.executable, "-m", "gitswarm", "watch"]
        os.execvpe(argv[0], argv, {**project.env, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"})  # noqa: S606
    return pid, terminal


def cpu_s(pid: int) -> float:
    """User and system time, of its own children too."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def drain(terminal: int, seconds: float) -> int:
    """Reads what is drawn, for so long; its bytes."""
    drawn, end = 0, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            drawn += len(os.read(terminal, 65_536))
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
        project = make_checkout(Path(folder) / "repo", environment(Path(folder) / "home"), 100, max_iterations=2)
        script = Path(folder) / "script.yaml"
        script.write_text(f"steps: {{write: {{run: [sleep {seconds + 60:g}]}}}}\n", encoding="utf-8")
        for _run in range(_RUNS):
            swarm(project, "start", FLOW, "--detach", "--script", str(script))
        pid, terminal = watching(project)
        try:
            drain(terminal, _BEGUN_S)
            before, started = cpu_s(pid), time.monotonic()
            drawn = drain(terminal, seconds)
            used = (cpu_s(pid) - before) / (time.monotonic() - started)
        finally:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            for run in project.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow/").split():
                swarm(project, "stop", run, "--now")
        print("| runs | seconds | CPU, % of a core | drawn, kB/s |")
        print("|---:|---:|---:|---:|")
        print(f"| {_RUNS} | {seconds:g} | {used * 100:.2f} | {drawn / seconds / 1000:.1f} |")


if __name__ == "__main__":
    main()
