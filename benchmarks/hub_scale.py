"""What a hub with many runs costs: `list --hub`, the push of a step and `gc --hub`, against plain git, in turns.

    python -m benchmarks.hub_scale [--runs 100 1000 10000] [--rounds 5] [--steps 8] [--refs loose packed]
        [--fold 200]

One run of 20 steps is executed and pushed, and copied on the hub under other ids: every commit, note and lease. Only
the notes are on the commits of the first.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from unittest import mock

from benchmarks import hub_push
from benchmarks.command_cost import swarm, timed
from benchmarks.projects import FLOW, Checkout, environment, make_checkout
from gitswarm.cli.invocation import now
from gitswarm.git.remote import remote_of
from gitswarm.git.repository import open_repository
from gitswarm.ledger.layout import run_of
from gitswarm.runner.undo import archiving
from gitswarm.runner.undo.archiving import Folded, fold_on_hub

_STEPS = 20
_FILES = 100
_SCRIPT = """\
default: {run: ["date +%N > x.txt"]}
steps: {critique: {run: ["date +%N > x.txt"], status: UNVERIFIED, can_further_iteration_help: 'yes'}}
"""


def make_hub(folder: Path, runs: int) -> Checkout:
    """A clone; `hub.git` beside it has the runs."""
    env = environment(folder / "home")
    project = make_checkout(folder / "clone", env, _FILES, max_iterations=_STEPS // 2)
    hub = folder / "hub.git"
    project.git("init", "-q", "--bare", str(hub))
    Checkout(hub, env).git("config", "uploadpack.allowFilter", "true")
    project.git("push", "-q", str(hub), "main")
    project.git("remote", "add", "hub", str(hub))
    project.git("config", "swarm.hub", "hub")
    script = folder / "script.yaml"
    script.write_text(_SCRIPT, encoding="utf-8")
    swarm(project, "start", FLOW, "--script", str(script), "--hub")
    copy_runs(Checkout(hub, env), runs)
    return project


def copy_runs(hub: Checkout, runs: int) -> None:
    """Under ids of the same length. Leases come last: each names the tip of its run."""
    (run,) = hub.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow").split()
    refs = [ref for ref in hub.git("for-each-ref", "--format=%(refname)").split() if run in ref]
    lease = f"refs/swarm/{run}/lease"
    ids = [f"{run[:-6]}{number:06x}" for number in range(runs - 1)]
    base = f"refs/swarm/{run}/base"
    own = [ref for ref in refs if ref not in (lease, base)]
    exported = _output(hub, "fast-export", "--reference-excluded-parents", *own, "^main")
    _import(hub, (exported.replace(run.encode(), each.encode()) for each in ids))
    at = hub.git("rev-parse", base)
    moves = "".join(f"update {base.replace(run, each)} {at}\n" for each in ids)
    subprocess.run(
        ["git", "update-ref", "--stdin"], cwd=hub.root, env=dict(hub.env), input=moves.encode(), check=True
    )
    tips = dict(
        line.split()
        for line in hub.git(
            "for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", "refs/heads/shadow"
        ).splitlines()
    )
    tip = tips[f"{run}"]
    held = _output(hub, "fast-export", lease)
    _import(
        hub, (held.replace(run.encode(), each.encode()).replace(tip.encode(), tips[each].encode()) for each in ids)
    )
    hub.git("pack-refs", "--all")


def _output(at: Checkout, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=at.root, env=dict(at.env), check=True, capture_output=True).stdout


def _import(hub: Checkout, streams: Iterable[bytes]) -> None:
    argv = ["git", "fast-import", "--quiet", "--force"]
    with subprocess.Popen(argv, cwd=hub.root, env=dict(hub.env), stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None  # noqa: S101
        for stream in streams:
            importing.stdin.write(stream)


def unpack_refs(hub: Path) -> None:
    """A file for each ref, as pushes leave them until somebody packs them."""
    packed = hub / "packed-refs"
    for line in packed.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("#", "^")):
            path = hub / line[41:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{line[:40]}\n", encoding="utf-8")
    packed.unlink()


def copy_refs(hub: Path, to: Path, _commit: str) -> None:
    """The hub's refs in another bare repository, with its objects."""
    (to / "objects" / "info" / "alternates").write_text(f"{hub}/objects\n", encoding="utf-8")
    for name in ("refs", "packed-refs"):
        if (hub / name).is_dir():
            shutil.copytree(hub / name, to / name, dirs_exist_ok=True)
        elif (hub / name).exists():
            shutil.copy(hub / name, to / name)


def measure_list(project: Checkout, rounds: int) -> tuple[list[float], list[float]]:
    git, ours = list[float](), list[float]()
    for _round in range(rounds):
        timed(git, lambda: project.git("ls-remote", "hub"))
        timed(ours, lambda: swarm(project, "list", "--hub"))
    return git, ours


def measure_fold(project: Checkout, folder: Path, count: int) -> tuple[list[float], list[float]]:
    """Of so many runs, against a push of all their refs to an empty repository."""
    git, ours = list[float](), list[float]()
    hub = Checkout(folder / "hub.git", project.env)
    repository = open_repository(project.root, project.env)
    fold = fold_on_hub(
        repository, remote_of(repository, "hub", project.env), now, now() + timedelta(days=1), dry_run=False
    )
    folded = list[Folded]()
    before = hub.git("for-each-ref", "--format=%(refname)").splitlines()
    with mock.patch.object(archiving, "_AT_ONCE", count):
        timed(ours, lambda: folded.extend(islice(fold, count)))
    runs = {each.run.run_id for each in folded}
    project.git("init", "-q", "--bare", str(folder / "empty.git"))
    gone = [ref for ref in before if run_of(ref) in runs]
    project.git("fetch", "-q", "hub", "refs/swarm/archive")
    stored = {run: archived_refs_of(project, run) for run in runs}
    refs = [f"{to}:{ref}" for run in sorted(runs) for ref, to in stored[run].items() if ref in gone]
    project.git("push", "-q", str(folder / "empty.git"), "main")
    timed(git, lambda: hub.git("push", "-q", str(folder / "empty.git"), *refs))
    return git, ours


def archived_refs_of(project: Checkout, run: str) -> dict[str, str]:
    printed = project.git("cat-file", "-p", f"FETCH_HEAD:.swarm/runs/{run}/refs")
    return {name: to for to, _blank, name in (line.partition(" ") for line in printed.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--refs", nargs="+", choices=("loose", "packed"), default=["loose", "packed"])
    parser.add_argument("--fold", type=int, default=100)
    asked = parser.parse_args()
    print("| runs | refs on the hub | what | git, ms | git-swarm, ms | ratio |")
    print("|---:|---|---|---:|---:|---:|", flush=True)
    for runs in asked.runs:
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as name:
            folder = Path(name)
            project = make_hub(folder, runs)
            hub = folder / "hub.git"
            count = len(project.git("ls-remote", "hub").splitlines())
            for form in sorted(asked.refs, reverse=True):  # they are packed as they were made
                if form == "loose":
                    unpack_refs(hub)
                row = partial(show, f"{runs:,}", f"{count:,} {form}")
                row("`git ls-remote`, first `list --hub`", *measure_list(project, 1))
                row("`git ls-remote`, `list --hub`", *measure_list(project, asked.rounds))
                with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as other:
                    ours, git = hub_push.measure(Path(other), asked.steps, partial(copy_refs, hub))
                row("`git push`, push of a step", git, ours)
            row(f"`git push` of {asked.fold} runs, `gc --hub` of them", *measure_fold(project, folder, asked.fold))


def show(runs: str, refs: str, what: str, git: list[float], ours: list[float]) -> None:
    ratio = statistics.median(one / other for one, other in zip(ours, git, strict=True))
    times = f"{statistics.median(git):.0f} | {statistics.median(ours):.0f}"
    print(f"| {runs} | {refs} | {what} | {times} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
