"""What the page of `git swarm web` costs: start, memory, a line of a journal, first paint, and the list of 10,000
runs against `git for-each-ref`. In Chromium where tests/fetch_chromium.sh has put it, else only the server's part.

    python -m benchmarks.page_cost [--runs 10000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import http.cookiejar
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.command_cost import swarm
from benchmarks.projection_cost import copy_run
from benchmarks.projects import FLOW, Checkout, environment, make_checkout
from docs.web_pictures import CHROMIUM, chromium

_LINES = 20
_FEW = 200
_CHANGED = 5_000
_LISTED = ("for-each-ref", "--sort=-creatordate", "refs/heads/shadow")
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_WATCHED = """
    window.seen = {};
    new MutationObserver((changes) => {
        for (const each of changes) for (const node of each.addedNodes) {
            const at = node.textContent?.match(/mark-\\d+/g)?.at(-1);
            if (at) window.seen[at] ??= Date.now();
        }
    }).observe(document.body, { childList: true, subtree: true });
"""


class Served(NamedTuple):
    """A page: its address and process, who is logged in, with which cookie, and milliseconds until it was printed."""

    address: str
    pid: int
    client: urllib.request.OpenerDirector
    cookie: dict[str, str | None]
    ready: float


@contextmanager
def served(project: Checkout) -> Iterator[Served]:
    argv = [sys.executable, "-m", "gitswarm", "web"]
    began = time.perf_counter()
    with subprocess.Popen(
        argv, cwd=project.root, env=dict(project.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101
        login = process.stdout.readline().split()[1]
        ready = (time.perf_counter() - began) * 1000
        address = login.partition("/?")[0]
        jar = http.cookiejar.CookieJar()
        client = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        client.open(login).read()
        (known,) = jar
        try:
            yield Served(
                address, process.pid, client, {"name": known.name, "value": known.value, "url": address}, ready
            )
        finally:
            process.terminate()


def show(name: str, unit: str, samples: list[float], against: list[float] | None = None) -> None:
    ratio = statistics.median(one / other for one, other in zip(samples, against, strict=True)) if against else None
    said = "" if ratio is None else f"{ratio:.2f}"
    print(f"| {name} | {statistics.median(samples):.0f} {unit} | {max(samples):.0f} | {said} |", flush=True)


def evaluated(page: Any, expression: str) -> Any:
    """As soon as there is a value; the page's policy forbids playwright's own way to wait."""
    while not (found := page.evaluate(expression)):
        page.wait_for_timeout(20)
    return found


def repeated(rounds: int, rows: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Milliseconds of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _round in range(rounds):
        for name, act in rows.items():
            began = time.perf_counter()
            act()
            times[name].append((time.perf_counter() - began) * 1000)
    return times


def start_and_memory(project: Checkout, rounds: int) -> None:
    ready, memory = [], []
    for _round in range(rounds):
        with served(project) as page:
            page.client.open(f"{page.address}/").read()
            ready.append(page.ready)
            memory.append(psutil.Process(page.pid).memory_full_info().uss / 2**20)
    show("server prints its address", "ms", ready)
    show("memory of its own behind the first page", "MB", memory)


def list_of_runs(project: Checkout, rounds: int, runs: int) -> None:
    with served(project) as page:
        names = f"`git {' '.join(_LISTED)}`", f"list of {runs} runs"
        rows = dict(
            zip(
                names,
                (lambda: project.git(*_LISTED), lambda: page.client.open(f"{page.address}/").read()),
                strict=True,
            )
        )
        times = repeated(rounds, rows)
    for name in names:
        show(name, "ms", times[name], times[names[0]])


def first_paint(project: Checkout, browser: Any, name: str, path: str, rounds: int) -> None:
    """In a window that has shown nothing before."""
    painted = []
    with served(project) as (address, _pid, _client, cookie, _ready):
        for _round in range(rounds):
            with browser.new_context() as context:
                context.add_cookies([cookie])
                page = context.new_page()
                page.goto(f"{address}{path}")
                painted.append(float(evaluated(page, _PAINTED)))
    show(name, "ms", painted)


def line_to_reader(project: Checkout, run: str, browser: Any | None) -> None:
    """From a line in the journal to the page, or to who reads the stream."""
    (journal,) = (project.root / ".git" / "swarm" / "journal" / run).glob("*.jsonl")
    last = json.loads(journal.read_bytes().splitlines()[-1])
    written: dict[str, float] = {}

    def write(number: int) -> str:
        name = f"mark-{number}"
        event = {**last, "seq": 1000 + number, "kind": "message", "payload": {"role": "assistant", "text": name}}
        with journal.open("ab", buffering=0) as file:
            written[name] = time.time() * 1000
            file.write(json.dumps(event).encode() + b"\n")
        return name

    with served(project) as (address, _pid, client, cookie, _ready), ExitStack() as stack:
        if browser is None:
            stream = stack.enter_context(client.open(f"{address}/runs/{run}/stream"))
            seen = {}
            for number in range(_LINES):
                name = write(number)
                while name.encode() not in stream.readline():
                    pass
                seen[name] = time.time() * 1000
        else:
            context = stack.enter_context(browser.new_context())
            context.add_cookies([cookie])
            page = context.new_page()
            page.goto(f"{address}/runs/{run}")
            page.evaluate(_WATCHED)
            for number in range(_LINES):
                name = write(number)
                evaluated(page, f"window.seen['{name}']")
            seen = page.evaluate("window.seen")
    lags = [seen[name] - written[name] for name in written]
    show("a line of the journal is in the DOM" if browser is not None else "a line is in the stream", "ms", lags)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as folder, ExitStack() as stack:
        is_there = CHROMIUM.exists() and importlib.util.find_spec("playwright") is not None
        browser = stack.enter_context(chromium()) if is_there else None
        project = make_checkout(Path(folder) / "repo", environment(Path(folder) / "home"), 100, max_iterations=1)
        pipe = Path(folder) / "gate"
        os.mkfifo(pipe)
        script = Path(folder) / "script.yaml"
        print("\n| what | median | at most | ratio |\n|---|---:|---:|---:|")

        script.write_text(f"steps: {{write: {{run: [echo first, 'cat {pipe}']}}}}\n", encoding="utf-8")
        waiting = swarm(project, "start", FLOW, "--detach", "--script", str(script)).split(maxsplit=1)[0]
        while b"first" not in b"".join(each.read_bytes() for each in _journals(project, waiting)):
            time.sleep(0.05)
        time.sleep(0.5)
        line_to_reader(project, waiting, browser)
        pipe.write_text("over\n", encoding="utf-8")
        while json.loads(swarm(project, "status", waiting, "--json"))["state"] == "running":
            time.sleep(0.1)
        swarm(project, "discard", waiting)

        script.write_text(f"steps: {{write: {{write: {{big.txt: {json.dumps(_big())}}}}}}}\n", encoding="utf-8")
        run = swarm(project, "start", FLOW, "--script", str(script)).split(maxsplit=1)[0]
        start_and_memory(project, asked.rounds)
        if browser is not None:
            path = f"/runs/{run}?step=write&tab=diff"
            first_paint(project, browser, f"first paint, {_CHANGED} changed lines", path, asked.rounds)
        script.write_text("steps: {write: {write: {small.txt: x}}}\n", encoding="utf-8")
        run = swarm(project, "start", FLOW, "--script", str(script)).split(maxsplit=1)[0]
        for runs in (_FEW, asked.runs):
            copy_run(project, run, runs)
            _bases(project)
            list_of_runs(project, asked.rounds, runs)
            if browser is not None and runs == _FEW:
                first_paint(project, browser, f"first paint, {runs} runs", "/", asked.rounds)


def _journals(project: Checkout, run: str) -> Iterator[Path]:
    return (project.root / ".git" / "swarm" / "journal" / run).glob("*.jsonl")


def _big() -> str:
    return "".join(f"line {number} of a text\n" for number in range(_CHANGED))


def _bases(project: Checkout) -> None:
    """Each run has a ref of its own; all packed, as git does by itself."""
    base = project.git("rev-parse", "main")
    names = project.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow").splitlines()
    text = "".join(f"update refs/swarm/{name}/base {base}\n" for name in names)
    argv = ["git", "update-ref", "--stdin"]
    subprocess.run(argv, cwd=project.root, env=dict(project.env), input=text.encode(), check=True)
    project.git("pack-refs", "--all")


if __name__ == "__main__":
    main()
