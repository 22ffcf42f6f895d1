"""What the push guard costs on many outgoing commits, against `git rev-list` of the same range.

    python -m benchmarks.guard_cost [--commits 10000] [--rounds 7]

Both are started as processes, in turns. `quoting`: every message ends in the trailers of a step. `with evidence`: the
repository holds the papers of a landed run, so that messages have to be read.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from benchmarks.projects import Checkout, environment
from gitswarm.resources import bundled

MOST_RATIO = 10
RUN = "run-20260101-000000-000000"
TRAILERS = f"Swarm-Format: 1\nSwarm-Kind: step\nSwarm-Run: {RUN}\nSwarm-Step: work\n"
BASE = "0" * 40


class Kind(Struct, frozen=True):
    """What outgoing commits look like. `graph`: git has a commit-graph of them, as after `git gc`."""

    name: str
    quoting: bool = False
    evidence: bool = False
    graph: bool = False


KINDS = (
    Kind("ordinary"),
    Kind("ordinary, commit-graph", graph=True),
    Kind("quoting", quoting=True),
    Kind("quoting, commit-graph", quoting=True, graph=True),
    Kind("ordinary, with evidence", evidence=True),
    Kind("quoting another run, with evidence", quoting=True, evidence=True),
    Kind("quoting another run, with evidence, commit-graph", quoting=True, evidence=True, graph=True),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    print("| outgoing commits | git rev-list, ms | guard, ms | ratio |")
    print("|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(KINDS):
            print(_row(kind, _make(Path(folder) / str(number), kind, asked.commits), asked.rounds), flush=True)
    print(f"\nratio: at most {MOST_RATIO}")


def _row(kind: Kind, checkout: Checkout, rounds: int) -> str:
    tip = checkout.git("rev-parse", "main")
    guard = [str(bundled("hooks") / "pre-push"), "origin", "../origin.git"]
    line = f"refs/heads/main {tip} refs/heads/main {BASE}\n"
    plain, ours, ratios = [], [], []
    for _round in range(rounds):
        plain.append(_milliseconds(checkout, ["git", "rev-list", tip, "--not", "--remotes=origin"], ""))
        ours.append(_milliseconds(checkout, guard, line))
        ratios.append(ours[-1] / plain[-1])
    first, second, ratio = (statistics.median(samples) for samples in (plain, ours, ratios))
    return f"| {kind.name} | {first:.0f} | {second:.0f} | {ratio:.1f} |"


def _milliseconds(checkout: Checkout, argv: list[str], stdin: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        argv, cwd=checkout.root, env=dict(checkout.env), input=stdin, stdout=subprocess.DEVNULL, text=True, check=True
    )
    return (time.perf_counter() - began) * 1000


def _make(folder: Path, kind: Kind, commits: int) -> Checkout:
    root = folder / "repo"
    root.mkdir(parents=True)
    checkout = Checkout(root, environment(folder / "home"))
    checkout.git("init", "-q", "-b", "main")
    history = "".join(_history(kind, commits)).encode()
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, env=dict(checkout.env), input=history, check=True)
    checkout.git("update-ref", "refs/remotes/origin/main", "refs/heads/start")
    checkout.git("-c", "gc.writeCommitGraph=false", "gc", "--quiet")
    if kind.graph:
        checkout.git("commit-graph", "write", "--reachable")
    return checkout


def _history(kind: Kind, commits: int) -> Iterator[str]:
    papers = {f".swarm/runs/{RUN[:-1]}1/spec.json": "{}\n"} if kind.evidence else {}
    yield _commit(0, "start", f"start\n\nSwarm-Landed: {RUN} {BASE}\n", {"README.md": "hello\n", **papers})
    yield "reset refs/heads/main\nfrom refs/heads/start\n\n"
    for number in range(1, commits + 1):
        message = f"change {number}\n\nWhat it does, in some more words than fit in a line.\n"
        name = f"src/folder{number % 50}/file{number % 200}.py"
        yield _commit(number, "main", message + (f"\n{TRAILERS}" if kind.quoting else ""), {name: f"{number}\n"})


def _commit(number: int, branch: str, message: str, files: dict[str, str]) -> str:
    head = f"commit refs/heads/{branch}\ncommitter B <b@example.org> {1_700_000_000 + number} +0000\n"
    changes = "".join(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n" for name, text in files.items())
    return f"{head}data {len(message)}\n{message}\n{changes}\n"


if __name__ == "__main__":
    main()
