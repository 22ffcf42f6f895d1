"""All benchmarks, their ratios kept in a file and held against the last ones that were committed.

    python -m benchmarks [--quick] [--only NAME ...] [--trend]

Each prints tables of Markdown; a row's name is what stands in its left-aligned columns and in those before the first
measure. `benchmarks/results/DATE-COMMIT.json` gets the ratio of each.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "benchmarks" / "results"
BARS = "▁▂▃▄▅▆▇█"
MEASURES = ("ms", "µs", "median", "MB/s", "CPU", ", s", "git", "suite")


class Benchmark(Struct, frozen=True):
    """`quick`: options with which it takes less than a minute."""

    name: str
    quick: str = ""
    options: str = ""


BENCHMARKS = (
    Benchmark("step_cost", "--files 100 --steps 40"),
    Benchmark("command_cost", "--files 100 --rounds 3"),
    Benchmark("run_cost", "--steps 80 --runs 200 --rounds 3"),
    Benchmark("decision_cost"),
    Benchmark("guard_cost", "--commits 1000 --rounds 3"),
    Benchmark("redaction_cost", "--megabytes 2"),
    *(
        Benchmark("session_cost", "--steps 2 --rounds 1", f"--engine {each}")
        for each in ("claude", "codex", "gemini")
    ),
    Benchmark("sandbox_cost", "--rounds 1"),
    Benchmark("projection_cost", "--runs 20 --rounds 3"),
    Benchmark("page_cost", "--runs 200 --rounds 3"),
    Benchmark("hub_push", "--steps 20 --runs 0"),
    Benchmark("hub_scale", "--runs 100 --rounds 3 --steps 4 --fold 20", "--refs packed"),
    Benchmark("fleet_cost", "--runs 8 --rounds 1"),
)


class Results(Struct, frozen=True):
    """`ratios`: by benchmark and row, ours against plain git or a peer. `load`: the machine's, of 5 minutes."""

    date: str
    commit: str
    machine: str
    load: float
    quick: bool
    ratios: dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, a few minutes; compared with such only")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=sorted({each.name for each in BENCHMARKS}),
        help="its rows replace those of the same day and commit",
    )
    parser.add_argument("--trend", action="store_true", help="measure nothing, show all results that are kept")
    asked = parser.parse_args()
    kept = [msgspec.json.decode(path.read_bytes(), type=Results) for path in sorted(KEPT.glob("*.json"))]
    kept = [each for each in kept if each.quick == asked.quick]
    if asked.trend:
        print("\n".join(_trend(kept)))
        return 0
    ratios, failed = _measured(
        [each for each in BENCHMARKS if each.name in (asked.only or each.name)], quick=asked.quick
    )
    argv = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    date, machine = datetime.now(UTC).date().isoformat(), f"{os.cpu_count()} × {platform.machine()}"
    place = KEPT / f"{date}-{commit}{'-quick' if asked.quick else ''}.json"
    if place.exists():
        ratios = msgspec.json.decode(place.read_bytes(), type=Results).ratios | ratios
        kept = [each for each in kept if (each.date, each.commit) != (date, commit)]
    now = Results(date, commit, machine, round(os.getloadavg()[1], 1), asked.quick, ratios)
    print("\n## Against the last kept results\n")
    print("\n".join(_compared(kept[-1] if kept else None, now)))
    KEPT.mkdir(exist_ok=True)
    place.write_bytes(msgspec.json.format(msgspec.json.encode(now)) + b"\n")
    print(f"\nkept in {place.relative_to(ROOT)}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _measured(benchmarks: Sequence[Benchmark], *, quick: bool) -> tuple[dict[str, float], list[str]]:
    """The ratios by name, and the benchmarks that failed."""
    ratios: dict[str, float] = {}
    failed = []
    for each in benchmarks:
        title = f"{each.name} {each.options}".strip()
        print(f"\n## {title}\n", flush=True)
        output, code = _run(each, quick=quick)
        if code:
            failed.append(title)
        ratios |= {f"{title}: {row}": ratio for row, ratio in _ratios(output)}
    return ratios, failed


def _run(benchmark: Benchmark, *, quick: bool) -> tuple[str, int]:
    """Its output, shown as it comes, and its exit code."""
    words = f"{benchmark.options} {benchmark.quick if quick else ''}".split()
    argv = [sys.executable, "-m", f"benchmarks.{benchmark.name}", *words]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - for mypy
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return "".join(lines), process.returncode


def _ratios(output: str) -> Iterator[tuple[str, float]]:
    """Name and ratio of each row of the tables that have a column `ratio`."""
    head: list[str] = []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif set(line) <= set("|-: "):
            left = [not cell.endswith(":") for cell in cells]
            first = next((n for n, title in enumerate(head) if any(word in title for word in MEASURES)), len(head))
        elif "ratio" in head:
            name = ", ".join(
                f"{cell} {title}" if title in ("files", "steps") else cell
                for n, (title, cell) in enumerate(zip(head, cells, strict=True))
                if left[n] or n < first
            )
            cell = cells[head.index("ratio")]
            if cell.replace(".", "", 1).isdecimal():
                yield name, float(cell)


def _compared(last: Results | None, now: Results) -> Iterator[str]:
    yield f"| ratio of | {last.date if last else 'none'} | now | change |"
    yield "|---|---:|---:|---:|"
    for name, ratio in now.ratios.items():
        old = last.ratios.get(name) if last else None
        yield f"| {name} | {old or ''} | {ratio} | {f'{ratio / old - 1:+.0%}' if old else ''} |"


def _trend(kept: Sequence[Results]) -> Iterator[str]:
    """Each row's ratio from the oldest result to the newest, the highest as a whole block."""
    for name in dict.fromkeys(name for each in kept for name in each.ratios):
        values = [each.ratios.get(name) for each in kept]
        known = [value for value in values if value is not None]
        bars = "".join(" " if value is None else BARS[int(value / max(known) * (len(BARS) - 1))] for value in values)
        yield f"{bars}  {known[0]:8.2f} → {known[-1]:8.2f}  {name}"


if __name__ == "__main__":
    sys.exit(main())
