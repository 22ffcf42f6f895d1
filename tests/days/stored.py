"""What runs leave, as `examples/` has it: without ids, hashes, times and folders.

`EXAMPLES=write` writes it anew instead of comparing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.conftest import Project

EXAMPLES = Path(__file__).parents[2] / "examples"
_PLAIN = (
    (re.compile(r"run-\d{8}-\d{6}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,40}\b"), "HASH"),
    (re.compile(r"(?<=_tests: passed: ).*"), "COMMAND"),
    (re.compile(r"\b\d+(?:\.\d+)?(?:ms|s)\b"), "TIME"),
)


def compare(name: str, text: str) -> None:
    """With the file of that name; both end with a newline."""
    for pattern, word in _PLAIN:
        text = pattern.sub(word, text)
    stored = EXAMPLES / name
    if os.environ.get("EXAMPLES") == "write":
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(f"{text}\n", encoding="utf-8")
    assert f"{text}\n" == stored.read_text(encoding="utf-8")


def compare_flow(project: Project, run: str, flow: str) -> None:
    """What one flow of a run did and decided, step by step, the artifacts that it left, and the files of the code."""
    steps = [step for step in project.json("log", run) if step["flow"] == flow]
    last, base = steps[-1]["commit"], f".swarm/runs/{run}/{flow}/"
    lines = []
    for step in steps:
        routing, decided = step["routing"], step["routing"]["decision"]
        way = f"{decided} {routing['to_step'] or ''}".rstrip()
        lines.append(f"{flow}/{step['step']}: {step['summary']}")
        lines.append(f"    {step['agent']}, {step['status'] or step['result']}")
        lines.append(f"    {way} ({routing['routing_source']}): {routing['reason']}")
    paths = project.git("ls-tree", "-r", "--name-only", last, base).splitlines()
    kernel = tuple(
        f"{base}{folder}/" for folder in ("base", "events", "evidence", "handoff", "llm", "receipts", "routing")
    )
    artifacts = [path.removeprefix(base) for path in paths if not path.startswith(kernel)]
    listed = {"": lines, "artifacts": artifacts, "files": sorted(project.tree(last))}
    compare(
        f"flows/{flow}.txt",
        "\n\n".join("\n".join(([title] if title else []) + rows) for title, rows in listed.items()),
    )
