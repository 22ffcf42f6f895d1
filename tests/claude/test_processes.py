"""However a session ends, nothing of it is left, and the run goes on from what is on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from gitswarm.specs.script import Script
from tests.claude.runs import asked, having, reaching
from tests.claude.stage import MARK, Stage, both, by, living
from tests.conftest import Project
from tests.loopback.player import ScriptedModel
from tests.loopback.replies import bash, working
from tests.loopback.server import Loopback
from tests.projects import only_run
from tests.routed import MAKER, flow, step
from tests.waiting import wait_until


def run_by(mode: str) -> pytest.MarkDecorator:
    """As `by`, of a run: what the transports have in common is mostly below them."""
    return by(mode, "product", indirect=True)


# One step.


@by("sdk")
def test_what_a_tool_leaves_in_the_background_ends_with_the_step(stage: Stage, mode: str) -> None:
    line = "nohup setsid sh -c \"trap '' TERM HUP; touch up; while :; do sleep 0.1; done\" >log 2>&1 &"
    told = stage.run(mode, working(bash(line)))
    wait_until((stage.worktree / "up").exists, "it was there", seconds=1)
    assert told.outcome == {"kind": "ok"}


@both
def test_a_cli_that_is_killed_in_a_tool_call_takes_the_tool_with_it(stage: Stage, mode: str) -> None:

    def kill() -> None:
        wait_until((stage.worktree / "up").exists, "the tool works")
        for process in psutil.process_iter():
            if _is_cli_of(process, stage):
                process.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    told = stage.run(mode, working(bash("touch up; sleep 60; touch late")))
    killing.join()
    assert told.outcome == {"kind": "killed"}
    assert told.detail.startswith("killed by signal 9")
    assert [(call.tool_name, call.success) for call in told.calls] == [("Bash", False)]
    assert sorted(told.files) == ["up"]


def _is_cli_of(process: psutil.Process, stage: Stage) -> bool:
    try:
        return process.name() == "claude" and process.environ().get(MARK) == stage.env[MARK]
    except psutil.Error:
        return False


@both
def test_a_session_leaves_no_threads_and_no_open_files(stage: Stage, mode: str) -> None:
    model = working(bash("echo x > f.txt"))
    stage.run(mode, model)  # what is made once and kept is there now
    before = _open_files()
    stage.run(mode, model)
    wait_until(lambda: _threads_of_sessions() == [], "no thread is left", seconds=5)
    wait_until(lambda: _open_files() <= before, "no file is left open", seconds=5)


def _threads_of_sessions() -> list[str]:
    names = ("(_talk)", "(_listen)", "(_ask)", "(_collect)", "(_attend)")
    return [thread.name for thread in threading.enumerate() if thread.name.endswith(names)]


def _open_files() -> int:
    return psutil.Process().num_fds()


# A run.

WAITS = 'touch up; while [ ! -e "$HOME/go" ]; do sleep 0.05; done; touch down'


@dataclass
class Product:
    """Runs of two steps, `write` and `close`, of which the first stands still in a tool call."""

    project: Project
    mode: str

    @contextmanager
    def standing(self) -> Iterator[subprocess.Popen[str]]:
        """The run in a process group of its own, as a terminal has it, with its tool at work."""
        process = subprocess.Popen(
            self.project.argv("start", "one", "--mode", self.mode, "-m", "do it"),
            cwd=self.project.root,
            env=dict(self.project.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            wait_until(lambda: self._tool_works(process), "the tool works")
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def _tool_works(self, process: subprocess.Popen[str]) -> bool:
        assert process.poll() is None, process.communicate()
        runs = self.project.git("worktree", "list", "--porcelain", "-z").split("\0")
        return any((Path(line[9:]) / "up").exists() for line in runs if line.startswith("worktree "))

    def go(self) -> None:
        (Path(self.project.env["HOME"]) / "go").touch()

    @property
    def processes(self) -> list[list[str]]:
        return living("SWARM_STEP_OF", only_run(self.project))

    def check_nothing_left(self) -> None:
        assert self.processes == []
        assert list((self.project.root / ".git/swarm/sessions").glob("*/*")) == []

    def go_on(self) -> set[str]:
        """The step is executed again, in a new session; the files of the agents that are committed at the end."""
        run = only_run(self.project)
        self.project.swarm("resume", run)
        self.project.swarm("verify", run)
        self.check_nothing_left()
        return set(self.project.tree(f"shadow/{run}")) & {"up", "down", "again.txt", "closed.txt"}


@pytest.fixture
def product(project: Project, loopback: Loopback, request: pytest.FixtureRequest) -> Product:
    script = Script.from_plain(
        {
            "steps": {
                "write": [{"run": [WAITS]}, {"write": {"again.txt": "x"}}],
                "close": {"write": {"closed.txt": "x"}},
            }
        }
    )
    made = having(reaching(project, loopback, ScriptedModel(script)), TMPDIR=str(project.root.parent))
    made.commit(
        {
            **MAKER,
            ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("write", "maker"), step("close", "maker"))),
        }
    )
    return Product(made, request.param)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C: the terminal tells the whole foreground group."""
    os.killpg(process.pid, signal.SIGINT)
    said = ""
    assert process.stderr is not None
    while "Ctrl-C again" not in said:
        said = process.stderr.readline()
        assert said, "it ended without a word"


@pytest.mark.soak
@run_by("cli")
def test_the_first_interrupt_lets_the_step_end(product: Product) -> None:
    with product.standing() as process:
        interrupt(process)
        product.go()
        assert process.wait(60) == 130
    run = only_run(product.project)
    assert {"up", "down"} <= set(product.project.tree(f"shadow/{run}"))
    assert asked(product.project, "status")["state"] == "stopped"
    product.check_nothing_left()


@run_by("sdk")
def test_the_second_interrupt_ends_it_at_once_and_resume_goes_on(product: Product) -> None:
    with product.standing() as process:
        interrupt(process)
        time.sleep(0.6)  # sooner it is the same keypress
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 130
    run = only_run(product.project)
    status = asked(product.project, "status")
    assert (status["state"], status["next_step"]) == ("paused", "write")
    partial = product.project.git("show", f"shadow/{run}:.swarm/runs/{run}/one/handoff_partial.json")
    assert (yaml.safe_load(partial)["status"], yaml.safe_load(partial)["files"]) == ("PARTIAL", ["up"])
    product.check_nothing_left()
    assert product.go_on() == {"up", "again.txt", "closed.txt"}


STOPS = pytest.param("stop", "stopped", 0, marks=pytest.mark.soak)


@run_by("cli")
@pytest.mark.parametrize(("command", "state", "code"), [("pause", "paused", 5), STOPS])
def test_another_process_ends_it_at_once(product: Product, command: str, state: str, code: int) -> None:
    with product.standing() as process:
        product.project.swarm(command, "--now")
        assert process.wait(30) == code
    assert asked(product.project, "status")["state"] == state
    product.check_nothing_left()


@pytest.mark.soak
@run_by("cli")
def test_a_terminal_that_closes_pauses_the_run(product: Product) -> None:
    with product.standing() as process:
        os.killpg(process.pid, signal.SIGHUP)
        assert process.wait(30) == 5
    assert asked(product.project, "status")["state"] == "paused"
    product.check_nothing_left()


@run_by("cli")
def test_after_a_kill_resume_ends_what_is_left_and_begins_the_step_anew(product: Product) -> None:
    with product.standing() as process:
        process.kill()
        process.wait(30)
    assert product.go_on() == {"again.txt", "closed.txt"}
