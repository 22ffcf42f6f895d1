"""`engines`: what is there, what can be used here, what to do about the rest."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from gitswarm.engines.base import Capabilities
from gitswarm.engines.claude.claude_code import MINIMUM
from tests.conftest import Project
from tests.projects import ask, new_project

ROOT = Path(__file__).parent.parent.parent
NO_GEMINI = "there is no program at /nowhere/gemini: unset SWARM_GEMINI_CLI, or correct engines.gemini.cli"
KINDS = [
    ("claude-step", "stub"),
    ("claude-step", "sdk"),
    ("claude-step", "cli"),
    ("codex-step", "stub"),
    ("codex-step", "cli"),
    ("gemini-step", "stub"),
    ("gemini-step", "cli"),
    ("command", "local"),
]


def program(folder: Path, says: str) -> str:
    """A program of that name which tells a version and nothing else."""
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def with_program(project: Project, path: str) -> Project:
    nowhere = {name: f"/nowhere/{name.lower()}" for name in ("CODEX", "GEMINI")}  # whatever is installed here
    env = {f"SWARM_{name}_CLI": found for name, found in nowhere.items()} | {"SWARM_CLAUDE_CLI": path}
    return replace(project, env={**project.env, **env})


def told(project: Project) -> dict[tuple[str, str], dict[str, Any]]:
    answer = ask(project, "engines", "--json")
    assert answer.code == 0, answer.stderr
    return {(each["engine"], each["mode"]): each for each in json.loads(answer.stdout)}


def table(project: Project) -> str:
    answer = ask(project, "engines")
    assert (answer.code, answer.stderr) == (0, "")
    return answer.stdout


def test_every_engine_is_listed_in_every_mode(project: Project, tmp_path: Path) -> None:
    found = told(with_program(project, program(tmp_path, "9.9.9 (Claude Code)")))

    assert list(found) == KINDS
    names = [
        "engine",
        "mode",
        "available",
        "configured",
        "program",
        "version",
        "sdk",
        "login",
        "problem",
        "capabilities",
    ]
    assert {tuple(each) for each in found.values()} == {tuple(names)}
    assert {tuple(each["capabilities"]) for each in found.values()} == {
        tuple(field.name for field in fields(Capabilities))
    }


def test_a_mode_with_a_program_says_where_it_is_and_its_version(project: Project, tmp_path: Path) -> None:
    path = program(tmp_path, "9.9.9 (Claude Code)")

    here = with_program(replace(project, env={**project.env, "ANTHROPIC_API_KEY": "planted"}), path)
    found = told(here)["claude-step", "cli"]

    del found["capabilities"]
    assert found == {
        "engine": "claude-step",
        "mode": "cli",
        "available": True,
        "configured": False,
        "program": path,
        "version": "9.9.9",
        "sdk": None,
        "login": "ANTHROPIC_API_KEY",
        "problem": None,
    }


def test_the_sdk_tells_its_own_version_too(project: Project, tmp_path: Path) -> None:
    found = told(with_program(project, program(tmp_path, "9.9.9")))["claude-step", "sdk"]

    assert found["version"] == "9.9.9"
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["sdk"])


def test_what_is_missing_is_said_with_what_to_do(project: Project) -> None:
    broken = with_program(project, "/nowhere/claude")

    assert {key: each["problem"] for key, each in told(broken).items() if not each["available"]} == {
        (
            "claude-step",
            mode,
        ): "there is no program at /nowhere/claude: unset SWARM_CLAUDE_CLI, or correct engines.claude.cli"
        for mode in ("sdk", "cli")
    } | {
        ("codex-step", "cli"): "there is no program at /nowhere/codex: "
        "unset SWARM_CODEX_CLI, or correct engines.codex.cli",
        ("gemini-step", "cli"): NO_GEMINI,
    }


def test_an_old_program_cannot_be_used(project: Project, tmp_path: Path) -> None:
    path = program(tmp_path, "2.0.1 (Claude Code)")
    needed = ".".join(map(str, MINIMUM))

    found = told(with_program(project, path))["claude-step", "cli"]

    assert (found["available"], found["program"], found["version"]) == (False, path, "2.0.1")
    assert found["problem"] == f"{path} is claude 2.0.1, and {needed} or newer is needed: claude update"


def test_what_a_run_would_use_here_is_marked(project: Project, tmp_path: Path) -> None:
    here = with_program(project, program(tmp_path, "9.9.9"))
    here.commit(
        {".swarm/config.yaml": "engines: {default: gemini, claude: {mode: cli}, flows: {build: claude}}\n"}, "team"
    )

    configured = [key for key, each in told(here).items() if each["configured"]]

    assert configured == [("claude-step", "cli"), ("gemini-step", "stub"), ("command", "local")]


def test_a_provider_that_nobody_named_is_a_problem(project: Project, tmp_path: Path) -> None:
    here = with_program(project, program(tmp_path, "9.9.9"))
    here.commit({".swarm/config.yaml": "engines: {claude: {mode: cli, provider: anthropic_compat}}\n"}, "team")

    problem = told(here)["claude-step", "cli"]["problem"]

    assert problem.startswith("provider anthropic_compat has no address: export ANTHROPIC_BASE_URL=")


def test_the_table(project: Project) -> None:
    here = with_program(project, "/nowhere/claude")

    text = table(here)

    assert max(map(len, text.splitlines())) <= 80
    usable, _empty, matrix = text.partition("\n\n")
    assert usable == (
        "engine       mode   here  configured  by\n"
        "claude-step  stub   yes   yes         git-swarm itself\n"
        "claude-step  sdk    no    -           there is no program at /nowhere/claude:\n"
        "                                      unset SWARM_CLAUDE_CLI, or correct\n"
        "                                      engines.claude.cli\n"
        "claude-step  cli    no    -           there is no program at /nowhere/claude:\n"
        "                                      unset SWARM_CLAUDE_CLI, or correct\n"
        "                                      engines.claude.cli\n"
        "codex-step   stub   yes   -           git-swarm itself\n"
        "codex-step   cli    no    -           there is no program at /nowhere/codex:\n"
        "                                      unset SWARM_CODEX_CLI, or correct\n"
        "                                      engines.codex.cli\n"
        "gemini-step  stub   yes   -           git-swarm itself\n"
        "gemini-step  cli    no    -           there is no program at /nowhere/gemini:\n"
        "                                      unset SWARM_GEMINI_CLI, or correct\n"
        "                                      engines.gemini.cli\n"
        "command      local  yes   yes         git-swarm itself"
    )
    documented = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert f"```text\n{matrix}```" in documented


def test_it_works_outside_of_a_repository_and_before_the_first_commit(project: Project, tmp_path: Path) -> None:
    here = with_program(project, program(tmp_path, "9.9.9"))
    outside = tmp_path / "nothing"
    outside.mkdir()
    unborn = tmp_path / "unborn"
    project.git("init", "-q", str(unborn))

    said = {ask(here, "engines", cwd=folder).stdout for folder in (here.root, outside, unborn)}

    assert len(said) == 1


HEAVY = ("claude_agent_sdk", "anthropic", "mcp", "stamina", "asyncio")
LOOK = f"""
import sys
from gitswarm.cli.app import run
code = run(sys.argv[1:])
sys.stdout.flush()
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
raise SystemExit(code)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = new_project(tmp_path_factory.mktemp("finished"))
    made.commit({".swarm/flows/one.yaml": "id: one\nsteps: [{id: a, station: code-implementer}]\n"}, "the flow")
    made.swarm("start", "one")
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("log",),
        ("status",),
        ("list",),
        ("show", "a"),
        ("transcript", "a"),
        ("events",),
        ("engines",),
        ("verify",),
        ("start", "one"),
        ("start", "one", "--mode", "cli", "--dry-run"),
    ],
    ids=" ".join,
)
def test_nobody_pays_for_an_sdk_that_is_not_used(finished: Project, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *words],
        cwd=finished.root,
        env=dict(finished.env),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
