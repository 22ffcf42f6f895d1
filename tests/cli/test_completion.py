"""What TAB offers, and the scripts that ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from gitswarm.cli.candidates import candidates
from gitswarm.cli.command_table import ROOT
from gitswarm.records.run_spec import LandStrategy
from tests.conftest import Project
from tests.projects import new_project

FLOW = "id: one\ntitle: One\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """A project with a run of two steps."""
    project = new_project(tmp_path_factory.mktemp("completion"))
    project.commit({".swarm/flows/one.yaml": FLOW})
    return project, project.start("default: {status: VERIFIED}\n", flow="one")


@pytest.fixture
def offered(shelf: tuple[Project, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    monkeypatch.chdir(shelf[0].root / "src")
    for name, value in shelf[0].env.items():
        monkeypatch.setenv(name, value)
    return lambda *words: candidates(list(words))


def test_commands(offered: Callable[..., list[str]]) -> None:
    assert (offered(""), offered("st"), offered("flows", "v")) == (
        list(ROOT.entries),
        ["start", "stop", "stats", "status", "stations"],
        ["validate"],
    )


def test_options(offered: Callable[..., list[str]]) -> None:
    assert offered("log", "--") == ["--max-count", "--json", "--oneline", "--graph", "--color", "--help"]
    assert offered("start", "--m") == ["--message", "--mode", "--model", "--max-cost", "--max-tokens", "--max-time"]


def test_runs(shelf: tuple[Project, str], offered: Callable[..., list[str]]) -> None:
    asked = (offered("log", ""), offered("log", "--json", "run-"), offered("show", "--run", ""), offered("log", "x"))
    assert asked == ([shelf[1]], [shelf[1]], [shelf[1]], [])


def test_runs_whose_refs_are_packed(shelf: tuple[Project, str], offered: Callable[..., list[str]]) -> None:
    shelf[0].git("pack-refs", "--all")
    assert offered("status", "") == [shelf[1]]


def test_steps(shelf: tuple[Project, str], offered: Callable[..., list[str]]) -> None:
    asked = (offered("show", ""), offered("diff", "--run", shelf[1], "s"), offered("show", "--run", "none", ""))
    assert asked == (["s2", "s1"], ["s2", "s1"], [])
    assert offered("diff", "") == ["s2", "s1", shelf[1]]
    assert (offered("bisect", ""), offered("bisect", "--", "")) == ([shelf[1]], [])


def test_steps_in_a_run_s_worktree(
    shelf: tuple[Project, str], offered: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shelf[0].worktree(shelf[1]))
    assert (offered("rollback", ""), offered("log", "")) == (["s2", "s1"], [shelf[1]])


def test_flows_and_stations(offered: Callable[..., list[str]]) -> None:
    assert {"build", "one", "plan"} <= set(offered("start", ""))
    assert offered("stations", "show", "code-impl") == ["code-implementer"]


def test_values_of_options(offered: Callable[..., list[str]]) -> None:
    assert offered("land", "--strategy", "") == list(get_args(LandStrategy))


def test_where_there_is_nothing_to_offer(
    offered: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [offered("log", ""), offered("show", ""), offered("frob", ""), offered("start", "--from", "")]
    assert asked == [[], [], [], []]


@pytest.mark.parametrize("words", [["git-swarm", "sta"], ["git", "swarm", "sta"], ["git", "-C", ".", "swarm", "sta"]])
def test_bash_completes(shelf: tuple[Project, str], words: list[str]) -> None:
    project = shelf[0]
    script = project.swarm("completion", "bash").stdout
    asked = " ".join(words)
    alone, last = words[0] == "git-swarm", len(words) - 1
    lines = [
        '__gitcomp_nl() { while IFS= read -r one; do COMPREPLY+=("$one"); done <<< "$1"; }',
        script,
        f"words=({asked}); cword={last}; cur={words[-1]}; COMP_WORDS=({asked}); COMP_CWORD={last}",
        "_git_swarm_alone" if alone else "_git_swarm",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    env = {**project.env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{project.env['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=project.root, env=env, capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (["start", "stats", "status", "stations"], "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_can_be_read_by_its_shell(shelf: tuple[Project, str], shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(shelf[0].swarm("completion", shell).stdout, encoding="utf-8")
    assert "git-swarm __complete" in script.read_text(encoding="utf-8")
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-n", str(script)], check=True)


def test_another_shell_has_no_completion(shelf: tuple[Project, str]) -> None:
    answer = shelf[0].swarm("completion", "tcsh", code=2)
    assert answer.stderr == "git-swarm: there is no completion for 'tcsh'\nhint: git swarm completion bash\n"
