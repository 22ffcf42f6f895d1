"""A file of tasks becomes runs, each once, whatever is submitted how often; and nobody else gets in."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gitswarm.cli.fleet import dispatching, fleet_run, worker
from gitswarm.cli.fleet.cluster import refuse_other_versions
from gitswarm.cli.fleet.entry_file import StartOptions, read_entries
from gitswarm.errors import SwarmError
from gitswarm.records.run_spec import RunSpec
from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.fleet.fleets import STEPS, FleetProject, fleet_project, listening
from tests.projects import ask
from tests.waiting import DEADLINE_S, wait_until


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetProject]:
    with fleet_project(tmp_path) as made:
        yield made


def test_a_file_is_submitted_twice_and_nothing_is_executed_twice(fleet: FleetProject) -> None:
    """Without a hub, a scheduler or other set-up; only on loopback, and never more at once than there are slots."""
    project = fleet.project
    before = fingerprint(project.root)
    options = ("--flow", "trip", "--workers", "2", "--script", fleet.script())
    first = fleet.begin("fleet", "run", "--issues", fleet.issues("tidy up", "tidy up", "mend", "# no task"), *options)
    wait_until((fleet.door / "counts").exists, "a step is executed")
    assert listening(first.pid) == {"127.0.0.1"}
    said = first.communicate(timeout=DEADLINE_S)[0]
    assert first.returncode == 0, said
    assert "no hub is configured: the runs are kept in" in said
    done = fleet.steps_on_hub()
    assert list(done.values()) == [list(STEPS)] * 3
    assert fingerprint(project.root).entries == before.entries

    again = fleet.begin(
        "fleet", "run", "--issues", fleet.issues("tidy up", "more", "mend", "tidy up"), *options, "--json"
    )
    said = again.communicate(timeout=DEADLINE_S)[0]

    assert again.returncode == 0, said
    assert said.count('"event": "submitted"') == 1
    more = fleet.steps_on_hub()
    assert {name: more[name] for name in done} == done
    assert list(more.values()) == [list(STEPS)] * 4
    assert max(int(line) for line in (fleet.door / "counts").read_text().split()) == 2
    status = project.json("fleet", "status", "--issues", fleet.issues("tidy up", "other"), "--flow", "trip")
    assert status["states"] == {"rehearsal": 1, "not begun": 1}


def test_a_provider_is_asked_by_no_more_runs_than_it_may_and_priority_decides_who_is_first(
    fleet: FleetProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def providers_of(spec: RunSpec, _specs: object) -> frozenset[str]:
        return frozenset({"openai"} if spec.allow_stub else ())

    monkeypatch.setattr(dispatching, "providers_of", providers_of)
    asks = [json.dumps({"task": task, "allow_stub": True}) for task in ("one", "two")]
    issues = fleet.issues(*asks, '{"task": "three", "priority": 5}')
    words = ("fleet", "run", "--issues", issues, "--flow", "trip", "--script", fleet.script(), "--json")
    said = fleet.project.swarm(*words, "--workers", "3", "--at-once", "openai=1").stdout
    events = [json.loads(line) for line in said.splitlines()]
    created = [event["entry"].rpartition(":")[2] for event in events if event["event"] == "created"]
    assert created == ["3", "1", "2"]
    assert list(fleet.steps_on_hub().values()) == [list(STEPS)] * 3
    assert max(int(line) for line in (fleet.door / "counts").read_text().split()) == 2
    for wrong, to_type in (("opemai=1", "--at-once openai=4"), ("openai=0", "--at-once openai=4")):
        refused = fleet.project.swarm(*words, "--at-once", wrong, code=2)
        assert f"hint: {to_type}" in refused.stderr


def test_a_first_attempt_that_fails_does_not_end_a_run_that_had_been_stopped(
    fleet: FleetProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, execute = fleet.project, worker.execute
    project.git("init", "-q", "--bare", "../hub.git")
    project.git("config", "swarm.hub", "../hub.git")
    project.swarm("start", "trip", "-m", "x", "--script", fleet.script(), "--hub", "--until", "one")
    ((run, steps),) = fleet.steps_on_hub().items()
    assert steps == ["one"]
    failed = fleet.door / "failed"

    def attempt(order: worker.Order) -> worker.Answer:
        """It is copied for each attempt: what it knows is on disk."""
        if failed.exists():
            return execute(order)
        failed.touch()
        return worker.Answer(128, "fatal: cannot lock")

    monkeypatch.setattr(dispatching, "execute", attempt)

    project.swarm("fleet", "run", run.removeprefix("shadow/"))

    assert fleet.steps_on_hub() == {run: list(STEPS)}


@pytest.mark.parametrize(
    ("line", "to_type"),
    [
        ("fleet serve --host 0.0.0.0", "git swarm fleet serve --host 0.0.0.0 --port 8786 --tls-ca ca.pem"),
        ("fleet work tcp://10.1.2.3:8786", "git swarm fleet work tls://10.1.2.3:8786 --tls-ca ca.pem"),
        ("fleet work tls://127.0.0.1:8786", "git swarm fleet work tls://127.0.0.1:8786 --tls-ca ca.pem"),
        ("fleet run RUN --scheduler tcp://host:8786", "git swarm fleet run --scheduler tls://host:8786 --tls-ca"),
    ],
)
def test_an_address_that_others_reach_is_refused_without_tls(
    project: Project, monkeypatch: pytest.MonkeyPatch, line: str, to_type: str
) -> None:
    monkeypatch.setattr(os, "execve", lambda *_words: pytest.fail("it was started"))
    project.git("config", "swarm.hub", "../hub.git")
    project.git("init", "-q", "--bare", "../hub.git")
    refused = ask(project, *line.split())
    assert refused.code == 2
    assert "without TLS everybody who reaches it executes what he likes" in refused.stderr
    assert f"hint: {to_type}" in refused.stderr


def test_a_worker_listens_where_its_scheduler_reaches_it_and_nowhere_else(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def start(_path: str, words: list[str], _env: object) -> None:
        started.extend(words)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", start)
    monkeypatch.setattr("distributed.utils.get_ip", {"10.1.2.3": "10.1.2.9"}.__getitem__)
    project.write(dict.fromkeys(("ca", "cert", "key"), ""))
    files = ("--tls-ca", "ca", "--tls-cert", "cert", "--tls-key", "key")
    ask(project, "fleet", "work", "tls://10.1.2.3:8786", *files)
    assert started[started.index("--host") + 1] == "10.1.2.9"
    assert started[started.index("--dashboard-address") + 1] == "127.0.0.1:0"


def test_the_folder_that_is_typed_wins_over_the_one_of_the_environment(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str] = []

    def start(_path: str, _words: list[str], env: dict[str, str]) -> None:
        folders.append(env[worker.FOLDER])
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", start)
    other = Project(project.root, {**project.env, worker.FOLDER: "/elsewhere"})
    for words in (("--dir", "mine"), ()):
        ask(other, "fleet", "work", "tcp://127.0.0.1:8786", "--host", "127.0.0.1", *words)
    assert folders == [str(project.root / "mine"), "/elsewhere"]


def test_a_worker_with_another_version_is_refused() -> None:
    order = worker.Order("run-20260101-000000-000000", "0.0.1", "fleet", "hub")
    assert worker.execute(order) == worker.Answer(1, version=worker.version_here())
    client = SimpleNamespace(run=lambda *_words, **_options: {"tcp://127.0.0.1:1": "0.0.1"})
    with pytest.raises(SwarmError, match=r"127\.0\.0\.1:1 has git-swarm 0\.0\.1, this is") as refused:
        refuse_other_versions(cast("Any", client))
    assert f"pip install 'git-swarm[fleet]=={worker.version_here()}'" in refused.value.hint


@pytest.mark.parametrize("command", ["run", "submit --on slurm --print"])
@pytest.mark.parametrize("option", ["--mode cli", "--flow build", "--autopilot"])
def test_options_of_entries_are_refused_beside_runs(project: Project, command: str, option: str) -> None:
    refused = ask(project, "fleet", *command.split(), "2aa18a", *option.split())
    assert refused.code == 2
    assert refused.stderr.splitlines()[-1].endswith("2aa18a")


def test_an_entry_is_the_same_by_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "issues"
    file.write_text('a\n\n# no\na\n{"flow": "build", "task": "a"}\n{"task": "a", "max_cost": 1}\n', encoding="utf-8")
    names = [entry.name for entry in read_entries(str(file), StartOptions(flow="build"))]
    assert len(set(names)) == 4
    usual = StartOptions(flow="build", model="other", autopilot=True)
    assert [entry.name for entry in read_entries(str(file), usual)] == names
    file.write_text('{"task": "a", "max_cost": 1, "priority": 2}\na\na\na\n', encoding="utf-8")
    assert [entry.name for entry in read_entries(str(file), usual)] == [names[3], *names[:3]]
    assert not {entry.name for entry in read_entries(str(file), StartOptions(flow="plan"))} & set(names)


def test_a_line_of_the_file_ends_where_its_line_ends(tmp_path: Path) -> None:
    """JSON may have these as they are; Python takes them for ends of lines."""
    file = tmp_path / "issues"
    file.write_text('{"task": "a\u2028b\x85c"}\r\n{"task": "d"}\r\n', encoding="utf-8", newline="")
    entries = read_entries(str(file), StartOptions(flow="build"))
    assert [entry.options.task for entry in entries] == ["a\u2028b\x85c", "d"]
    assert [entry.location for entry in entries] == [f"{file}:1", f"{file}:2"]


def test_what_entries_have_in_common_is_checked_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[tuple[str, ...]] = []
    monkeypatch.setattr(fleet_run, "plan_run", lambda _repository, asked: planned.append(asked.flows))
    monkeypatch.setattr(fleet_run, "embedded", lambda _slots: sys.exit(7))
    (project.root / "issues").write_text('a\nb\n{"task": "c", "flow": "plan"}\nd\n', encoding="utf-8")
    assert ask(project, "fleet", "run", "--issues", "issues").code == 7
    assert sorted(planned) == [("build",), ("plan",)]


def test_what_is_no_entry_is_told_with_its_line(project: Project) -> None:
    file = project.root / "issues"
    wrong = '{"task": 3}\n{"tasks": "x"}\n{}\n{"task": "x", "max_cost": -1}\n{"task": "x", "flow": " "}\n'
    file.write_text(f"fine\n{wrong}", encoding="utf-8")
    refused = ask(project, "fleet", "run", "--issues", "issues")
    assert refused.code == 1
    assert [line.partition("issues:")[2][:1] for line in refused.stderr.splitlines()[:5]] == list("23456")
    assert "unknown field `tasks`" in refused.stderr


ONE_COMMAND = 'id: {}\nsteps:\n  - {{id: only, engine: command, command: {{run: "{}"}}}}\n'
DOES = {"red": "exit 3", "make": "echo made >> made.txt"}


def test_what_to_type_is_said_of_each_run_and_works_after_its_clone_here_is_gone(fleet: FleetProject) -> None:
    project = fleet.project
    nothing = ask(project, "fleet", "status")
    assert nothing.code == 1
    assert "no fleet has run here" in nothing.stderr
    assert "hint: git swarm fleet run --issues FILE" in nothing.stderr
    project.commit({f".swarm/flows/{name}.yaml": ONE_COMMAND.format(name, does) for name, does in DOES.items()})
    entries = [json.dumps({"task": f"task {n}", "flow": flow}) for n, flow in enumerate(["red"] * 4 + ["make"])]
    issues = fleet.issues(*entries)

    said = project.swarm("fleet", "run", "--issues", issues, code=4).stdout

    runs = {each["title"]: each["run_id"] for each in project.json("fleet", "status", "--issues", issues)["runs"]}
    hints = re.findall(r"^next +git swarm (\S+) (\S+)", said, re.MULTILINE)
    assert hints == [*(("resume", runs[f"task {n}"]) for n in range(3)), ("approve", runs["task 4"])]
    assert "           and 1 more that are not proven\n" in said
    project.swarm("discard", "--older-than", "0s")
    assert "kept       5 runs of fleets in" in project.swarm("gc", "--older-than", "0").stdout
    said = project.swarm("fleet", "status").stdout
    assert f"next       git swarm pull {runs['task 4']}" in said
    project.swarm("pull", runs["task 4"])
    assert f"next       git swarm approve {runs['task 4']}" in project.swarm("fleet", "status").stdout
    assert project.swarm("resume", runs["task 0"], "--hub", code=4).stdout.startswith(runs["task 0"])
    project.swarm("gc", "--hub", "--archive", "0d")
    assert "fleets" not in project.swarm("gc").stdout


def test_a_key_that_no_entry_has_is_refused_with_all_keys(project: Project) -> None:
    project.write({"issues": '{"tsk": "a"}\n'})
    refused = ask(project, "fleet", "run", "--issues", "issues")
    assert "unknown field `tsk`" in refused.stderr
    assert "(keys: task, flow, base, engine, mode, model, economy, script, allow_stub," in refused.stderr
