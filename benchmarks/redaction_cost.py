"""What it costs to look for secrets: 10 MB of a transcript, against one `grep -E` with ten patterns on the same text.

python -m benchmarks.redaction_cost [--megabytes 10] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gitswarm.records.safety import SecretRules
from gitswarm.safety.redact.redactor import Redactor

PATTERNS = (
    "AKIA[0-9A-Z]{16}",
    "gh[pousr]_[A-Za-z0-9]{36}",
    "glpat-[A-Za-z0-9_-]{20}",
    "xox[abpr]-[0-9]+-[A-Za-z0-9]+",
    "sk-ant-[A-Za-z0-9_-]{20,}",
    "AIza[A-Za-z0-9_-]{35}",
    "[rs]k_live_[A-Za-z0-9]{24}",
    "-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "eyJ[A-Za-z0-9_-]{10,}[.][A-Za-z0-9_-]{10,}",
    "(password|secret|token)[\"' ]*[:=][\"' ]*[^\"' ]{8,}",
)
SOURCES = ("gitswarm", "tests", "docs", "flows")


def transcript(size: int) -> str:
    """Files of this repository as tools would have shown them, with commit ids, test output and colours between."""
    dice = random.Random(6)  # noqa: S311 - the same text each time
    root = Path(__file__).parent.parent
    texts = [path.read_text(encoding="utf-8") for path in sorted(_sources(root))]
    parts: list[str] = []
    length = 0
    while length < size:
        commit = f"commit {dice.randbytes(20).hex()}\n\x1b[32m{dice.randint(1, 400)} passed\x1b[0m in 3.2s\n"
        part = commit + json.dumps({"type": "tool_result", "output": dice.choice(texts)}, ensure_ascii=False) + "\n"
        parts.append(part)
        length += len(part)
    return "".join(parts)[:size]


def _sources(root: Path) -> Iterator[Path]:
    for folder in SOURCES:
        yield from (path for path in (root / folder).rglob("*") if path.suffix in {".py", ".md", ".yaml", ".json"})


def seconds(work: Callable[[], object], rounds: int) -> float:
    taken = []
    for _round in range(rounds):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    text = transcript(arguments.megabytes * 1_000_000)
    redactor = Redactor(SecretRules(), {"ACME_API_KEY": "a-Value_0f.the/environment"})
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(text.encode())
        file.flush()
        grep = ["grep", "-c", "-E", *(word for pattern in PATTERNS for word in ("-e", pattern)), file.name]
        theirs = seconds(lambda: subprocess.run(grep, capture_output=True, check=False), arguments.rounds)
    ours = seconds(lambda: redactor.scrub(text), arguments.rounds)
    print("| text, MB | grep -E, ten patterns, s | scrub, s | MB/s | ratio |")
    print("|---:|---:|---:|---:|---:|")
    speed = arguments.megabytes / ours
    print(f"| {arguments.megabytes} | {theirs:.2f} | {ours:.2f} | {speed:.1f} | {ours / theirs:.1f} |")


if __name__ == "__main__":
    main()
