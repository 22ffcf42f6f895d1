"""What an agent says on a terminal: nothing of it steers it, in any command; with --json nothing of it is lost."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project

ODD = "a\x1b[31mb\x9b2Jc\u202ed\u2066e\x07f\x7fg"
SHOWN = "a�[31mb�2Jc�d�e�f�g"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FLOW = "id: short\ntitle: One step\nsteps:\n  - {id: look, station: fixer}\n"
SCRIPT = f"""\
steps:
  look:
    - summary: {json.dumps(ODD)}
      concerns: [{json.dumps(ODD)}]
"""


@dataclass(frozen=True)
class Odd:
    project: Project
    started: str
    """What `start` printed."""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Odd:
    project = new_project(tmp_path_factory.mktemp("odd"))
    project.commit({".swarm/flows/short.yaml": FLOW}, "flows")
    done = ask(project, "start", "short", "--script", project.script(SCRIPT))
    assert done.code == 0, done.stderr
    return Odd(project, done.stdout + done.stderr)


def printed(odd: Odd, *arguments: str) -> str:
    done = ask(odd.project, *arguments)
    assert done.code == 0, done.stderr
    return done.stdout + done.stderr


SAYING: Sequence[Sequence[str]] = (
    ("log",),
    ("log", "--oneline"),
    ("show",),
    ("transcript",),
    ("transcript", "--follow"),
    ("events",),
)
OTHERS: Sequence[Sequence[str]] = (
    ("log", "--graph"),
    ("show", "--routing"),
    ("show", "--prompt"),
    ("status",),
    ("list",),
    ("events", "--follow"),
)


def test_what_start_tells_steers_no_terminal(odd: Odd) -> None:
    assert SHOWN in odd.started
    assert not STEERING.search(odd.started)


@pytest.mark.parametrize("arguments", [*SAYING, *OTHERS], ids=" ".join)
def test_what_a_command_prints_steers_no_terminal(odd: Odd, arguments: Sequence[str]) -> None:
    told = printed(odd, *arguments)
    assert (SHOWN in told) >= (arguments in SAYING)
    assert not STEERING.search(told)


@pytest.mark.parametrize(
    "arguments",
    [
        ("log", "--json"),
        ("show", "--json"),
        ("show", "--envelope"),
        ("transcript", "--json"),
        ("transcript", "--follow", "--json"),
        ("events", "--json"),
    ],
    ids=" ".join,
)
def test_json_is_escaped_and_whole(odd: Odd, arguments: Sequence[str]) -> None:
    told = printed(odd, *arguments)
    assert not STEERING.search(told)
    whole = told.startswith(("[", "{\n"))
    documents = [json.loads(told)] if whole else [json.loads(line) for line in told.splitlines()]
    assert ODD in list(texts(documents))


def texts(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in texts(item)]


def test_a_terminal_that_cannot_show_a_mark_gets_another(odd: Odd) -> None:
    env = {**odd.project.env, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = subprocess.run(
        odd.project.argv("log"), cwd=odd.project.root, env=env, capture_output=True, encoding="latin-1", check=True
    )
    assert ("?" in done.stdout, done.stderr) == (True, "")


MANY = "9" * 5_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("log", "-n", MANY), ": not a number\n"),
        (("list", "-n", MANY), ": not a number\n"),
        (("list", "--since", f"{MANY}d"), ": not a time that git understands\n"),
        (("show", f"look@{MANY}"), "' (look was executed once)\n"),
        (("show", "look@²"), "' (look was executed once)\n"),
        (("web", "--port", MANY), ": no port\n"),
    ],
    ids=["log", "list", "since", "iteration", "no digit", "port"],
)
def test_a_number_that_no_number_can_hold_is_refused(odd: Odd, arguments: Sequence[str], said: str) -> None:
    done = ask(odd.project, *arguments)
    assert done.code in (1, 2)
    assert said in done.stderr


def test_a_flow_without_a_step_to_compile_is_asked_for_one(odd: Odd) -> None:
    done = ask(odd.project, "flows", "compile", "short")
    said = "git-swarm: short: which step of the flow?\nhint: git swarm flows compile short/look\n"
    assert (done.code, done.stderr) == (2, said)
