"""What it costs to compare a run's tests with its base's, on real suites: whole test steps against the suite alone.

    python -m benchmarks.proof_cost FOLDER

Source distributions are fetched into FOLDER. In each project a scripted agent adds a function (`code`), or changes a
file that decides about tests too (`harness`); then the project's own suite runs by pytest of this Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from benchmarks.false_warnings import fetch
from benchmarks.projects import Checkout, environment

PROJECTS = {
    "boltons": "26.2.0",
    "cachetools": "8.0.1",
    "more-itertools": "11.2.1",
    "parso": "0.8.7",
    "sqlparse": "0.6.1",
}
FLOW = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: test}
"""
PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
CHANGES = {
    "code": {"zz_new.py": "def new():\n    return 1\n"},
    "harness": {"zz_new.py": "def new():\n    return 1\n", "conftest.py": "# nothing\n"},
}


class Measured(Struct, frozen=True):
    """Seconds; `named`: tests with a name and an outcome."""

    executed: int
    named: bool
    suite_s: float
    step_s: float


def unpacked(archive: Path, folder: Path, env: dict[str, str]) -> Checkout:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    checkout = Checkout(root, env)
    checkout.git("init", "-q", "-b", "main")
    (root / ".swarm/flows").mkdir(parents=True)
    (root / ".swarm/flows/work.yaml").write_text(FLOW, encoding="utf-8")
    (root / ".swarm/config.yaml").write_text(f"commands: {{test: '{PYTEST}'}}\n", encoding="utf-8")
    checkout.git("add", "-A", "-f")
    checkout.git("commit", "-q", "-m", "as released")
    return checkout


def measured(checkout: Checkout, change: dict[str, str], scratch: Path) -> Measured:
    """The suite alone on the run's code, and the test step with all that it runs besides."""
    script = scratch / "script.json"
    script.write_text(json.dumps({"steps": {"write": {"write": change}}}), encoding="utf-8")
    _swarm(checkout, "start", "work", "--script", str(script), "--allow-stub", "--until", "write")
    run = _asked(checkout, "list", "--json")[0]["run_id"]
    worktree = _swarm(checkout, "path", run).stdout.strip()
    began = time.perf_counter()
    subprocess.run(PYTEST.split(), cwd=worktree, env=dict(checkout.env), capture_output=True, check=False)
    suite_s = time.perf_counter() - began
    began = time.perf_counter()
    _swarm(checkout, "resume", run)
    step_s = time.perf_counter() - began
    shown = _asked(checkout, "show", "test", "--run", run, "--evidence")
    report, found = shown["report"] or {}, {each["flag"] for each in shown["opened"]}
    executed = report.get("passed", 0) + report.get("failed", 0)
    return Measured(executed, not report.get("partial", True) and "not_compared" not in found, suite_s, step_s)


def _swarm(checkout: Checkout, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gitswarm", *arguments]
    return subprocess.run(
        command, cwd=checkout.root, env=dict(checkout.env), capture_output=True, text=True, check=False
    )


def _asked(checkout: Checkout, *arguments: str) -> Any:
    return json.loads(_swarm(checkout, *arguments).stdout)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print("| project | tests | all named | change | suite, s | with all that runs besides, s | ratio |")
    print("|---|---:|---|---|---:|---:|---:|")
    for project, version in PROJECTS.items():
        (archive,) = fetch(project, (version,), folder)
        for name, change in CHANGES.items():
            with TemporaryDirectory() as place:
                env = environment(Path(place) / "home")
                (Path(place) / "project").mkdir()
                checkout = unpacked(archive, Path(place) / "project", env)
                found = measured(checkout, change, Path(place))
                print(
                    f"| {project} {version} | {found.executed} | {'yes' if found.named else 'no'} | {name} "
                    f"| {found.suite_s:.1f} | {found.step_s:.1f} | {found.step_s / found.suite_s:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
