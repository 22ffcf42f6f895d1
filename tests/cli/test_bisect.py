"""`bisect`: the step that broke something, found by git, and nothing of the user's touched."""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gitswarm.process_table import lives
from tests.cli.gated import running
from tests.conftest import Project
from tests.projects import ask, new_project

STEPS = 6
FLOW = "id: six\nsteps:\n" + "".join(f"  - {{id: s{n}, station: fixer}}\n" for n in range(1, STEPS + 1))
SCRIPT = {f"s{n}": {"write": {"n.txt": f"{n}\n"}, "summary": f"made it {n}"} for n in range(1, STEPS + 1)}
BELOW_4 = 'test "$(cat n.txt 2>/dev/null || echo 0)" -lt 4'


@dataclass(frozen=True)
class Bisecting:
    """A run of six steps. `folder`: for what is temporary."""

    project: Project
    run: str
    folder: Path

    def left(self) -> list[str]:
        """All that a user would find changed."""
        places = ("refs", "BISECT_*", "worktrees/*")
        files = [str(path) for place in places for path in sorted((self.project.root / ".git").glob(place))]
        listed = [self.project.git(*words) for words in (("for-each-ref",), ("status", "-s"), ("worktree", "list"))]
        return [*files, *listed, *map(str, self.folder.iterdir())]


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Bisecting:
    """With a bisect of the user's own under way in the checkout."""
    folder = tmp_path_factory.mktemp("bisect")
    temporary = folder / "temporary"
    temporary.mkdir()
    made = new_project(folder)
    project = replace(made, env={**made.env, "TMPDIR": str(temporary)})
    project.commit({".swarm/flows/six.yaml": FLOW})
    run = project.start(json.dumps({"steps": SCRIPT}), flow="six")
    project.git("bisect", "start", "main", "main~1")
    return Bisecting(project, run, temporary)


def verdicts(shown: Any) -> dict[int, str]:
    """Number of the step, 0 for the code before the first → what the command said."""
    return {each["step"]["n"] if each["step"] else 0: each["verdict"] for each in shown["tested"]}


def test_the_step_that_broke_it(six: Bisecting) -> None:
    before = six.left()
    answer = ask(six.project, "bisect", six.run, "--json", "--", BELOW_4)
    shown = json.loads(answer.stdout)
    (step,) = shown["steps"]
    commit = six.project.json("log", six.run)[3]["commit"]
    told = {"n": 4, "commit": commit, "flow": "six", "step": "s4", "iteration": 1, "summary": "made it 4"}
    assert (answer.code, step, shown["command"]) == (0, told, BELOW_4)
    assert {n: said for n, said in verdicts(shown).items() if said != ("bad" if n > 3 else "good")} == {}
    assert len(shown["tested"]) <= 6
    assert six.left() == before


def test_a_command_that_is_not_there_is_no_verdict(six: Bisecting) -> None:
    answer = ask(six.project, "bisect", six.run, "--", "nosuchcommand")
    said = " ".join(answer.stderr.split())
    assert (answer.code, answer.stdout) == (1, "")
    assert "nosuchcommand: the command was not found (exit code 127), on the code before the first step" in said
    assert "nosuchcommand: not found" in said or "nosuchcommand: command not found" in said


def test_a_fork_is_searched_from_its_origin_s_base_and_ends_in_between_are_no_steps(six: Bisecting) -> None:
    six.project.swarm("fork", "s4", "--run", six.run, "--until", "s5")
    fork = six.project.json("list")[0]["run_id"]
    six.project.swarm("resume", fork)
    shown = json.loads(ask(six.project, "bisect", fork, "--json", "--", "! grep -q '[56]' n.txt").stdout)
    assert [(step["n"], step["step"]) for step in shown["steps"]] == [(5, "s5")]
    shown = json.loads(ask(six.project, "bisect", fork, "--json", "--", "! grep -q '[2-6]' n.txt").stdout)
    assert [(step["n"], step["step"]) for step in shown["steps"]] == [(2, "s2")]
    six.project.swarm("discard", fork)


def test_steps_that_cannot_be_tested(six: Bisecting) -> None:
    skips = f"grep -q '[345]' n.txt && exit 125; {BELOW_4}"
    answer = ask(six.project, "bisect", six.run, "--json", "--", skips)
    assert (answer.code, [step["n"] for step in json.loads(answer.stdout)["steps"]]) == (1, [3, 4, 5, 6])


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("true", "it does not fail after the last step (six/s6)"),
        ("false", "it does not pass before the first step, on "),
        ("exit 125", "it does not fail after the last step (six/s6); the command says that it cannot be tested"),
        ("kill -9 $$", "kill -9 $$: it ended with -9, on the code 6 six/s6"),
    ],
)
def test_a_command_that_tells_nothing(six: Bisecting, command: str, told: str) -> None:
    before = six.left()
    answer = ask(six.project, "bisect", six.run, "--", command)
    assert (answer.code, answer.stdout) == (1, "")
    assert told in answer.stderr
    assert six.left() == before


def test_words_behind_the_dashes_are_the_command_s(six: Bisecting) -> None:
    script = f'test "$*" = "--json --color=x a  b" && {BELOW_4}'
    words = ("sh", "-c", script, "sh", "--json", "--color=x", "a  b")
    answer = ask(six.project, "bisect", six.run, "--", *words)
    assert (answer.code, answer.stdout.splitlines()[0].split(" broke")[0]) == (0, "six/s4 (#4)")


def test_each_step_is_tested_as_it_is_committed(six: Bisecting) -> None:
    """Nothing that a test leaves, be it ignored, is there for the next; git in it is that of the worktree."""
    command = (
        f'test ! -e left && touch left && echo left > .gitignore && git add -A && test -z "$GIT_DIR" && {BELOW_4}'
    )
    answer = ask(six.project, "bisect", six.run, "--", command)
    assert (answer.code, answer.stdout.splitlines()[0].split(" broke")[0]) == (0, "six/s4 (#4)")


def test_ctrl_c_leaves_nothing_behind(six: Bisecting, tmp_path: Path) -> None:
    before = six.left()
    command = f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 60"
    with running(six.project, "bisect", six.run, "--", command) as process:
        while not (tmp_path / "pid").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert six.left() == before
    with suppress(psutil.NoSuchProcess):
        assert not lives(psutil.Process(int((tmp_path / "pid").read_text())))


def test_nothing_is_cleaned_through_a_link(six: Bisecting, tmp_path: Path) -> None:
    kept = tmp_path / "victim" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("kept", encoding="utf-8")
    answer = ask(six.project, "bisect", six.run, "--", f'mv "$PWD" "$PWD.x"; ln -s {kept.parent} "$PWD"; false')
    assert (answer.code, "in place of its folder" in " ".join(answer.stderr.split())) == (1, True)
    assert [path.name for path in kept.parent.iterdir()] == ["kept.txt"]
    for left in six.folder.glob("*.x"):
        shutil.rmtree(left)


def test_without_a_command(six: Bisecting) -> None:
    answer = ask(six.project, "bisect", six.run)
    assert (answer.code, answer.stderr) == (2, "git-swarm: no command\nhint: git swarm bisect -- make test\n")
