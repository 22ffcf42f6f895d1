"""Commands about what authors wrote: flows compile and graph, stations, schemas, start --dry-run."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from gitswarm.cli.schemas import SCHEMAS, schema_text
from tests.conftest import Project
from tests.projects import ask

DOCS = Path(__file__).parent.parent.parent / "docs" / "schemas"

FLOW = """\
id: hello
steps:
  - {id: write, station: code-implementer}
  - {id: critique, station: code-critic, routing: {kind: microloop, loop_target: write, max_iterations: 2}}
  - id: test
    engine: command
    command: test
    routing: {kind: branch, when: [{if: "evidence.tests.passed", next: done}], default: write, max_iterations: 3}
  - {id: done, station: build-cleanup}
"""


@pytest.fixture
def hello(project: Project) -> Project:
    project.commit({".swarm/flows/hello.yaml": FLOW})
    return project


def test_a_flow_is_drawn_with_its_ways_back(hello: Project) -> None:
    assert ask(hello, "flows", "graph", "hello").stdout == (
        "● write  code-implementer  ┐ ┐\n"
        "│ critique  code-critic    ┘ │  ↑ write ≤2\n"
        "│ test  command              ┘  ↑ write ≤3\n"
        "│ done  build-cleanup\n"
        "○ end\n"
    )


def test_a_flow_is_a_mermaid_flowchart(hello: Project) -> None:
    assert ask(hello, "flows", "graph", "hello", "--mermaid").stdout == (
        "flowchart TD\n"
        '  write["write<br/><i>code-implementer</i>"]\n'
        '  critique["critique<br/><i>code-critic</i>"]\n'
        '  test(["test<br/><i>command</i>"])\n'
        '  done["done<br/><i>build-cleanup</i>"]\n'
        "  over((end))\n"
        "  write --> critique\n"
        '  critique -.->|"else, at most 2"| write\n'
        '  critique -->|"VERIFIED"| test\n'
        '  test -->|"evidence.tests.passed"| done\n'
        '  test -.->|"else, at most 3"| write\n'
        "  done --> over\n"
    )


def test_a_compiled_step_is_what_the_run_is_told(hello: Project) -> None:
    plan = json.loads(ask(hello, "flows", "compile", "hello/write", "--json").stdout)
    run = hello.start("{}", "--until", "write", flow="hello")
    prompt = hello.swarm("show", "write", "--prompt").stdout
    compiled = f"── system\n{plan['system_append']}\n── user\n{plan['user_prompt']}\n"
    assert prompt == compiled.replace("<run>", run).replace("<base commit>", hello.git("rev-parse", "HEAD"))
    assert (plan["model"], plan["max_turns"], plan["handoff"]) == (
        "claude-sonnet-5-5",
        50,
        {"required": ["status", "summary"]},
    )


@pytest.mark.parametrize(
    ("name", "code", "said", "hint"),
    [
        ("hello/wrte", 1, "hello has no step 'wrte' (did you mean 'write'?)", "git swarm flows show hello"),
        ("hello/test", 2, "hello/test is a command: no model is asked", "git swarm flows show hello"),
        ("helo/write", 1, "unknown flow 'helo' (did you mean 'hello'?)", "git swarm flows list"),
    ],
)
def test_what_cannot_be_compiled_is_told(hello: Project, name: str, code: int, said: str, hint: str) -> None:
    answer = ask(hello, "flows", "compile", name)
    assert (answer.code, answer.stderr) == (code, f"git-swarm: {said}\nhint: {hint}\n")


def test_a_dry_run_shows_steps_and_the_cost_at_worst_and_creates_nothing(hello: Project) -> None:
    before = hello.git("for-each-ref")
    steps = json.loads(ask(hello, "start", "hello", "-m", "the task", "--dry-run", "--json").stdout)
    assert [(step["step"], step["executions"], step["model"]) for step in steps] == [
        ("write", 6, "claude-sonnet-5-5"),
        ("critique", 6, "claude-sonnet-5-5"),
        ("test", 3, None),
        ("done", 1, "claude-haiku-5-5"),
    ]
    # 6 executions of at most 50 turns, 30,000 tokens in at 2 $ and 2,000 out at 10 $ per million.
    assert steps[0]["cost_usd"] == pytest.approx(6 * 50 * (0.03 * 2 + 0.002 * 10))
    assert hello.git("for-each-ref") == before
    assert not hello.root.with_name("repo.swarm").exists()


def test_a_dry_run_says_how_often_tests_may_run_again(hello: Project) -> None:
    hello.commit({".swarm/config.yaml": "proof: {max_time: 90}\n"}, "limit")
    said = ask(hello, "start", "hello", "--dry-run").stdout
    assert "tests      executed 3 times, and once more where code changed after them; each may" in said
    assert "up to 7 runs" in " ".join(said.split())
    assert "1m30s in all (proof.max_time)" in " ".join(said.split())
    steps = json.loads(ask(hello, "start", "hello", "--dry-run", "--json").stdout)
    assert [step["extra_runs"] for step in steps] == [0, 0, 21, 0]


def test_a_dry_run_with_economy_is_cheaper(hello: Project) -> None:
    said = ask(hello, "start", "hello", "--dry-run", "--economy").stdout
    assert "claude-haiku-5-5" in said
    assert "sonnet" not in said
    assert "at worst" in said


def test_the_prompt_of_a_dry_run_holds_the_task(hello: Project) -> None:
    def first(task: str) -> str:
        steps = json.loads(ask(hello, "start", "hello", "-m", task, "--dry-run", "--json").stdout)
        return str(steps[0]["prompt_hash"])

    assert first("one") != first("two")
    assert first("one") == first("one")


def test_stations_are_listed_shown_and_checked(hello: Project) -> None:
    listed = json.loads(ask(hello, "stations", "list", "--json").stdout)
    assert {"id": "code-critic", "title": "Code Critic", "source": "bundled"} in listed
    assert ask(hello, "stations", "show", "code-critic").stdout.startswith("id: code-critic\ntitle: Code Critic\n")
    assert ask(hello, "stations", "validate").stdout == f"{len(listed)} stations fine\n"


def test_a_misspelt_station_is_told_with_the_nearest_one(hello: Project) -> None:
    answer = ask(hello, "stations", "show", "code-critik")
    assert answer.stderr == (
        "git-swarm: unknown station 'code-critik' (did you mean 'code-critic'?)\nhint: git swarm stations list\n"
    )


def test_a_station_with_a_mistake_is_told_with_its_line(hello: Project) -> None:
    hello.write({".swarm/flows/stations/mine.yaml": "id: mine\ntitle: Mine\ncategory: critc\nidentity: x\n"})
    answer = ask(hello, "stations", "validate", "mine")
    assert answer.code == 1
    assert "git-swarm: .swarm/flows/stations/mine.yaml:3: category:" in answer.stderr
    assert "git-swarm: .swarm/flows/stations/mine.yaml:1: 'invariants' is missing" in answer.stderr


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_stored_schemas_are_those_of_the_models(name: str) -> None:
    """After a wanted change: make schemas"""
    assert (DOCS / f"{name}.json").read_text(encoding="utf-8") == schema_text(name)


def test_schemas_are_written_where_they_are_asked_for(hello: Project, tmp_path: Path) -> None:
    answer = ask(hello, "schemas", str(tmp_path / "new" / "folder"))
    assert answer.stdout.startswith(f"{len(SCHEMAS)} schemas in {tmp_path}/new/folder\n")
    assert {path.stem for path in (tmp_path / "new" / "folder").iterdir()} == set(SCHEMAS)


def test_an_until_before_the_from_is_refused(hello: Project) -> None:
    answer = ask(hello, "start", "hello", "--from", "test", "--until", "write", "--dry-run")
    assert (answer.code, answer.stderr.splitlines()[0]) == (2, "git-swarm: --until write comes before --from test")


def test_a_folder_that_is_gone_is_told(hello: Project, tmp_path: Path) -> None:
    argv = [
        "sh",
        "-c",
        f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {shlex.join(hello.argv('list'))}",
    ]
    done = subprocess.run(argv, env=dict(hello.env), capture_output=True, text=True, check=False)
    assert (done.returncode, "no longer exists" in done.stderr) == (1, True)


def test_engines_of_steps_and_flows_that_do_not_exist_are_named(hello: Project) -> None:
    engines = "{flows: {helo: gemini, hello: claude}, steps: {hello/wirte: claude, test: claude, done: claude}}"
    hello.commit({".swarm/config.yaml": f"engines: {engines}\n"})
    none = "has no effect: no flow has such a step that an agent executes"
    notes = [
        "note: engines.flows.helo has no effect: there is no such flow (did you mean 'hello'?)",
        f"note: engines.steps.hello/wirte {none} (did you mean 'hello/write'?)",
        f"note: engines.steps.test {none}",
    ]
    assert ask(hello, "flows", "validate", "hello").stderr.splitlines() == notes
    assert [
        line for line in ask(hello, "start", "hello").stderr.splitlines() if line.startswith("note: engines")
    ] == notes
