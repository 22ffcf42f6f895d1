"""What a step with a real session costs, beside the same CLI, `git add` and `git commit` alone.

    python -m benchmarks.session_cost [--engine codex|gemini] [--steps 12] [--rounds 3]

The model is a scripted server on 127.0.0.1 that answers at once: what is left is the machine's own work. Each step
makes three tool calls. A step of git-swarm asks the policy before each; where it is to hand over, the model does
so in place of a last word, as Claude does with a schema.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field

from benchmarks.projects import Checkout, environment
from gitswarm.engines.adapter import EngineSetup
from gitswarm.engines.agent_session import USUAL_TOOLS
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude.claude_code import find_program
from gitswarm.engines.codex import ADAPTER as CODEX
from gitswarm.engines.gemini.settings_home import SettingsHome, arguments
from tests.codex.stage import FETCHED
from tests.loopback.api import ApiRequest, Reply, say, use
from tests.loopback.server import Loopback, serving
from tests.routed import MAKER

GEMINI = Path(sys.prefix) / "gemini" / "node_modules" / ".bin" / "gemini"
TOOLS = "Read,Write,Edit,Bash,Grep,Glob"


def model(asked: ApiRequest) -> Reply:
    """Three shell lines, then a handoff, or a word where none is wanted."""
    if asked.turn < 3 and not asked.wants_result:
        return use("Bash", command=f"echo {asked.number} >> file{asked.turn}.txt")
    if "StructuredOutput" in asked.tools or asked.wants_result:
        return use("StructuredOutput", status="VERIFIED", summary="done")
    return say("done")


def model_of_gemini(asked: ApiRequest) -> Reply:
    """The same; its last word is the handoff."""
    return model(asked) if asked.turn < 3 else use("StructuredOutput", status="VERIFIED", summary="done")


class Samples(Struct):
    """Milliseconds per step, round by round."""

    plain: list[float] = field(default_factory=list)
    swarm: dict[str, list[float]] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=tuple(SUBJECTS), default="claude")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serving() as loopback:
        folder = Path(name)
        subject = SUBJECTS[asked.engine](folder / "home", loopback)
        samples = measure(folder, subject, asked.steps, asked.rounds)
    plain = statistics.median(samples.plain)
    print("| a step with three tool calls | ms | ratio |")
    print("|---|---:|---:|")
    print(f"| `{subject.told}`, `git add`, `git commit` | {plain:.0f} | 1.00 |")
    for mode, found in samples.swarm.items():
        each = statistics.median(found)
        print(f"| git-swarm, mode {mode} | {each:.0f} | {each / plain:.2f} |")


class Subject(Struct, frozen=True):
    """`words`: the command line of one step without git-swarm; `told`: its beginning, for the table; `plain_env`: the
    environment of that, where it is another."""

    engine: str
    modes: tuple[str, ...]
    env: Mapping[str, str]
    words: Sequence[str]
    told: str
    plain_env: Mapping[str, str] | None = None


def _claude(home: Path, loopback: Loopback) -> Subject:
    env = environment(home) | {
        "ANTHROPIC_API_KEY": "sk-ant-dummy",
        "ANTHROPIC_BASE_URL": loopback.play("model", model),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    program = find_program(EngineAccess(), env, bundled_first=True)
    if program.path is None:
        raise SystemExit(program.problem)
    words = [str(program.path), "-p", "do it", "--output-format", "stream-json", "--verbose", "--setting-sources", ""]
    words += ["--tools", TOOLS, "--allowedTools", TOOLS, "--permission-mode", "dontAsk"]
    return Subject("claude", ("cli", "sdk"), env, words, "claude -p")


def _codex(home: Path, loopback: Loopback) -> Subject:
    """The one that the tests fetch; with the network of its own sandbox, as a step has it."""
    url = f"{loopback.play('model', model)}/v1"
    env = environment(home) | {"OPENAI_API_KEY": "sk-dummy", "OPENAI_BASE_URL": url, "SWARM_CODEX_CLI": str(FETCHED)}
    setup = EngineSetup("openai", lambda: datetime.now(UTC), {}, EngineAccess({}, str(FETCHED)))
    program = CODEX.find("cli", setup, env)
    if program.path is None or program.problem is not None:
        raise SystemExit(program.message)
    said = {"name": "bench", "base_url": url, "wire_api": "responses", "env_key": "OPENAI_API_KEY"}
    words = [str(program.path), "exec", "do it", "--json", "-s", "workspace-write", "-c", "model_provider=bench"]
    words += [word for name, value in said.items() for word in ("-c", f'model_providers.bench.{name}="{value}"')]
    return Subject("codex", ("cli",), env, words, "codex exec")


def _gemini(home: Path, loopback: Loopback) -> Subject:
    """By the same settings as git-swarm's, but for the hooks."""
    url = loopback.play("model", model_of_gemini)
    env = environment(home) | {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": url,
        "SWARM_GEMINI_CLI": str(GEMINI),
    }
    own = SettingsHome(home.parent / "settings", GEMINI, 1)
    own.folder.mkdir()
    own.write("You are an implementer.", USUAL_TOOLS, -1, own.folder / "gate", 0)
    path = own.home / ".gemini" / "settings.json"
    settings = json.loads(path.read_bytes())
    del settings["hooks"]
    path.write_text(json.dumps(settings), encoding="utf-8")
    return Subject(
        "gemini",
        ("cli",),
        env,
        [*arguments(GEMINI, "gemini-3-flash-preview", None), "-p", "do it"],
        "gemini",
        own.environment(env),
    )


SUBJECTS = {"claude": _claude, "codex": _codex, "gemini": _gemini}


def measure(folder: Path, subject: Subject, steps: int, rounds: int) -> Samples:
    samples = Samples()
    for number in range(rounds):
        plain = _project(folder / f"plain{number}", subject.plain_env or subject.env, steps)
        samples.plain.append(_plain(plain, subject.words, steps))
        for mode in subject.modes:
            project = _project(folder / f"{mode}{number}", subject.env, steps)
            samples.swarm.setdefault(mode, []).append(_swarm(project, subject.engine, mode, steps))
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


def _plain(project: Checkout, words: Sequence[str], steps: int) -> float:
    started = time.perf_counter()
    for number in range(steps):
        _run(words, project)
        project.git("add", "-A")
        project.git("commit", "-q", "-m", f"step {number}")
    return (time.perf_counter() - started) * 1000 / steps


def _swarm(project: Checkout, engine: str, mode: str, steps: int) -> float:
    """The whole command, its start-up and the run's first and last commit shared out over the steps."""
    started = time.perf_counter()
    _run([sys.executable, "-m", "gitswarm", "start", "bench", "--engine", engine, "--mode", mode], project)
    return (time.perf_counter() - started) * 1000 / steps


def _run(words: Sequence[str], project: Checkout) -> None:
    subprocess.run(
        words, cwd=project.root, env=dict(project.env), check=True, capture_output=True, stdin=subprocess.DEVNULL
    )


if __name__ == "__main__":
    main()
