"""Whole runs against plain git: eight at once, a long one's memory and disk, its verification, and a list of many;
with strace on PATH also the files that a step creates, and how often it flushes to disk.

    python -m benchmarks.run_cost [--steps 400] [--runs 2000] [--rounds 5]

Steps change five files in a repository of 100. Plain git commits the same changes in one process per command.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.command_cost import swarm
from benchmarks.projection_cost import copy_run
from benchmarks.projects import FLOW, Checkout, environment, make_checkout

FILES = 100
PARALLEL = 8
CALLS_STEPS = 20
CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?:AT_FDCWD, )?(?:\"(?P<path>[^\"]*)\")?")
EDIT = """\
import sys, time
for name in range(5):
    with open(f"src/part0/folder{name % 2}/file{name % 2 * 50 + name}.py", "w") as file:
        file.write(f"value = {time.time_ns()}\\n" * 8)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print("| what | of | git | git-swarm | ratio |")
    print("|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as name:
        folder = Path(name)
        _at_once(folder / "at-once", asked.steps // PARALLEL, asked.rounds)
        _calls(folder)
        project, run = _long(folder / "long", asked.steps)
        _verified(project, run, asked.rounds)
        _listed(project, run, asked.runs, asked.rounds)


def _show(what: str, of: str, git: Sequence[float], ours: Sequence[float]) -> None:
    ratio = statistics.median(b / a for a, b in zip(git, ours, strict=True))
    print(
        f"| {what} | {of} | {statistics.median(git):.1f} | {statistics.median(ours):.1f} | {ratio:.2f} |", flush=True
    )


def _made(folder: Path, steps: int) -> tuple[Checkout, Checkout, list[str]]:
    """A project, its plain twin, and the command line that makes a run of so many steps."""
    env = environment(folder / "home")
    edit = folder / "edit.py"
    edit.write_text(EDIT, encoding="utf-8")
    script = folder / "script.yaml"
    line = f"{sys.executable} -S {edit}"
    script.write_text(
        "default: {status: UNVERIFIED, can_further_iteration_help: 'yes'}\n"
        f"steps: {{write: {{run: ['{line}']}}, critique: {{run: ['{line}']}}}}\n",
        encoding="utf-8",
    )
    projects = [make_checkout(folder / each, env, FILES, max_iterations=steps // 2) for each in ("swarm", "plain")]
    return projects[0], projects[1], [sys.executable, "-m", "gitswarm", "start", FLOW, "--script", str(script)]


def _plain_steps(checkout: Checkout, edit: Path, steps: int) -> None:
    for number in range(steps):
        subprocess.run([sys.executable, "-S", str(edit)], cwd=checkout.root, env=dict(checkout.env), check=True)
        checkout.git("add", "-A")
        checkout.git("commit", "-q", "-m", f"step {number}")


def _at_once(folder: Path, steps: int, rounds: int) -> None:
    """Seconds until all have ended: runs of one repository, and plain worktrees of another."""
    project, plain, line = _made(folder, steps)
    plain.git("config", "gc.auto", "0")  # beside it, `git add` fails now and then
    git, ours = [], []
    for number in range(rounds):
        worktrees = [folder / f"plain{number}-{each}" for each in range(PARALLEL)]
        for each in worktrees:
            plain.git("worktree", "add", "-q", "-b", each.name, str(each))
        with ThreadPoolExecutor(PARALLEL) as pool:
            started = time.perf_counter()
            for ended in [
                pool.submit(_plain_steps, Checkout(each, plain.env), folder / "edit.py", steps) for each in worktrees
            ]:
                ended.result()
            git.append(time.perf_counter() - started)
        started = time.perf_counter()
        runs = [_started(project, line) for _each in range(PARALLEL)]
        if set(map(subprocess.Popen.wait, runs)) != {0}:
            raise RuntimeError("a run failed")
        ours.append(time.perf_counter() - started)
    _show(f"{PARALLEL} at once, s", f"{steps} steps each", git, ours)


def _long(folder: Path, steps: int) -> tuple[Checkout, str]:
    """Memory of the run's own process, and what the repository grew by."""
    project, plain, line = _made(folder, steps)
    short, long = (_peak_megabytes(project, each) for each in ([*line, "--until", "write"], line))
    _show("memory, MB", f"1 step, then {steps}", [short], [long])
    _plain_steps(plain, folder / "edit.py", steps)
    sizes = [_megabytes(each.root / ".git") for each in (plain, project)]
    _show("disk, MB", f"{steps} steps", [sizes[0]], [sizes[1]])
    return project, _runs(project)[0]


def _calls(folder: Path) -> None:
    """Files created and flushes to disk per step: of a longer run, less those of a shorter one."""
    if shutil.which("strace") is None:
        print("no strace: files per step and flushes are left out", file=sys.stderr)
        return
    for durability, names in (("fast", ("files created", "fsync")), ("full", ("fsync",))):
        counted = []
        for steps in (CALLS_STEPS, 2 * CALLS_STEPS):
            place = folder / f"calls-{durability}-{steps}"
            project, plain, line = _made(place, steps)
            project.git("config", "swarm.durability", durability)
            if durability == "full":
                plain.git("config", "core.fsync", "committed,loose-object")
            (place / "plain.sh").write_text(_plain_script(place / "edit.py", steps), encoding="utf-8")
            counted.append(
                [
                    _traced(plain, ["sh", str(place / "plain.sh")], place / "plain.trace"),
                    _traced(project, line, place / "swarm.trace"),
                ]
            )
        (git_short, short), (git_long, long) = counted
        for name in names:
            git, ours = ((b[name] - a[name]) / CALLS_STEPS for a, b in ((git_short, git_long), (short, long)))
            ratio = f"{ours / git:.2f}" if git else ""
            print(f"| {name}, per step | durability {durability} | {git:.1f} | {ours:.1f} | {ratio} |", flush=True)


def _plain_script(edit: Path, steps: int) -> str:
    step = f"{sys.executable} -S {edit} && git add -A && git commit -q -m step\n"
    return "set -e\n" + step * steps


def _traced(project: Checkout, line: Sequence[str], trace: Path) -> dict[str, int]:
    """How often a process and its children created a file (code that is edited apart), and flushed one."""
    calls = "trace=openat,creat,link,linkat,fsync,fdatasync,sync_file_range"
    argv = ["strace", "-f", "-qq", "-o", str(trace), "-e", calls, "-e", "signal=none", *line]
    if _started(project, argv).wait() != 0:
        raise RuntimeError(f"{line} failed below strace")
    created, flushed, known = 0, 0, set[str]()
    for each in trace.read_text(errors="replace").splitlines():
        call = CALL.search(each)
        if call is None or " = -1 " in each or "src/part" in each:
            continue
        if "sync" in call["name"]:
            flushed += 1
        elif "open" not in call["name"] or "O_EXCL" in each or ("O_CREAT" in each and call["path"] not in known):
            created += 1
        known.add(call["path"] or "")
    return {"files created": created, "fsync": flushed}


def _runs(project: Checkout) -> list[str]:
    listed = project.git("for-each-ref", "--sort=-creatordate", "--format=%(refname:lstrip=3)", "refs/heads/shadow/")
    return listed.split()


def _started(project: Checkout, line: Sequence[str]) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(line, cwd=project.root, env=dict(project.env), stdout=nowhere, stderr=nowhere)


def _peak_megabytes(project: Checkout, line: Sequence[str]) -> float:
    process = _started(project, line)
    _pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 5):
        raise RuntimeError(f"{line}: exit code {process.returncode}")
    return used.ru_maxrss / 1024


def _megabytes(folder: Path) -> float:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) / 1e6


def _verified(project: Checkout, run: str, rounds: int) -> None:
    refs = project.git("for-each-ref", "--format=%(refname)", "refs").split()
    names = [each for each in refs if run in each]
    git, ours = [], []
    for _round in range(rounds):
        started = time.perf_counter()
        project.git("fsck", "--no-dangling", "--no-progress", *names)
        git.append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        swarm(project, "verify", run)
        ours.append((time.perf_counter() - started) * 1000)
    _show("`verify`, ms", "`git fsck`", git, ours)


def _listed(project: Checkout, run: str, runs: int, rounds: int) -> None:
    copy_run(project, run, runs)
    fields = "--format=%(refname:short) %(objectname) %(committerdate:unix) %(subject) %(trailers:key=Swarm-Status)"
    git, first, ours = list[float](), list[float](), list[float]()
    for _round in range(rounds):
        started = time.perf_counter()
        project.git("for-each-ref", fields, "refs/heads/shadow/")
        git.append((time.perf_counter() - started) * 1000)
        shutil.rmtree(project.root / ".git" / "swarm" / "overviews", ignore_errors=True)
        for times in (first, ours):
            started = time.perf_counter()
            swarm(project, "list", "-n", str(runs))
            times.append((time.perf_counter() - started) * 1000)
    _show("`list` for the first time, ms", f"`git for-each-ref`, {runs} runs", git, first)
    _show("`list`, ms", f"`git for-each-ref`, {runs} runs", git, ours)


if __name__ == "__main__":
    main()
