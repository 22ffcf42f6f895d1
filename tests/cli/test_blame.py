"""`blame`, and where `why` and `blame` look for what HEAD does not have."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project

FLOW = """\
id: two
steps:
  - {id: write, station: code-implementer}
  - {id: critique, station: code-critic, routing: {kind: microloop, loop_target: write, max_iterations: 3}}
"""
SCRIPT = """\
default: {status: VERIFIED}
steps:
  write:
    - {write: {src/app.py: "mine\\nfirst\\n", src/new.py: "only here\\n"}}
    - {write: {src/app.py: "mine\\nsecond\\nfirst\\r\\n"}}
  critique: [{status: UNVERIFIED, can_further_iteration_help: yes, concerns: ["CC-1: no"]}, {status: VERIFIED}]
"""


@dataclass(frozen=True)
class Written:
    project: Project
    run: str
    commits: tuple[str, ...]
    base: str


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    project = new_project(tmp_path_factory.mktemp("blame"))
    project.commit({".swarm/flows/two.yaml": FLOW, "src/app.py": "mine\n"})
    run = project.start(SCRIPT, flow="two")
    commits = tuple(entry["commit"] for entry in project.json("log", run))
    return Written(project, run, commits, project.git("rev-parse", "main"))


def test_each_line_has_step_iteration_station_and_model(written: Written) -> None:
    shown = written.project.swarm("blame", "src/app.py", "--run", written.run).stdout.splitlines()
    author, nobody = written.project.git("log", "-1", "--format=%an"), ""
    run, wide = written.run, len("code-implementer")
    name = max(len(author), len("write@2"))
    assert shown == [
        f"{written.base[:8]} ({nobody:<{len(run)}} {author:<{name}} {nobody:<{wide}} {nobody:<11} 1) mine",
        f"{written.commits[2][:8]} ({run} {'write@2':<{name}} code-implementer claude-stub 2) second",
        f"{written.commits[2][:8]} ({run} {'write@2':<{name}} code-implementer claude-stub 3) first",
    ]


def test_why_without_a_line_is_blame(written: Written) -> None:
    words = ("src/app.py", "--run", written.run)
    assert written.project.swarm("why", *words).stdout == written.project.swarm("blame", *words).stdout


def test_json(written: Written) -> None:
    mine, second, _first = written.project.json("blame", "src/app.py", "--run", written.run)
    nobody = {"run_id": None, "landing": None, "step": None}
    assert mine == {"line": 1, "text": "mine", "commit": written.base, **nobody}
    assert second["step"] == {
        "commit": written.commits[2],
        "flow": "two",
        "step": "write",
        "iteration": 2,
        "agent": "code-implementer",
        "engine": "claude-step",
        "mode": "stub",
        "model": "claude-stub",
        "result": "succeeded",
        "status": "VERIFIED",
        "summary": "ok",
    }


@pytest.mark.parametrize(
    ("command", "where"), [("why", "src/new.py:1"), ("why", "src/app.py:3"), ("blame", "src/new.py")]
)
def test_what_only_a_run_has_is_found_there(written: Written, command: str, where: str) -> None:
    answer = ask(written.project, command, where)
    there = written.project.swarm(command, where, "--run", written.run)
    assert (answer.code, answer.stdout) == (0, there.stdout)
    assert answer.stderr.splitlines() == [
        f"{where} is not in HEAD; this is how {written.run} has it",
        f"hint: git swarm {command} {where} --run {written.run}",
    ]


@pytest.mark.parametrize("command", ["why", "blame"])
def test_what_nobody_has_is_an_error(written: Written, command: str) -> None:
    run = ("--run", written.run)
    tip = written.project.git("rev-parse", f"shadow/{written.run}")[:12]
    expected = {
        ("src/app.py:4", *run): f"src/app.py has 3 lines in {tip}, no line 4\nhint: git show {tip}:src/app.py\n",
        ("nowhere.py", *run): f"there is no nowhere.py in {tip}\nhint: git ls-tree -r --full-tree --name-only {tip}",
    }
    for where, said in expected.items():
        answer = ask(written.project, command, *where)
        assert (answer.code, answer.stdout) == (1, "")
        assert answer.stderr.startswith(f"git-swarm: {said}")
    assert "hint: git ls-tree" in ask(written.project, command, "nowhere.py").stderr


def test_blame_of_one_line_is_that_line_of_the_whole(written: Written) -> None:
    whole = written.project.json("blame", "src/app.py", "--run", written.run)
    assert written.project.json("blame", "src/app.py:2", "--run", written.run) == whole[1:2]
    assert len(written.project.swarm("blame", "src/app.py:2", "--run", written.run).stdout.splitlines()) == 1


def test_a_fork_knows_why_when_the_run_that_it_was_forked_from_is_gone(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    flow = "id: two\nsteps:\n  - {id: write, engine: command, command: {run: 'echo mine > made.txt'}}\n"
    project.commit({".swarm/flows/two.yaml": f"{flow}  - {{id: test, engine: command, command: test}}\n"})
    project.commit({".swarm/config.yaml": "commands: {test: \"echo '1 passed in 0.01s'\"}\n"})
    project.swarm("start", "two")
    run = project.json("list")[0]["run_id"]
    project.swarm("fork", "test", "--run", run)
    fork = project.json("list")[0]["run_id"]
    before = project.swarm("why", "made.txt:1", "--run", fork).stdout
    assert f"  evidence  git swarm show 1 --run {run}\n" in before

    project.swarm("discard", run)
    for older in (("gc",), ("gc", "--older-than", "0")):
        project.swarm(*older)
        assert project.swarm("why", "made.txt:1", "--run", fork).stdout == before.replace(run, fork)
    project.swarm("show", "1", "--run", fork)


def test_a_hint_can_be_typed_where_we_stand(project: Project) -> None:
    """In a folder below the top, and for a name that a shell would split."""
    project.commit({".swarm/flows/two.yaml": FLOW, "src/my app.py": "mine\n", "src/-x.py": "mine\n"})
    written = 'src/my app.py: "x\\n", src/a new.py: "y\\n", src/-x.py: "z\\n"'
    script = f"default: {{status: VERIFIED}}\nsteps: {{write: {{write: {{{written}}}}}}}\n"
    run = project.start(script, flow="two")
    folder = project.root / "src"
    for name, typed in (("my app.py:1", "'my app.py:1'"), ("a new.py:1", "'a new.py:1'"), ("./-x.py:1", "./-x.py:1")):
        for given in {name, name.removeprefix("./")}:
            hint = project.swarm("why", "--", given, cwd=folder).stderr.splitlines()[-1]
            assert hint == f"hint: git swarm why {typed} --run {run}"
        assert project.swarm(*shlex.split(hint.removeprefix("hint: git swarm ")), cwd=folder).stdout
