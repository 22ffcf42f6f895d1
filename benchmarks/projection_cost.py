"""What it costs to make the projection of 100,000 events, against `git cat-file --batch` of the same objects.

    python -m benchmarks.projection_cost [--runs 163] [--rounds 5]

One run of 20 steps is executed and copied under other ids, its events with it; the objects are packed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

from benchmarks.command_cost import swarm
from benchmarks.projects import FLOW, Checkout, environment, make_checkout
from gitswarm.git.object_reader import CatFile
from gitswarm.git.reader import open_reader
from gitswarm.projection.database import Projection

_STEPS = 20
_CALLS = 10
"""Of each step; a call is two events."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=163)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
        project = make_checkout(
            Path(folder) / "repo", environment(Path(folder) / "home"), 100, max_iterations=_STEPS // 2
        )
        script = Path(folder) / "script.yaml"
        calls = ", ".join(["'head -c 350 /dev/urandom | base64'"] * _CALLS)
        looping = "status: UNVERIFIED, can_further_iteration_help: 'yes'"
        script.write_text(
            f"default: {{run: [{calls}]}}\nsteps: {{critique: {{run: [{calls}], {looping}}}}}\n", encoding="utf-8"
        )
        run = swarm(project, "start", FLOW, "--script", str(script)).split(maxsplit=1)[0]
        copy_run(project, run, asked.runs)
        names = _names(project)
        with _projection(project).opened() as ask:
            ((events, steps),) = ask("select (select count(*) from events), (select count(*) from steps)").rows
        path = _projection(project).path
        rows: dict[str, Callable[[], object]] = {
            "`git cat-file --batch`": lambda: _read(project, names),
            "rebuild": lambda: _projection(project).rebuild(),
            "nothing new": lambda: _projection(project).refresh(),
            "a query": lambda: _query(project),
        }
        times: dict[str, list[float]] = {name: [] for name in rows}
        for _round in range(asked.rounds):
            for name, act in rows.items():
                started = time.perf_counter()
                act()
                times[name].append((time.perf_counter() - started) * 1000)
        print(f"{events} events of {steps} steps in {asked.runs} runs, {len(names)} objects, {_megabytes(path)} MB")
        print("\n| what | ms | ratio |")
        print("|---|---:|---:|")
        first = next(iter(times.values()))
        for name, samples in times.items():
            ratio = statistics.median(one / other for one, other in zip(samples, first, strict=True))
            print(f"| {name} | {statistics.median(samples):.0f} | {ratio:.2f} |")


def _megabytes(path: Path) -> int:
    return path.stat().st_size >> 20


def _projection(project: Checkout) -> Projection:
    return Projection(open_reader(project.root, project.env))


def _query(project: Checkout) -> None:
    with _projection(project).opened() as ask:
        ask("from cost_by_station")


def copy_run(project: Checkout, run: str, runs: int) -> None:
    """Under ids of the same length, so that nothing else changes."""
    argv = ["git", "fast-export", "--reference-excluded-parents", f"refs/heads/shadow/{run}", "^main"]
    exported = subprocess.run(argv, cwd=project.root, env=dict(project.env), capture_output=True, check=True).stdout
    argv = ["git", "fast-import", "--quiet", "--force"]
    with subprocess.Popen(argv, cwd=project.root, env=dict(project.env), stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None  # noqa: S101
        for number in range(runs - 1):
            importing.stdin.write(exported.replace(run.encode(), f"{run[:-6]}{number:06x}".encode()))
    project.git("repack", "-adq")


def _names(project: Checkout) -> Sequence[str]:
    """All that a rebuild asks git for."""
    names: list[str] = []
    ask = CatFile._ask  # noqa: SLF001 - to see what passes through it

    def recording(self: CatFile, asked: Sequence[str]) -> object:
        names.extend(asked)
        return ask(self, asked)

    with mock.patch.object(CatFile, "_ask", recording):
        _projection(project).rebuild()
    return names


def _read(project: Checkout, names: Sequence[str]) -> None:
    asked = "".join(f"{name}\n" for name in names).encode()
    argv = ["git", "cat-file", "--batch"]
    subprocess.run(argv, cwd=project.root, env=dict(project.env), input=asked, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
