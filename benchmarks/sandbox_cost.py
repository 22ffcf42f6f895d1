"""What a step costs in the sandbox, against the same step without: from one `step_start` to the next, in turn.

python -m benchmarks.sandbox_cost [--files 5000] [--rounds 5]

The session is one of the real Claude CLI, with a scripted model that answers at once. The last column is about the
processor time of the whole command, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from benchmarks.projects import environment, make_checkout
from benchmarks.session_cost import model
from tests.loopback.server import serving
from tests.routed import MAKER

STEPS = 12
SESSIONS = 5
WARM_UP = 2
LINES = {
    "true": "true",
    "status and 20 processes": "git status --short; for i in $(seq 20); do /bin/true; done; echo $$ > new.txt",
    "half a second of work": "seq 2000000 | sort -r | tail -n 1",
}
FETCHED = Path(__file__).parents[1] / ".venv" / "bubblewrap" / "bin"


def flow(line: str | None) -> str:
    """
    :param line: of a command step; None: sessions.
    """
    one = "station: maker" if line is None else f"engine: command, command: {json.dumps({'run': line})}"
    steps = "\n".join(f"  - {{id: s{number}, {one}}}" for number in range(SESSIONS if line is None else STEPS))
    return f"id: timed\ntitle: Steps\nsteps:\n{steps}\n"


def step_ms(root: Path, env: Mapping[str, str], sandbox: str) -> tuple[Sequence[float], float]:
    """Milliseconds of each step of one run; seconds of a processor that it took."""
    subprocess.run(["git", "config", "swarm.policy.sandbox", sandbox], cwd=root, env=dict(env), check=True)
    argv = [sys.executable, "-m", "gitswarm", "start", "timed", "--mode", "cli", "--json"]
    before = _processor_s()
    told = subprocess.run(argv, cwd=root, env=dict(env), check=True, capture_output=True, text=True).stdout
    took = _processor_s() - before
    events = [json.loads(line) for line in told.splitlines()]
    begun = [datetime.fromisoformat(each["ts"]) for each in events if each["kind"] == "step_start"]
    return [(later - earlier).total_seconds() * 1000 for earlier, later in pairwise(begun)][WARM_UP:], took


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| step | without, ms | in the sandbox, ms | ratio | of processor time |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder, serving() as loopback:
        env = environment(Path(folder) / "home") | {
            "ANTHROPIC_API_KEY": "sk-ant-dummy",
            "ANTHROPIC_BASE_URL": loopback.play("model", model),
        }
        env["PATH"] = f"{FETCHED}{os.pathsep}{env['PATH']}"
        checkout = make_checkout(Path(folder) / "repo", env, arguments.files, max_iterations=1)
        for name, line in {**LINES, "a session with three tool calls": None}.items():
            for path, text in {**MAKER, ".swarm/flows/timed.yaml": flow(line)}.items():
                (checkout.root / path).parent.mkdir(exist_ok=True)
                (checkout.root / path).write_text(text, encoding="utf-8")
            checkout.git("add", "-A")
            checkout.git("commit", "-q", "-m", name)
            found: dict[str, list[float]] = {"off": [], "require": []}
            took = dict.fromkeys(found, 0.0)
            for _ in range(arguments.rounds):
                for sandbox in found:
                    samples, seconds = step_ms(checkout.root, env, sandbox)
                    found[sandbox] += samples
                    took[sandbox] += seconds
            without, within = (statistics.median(samples) for samples in found.values())
            ratios = f"{within / without:.2f} | {took['require'] / took['off']:.2f}"
            print(f"| {name} | {without:.0f} | {within:.0f} | {ratios} |", flush=True)
    print(f"load average at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
