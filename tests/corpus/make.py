"""Stores runs of every kind with the version that executes this, and what that version says about them.

`python -m tests.corpus.make NAME` writes `tests/corpus/NAME.tar.gz` (a bare repository) and `NAME.json.gz` (per run:
the answers of the reading commands, and what `resume` makes of a copy). Made once per storage format and never again:
a later version has to read what an earlier one wrote.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.corpus.ask import Corpus, answers, resumed
from tests.forking import AUDITS, STATIONS

FOLDER = Path(__file__).parent

SMALL = """\
id: small
title: Small
steps:
  - {id: write, station: maker, teaching: {outputs: [notes.md, "src/**"]}}
  - {id: judge, station: reader, routing: {kind: microloop, loop_target: write, max_iterations: 3}}
  - id: test
    engine: command
    command: {run: "sh check.sh"}
    routing:
      {kind: branch, when: [{if: "evidence.tests.passed == true", next: close}], default: write, max_iterations: 3}
  - {id: close, station: maker, routing: {kind: terminal}}
"""
DETOURS = """\
id: detours
title: Detours
steps:
  - {id: write, station: maker}
  - {id: close, station: maker}
"""
QUEST = """\
id: look-twice
title: Look twice
priority: 60
triggers: [{kind: condition, if: 'envelope.step_id == "write" && envelope.status == "PARTIAL"'}]
steps: [{id: look, station: reader}]
"""
SUCCEEDS = """\
steps:
  write:
    - {write: {src/app.py: "print(1)\\n"}, tokens: {prompt: 1200, completion: 300}, cost_usd: 0.01, run: ["ls"]}
    - {write: {src/app.py: "print(2)\\n", check.sh: "test -f src/app.py\\n"}, cost_usd: 0.02, concerns: [short]}
  judge:
    - {status: UNVERIFIED, can_further_iteration_help: "yes", concerns: [no check]}
    - {status: VERIFIED, summary: "good"}
"""
FAILS = (
    'steps:\n  judge:\n    - {status: UNVERIFIED, can_further_iteration_help: "yes"}\n    - {fail: "overloaded"}\n'
)
BLOCKED = 'steps:\n  judge: {status: BLOCKED, blockers: ["which port?"]}\n'
WAITS = """\
steps:
  judge: {write: {half.txt: half}, run: ['test -e "$HOME/again" || sleep 600']}
"""
DETOURED = "steps:\n  write: {status: PARTIAL, concerns: [half]}\n"
CLASHES = """\
steps:
  left: {write: {same.txt: "left\\n"}}
  right: {write: {same.txt: "right\\n"}, status: PARTIAL}
"""


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        made = Corpus(Path(scratch) / "project")
        _begin(made)
        _fill(made)
        packed = _pack(made)
        (FOLDER / f"{name}.tar.gz").write_bytes(packed)
        read = Corpus.unpacked(packed, Path(scratch) / "read")
        expected = {run: answers(read, run) for run in read.runs()}
        for run, said in expected.items():
            said["resumed"] = resumed(Corpus.unpacked(packed, Path(scratch) / run), run)
    text = json.dumps(expected, indent=1, sort_keys=True).encode()
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text, mtime=0))


def _begin(made: Corpus) -> None:
    made.root.mkdir(parents=True)
    made.git("init", "-q", "-b", "main")
    flows = {"small": SMALL, "detours": DETOURS, "fan": AUDITS, "writers": _writers()}
    files = {f".swarm/flows/{name}.yaml": text for name, text in flows.items()}
    files |= {f".swarm/flows/stations/{name}.yaml": text for name, text in STATIONS.items()}
    files |= {".swarm/flows/sidequests/look-twice.yaml": QUEST, "README.md": "# corpus\n", "src/app.py": "print(0)\n"}
    files |= {"check.sh": "false\n"}
    for path, text in files.items():
        (made.root / path).parent.mkdir(parents=True, exist_ok=True)
        (made.root / path).write_text(text, encoding="utf-8")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")


def _writers() -> str:
    return AUDITS.replace("id: fan\n", "id: writers\n").replace("station: reader", "station: maker")


def _fill(made: Corpus) -> None:
    start = made.start
    start("small", SUCCEEDS, "-m", "a task\nof two lines")
    start("small", FAILS, code=4)
    start("small", BLOCKED, code=5)
    start("small", SUCCEEDS, "--until", "judge")
    start("fan", "steps: {}\n")
    start("writers", CLASHES)
    start("detours", DETOURED)
    start("build", "steps: {}\n", "-m", "the whole flow")
    void_commits = start("small", SUCCEEDS)
    made.swarm("rollback", "judge@1", "--run", void_commits)
    forked = start("small", SUCCEEDS)
    made.swarm("fork", "write@2", "--run", forked)
    landed = start("small", SUCCEEDS, "--allow-stub")
    made.swarm("approve", landed)
    made.swarm("land", landed)
    skipped = start("small", BLOCKED, code=5)
    made.swarm("skip", "judge", "--run", skipped, code=None)
    _killed(made)
    cut = start("small", SUCCEEDS, "--until", "judge")
    _between_object_and_branch(made, cut)


def _killed(made: Corpus) -> None:
    """A run whose owner was killed while a step worked: its journal has no commit."""
    script = made.script(WAITS)
    argv = [*made.argv, "start", "small", "--script", script]
    running = subprocess.Popen(
        argv,
        cwd=made.root,
        env=made.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    journal = made.root / ".git" / "swarm" / "journal"
    while not any(journal.glob("*/small.judge@1.jsonl")):
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def _between_object_and_branch(made: Corpus, run: str) -> None:
    """As if killed after the commit object of a step was made: `next` has it, the branch does not."""
    end = made.git("rev-parse", f"refs/heads/shadow/{run}")
    step = made.git("rev-parse", f"{end}^")
    made.git("update-ref", f"refs/heads/shadow/{run}", f"{step}^")
    made.git("update-ref", f"refs/swarm/{run}/next", step)
    for kind in ("events", "routing"):
        for commit in (end, step):
            subprocess.run(
                ["git", "notes", f"--ref=swarm/{run}/{kind}", "remove", "--ignore-missing", commit],
                cwd=made.root,
                env=made.env,
                check=True,
                capture_output=True,
            )


def _pack(made: Corpus) -> bytes:
    for worktree in _worktrees(made):
        shutil.rmtree(worktree)
    made.git("worktree", "prune")
    made.git("repack", "-adq")
    made.git("pack-refs", "--all")
    folder = made.root / ".git"
    for name in ("hooks", "logs", "index", "COMMIT_EDITMSG", "ORIG_HEAD", "description"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=9) as archive:
        archive.add(folder, arcname=".git")
    return packed.getvalue()


def _worktrees(made: Corpus) -> Iterator[Path]:
    listed = made.git("worktree", "list", "--porcelain", "-z").split("\0")
    found = (Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree "))
    yield from (path for path in found if path != made.root)


if __name__ == "__main__":
    main(sys.argv[1])
