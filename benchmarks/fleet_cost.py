"""What a fleet costs beside its runs: a file of tasks by `fleet run`, and by `xargs` of `start --hub`, in turns.

    python -m benchmarks.fleet_cost [--runs 50] [--workers 2] [--rounds 3]

Each run has a few scripted steps that take a moment. Both sides push every step to a hub of their own.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.projects import FLOW, Checkout, environment, make_checkout

FILES = 100
LOOPS = 2
SCRIPT = """\
default:
  {status: UNVERIFIED, can_further_iteration_help: "yes", run: ["sleep 0.2; date >> src/part0/folder0/file0.py"]}
"""
SWARM = (sys.executable, "-m", "gitswarm")


def measure(folder: Path, runs: int, workers: int, *, fleet: bool) -> tuple[float, float]:
    """Seconds by the clock and of the processors, from the file of tasks until all runs are on the hub."""
    project = make_checkout(folder / "project", environment(folder / "home"), FILES, max_iterations=LOOPS)
    project.git("init", "-q", "--bare", str(folder / "hub.git"))
    project.git("config", "swarm.hub", str(folder / "hub.git"))
    script, tasks = folder / "script.yaml", folder / "tasks"
    script.write_text(SCRIPT, encoding="utf-8")
    tasks.write_text("".join(f"task{number}\n" for number in range(runs)), encoding="utf-8")
    if fleet:
        line = [*SWARM, "fleet", "run", "--issues", str(tasks), "--flow", FLOW, "--workers", str(workers)]
    else:
        line = ["xargs", "-a", str(tasks), "-P", str(workers), "-I{}", *SWARM, "start", FLOW, "--hub", "-m", "{}"]
    line += ["--script", str(script)]
    before, started = _processor_seconds(), time.perf_counter()
    done = subprocess.run(line, cwd=project.root, env=dict(project.env), capture_output=True, text=True, check=False)
    took, used = time.perf_counter() - started, _processor_seconds() - before
    found = _finished(project, folder / "hub.git")
    if found != runs:
        raise RuntimeError(f"{found} of {runs} runs are on the hub: {line}\n{done.stdout}{done.stderr}")
    return took, used


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _finished(project: Checkout, hub: Path) -> int:
    form = "--format=%(contents:trailers:key=Swarm-Kind,valueonly)"
    return project.git("--git-dir", str(hub), "for-each-ref", form, "refs/heads/shadow/").split().count("end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    rounds = []
    for _round in range(asked.rounds):
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as name:
            plain, fleet = (
                measure(Path(name, str(each)), asked.runs, asked.workers, fleet=each) for each in (False, True)
            )
        rounds.append((plain, fleet))
    print("| overhead of a fleet per run | runs | xargs, ms | fleet run, ms | ratio |")
    print("|---|---:|---:|---:|---:|")
    for at, what in enumerate(("by the clock", "processor time")):
        ratio = statistics.median(fleet[at] / plain[at] for plain, fleet in rounds)
        mine, theirs = (1000 * statistics.median(each[side][at] for each in rounds) / asked.runs for side in (1, 0))
        print(f"| {what} | {asked.runs} | {theirs:.0f} | {mine:.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
