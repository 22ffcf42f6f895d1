"""Every command once in a process of its own, as a user starts it; what each does is shown elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitswarm.cli.command_table import ROOT, Group
from tests.conftest import Project
from tests.projects import ask, new_project

FLOW = "id: two\nsteps:\n  - {id: one, station: code-implementer}\n  - {id: two, station: code-implementer}\n"
SCRIPT = 'steps: {one: {write: {new.txt: "new"}}}'

READING = [
    "log",
    "show one",
    "watch",
    "transcript one",
    "report",
    "cost",
    "why src/app.py",
    "blame src/app.py",
    "diff",
    "compare",
    "bisect",
    "status",
    "list",
    "path",
    "events",
    "verify",
    "flows list",
    "flows show two",
    "flows validate two",
    "flows graph two",
    "flows compile two/one",
    "stations list",
    "stations show code-critic",
    "stations validate code-critic",
    "policy explain ls",
    "policy rules",
    "stats",
    "db rebuild",
    "db refresh",
    "db query from/**/loops",
    "db path",
    "engines",
    "doctor",
    "wisdom list",
    "wisdom show WP-001",
    "completion bash",
    "config",
]
WRITING = [
    "start two --allow-stub --until one --script SCRIPT",
    "record-event hello",
    "stop",
    "skip two",
    "rollback one",
    "rollback --undo",
    "rollback one",
    "pause",
    "resume",
    "approve",
    "land",
    "fork one",
    "discard RUN",
    "gc",
    "init",
    "schemas FOLDER",
    "export RUN EXPORT",
    "replay RUN",
    "push RUN",
    "gc --hub --archive 1d",
    "pull RUN",
    "hold RUN",
    "release RUN",
    "fleet-exec RUN",
    "fleet run RUN",
    "fleet submit RUN --on slurm --print",
    "fleet status",
]
"""In this order, one after the other."""

IN_A_FILE_OF_ITS_OWN = {"demo", "web", "wisdom apply", "wisdom dismiss", "fleet serve", "fleet work"}
GROUPS = {"db", "fleet", "flows", "stations", "policy", "wisdom"}


def _names(group: Group, before: str = "") -> Iterator[str]:
    for name, entry in group.entries.items():
        if isinstance(entry, Group):
            yield from _names(entry, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_every_command_is_here() -> None:
    started = [line.split() for line in READING + WRITING]
    missing = {name for name in _names(ROOT) if name.split() not in map(_command, started)}
    assert missing == IN_A_FILE_OF_ITS_OWN


def _command(words: list[str]) -> list[str]:
    return words[: 2 if words[0] in GROUPS else 1]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = new_project(tmp_path_factory.mktemp("finished"))
    made.commit({".swarm/flows/two.yaml": FLOW}, "the flow")
    made.swarm("start", "two")
    return made


@pytest.mark.parametrize("line", READING)
def test_a_process_says_what_is_said_in_the_process_of_the_tests(finished: Project, line: str) -> None:
    here = ask(finished, *line.split())
    there = finished.swarm_process(*line.split(), code=here.code)
    assert (there.stdout, there.stderr) == (here.stdout, here.stderr)


def test_a_run_from_its_start_to_its_end_by_processes(project: Project) -> None:
    project.commit({".swarm/flows/two.yaml": FLOW}, "the flow")
    project.git("init", "-q", "--bare", "../hub.git")
    project.git("config", "swarm.hub", "../hub.git")
    names = {
        "FOLDER": str(project.root.parent / "schemas"),
        "EXPORT": str(project.root.parent / "x"),
        "SCRIPT": project.script(SCRIPT),
    }
    for line in WRITING:
        if "RUN" in line:
            names["RUN"] = str(project.json("list")[0]["run_id"])
        project.swarm_process(*(names.get(word, word) for word in line.split()))
