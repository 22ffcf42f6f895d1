"""A real session is followed while it goes on: what it says, does and tries again is told before it goes on."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.claude.runs import asked, reaching
from tests.claude.stage import by
from tests.cli.gated import following, read_until, running
from tests.loopback.api import ApiRequest, Reply, Text, Use, say
from tests.loopback.replies import failing, handed_over
from tests.loopback.server import Loopback
from tests.projects import new_project
from tests.routed import MAKER
from tests.waiting import DEADLINE_S

FLOW = "id: one\nsteps:\n  - {id: work, station: maker}\n"


@dataclass
class Waiting:
    """A model that says and does something, is overloaded once, and ends; each time when it is told to go on."""

    go_on: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __call__(self, asked: ApiRequest) -> Reply:
        if asked.wants_result:
            return handed_over()
        if asked.turn == 0:
            return Reply((Text("I look around."), Use("Bash", {"command": "echo around"})))
        assert self.go_on.acquire(timeout=DEADLINE_S)
        if asked.number == 2:
            return failing(529, retry_after="0")
        return say("That was all.")


@by("cli")
def test_a_session_is_followed_while_it_goes_on(
    tmp_path_factory: pytest.TempPathFactory, loopback: Loopback, mode: str
) -> None:
    model = Waiting()
    project = reaching(new_project(tmp_path_factory.mktemp("f")), loopback, model)
    project.commit({**MAKER, ".swarm/flows/one.yaml": FLOW})
    with running(project, "start", "one", "-m", "look", "--mode", mode) as run:
        read_until(run, "worktree", "stderr")
        with following(project, "--full") as follower:
            seen = read_until(follower, "around", times=3)
            model.go_on.release()
            seen += read_until(follower, " in ")
            model.go_on.release()
            seen += follower.communicate(timeout=DEADLINE_S)[0]
        out, err = run.communicate(timeout=DEADLINE_S)
    assert (run.returncode, follower.returncode) == (0, 0), out + err
    assert re.sub(r"(?m)^── \S+Z one/work@1 ", "── ", re.sub(r"in [\d.]+ s", "in N s", seen)) == (
        "── assistant\nI look around.\n"
        '── tool_use Bash\n{"command": "echo around"}\n'
        "── tool_result Bash\naround\n"
        "── retry\n1 of 2 in N s: 529 overloaded\n"
        "── assistant\nThat was all.\n"
    )
    assert re.search(r"(?m)^ +retry 1 of 2 in [\d.]+ s: 529 overloaded$", err)
    assert spoken(asked(project, "transcript")) == ["I look around.", "That was all."]


def spoken(lines: list[dict[str, Any]]) -> list[str]:
    """What the agent said, its handoff left out."""
    texts = [line["content"] for line in lines if line.get("role") == "assistant"]
    return [text for text in texts if not text.startswith("{")]
