"""Whole commands against their nearest relative in git, in turns.

    python -m benchmarks.command_cost [--files 100 5000 50000] [--rounds 7] [--reading-only]
    python -m benchmarks.command_cost --beside CHECKOUT [--rounds 15]

`start` and `resume` execute one step and end the run in good order behind it; git only makes or resets a worktree.
`rollback` keeps everything that is in the worktree; so does git here, as a commit on a ref, before it resets.
Commands that only read are held against `python -c pass` with the git commands that answer the same.
`--beside`: the CPU of whole commands, of another checkout and of this one, in turns.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from benchmarks.projects import FLOW, Checkout, environment, make_checkout
from benchmarks.step_cost import change

LOOPS = 10_000
SCRIPT = """\
default: {status: UNVERIFIED, can_further_iteration_help: "yes"}
steps: {write: {run: ["python3 -c 'import pathlib, time; pathlib.Path(\\"x.txt\\").write_text(str(time.time()))'"]}}
"""


class Pair(Struct):
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
    rollback = Pair("git swarm rollback", "snapshot, git reset --hard")
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
        timed(rollback.git, partial(keep_and_reset, work, "HEAD~1"))
        timed(rollback.swarm, partial(swarm, project, "rollback", "1"))
    return start, resume, rollback


def keep_and_reset(work: Checkout, target: str) -> None:
    """What a careful person types: whatever lies in the worktree becomes a commit, then it is reset."""
    aside = Checkout(
        work.root,
        {**work.env, "GIT_INDEX_FILE": work.git("rev-parse", "--path-format=absolute", "--git-path", "index.kept")},
    )
    shutil.copy2(work.git("rev-parse", "--path-format=absolute", "--git-path", "index"), aside.env["GIT_INDEX_FILE"])
    aside.git("add", "-A")
    tree = aside.git("write-tree")
    work.git("update-ref", "refs/kept/1", work.git("commit-tree", tree, "-p", "HEAD", "-m", "kept"))
    work.git("reset", "-q", "--hard", target)
    work.git("clean", "-fdq")


class Reading(Struct):
    """A command that only reads, and what answers the same; of each, CPU and wall milliseconds round by round."""

    name: str
    ours: Sequence[str]
    theirs: Sequence[Sequence[str]]
    our_times: list[tuple[float, float]] = field(default_factory=list)
    their_times: list[tuple[float, float]] = field(default_factory=list)

    def row(self) -> str:
        (our_cpu, our_wall), (cpu, wall) = (
            tuple(statistics.median(column) for column in zip(*times, strict=True))
            for times in (self.our_times, self.their_times)
        )
        ratio = statistics.median(a / b for (a, _), (b, _) in zip(self.our_times, self.their_times, strict=True))
        return f"| `{self.name}` | {cpu:.0f} | {our_cpu:.0f} | {ratio:.1f} | {wall:.0f} | {our_wall:.0f} |"


def spent(project: Checkout, commands: Sequence[Sequence[str]]) -> tuple[float, float]:
    """CPU milliseconds of processes and of all that they start, and those on the clock."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for command in commands:
        subprocess.run(command, cwd=project.root, env=dict(project.env), check=True, stdout=subprocess.DEVNULL)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, (ended - started) * 1000


def measure_reading(folder: Path, steps: int, rounds: int) -> Sequence[Reading]:
    """On a run of that many steps."""
    project = make_checkout(folder / "reading", environment(folder / "home"), 100, max_iterations=steps // 2)
    script = folder / "reading.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    swarm(project, "start", FLOW, "--script", str(script))
    branch = project.git("for-each-ref", "--format=%(refname:short)", "refs/heads/shadow/")
    notes = f"--notes=swarm/{branch.removeprefix('shadow/')}/routing"
    python = [sys.executable, "-c", "pass"]
    ours = [str(Path(sys.executable).with_name("git-swarm"))]
    told = "--format=%h %s %(trailers:key=Swarm-Status,valueonly)"
    status = [
        ["git", "for-each-ref", "refs/heads/shadow/"],
        ["git", "log", "-1", notes, told, branch],
        ["git", "rev-list", "--count", f"main..{branch}"],
        ["git", "worktree", "list"],
    ]
    measured = (
        Reading("git swarm log", [*ours, "log"], [python, ["git", "log", told, f"main..{branch}"]]),
        Reading("git swarm status", [*ours, "status"], [python, *status]),
        Reading("git swarm --version", [*ours, "--version"], [python]),
        Reading("git swarm -h", [*ours, "-h"], [python]),
        Reading("TAB: commands", [*ours, "__complete", "st"], [python]),
        Reading("TAB: runs", [*ours, "__complete", "log", "run-"], [python]),
        Reading("TAB: options", [*ours, "__complete", "log", "--"], [python]),
    )
    for _round in range(rounds):
        for each in measured:
            each.their_times.append(spent(project, each.theirs))
            each.our_times.append(spent(project, [each.ours]))
    return measured


ONE_STEP = "id: one\ntitle: One step\nsteps: [{id: s1, station: measured}]\n"


def measure_beside(folder: Path, other: Path, rounds: int) -> None:
    """The first round fills caches, and does not count."""
    script = folder / "script.yaml"
    script.write_text("default: {write: {x.txt: hello}, status: VERIFIED}\n", encoding="utf-8")
    start = ["start", "one", "--script", str(script), "--allow-stub"]
    sides = []
    for name, code in (("before", other), ("after", Path(__file__).parent.parent)):
        env = {**environment(folder / f"{name}-home"), "PYTHONPATH": str(code.resolve())}
        sides.append(made := make_checkout(folder / name, env, 100, max_iterations=2))
        (made.root / ".swarm" / "flows" / "one.yaml").write_text(ONE_STEP, encoding="utf-8")
        made.git("add", "-A")
        made.git("commit", "-q", "-m", "a flow of one step")
    times: dict[str, list[list[float]]] = {}
    for number in range(rounds + 1):
        for line in (start, ["resume"], ["verify"], ["approve"]):
            found = [spent(side, [[sys.executable, "-m", "gitswarm", *line]])[0] for side in sides]
            times.setdefault(line[0], []).extend([found] if number else [])
    print("| command | before, CPU ms | after, CPU ms | ratio |\n|---|---:|---:|---:|")
    for name, pairs in times.items():
        before, after = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(new / old for old, new in pairs)
        print(f"| `git swarm {name}` | {before:.0f} | {after:.0f} | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[100, 5_000, 50_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--reading-only", action="store_true")
    parser.add_argument("--beside", type=Path)
    arguments = parser.parse_args()
    if arguments.beside is not None:
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
            measure_beside(Path(folder), arguments.beside, arguments.rounds)
        return
    print("| command | pass + git, CPU ms | git-swarm, CPU ms | ratio | pass + git, wall ms | git-swarm, wall ms |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
        for each in measure_reading(Path(folder), 200, 3 * arguments.rounds):
            print(each.row(), flush=True)
    if arguments.reading_only:
        return
    print()
    print("| files | git | ms | git-swarm | ms | ratio |")
    print("|---:|---|---:|---|---:|---:|")
    for files in arguments.files:
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
            for pair in measure(Path(folder), files, arguments.rounds):
                print(pair.row(files), flush=True)


if __name__ == "__main__":
    main()
