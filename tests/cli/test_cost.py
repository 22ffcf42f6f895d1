"""What commands load and start: counted in real processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.projects import new_project

FLOW = """\
id: {0}
title: {0}
steps: [{1}]
"""
SCRIPT = "default: {write: {x.txt: hello}, status: VERIFIED}\n"
MOST = 48
HEAVY = (
    *("gitswarm.runner", "gitswarm.engines", "gitswarm.safety", "gitswarm.settings", "gitswarm.specs"),
    *("pygit2", "typer", "rich", "yaml"),
)
"""What a reading command needs none of."""


@dataclass(frozen=True)
class Counted:
    """A project in which every start of git leaves a line."""

    project: Project
    log: Path

    def calls(self, *arguments: str) -> list[str]:
        """The verbs of git that a command line starts."""
        self.log.write_text("", encoding="utf-8")
        self.project.swarm(*arguments)
        return [verb(line.split()) for line in self.log.read_text(encoding="utf-8").splitlines()]


def verb(words: list[str]) -> str:
    """The first word that is neither an option nor the value of `-c`; else the last one."""
    found = (word for before, word in zip(["", *words], words, strict=False) if before != "-c" and word[0] != "-")
    return next(found, words[-1])


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """With a run of one step in it."""
    folder = tmp_path_factory.mktemp("cost")
    plain = new_project(folder)
    log, shim = folder / "calls", folder / "bin"
    shim.mkdir()
    git = shutil.which("git", path=plain.env["PATH"])
    (shim / "git").write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {git} "$@"\n', encoding="utf-8")
    (shim / "git").chmod(0o755)
    made = Counted(Project(plain.root, {**plain.env, "PATH": f"{shim}:{plain.env['PATH']}"}), log)
    steps = ["{id: s1, station: code-implementer}", "{id: s2, station: code-implementer}"]
    made.project.write({".swarm/flows/one.yaml": FLOW.format("one", steps[0])})
    made.project.commit({".swarm/flows/two.yaml": FLOW.format("two", ", ".join(steps))})
    made.project.swarm("start", "one", "--script", made.project.script(SCRIPT), "--allow-stub")
    return made


READING = ("log", "status", "list", "show", "path", "events", "transcript")


@pytest.mark.parametrize("command", READING)
def test_a_reading_command_asks_where_it_is_and_for_objects(counted: Counted, command: str) -> None:
    edits = ["status"] if command == "status" else []  # where `approve` comes next: it would refuse them
    assert counted.calls(command) == ["rev-parse", "cat-file", *edits]


def test_what_a_start_asks_git_for(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitswarm.git.discovery._NEW_ENOUGH", set())
    script = counted.project.script(SCRIPT)
    one = counted.calls("start", "one", "--script", script, "--allow-stub")
    two = counted.calls("start", "two", "--script", script, "--allow-stub")
    assert one == [
        *("rev-parse", "--version", "config", "status", "worktree", "read-tree"),
        "add",
    ]
    assert two == ["rev-parse", *one[2:], "add"]


@pytest.mark.parametrize("command", ["log", "status", "list", "show"])
def test_a_reading_command_loads_little(counted: Counted, command: str) -> None:
    code = (
        "import json, sys; from gitswarm.cli.app import run\n"
        f"assert run([{command!r}]) == 0\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(
        argv, cwd=counted.project.root, env=dict(counted.project.env), capture_output=True, check=True
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    ours = [name for name in loaded if name.split(".")[0] == "gitswarm"]
    assert ([name for name in loaded if name.startswith(HEAVY)], len(ours) <= MOST) == ([], True), ours


@pytest.mark.parametrize(
    "line",
    [
        ["watch"],
        ["blame", "README.md"],
        ["bisect", "--", "test ! -e x.txt"],
        ["transcript", "-f"],
        ["diff", "1", "1"],
    ],
)
def test_a_longer_look_loads_nothing_of_the_runner(counted: Counted, line: list[str]) -> None:
    code = (
        "import json, sys; from gitswarm.cli.app import run\n"
        f"assert run({line!r}) == 0\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    argv = [sys.executable, "-c", code]
    env = dict(counted.project.env)
    done = subprocess.run(argv, cwd=counted.project.root, env=env, capture_output=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in loaded if name.startswith(HEAVY)] == []


LATER = (
    *("gitswarm.engines.claude.engine", "gitswarm.engines.codex.engine", "gitswarm.engines.gemini.engine"),
    *("gitswarm.evidence.test_output", "gitswarm.evidence.test_report", "gitswarm.runner.branching"),
    *("gitswarm.runner.hub.transfer", "gitswarm.runner.operations", "gitswarm.runner.replaying"),
    *("anthropic", "duckdb", "pydantic", "rich", "tree_sitter", "typer", "xml", "importlib.metadata", "email"),
    *("pathspec", "psutil", "gitswarm.ledger.lease", "gitswarm.git.remote"),
)
"""What comes with the step that needs it."""
JUDGING = ("gitswarm.engines.stub", "gitswarm.runner", "gitswarm.safety", "gitswarm.settings", "gitswarm.worktree")


@pytest.mark.parametrize(
    ("line", "most", "none"),
    [
        (("start", "one", "--script", "SCRIPT", "--allow-stub"), 192, (*LATER, "gitswarm.runner.resuming")),
        (("verify",), 72, (*LATER, *JUDGING)),
        (("approve",), 215, LATER),
    ],
    ids=["start", "verify", "approve"],
)
def test_a_command_loads_what_it_does(
    counted: Counted, line: tuple[str, ...], most: int, none: tuple[str, ...]
) -> None:
    """Counted when it has ended: what a step loads is no cheaper than what a command does."""
    words = [counted.project.script(SCRIPT) if word == "SCRIPT" else word for word in line]
    code = (
        "import sys; from gitswarm.cli.app import run\n"
        f"assert run({words!r}) == 0\n"
        "print(*sorted(name for name, module in sys.modules.items() if not hasattr(module, '__path__')))"
    )
    argv, env = [sys.executable, "-c", code], dict(counted.project.env)
    done = subprocess.run(argv, cwd=counted.project.root, env=env, capture_output=True, check=True, text=True)
    loaded = done.stdout.splitlines()[-1].split()
    ours = [name for name in loaded if name.startswith("gitswarm.")]
    assert ([name for name in loaded if name.startswith(none)], len(ours) <= most) == ([], True), (len(ours), ours)


@pytest.mark.parametrize("line", [["--version"], ["-h"]])
def test_what_needs_no_command_loads_next_to_nothing(counted: Counted, line: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['git-swarm', *{line!r}]; before = set(sys.modules)\n"
        "from gitswarm.__main__ import main; main(); print(*sorted(set(sys.modules) - before))"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(
        argv, cwd=counted.project.root, env=dict(counted.project.env), capture_output=True, check=True, text=True
    )
    assert set(done.stdout.splitlines()[-1].split()) <= {
        *("gitswarm", "gitswarm.__main__", "gitswarm.cli", "gitswarm.cli.command_table", "gitswarm.cli.help_pages"),
        *("__future__", "gitswarm.cli.help_pages"),
    }
