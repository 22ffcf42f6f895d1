"""A run is refused for an engine that it asks, and for no other; engines come and go."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced

from gitswarm.cli.candidates import candidates
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude import ADAPTER as CLAUDE
from gitswarm.engines.claude.claude_code import find_program, sdk_version
from gitswarm.engines.codex import ADAPTER as CODEX
from gitswarm.engines.gemini import ADAPTER as GEMINI
from tests.cli.test_engines import program
from tests.conftest import Project
from tests.engines.test_registry import WORKING, brings, site
from tests.projects import ask

__all__ = ["site"]

TESTS = Path(__file__).parent.parent

ONE = "id: one\nsteps: [{id: a, station: code-implementer}]\n"
TWO = "id: two\nsteps: [{id: b, station: code-implementer}, {id: c, engine: command, command: {run: 'true'}}]\n"


def team(project: Project, engines: str) -> None:
    files = {".swarm/flows/one.yaml": ONE, ".swarm/flows/two.yaml": TWO, ".swarm/config.yaml": engines}
    project.commit(dict(files), "the team's engines")


@pytest.fixture
def here(project: Project, tmp_path: Path) -> Project:
    return replace(project, env={**project.env, "SWARM_CLAUDE_CLI": program(tmp_path, "9.9.9")})


@pytest.mark.parametrize(
    ("engines", "flow", "refused"),
    [
        ("flows: {two: gemini}", "one", ""),
        ("flows: {two: gemini}", "two", "gemini-step has no mode 'sdk' in this version (it has: stub, cli)"),
        ("default: gemini, flows: {two: claude}", "two", ""),
        ("default: gemini, steps: {one/a: claude}", "one", ""),
        ("default: gemini, steps: {one/b: claude}", "one", "gemini-step has no mode 'sdk'"),
        ("flows: {one: gemini}, steps: {a: claude}", "one", ""),
        ("steps: {sq-risk-review-weigh: gemini}", "one", "gemini-step has no mode 'sdk'"),
    ],
)
def test_a_mode_is_for_the_engines_that_are_asked(here: Project, engines: str, flow: str, refused: str) -> None:
    team(here, f"engines: {{{engines}}}\n")

    answer = ask(here, "start", flow, "-m", "x", "--mode", "sdk", "--dry-run")

    assert answer.code == (2 if refused else 0), answer.stderr
    assert refused in answer.stderr


def test_what_is_to_be_typed_for_a_model_names_the_engine_of_the_rehearsal(here: Project) -> None:
    team(here, "{}\n")
    by = {name: here.swarm("start", "one", "--engine", name).stderr for name in ("claude", "gemini", "codex-step")}
    lines = {
        name: next(line for line in said.splitlines() if line.startswith("for real")) for name, said in by.items()
    }
    assert lines == {
        "claude": "for real   git swarm start one --mode cli -m 'TASK'",
        "gemini": "for real   git swarm start one --engine gemini --mode cli -m 'TASK'",
        "codex-step": "for real   git swarm start one --engine codex --mode cli -m 'TASK'",
    }
    last = str(here.json("list")[0]["run_id"])
    forked = here.swarm("fork", "1", "--engine", "gemini").stderr
    assert f"for real   git swarm fork 1 --run {last} --engine gemini --mode cli\n" in forked


def test_what_one_engine_lacks_stops_no_flow_of_another(here: Project) -> None:
    gone = replace(here, env={**here.env, "SWARM_CLAUDE_CLI": "/nowhere"})
    team(here, "engines: {default: gemini, claude: {mode: cli}, flows: {two: claude}}\n")

    answers = [ask(gone, "start", flow, "--dry-run", "-m", "x") for flow in ("one", "two")]

    assert [answer.code for answer in answers] == [0, 1]
    assert "there is no program at /nowhere" in answers[1].stderr


def test_a_variable_that_is_not_set_stops_only_who_needs_it(here: Project) -> None:
    team(here, "engines: {default: gemini, claude: {mode: cli, env: {A: '${NOBODYS}'}}, flows: {two: claude}}\n")

    answers = [ask(here, "start", flow, "--dry-run", "-m", "x") for flow in ("one", "two")]

    assert [answer.code for answer in answers] == [0, 1]
    told = "engines.claude.env.A needs the variable NOBODYS, which is not set"
    assert told in answers[1].stderr
    listed = {(each["engine"], each["mode"]): each for each in json.loads(ask(here, "engines", "--json").stdout)}
    assert listed["claude-step", "cli"]["problem"] == f"{told}: export NOBODYS=…"
    assert listed["gemini-step", "stub"]["problem"] is None


def test_a_broken_engine_is_told_and_stops_nothing_else(here: Project, site: Path) -> None:
    brings(site, "bad", {"bad": "bad:ADAPTER"}, "raise RuntimeError('no luck')")
    team(here, "engines: {bad: {mode: far}, flows: {two: bad}}\n")
    what = "the engine 'bad' of bad 1.0 is broken: RuntimeError: no luck"

    assert ask(here, "start", "one", "-m", "x").code == 0
    for words in (("log",), ("status",), ("config",), ("flows", "list"), ("approve", "--help")):
        answer = ask(here, *words)
        assert (answer.code, "bad" in answer.stderr) == (0, False), answer.stderr
    listed = ask(here, "engines", "--json")
    assert (listed.code, what in " ".join(listed.stderr.split())) == (0, True)
    assert {each["engine"] for each in json.loads(listed.stdout)} >= {"bolt-step", "claude-step", "command"}
    found = json.loads(ask(here, "doctor", "--json").stdout)["findings"]
    assert [each["level"] for each in found if each["message"] == what] == ["problem"]
    refused = ask(here, "start", "two", "-m", "x")
    assert (refused.code, what in " ".join(refused.stderr.split())) == (1, True)


def test_a_stub_of_an_installed_engine_is_listed_chosen_and_recorded(here: Project, site: Path) -> None:
    assert site.name
    team(here, "engines: {claude: {mode: stub}}\n")

    here.swarm("start", "one", "-m", "x", "--engine", "bolt")

    (step,) = here.json("log")
    assert (step["engine"], step["mode"], step["model"]) == ("bolt-step", "stub", "bolt-stub")
    told = ask(here, "engines", "-v").stdout
    assert max(map(len, told.splitlines())) <= 80
    assert told.count("can  ") == 3  # the matrix is told in three parts
    about = " ".join(told.partition("bolt-step, bolt for short")[2].split())
    keys = ", ".join(f"engines.bolt.{key}" for key in ("mode", "env", "cli", "speed"))
    assert about == f"from lightning 1.0 providers them, others prices of models.yaml, else unknown keys {keys}"
    assert candidates(["start", "one", "--engine", "bo"]) == ["bolt-step"]


@pytest.mark.usefixtures("site")
def test_a_fork_by_another_engine_brings_what_that_has_to_keep_to(here: Project) -> None:
    team(here, "engines: {bolt: {speed: 7}}\n")
    here.commit({".swarm/flows/one.yaml": ONE.replace("}]", "}, {id: z, station: code-implementer}]")})
    here.swarm("start", "one", "-m", "x")

    here.swarm("fork", "a", "--engine", "bolt")

    fork = here.json("list")[0]["run_id"]
    assert [step["engine"] for step in here.json("log", fork)][-1] == "bolt-step"
    spec = json.loads(here.git("show", f"shadow/{fork}:.swarm/runs/{fork}/spec.json"))
    assert spec["settings"]["engines"]["bolt"] == {"speed": 7}


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (
            ("b", "--engine", "gemini", "--mode", "sdk"),
            "gemini-step has no mode 'sdk'",
            "b --engine gemini --run RUN --mode stub",
        ),
        (("c", "--again", "--mode", "cli"), "no agent executes two/c", "c --run RUN "),
        (("c", "--again", "--engine", "codex"), "no agent executes two/c", "c --run RUN "),
    ],
)
def test_a_fork_is_refused_for_what_its_engine_cannot_do(
    here: Project, words: tuple[str, ...], says: str, hint: str
) -> None:
    team(here, "engines: {claude: {mode: stub}}\n")
    here.swarm("start", "two", "-m", "x")
    (run,) = (each["run_id"] for each in here.json("list"))

    answer = ask(here, "fork", *words)

    told = " ".join(answer.stderr.split())
    assert (answer.code, says in told) == (2, True), told
    assert f"git swarm fork {hint.replace('RUN', run)}" in told, told
    assert len(here.json("list")) == 1


def test_a_run_without_agents_has_no_fork_by_another_engine(here: Project) -> None:
    here.commit({".swarm/flows/c.yaml": "id: c\nsteps: [{id: c, engine: command, command: {run: 'true'}}]\n"})
    here.swarm("start", "c")
    answer = ask(here, "fork", "c", "--engine", "codex")
    assert (answer.code, "another engine changes nothing" in " ".join(answer.stderr.split())) == (2, True)
    assert len(here.json("list")) == 1


def test_a_program_is_asked_for_its_version_once_before_a_run(here: Project, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    (tmp_path / "claude").write_text(f'#!/bin/sh\necho "$@" >> {asked}\necho 9.9.9\n', encoding="utf-8")
    team(here, "engines: {claude: {mode: cli}}\n")
    here.swarm("start", "two", "-m", "x", "--from", "c")
    assert asked.read_text(encoding="utf-8").splitlines() == ["--version"]


def test_a_run_whose_engine_is_gone_can_be_read_and_not_continued(
    here: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team(here, "")
    with monkeypatch.context() as patch:
        folder = tmp_path / "site"
        folder.mkdir()
        brings(folder, "thunder", {"clap": "thunder:ADAPTER"}, WORKING.replace("NAME", "clap"))
        patch.syspath_prepend(folder)
        here.swarm("start", "two", "-m", "x", "--engine", "clap", "--until", "b")

    assert [step["engine"] for step in here.json("log")] == ["clap-step"]
    for words in (("status",), ("show", "b"), ("verify",), ("report",), ("cost",)):
        answer = ask(here, *words)
        assert answer.code == 0, answer.stderr
    answer = ask(here, "resume")
    assert (answer.code, answer.stderr.startswith("git-swarm: unknown engine 'clap-step'")) == (2, True)


def test_a_program_that_is_newer_than_what_was_tested_is_told_once(here: Project) -> None:
    team(here, "engines: {claude: {mode: cli}, flows: {two: claude}}\n")

    answer = ask(here, "start", "one", "two", "-m", "x")

    tested = CLAUDE.tested["claude"]
    line = f"claude 9.9.9 is newer than {tested}, the newest that git-swarm was tested with"
    assert [told for told in answer.stderr.splitlines() if "is newer than" in told] == [line]
    assert f"tested with  claude {tested}, claude-agent-sdk " in ask(here, "engines", "-v").stdout


def test_what_is_called_tested_is_what_the_tests_run() -> None:
    """Whoever moves a version moves the line in its adapter too."""
    bundled = find_program(EngineAccess(), os.environ, bundled_first=True)
    assert CLAUDE.newer(replaced(bundled, library=f"claude-agent-sdk {sdk_version()}")) == ""
    assert CLAUDE.newer(replaced(bundled, library="claude-agent-sdk 1.0.0")).startswith(
        "claude-agent-sdk 1.0.0 is newer"
    )
    for adapter in (CODEX, GEMINI):
        fetched = (TESTS / f"fetch_{adapter.short_name}.sh").read_text(encoding="utf-8")
        tested = adapter.tested[adapter.short_name].rpartition(".")[0]
        assert re.findall(r"@~([\d.]+)\.\d", fetched) == [tested]
