"""What a step costs beside its engine, against `git add -A && git commit` of the same change, step by step in turn.

python -m benchmarks.step_cost [--files 100 5000 50000] [--steps 2000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from benchmarks.projects import FLOW, Checkout, environment, make_checkout, source_name
from gitswarm.engines.base import (
    LOCAL_WORK,
    Capabilities,
    Emit,
    StepRequest,
    StepResult,
    WithoutModel,
)
from gitswarm.git.repository import Repository, open_repository
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Result, Status, new_run_id
from gitswarm.records.record import timestamp
from gitswarm.records.routing import RoutingMode
from gitswarm.records.run_spec import EngineChoice, FrozenSettings, RunSpec
from gitswarm.resources import bundled
from gitswarm.runner.begin import NewRun, create_run
from gitswarm.runner.deciding.route import decide_next
from gitswarm.runner.run import carry_on
from gitswarm.runner.run_context import Observer, RunContext
from gitswarm.runner.run_worktree import RunWorktree, prepare_worktree
from gitswarm.runner.specs import freeze, user_files
from gitswarm.specs.library import load_library
from gitswarm.worktree.shadow import Placement

EDITS = 3
NEW_FILES = 2
WARM_UP = 5
"""Steps that are left out: first imports, first listing of every folder."""


class Samples(Struct, frozen=True):
    """Milliseconds per step, in the order of the run."""

    files: int
    swarm: Sequence[float]
    git: Sequence[float]


def change(root: Path, step: int, files: int) -> None:
    """Three edits and two files that are new in the first twenty steps: the repository does not grow after that."""
    for number in range(EDITS):
        path = root / source_name((step * 7 + number * 31) % files)
        path.write_text(f"value = {step} + {number}\n" * 8, encoding="utf-8")
    for number in range(NEW_FILES):
        path = root / "src" / f"new{step % 20}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"step = {step}\n", encoding="utf-8")


@dataclass(slots=True)
class ChangeEngine(WithoutModel):
    """Makes the change of the n-th step, and knows how long that took."""

    files: int
    steps: int = 0
    own_s: float = 0.0
    engine_id: str = "claude-step"
    mode: str = "stub"
    capabilities: Capabilities = LOCAL_WORK

    def run(self, request: StepRequest, emit: Emit) -> StepResult:  # noqa: ARG002 - the port
        started = time.perf_counter()
        change(request.worktree, self.steps, self.files)
        self.steps += 1
        handoff = Handoff(status=Status.UNVERIFIED, summary=f"change {self.steps}", can_further_iteration_help="yes")
        self.own_s = time.perf_counter() - started
        return StepResult(request.execution.step, Result.SUCCEEDED, "changed", handoff=handoff)


@dataclass(slots=True)
class Turns(Observer):
    """Times each committed step, then lets plain git commit the same change in its own repository."""

    engine: ChangeEngine
    plain: Checkout
    limit: int
    swarm_ms: list[float] = field(default_factory=list)
    git_ms: list[float] = field(default_factory=list)
    since: float = field(default_factory=time.perf_counter)

    def committed(self, state: RunState) -> None:  # noqa: ARG002 - the port
        spent = time.perf_counter() - self.since - self.engine.own_s
        self.swarm_ms.append(spent * 1000)
        change(self.plain.root, self.engine.steps - 1, self.engine.files)
        started = time.perf_counter()
        self.plain.git("add", "-A")
        self.plain.git("commit", "-q", "-m", f"bench/write: change {self.engine.steps}")
        self.git_ms.append((time.perf_counter() - started) * 1000)
        self.since = time.perf_counter()

    def done(self) -> bool:
        return len(self.swarm_ms) >= self.limit


def measure(folder: Path, files: int, steps: int) -> Samples:
    env = environment(folder / "home")
    project = make_checkout(folder / "swarm", env, files, max_iterations=steps)
    plain = make_checkout(folder / "plain", env, files, max_iterations=steps)
    os.environ.update(env)
    repository = open_repository(project.root, env)
    engine = ChangeEngine(files)
    turns = Turns(engine, plain, steps + WARM_UP)
    context = RunContext(env, lambda: datetime.now(UTC), Placement(None, folder / "state"), turns, turns.done)
    with create_run(repository, new_run(repository, project), context) as (session, state):
        own = replace(session, engines={(engine.engine_id, engine.mode): engine})
        shadow = prepare_worktree(own)
        turns.since = time.perf_counter()
        carry_on(own, RunWorktree.of(own, shadow), state, decide_next(own, state))
    if not turns.done():
        raise RuntimeError(f"the run ended after {len(turns.swarm_ms)} of {turns.limit} steps")
    return Samples(files, turns.swarm_ms[WARM_UP:], turns.git_ms[WARM_UP:])


def new_run(repository: Repository, project: Checkout) -> NewRun:
    base = project.git("rev-parse", "HEAD")
    library = load_library(bundled("flows"), user_files(repository, repository.objects.commit(base).tree))
    now = datetime.now(UTC)
    choice = EngineChoice(engine="claude-step", mode="stub", provider="none")
    spec = RunSpec(
        run_id=new_run_id(now, os.urandom(2)),
        created_at=timestamp(now),
        flows=(FLOW,),
        base=base,
        base_ref="main",
        task="measure",
        routing_mode=RoutingMode.ASSIST,
        allow_stub=False,
        scripted=False,
        initiator="benchmark",
        settings=FrozenSettings(default_engine=choice),
    )
    return NewRun(spec, freeze(library, (FLOW,)))


def rows(samples: Samples) -> Sequence[Mapping[str, float]]:
    """One row per length of run: a shorter run is the beginning of the long one."""
    found = []
    for length in (20, 200, 2000):
        if length > len(samples.swarm):
            continue
        swarm = statistics.median(samples.swarm[:length])
        git = statistics.median(samples.git[:length])
        pairs = zip(samples.swarm[:length], samples.git[:length], strict=True)
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        found.append(
            {
                "files": samples.files,
                "steps": length,
                "git_ms": git,
                "swarm_ms": swarm,
                "ratio": ratio,
                "growth": _growth(samples.swarm[:length]),
                "git_growth": _growth(samples.git[:length]),
            }
        )
    return found


def _growth(values: Sequence[float]) -> float:
    """Last tenth (at most 100) against first, as medians."""
    part = max(1, min(100, len(values) // 10))
    return statistics.median(values[-part:]) / statistics.median(values[:part])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[100, 5_000, 50_000])
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--json", type=Path, default=None, help="every sample goes here")
    arguments = parser.parse_args()
    print("| files | steps | git add + commit, ms | git-swarm, ms | ratio | growth | git's growth |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    kept = []
    for files in arguments.files:
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder:
            samples = measure(Path(folder), files, arguments.steps)
        kept.append(asdict(samples))
        for row in rows(samples):
            print(
                f"| {row['files']:,} | {row['steps']:,} | {row['git_ms']:.1f} | {row['swarm_ms']:.1f} "
                f"| {row['ratio']:.2f} | {row['growth']:.2f} | {row['git_growth']:.2f} |",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
