"""`watch`: on a terminal until a key or the end, without one line by line; it leaves the runs alone."""

from __future__ import annotations

import os
import pty
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitswarm.cli.watch import WatchedRun
from gitswarm.git.owners import announce, owner_of, starting_of
from gitswarm.git.reader import open_reader
from gitswarm.ledger.layout import RunLayout
from tests.cli.gated import GATE, gated, open_gate, read_until, running
from tests.conftest import Project
from tests.projects import ask

FLOW = """\
id: talk
steps:
  - {id: write, station: fixer}
  - {id: test, engine: command, command: {run: "echo 1 passed"}, tests: true}
"""
STEPS = {"write": {"run": ["echo one", GATE], "summary": "written"}}
UNTIL_GO = 'for n in $(seq 600); do test -e "$HOME/go" && break; sleep 0.1; done'


def begin(project: Project, *options: str) -> str:
    """Starts a run in the background; its id."""
    script = str(project.root.parent / "script.yaml")
    answer = project.swarm_process("start", "talk", "--detach", "--script", script, *options)
    return answer.stdout.split(maxsplit=1)[0]


@dataclass
class Terminal:
    """A command on a pseudo terminal of 80 columns."""

    pid: int
    fd: int
    seen: str = ""

    def read_until(self, sign: str) -> None:
        while sign not in self.seen:
            more = self._read()
            assert more, self.seen
            self.seen += more

    def press(self, key: str) -> None:
        os.write(self.fd, key.encode())

    def end(self) -> int:
        while more := self._read():
            self.seen += more
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> str:
        try:
            return os.read(self.fd, 65_536).decode(errors="replace")
        except OSError:  # Linux says so when the other end is closed
            return ""


def on_terminal(project: Project, *arguments: str) -> Terminal:
    env = {**project.env, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", "NO_COLOR": "1"}
    argv = project.argv(*arguments)
    pid, fd = pty.fork()
    if pid == 0:  # pragma: no cover - becomes the command
        os.chdir(project.root)
        os.execvpe(argv[0], argv, env)  # noqa: S606
    return Terminal(pid, fd)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, str]]:
    """A run in the background whose first step waits; it is let go at the end."""
    project = gated(tmp_path_factory.mktemp("watch"), FLOW, STEPS)
    run = begin(project, "-m", "Say hello")
    yield project, run
    open_gate(project)
    terminal = on_terminal(project, "watch", run)
    code = terminal.end()
    assert (code, project.json("status", run)["state"]) == (0, "succeeded")
    last = terminal.seen.rpartition("\x1b[?1049l")[2].splitlines()
    assert last[0].startswith(f"{run[-6:]}  rehearsal: 2 steps, tests passed, 0 tokens, $0.00, ")
    assert last[1:] == [f"hint: git swarm diff {run[-6:]}"]


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)])
def test_a_key_ends_the_look_and_not_the_run(waiting: tuple[Project, str], key: str, code: int) -> None:
    project, run = waiting
    terminal = on_terminal(project, "watch")
    terminal.read_until("Bash cat")
    terminal.press(key)
    assert terminal.end() == code
    shown, _normal, after = terminal.seen.partition("\x1b[?25h\x1b[?1049l")
    lines = [line.partition("\x1b")[0] for line in shown.rpartition("\x1b[H")[2].split("\r\n")]
    assert (lines[0].rpartition(" ")[0], lines[1]) == (
        f"{run[-6:]}  running: 0 steps, 0 tokens, $0.00,",
        "talk: Say hello",
    )
    assert lines[2].startswith("▸ talk/write@1  ")
    assert [line.strip().partition(" ")[2].strip() for line in lines[-3:-1]] == ["", f"Bash {GATE}"]
    assert lines[-1] == "q quits; the runs continue"
    assert after.splitlines()[1:] == [f"{run[-6:]} is still running", f"hint: git swarm watch {run[-6:]}"]
    assert project.json("status", run)["state"] == "running"


def test_without_a_terminal_it_tells_steps_as_they_happen(tmp_path: Path) -> None:
    """Of two runs, of which the second begins while the first is watched."""
    project = gated(tmp_path, FLOW, {"write": {"run": [UNTIL_GO], "summary": "written"}})
    first = begin(project)
    with running(project, "watch") as process:
        said = read_until(process, "▸ talk/write@1")
        second = begin(project)
        said += read_until(process, f"{second}  ▸ talk/write@1")
        (Path(project.env["HOME"]) / "go").touch()
        rest = process.communicate(timeout=60)[0]
    lines = said.splitlines()
    assert (lines[0].split(": 0")[0] in (f"{first}  starting", f"{first}  running"), lines[1:3]) == (
        True,
        ["talk", "▸ talk/write@1"],
    )
    assert (lines[3].startswith(f"{second}  running: 0 steps, "), lines[4:]) == (
        True,
        ["talk", f"{second}  ▸ talk/write@1"],
    )
    told = rest.splitlines()
    assert [sum(line.startswith(f"{run}  ✓") for line in told) for run in (first, second)] == [2, 2]
    assert [line.partition(",")[0] for line in told[-2:]] == [f"{run}  rehearsal: 2 steps" for run in (first, second)]
    assert process.returncode == 0
    watched = WatchedRun(open_reader(project.root, project.env), RunLayout(second))
    project.swarm("discard", second)
    watched.refresh()
    assert (watched.headline, watched.is_over) == (f"{second}  discarded", True)


def test_a_run_begins_by_starting_and_a_killed_one_is_interrupted(waiting: tuple[Project, str]) -> None:
    project, _other = waiting
    script = project.script('steps: {write: {run: ["sleep 3"]}}\n')
    answer = project.swarm_process("start", "talk", "--detach", "--script", script)
    run = answer.stdout.split(maxsplit=1)[0]
    first = ask(project, "status", run).stdout.splitlines()
    assert first[0].split()[1] in ("starting", "running")
    assert first[-1].split() == ["hint", "git", "swarm", "watch", run]
    common = project.root / ".git"
    while (owner := owner_of(common, run)) is None:
        time.sleep(0.05)
    os.kill(owner.pid, signal.SIGKILL)
    while owner_of(common, run) is not None:
        time.sleep(0.05)
    said = ask(project, "watch", run).stdout.splitlines()
    assert said[0].startswith(f"{run}  interrupted: ")
    stands = [("starting", "running", True), ("interrupted", "interrupted", False)]
    for pid, expected in zip((os.getpid(), 2**22 + 1), stands, strict=True):
        announce(common, run, pid, "now")
        found = project.json("status", run)
        word = ask(project, "status", run).stdout.split(maxsplit=2)[1]
        assert (word, found["state"], found["starting"]) == expected
    announce(common, run, os.getpid(), "now")
    project.swarm("stop", run)
    assert not starting_of(common, run)


def test_the_clock_does_not_go_back_when_a_step_ends(
    waiting: tuple[Project, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, run = waiting
    watched = WatchedRun(open_reader(project.root, project.env), RunLayout(run))
    monkeypatch.setattr("gitswarm.cli.watch.ExecutingStep.elapsed_ms", lambda _: 65_000)
    assert watched.headline.endswith(", 1m05s")
    watched.executing.clear()
    assert watched.headline.endswith(", 1m05s")


def test_what_does_not_change_is_not_read_again(
    waiting: tuple[Project, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, run = waiting
    watched = WatchedRun(open_reader(project.root, project.env), RunLayout(run))
    watched.refresh()
    monkeypatch.setattr("gitswarm.cli.watch.replay", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr("gitswarm.cli.watch.read_lines", lambda *_: pytest.fail("read again"))
    watched.refresh()
    assert not watched.is_over


def test_a_run_that_is_not_there_is_an_error(waiting: tuple[Project, str]) -> None:
    answer = ask(waiting[0], "watch", "nothing")
    assert (answer.code, answer.stdout) == (1, "")
    assert "no run matches 'nothing'" in answer.stderr


def test_without_a_terminal_it_says_that_the_base_is_tested(tmp_path: Path) -> None:
    second_time = f'test -e "$HOME/once" && {{ {UNTIL_GO}; }}; touch "$HOME/once"; echo 1 passed'
    flow = FLOW.replace('"echo 1 passed"', f"'{second_time}'")
    project = gated(tmp_path, flow, {"write": {"write": {"new.py": "x = 1\n"}}})
    run = begin(project, "--allow-stub")
    with running(project, "watch", run) as process:
        said = read_until(process, "testing the base")
        (Path(project.env["HOME"]) / "go").touch()
        rest = process.communicate(timeout=60)[0]
    assert said.splitlines()[-1] == "▸ talk/test@1: testing the base"
    assert rest.count("testing the base") == 0
