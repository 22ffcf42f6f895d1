"""What a step with a real session costs, beside the same CLI without git-swarm: `claude -p`, `git add`, `git commit`.

The same for Gemini CLI, where it was fetched for the tests.

    python -m benchmarks.session_cost [--steps 6] [--rounds 3]

The model is a scripted server on 127.0.0.1 that answers at once: what is left is the machine's own work. Each step
makes three tool calls. A step of git-swarm asks the policy before each. Claude is asked for a handoff in a
second session, Gemini says it last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from benchmarks.projects import Checkout, environment
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude.program import find_program
from gitswarm.engines.gemini.settings_home import USUAL_TOOLS, SettingsHome, arguments
from tests.loopback.api import Asked, Reply, say, use
from tests.loopback.server import Loopback, serving
from tests.routed import MAKER

MODES = ("cli", "sdk")
GEMINI = Path(sys.prefix) / "gemini" / "node_modules" / ".bin" / "gemini"
TOOLS = "Read,Write,Edit,Bash,Grep,Glob"


def model(asked: Asked) -> Reply:
    """Three shell lines, a word, and a handoff when it is asked for."""
    if asked.wants_result:
        return use("StructuredOutput", status="VERIFIED", summary="done")
    if asked.turn < 3:
        return use("Bash", command=f"echo {asked.number} >> file{asked.turn}.txt")
    return say("done")


def model_of_gemini(asked: Asked) -> Reply:
    """The same; its last word is the handoff."""
    answer = model(asked)
    return answer if asked.turn < 3 else use("StructuredOutput", status="VERIFIED", summary="done")


class Samples(Struct):
    """Milliseconds per step, round by round."""

    plain: list[float] = field(default_factory=list)
    swarm: dict[str, list[float]] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serving() as loopback:
        measured = {"claude -p": measure(Path(name), loopback, asked.steps, asked.rounds)}
        if GEMINI.exists():
            measured["gemini"] = measure_gemini(Path(name), loopback, asked.steps, asked.rounds)
    print("| a step with three tool calls | ms | ratio |")
    print("|---|---:|---:|")
    for program, samples in measured.items():
        plain = statistics.median(samples.plain)
        print(f"| `{program}`, `git add`, `git commit` | {plain:.0f} | 1.00 |")
        for mode, found in samples.swarm.items():
            each = statistics.median(found)
            print(f"| git-swarm, {mode} | {each:.0f} | {each / plain:.2f} |")


def measure(folder: Path, loopback: Loopback, steps: int, rounds: int) -> Samples:
    env = environment(folder / "home") | {
        "ANTHROPIC_API_KEY": "sk-ant-dummy",
        "ANTHROPIC_BASE_URL": loopback.play("model", model),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    program = find_program(EngineAccess(), env, bundled_first=True)
    if program.path is None:
        raise SystemExit(program.problem)
    samples = Samples()
    for number in range(rounds):
        words = [str(program.path), "-p", "--output-format", "stream-json", "--verbose"]
        words += ["--setting-sources", "", "--tools", TOOLS, "--allowedTools", TOOLS, "--permission-mode", "dontAsk"]
        samples.plain.append(_plain(_project(folder / f"plain{number}", env, steps), words, steps))
        for mode in MODES:
            project = _project(folder / f"{mode}{number}", env, steps)
            samples.swarm.setdefault(f"mode {mode}", []).append(_swarm(project, mode, steps))
    return samples


def measure_gemini(folder: Path, loopback: Loopback, steps: int, rounds: int) -> Samples:
    """By the same settings as git-swarm's, but for the hooks."""
    env = environment(folder / "home-of-gemini") | {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": loopback.play("gemini", model_of_gemini),
        "SWARM_GEMINI_CLI": str(GEMINI),
    }
    home = SettingsHome(folder / "settings", GEMINI, 1)
    home.folder.mkdir()
    home.write("You are an implementer.", USUAL_TOOLS, -1, home.folder / "gate", 0)
    path = home.home / ".gemini" / "settings.json"
    settings = json.loads(path.read_bytes())
    del settings["hooks"]
    path.write_text(json.dumps(settings), encoding="utf-8")
    samples = Samples()
    for number in range(rounds):
        project = _project(folder / f"gemini-plain{number}", home.environment(env), steps)
        samples.plain.append(_plain(project, arguments(GEMINI, "gemini-3-flash-preview", None), steps))
        project = _project(folder / f"gemini{number}", env, steps)
        samples.swarm.setdefault("engine gemini", []).append(_swarm(project, "cli", steps, "--engine", "gemini"))
    return samples


def _project(root: Path, env: Mapping[str, str], steps: int) -> Checkout:
    root.mkdir()
    project = Checkout(root, env)
    flow = root / ".swarm" / "flows" / "bench.yaml"
    (flow.parent / "stations").mkdir(parents=True)
    for path, text in MAKER.items():
        (root / path).write_text(text, encoding="utf-8")
    lines = [f"  - {{id: step{number}, station: maker}}" for number in range(steps)]
    flow.write_text("\n".join(["id: bench", "steps:", *lines]) + "\n", encoding="utf-8")
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "first")
    return project


def _plain(project: Checkout, words: list[str], steps: int) -> float:
    started = time.perf_counter()
    for number in range(steps):
        _run(words, project)
        project.git("add", "-A")
        project.git("commit", "-q", "-m", f"step {number}")
    return (time.perf_counter() - started) * 1000 / steps


def _swarm(project: Checkout, mode: str, steps: int, *options: str) -> float:
    """The whole command, its start-up and the run's first and last commit shared out over the steps."""
    started = time.perf_counter()
    _run([sys.executable, "-m", "gitswarm", "start", "bench", "--mode", mode, *options], project)
    return (time.perf_counter() - started) * 1000 / steps


def _run(words: list[str], project: Checkout) -> None:
    subprocess.run(words, cwd=project.root, env=dict(project.env), check=True, capture_output=True, input=b"do it")


if __name__ == "__main__":
    main()
