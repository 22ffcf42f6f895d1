"""Options that come together, names that are none, and hints that are typed as they are printed."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project
from tests.waiting import wait_until

FLOW = "id: two\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"
SCRIPT = 'default: {status: VERIFIED}\nsteps: {s1: {write: {a.txt: "x\\n"}}}\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a run that stopped behind its first step."""
    project = new_project(tmp_path_factory.mktemp("lines"))
    project.commit({".swarm/flows/two.yaml": FLOW, "src/a.py": ""})
    project.start(SCRIPT, "--allow-stub", "--until", "s1", flow="two")
    return project


@pytest.mark.parametrize("name", ["s3", "s2@1", "other/s2"])
@pytest.mark.parametrize("command", [("resume",), ("skip", "s2"), ("fork", "s1")])
def test_a_run_that_would_not_stop_there_is_not_executed(made: Project, command: tuple[str, ...], name: str) -> None:
    before = made.git("for-each-ref")
    answer = ask(made, *command, "--until", name)
    assert (answer.code, made.git("for-each-ref")) == (1, before)
    assert f"has no step '{name}'" in " ".join(answer.stderr.split())


def test_a_graph_is_of_the_whole_run(made: Project) -> None:
    assert ask(made, "log", "--graph", "-n", "1").code == 2


def test_every_state_that_list_shows_can_be_asked_for(made: Project) -> None:
    assert made.json("list", "--state", "starting") == []


def test_in_the_background_json_has_the_events_and_no_other_line(project: Project) -> None:
    project.commit({".swarm/flows/two.yaml": FLOW})
    project.write({".swarm/flows/other.yaml": FLOW})
    answer = project.swarm_process("start", "two", "--script", project.script(SCRIPT), "--detach", "--json")
    events = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [event["kind"] for event in events] == ["run_created", "run_started"]
    assert f"{events[0]['run_id']} runs in the background" in answer.stderr
    assert "STUB MODE, a rehearsal" in answer.stderr
    assert ".swarm/flows/other.yaml (git add -f" in answer.stderr
    project.swarm("events", "--follow")


def _has_ended(log: Path) -> bool:
    """Whether the process in the background has printed its last lines."""
    return "\nnext " in log.read_text(encoding="utf-8")


def test_a_run_that_is_about_to_begin_in_the_background_is_stopped(project: Project) -> None:
    """At once, so that its process does not own it yet, or only just."""
    project.commit({".swarm/flows/two.yaml": FLOW})
    script = project.script('default: {status: VERIFIED}\nsteps: {s1: {run: ["sleep 1"]}}\n')
    for _time in range(4):
        said = project.swarm_process("start", "two", "--script", script, "--detach").stdout
        project.swarm("stop")
        log = project.root / ".git/swarm/logs" / f"{said.split()[0]}.log"
        wait_until(partial(_has_ended, log), "its process has ended")
        assert project.json("status")["state"] == "stopped"


def test_a_dry_run_of_a_rollback_is_one_that_was_asked_for(project: Project) -> None:
    project.commit({".swarm/flows/two.yaml": FLOW})
    project.start(SCRIPT, "--allow-stub", flow="two")
    nothing, asked = project.json("rollback", "s2"), project.json("rollback", "s1", "--dry-run")
    assert [(each["dry_run"], each["kept"]) for each in (nothing, asked)] == [(False, None), (True, None)]


def test_another_time_is_typed_with_the_same_command(made: Project) -> None:
    for command in ("list", "stats"):
        assert f"hint: git swarm {command} --since 3d " in ask(made, command, "--since", "someday").stderr


def test_what_is_in_the_way_of_a_folder_can_be_looked_at(made: Project) -> None:
    (made.root / "a file").touch()
    hint = ask(made, "schemas", "a file/x").stderr.splitlines()[-1]
    assert hint.startswith("hint: ls -ld ")
    assert Path(made.root, shlex.split(hint)[-1]).exists()


def test_the_prompt_alone_is_that_of_the_same_run(project: Project) -> None:
    project.commit({".swarm/flows/two.yaml": FLOW})
    run, _newer = (project.start(SCRIPT, flow="two") for _time in range(2))
    hint = ask(project, "transcript", "s1", "--run", run, "--full", "--prompt").stderr.splitlines()[-1]
    assert hint == f"hint: git swarm transcript s1 --prompt --run {run}"


def test_a_rejection_accepts_nothing(made: Project) -> None:
    assert ask(made, "approve", "--reject", "-m", "no", "--accept", "X=why").code == 2


def test_no_dry_run_undoes_a_rollback(project: Project) -> None:
    project.commit({".swarm/flows/two.yaml": FLOW})
    project.start(SCRIPT, flow="two")
    project.swarm("rollback", "s1")
    before = project.git("for-each-ref")
    assert ask(project, "rollback", "--undo", "--dry-run").code == 2
    assert project.git("for-each-ref") == before


def test_what_would_land_lands_by_the_line_below_it(project: Project) -> None:
    project.commit({".swarm/flows/two.yaml": FLOW})
    run = project.start(SCRIPT, "--allow-stub", flow="two")
    project.git("branch", "it's")
    project.swarm("approve")
    last = project.swarm("land", "--dry-run", "--target", "it's", "-m", "two words").stdout.splitlines()[-1]
    words = shlex.split(last.removeprefix("next "))
    assert words == ["git", "swarm", "land", run, "--target", "it's", "-m", "two words"]
    project.swarm(*words[2:])
    assert project.git("log", "-1", "--format=%s", "it's").strip() == "two words"


def test_discarded_runs_are_listed_where_there_are_no_others(project: Project) -> None:
    project.commit({".swarm/flows/two.yaml": FLOW})
    run = project.start(SCRIPT, flow="two")
    project.swarm("discard", run)
    assert project.swarm("list", "--all").stdout.splitlines()[0] == f"{run}  discarded  now"
    assert project.swarm("list").stdout == "no runs yet\n"


def test_a_flow_that_is_not_committed_is_added_as_the_hint_says(project: Project) -> None:
    """In another folder than the top, and where git ignores it."""
    project.commit({".gitignore": ".swarm\n", "src/a.py": ""})
    project.write({".swarm/flows/two.yaml": FLOW})
    folder = project.root / "src"
    hint = ask(project, "start", "two", cwd=folder).stderr.splitlines()[-1].removeprefix("hint: git ")
    add, commit = hint.split(" && git ")
    project.git(*shlex.split(add), cwd=folder)
    project.git(*shlex.split(commit), cwd=folder)
    project.swarm("start", "two", "--dry-run", cwd=folder)


def test_a_file_with_the_line_ends_of_windows_is_committed_as_it_is(project: Project) -> None:
    project.commit({".swarm/config.yaml": b"commands:\r\n  test: make\r\n"})
    assert "not committed" not in project.swarm("config").stderr
    assert "nothing changed" in project.swarm("config", "--team", "commands.test", "make").stdout
