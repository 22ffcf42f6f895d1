"""Whole commands against their nearest relative in git, in turns.

    python -m benchmarks.command_cost [--files 100 5000 50000] [--rounds 7]

`start` and `resume` execute one step and end the run in good order behind it; git only makes or resets a worktree.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.projects import FLOW, Checkout, environment, make_checkout
from benchmarks.step_cost import change

LOOPS = 10_000
SCRIPT = """\
default: {status: UNVERIFIED, can_further_iteration_help: "yes"}
steps: {write: {run: ["python3 -c 'import pathlib, time; pathlib.Path(\\"x.txt\\").write_text(str(time.time()))'"]}}
"""


@dataclass(slots=True)
class Pair:
    """Milliseconds of one command and of its relative, round by round."""

    name: str
    relative: str
    swarm: list[float] = field(default_factory=list)
    git: list[float] = field(default_factory=list)

    def row(self, files: int) -> str:
        ours, theirs = statistics.median(self.swarm), statistics.median(self.git)
        ratio = statistics.median(a / b for a, b in zip(self.swarm, self.git, strict=True))
        return f"| {files:,} | `{self.relative}` | {theirs:.0f} | `{self.name}` | {ours:.0f} | {ratio:.1f} |"


def timed(samples: list[float], call: Callable[[], object]) -> None:
    started = time.perf_counter()
    call()
    samples.append((time.perf_counter() - started) * 1000)


def swarm(project: Checkout, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gitswarm", *arguments],
        cwd=project.root,
        env=dict(project.env),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def measure(folder: Path, files: int, rounds: int) -> Sequence[Pair]:
    env = environment(folder / "home")
    project = make_checkout(folder / "swarm", env, files, max_iterations=LOOPS)
    plain = make_checkout(folder / "plain", env, files, max_iterations=LOOPS)
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    start = Pair("git swarm start", "git worktree add")
    resume = Pair("git swarm resume", "git reset --hard")
    rollback = Pair("git swarm rollback", "git reset --hard")
    for number in range(rounds):
        worktree = folder / f"plain{number}"
        timed(start.git, partial(plain.git, "worktree", "add", "-q", "-b", f"work{number}", str(worktree)))
        timed(start.swarm, partial(swarm, project, "start", FLOW, "--script", str(script), "--until", "write"))
        work = Checkout(worktree, env)
        for step in range(2):
            change(worktree, step, files)
            work.git("add", "-A")
            work.git("commit", "-q", "-m", "step")
        timed(resume.git, partial(work.git, "reset", "-q", "--hard"))
        timed(resume.swarm, partial(swarm, project, "resume", "--until", "critique"))
        timed(rollback.git, partial(work.git, "reset", "-q", "--hard", "HEAD~1"))
        timed(rollback.swarm, partial(swarm, project, "rollback", "1"))
    return start, resume, rollback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[100, 5_000, 50_000])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print("| files | git | ms | git-swarm | ms | ratio |")
    print("|---:|---|---:|---|---:|---:|")
    for files in arguments.files:
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
            for pair in measure(Path(folder), files, arguments.rounds):
                print(pair.row(files), flush=True)


if __name__ == "__main__":
    main()
