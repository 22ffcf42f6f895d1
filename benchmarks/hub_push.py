"""What the push of a step to a hub takes, against a plain `git push` of the same objects to a second one, in turn.

python -m benchmarks.hub_push [--steps 60] [--runs 0]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from benchmarks.projects import Checkout, environment, make_checkout
from benchmarks.step_cost import WARM_UP, ChangeEngine, new_run
from gitswarm.git.remote import remote_of
from gitswarm.git.repository import Repository, open_repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import refs_here
from gitswarm.ledger.state import RunState
from gitswarm.runner.begin import create_run
from gitswarm.runner.deciding.route import decide_next
from gitswarm.runner.hub.leased_run import LeasedRun
from gitswarm.runner.run import carry_on
from gitswarm.runner.run_context import Observer, RunContext
from gitswarm.runner.run_worktree import RunWorktree, prepare_worktree
from gitswarm.worktree.shadow import Placement

FILES = 100


class TimedRun(LeasedRun):
    """Times each push, then lets plain git push the same refs to the second hub."""

    def __init__(self, project: Checkout, env: Mapping[str, str], repository: Repository, layout: RunLayout) -> None:
        super().__init__(repository, remote_of(repository, "hub", env), layout, lambda: datetime.now(UTC))
        self._project = project
        self.swarm_ms: list[float] = []
        self.git_ms: list[float] = []

    def push(self, state: RunState, *, executes: bool, entry: str | None = None) -> None:
        started = time.perf_counter()
        super().push(state, executes=executes, entry=entry)
        self.swarm_ms.append((time.perf_counter() - started) * 1000)
        refs = refs_here(self._repository, self._layout)
        started = time.perf_counter()
        self._project.git("push", "-q", "plain", *(f"{name}:{name}" for name in refs))
        self.git_ms.append((time.perf_counter() - started) * 1000)


def crowd(runs: int, hub: Path, commit: str) -> None:
    """Refs of other runs, which every push has to be told of."""
    names = "".join(f"create refs/swarm/run-{number}/base {commit}\n" for number in range(runs))
    subprocess.run(["git", "-C", str(hub), "update-ref", "--stdin"], input=names.encode(), check=True)


def measure(folder: Path, steps: int, fill: Callable[[Path, str], None]) -> tuple[list[float], list[float]]:
    """
    :param fill: puts runs of others into a bare repository; it gets the id of a commit that is there.
    """
    env = environment(folder / "home")
    os.environ.update(env)
    project = make_checkout(folder / "swarm", env, FILES, max_iterations=steps)
    for name in ("hub", "plain"):
        project.git("init", "-q", "--bare", str(folder / f"{name}.git"))
        project.git("remote", "add", name, str(folder / f"{name}.git"))
        project.git("push", "-q", name, "HEAD:refs/heads/main")
        fill(folder / f"{name}.git", project.git("rev-parse", "HEAD"))
        project.git("pack-refs", "--all")
    repository = open_repository(project.root, env)
    new = new_run(repository, project)
    leased = TimedRun(project, env, repository, RunLayout(new.spec.run_id))
    engine = ChangeEngine(FILES)
    context = RunContext(
        env,
        lambda: datetime.now(UTC),
        Placement(None, folder / "state"),
        Observer(),
        lambda: len(leased.swarm_ms) > steps + WARM_UP,
        leased=leased,
    )
    with create_run(repository, new, context) as (session, state):
        own = replace(session, engines={(engine.engine_id, engine.mode): engine})
        carry_on(own, RunWorktree.of(own, prepare_worktree(own)), state, decide_next(own, state))
    return leased.swarm_ms[WARM_UP:], leased.git_ms[WARM_UP:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--runs", type=int, nargs="+", default=[0, 1000])
    arguments = parser.parse_args()
    print("| refs of other runs | steps | git push, ms | git-swarm, ms | ratio |")
    print("|---:|---:|---:|---:|---:|")
    for runs in arguments.runs:
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
            swarm, git = measure(Path(folder), arguments.steps, partial(crowd, runs))
        ratio = statistics.median(ours / theirs for ours, theirs in zip(swarm, git, strict=True))
        times = f"{statistics.median(git):.1f} | {statistics.median(swarm):.1f}"
        print(f"| {runs:,} | {len(swarm)} | {times} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
