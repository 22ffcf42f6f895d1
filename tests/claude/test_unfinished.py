"""A step that its provider ended is executed again in its own conversation, on the files that it left."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitswarm.engines.claude.messages import Usage
from gitswarm.engines.claude.provider import StoredSession, keep_session
from tests.claude.runs import having, reaching
from tests.claude.stage import LOGIN
from tests.conftest import Project
from tests.faults import COUNT, NONE, Server
from tests.loopback.api import ApiRequest, Reply, say
from tests.loopback.replies import bash, failing, handed_over, limit_reached
from tests.loopback.server import Loopback
from tests.projects import only_run
from tests.routed import MAKER, flow, step
from tests.safety.sandbox.conftest import confined, needs_bwrap

__all__ = ["confined"]

CONFIG = "engines: {claude: {mode: cli, attempts: 1, env: {CLAUDE_CODE_MAX_RETRIES: '0'}}}\n"
WRITES = "echo one >> a.txt && mkdir -p $RUN_BASE/one && echo two > $RUN_BASE/one/notes.md"
LEAK = "echo token: ghp_$(printf %036d 0 | tr 0 k | sed s/kkk/A7q/g)"
SAMPLE = 12
"""Of so many points at which it may be killed one is tried; each takes three seconds."""
GOES_ON = "It continues now, in this conversation."


@dataclass
class Outage:
    """A model that writes files, is not there as long as `reply` says so, and looks at its files when it is again."""

    reply: Reply | None = field(default_factory=lambda: failing(529))
    first: str = WRITES
    last: str = "cat a.txt $RUN_BASE/one/notes.md > seen.txt"
    asked: list[ApiRequest] = field(default_factory=list)

    def __call__(self, asked: ApiRequest) -> Reply:
        self.asked.append(asked)
        if asked.wants_result:
            return handed_over()
        if asked.turn == 0:
            return bash(self.first)
        if self.reply is not None:
            return self.reply
        return bash(self.last) if not any("seen.txt" in json.dumps(part) for part in _spoken(asked)) else say("done")


def _spoken(asked: ApiRequest) -> list[Any]:
    return [message["content"] for message in asked.body["messages"] if message["role"] == "assistant"]


def begun(project: Project, loopback: Loopback, model: Outage) -> Project:
    """A run of one step, ended by the outage."""
    made = reaching(project, loopback, model)
    made.commit(
        {
            **MAKER,
            ".swarm/config.yaml": CONFIG,
            ".swarm/flows/one.yaml": yaml.safe_dump(
                flow("one", {**step("work", "maker"), "teaching": {"outputs": ["one/notes.md", "**"]}})
            ),
        }
    )
    return made


def receipt(project: Project) -> dict[str, Any]:
    run = only_run(project)
    said: dict[str, Any] = json.loads(
        project.git("show", f"shadow/{run}:.swarm/runs/{run}/one/receipts/work-maker.json")
    )
    return said


def kept(project: Project) -> list[str]:
    return sorted(path.name for path in (project.root / ".git/swarm/conversations").glob("run-*/*"))


def seen(project: Project) -> str:
    return project.git("show", f"shadow/{only_run(project)}:seen.txt")


@pytest.fixture
def unconfined(project: Project) -> Project:
    return project


@pytest.mark.parametrize(
    "where",
    [pytest.param("confined", marks=needs_bwrap), pytest.param("unconfined", marks=pytest.mark.soak)],
)
def test_a_step_goes_on_in_its_conversation_and_on_its_files(
    where: str, request: pytest.FixtureRequest, loopback: Loopback
) -> None:
    model = Outage()
    made = begun(request.getfixturevalue(where), loopback, model)
    made.swarm("start", "one", "-m", "do it", code=4)
    assert kept(made) == ["one.work@1"]
    made.swarm("resume", code=4)  # the provider is still not there
    assert (kept(made), receipt(made)["continues"]) == (["one.work@2"], "work@1")
    model.reply = None
    told = made.swarm("resume", "-m", "use spaces").stderr
    assert "one/work continues the conversation of work@2" in told

    assert seen(made).split() == ["one", "two"]
    work = model.asked[-3]
    assert "use spaces" in work.said[-1]
    assert sum(GOES_ON in text for text in work.said) == 2
    last = receipt(made)
    assert (last["continues"], last["iteration"], last["outcome"]["kind"]) == ("work@2", 3, "ok")
    assert last["tokens"]["total"] == 3 * 120  # of its own requests
    assert kept(made) == []
    assert GOES_ON in made.swarm("show", "work", "--prompt").stdout
    made.swarm("verify")
    if where == "unconfined":
        made.swarm("replay")


def test_a_conversation_with_a_secret_is_not_kept(project: Project, loopback: Loopback) -> None:
    made = begun(project, loopback, Outage(first=f"{WRITES}; {LEAK}"))
    made.swarm("start", "one", "-m", "do it", code=4)
    assert kept(made) == []


def _rolled_back(made: Project) -> None:
    made.swarm("rollback", "0")


def _elsewhere(made: Project) -> None:
    made.git("worktree", "move", made.swarm("path").stdout.strip(), str(made.root.parent / "moved"))


def _forgotten(made: Project) -> None:
    for path in (made.root / ".git/swarm/conversations").glob("*/*/kept.json"):
        path.write_text("{", encoding="utf-8")


@pytest.mark.parametrize("linked", ["projects", "projects/a", "projects/a/ID.jsonl", "projects/a/ID"])
def test_no_link_of_an_agent_is_followed(tmp_path: Path, linked: str) -> None:
    """A confined agent can write where its session is kept, and cannot read what is outside."""
    session = StoredSession("01234567-89ab-cdef-0123-456789abcdef", Usage())
    secret, place = tmp_path / "secret", tmp_path / "state" / linked.replace("ID", session.id)
    for name in ("a", session.id):
        (secret / name).mkdir(parents=True, exist_ok=True)
        (secret / name / f"{session.id}.jsonl").write_text("{}", encoding="utf-8")
    (secret / f"{session.id}.jsonl").write_text("{}", encoding="utf-8")
    place.parent.mkdir(parents=True)
    place.symlink_to(secret / f"{session.id}.jsonl" if linked.endswith("l") else secret)
    keep_session(tmp_path / "state", session, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


@pytest.mark.soak
@pytest.mark.parametrize("happens", [_rolled_back, _elsewhere, _forgotten])
def test_otherwise_the_step_begins_anew(
    happens: Callable[[Project], None], project: Project, loopback: Loopback
) -> None:
    model = Outage()
    made = begun(project, loopback, model)
    made.swarm("start", "one", "-m", "do it", code=4)
    assert kept(made) == ["one.work@1"]
    happens(made)
    model.first, model.reply = "echo anew > seen.txt", None
    made.swarm("resume")
    assert seen(made) == "anew"
    assert "continues" not in receipt(made)
    assert made.git("ls-tree", "--name-only", f"shadow/{only_run(made)}", "a.txt") == ""
    assert kept(made) == []


@pytest.mark.soak
def test_a_step_that_met_a_usage_limit_goes_on_in_its_conversation(project: Project, loopback: Loopback) -> None:
    model = Outage(reply=limit_reached(4_102_444_800))
    made = having(begun(project, loopback, model), **LOGIN)
    made.swarm("start", "one", "-m", "do it", code=5)
    model.reply = None
    made.swarm("resume")
    assert (seen(made).split(), receipt(made)["continues"]) == (["one", "two"], "work@1")


@pytest.mark.soak
def test_a_discarded_run_leaves_no_conversation(project: Project, loopback: Loopback) -> None:
    made = begun(project, loopback, Outage())
    made.swarm("start", "one", "-m", "do it", code=4)
    made.swarm("discard", only_run(made), "--force")
    assert kept(made) == []


@pytest.mark.soak
def test_killed_anywhere_it_goes_on_all_the_same(
    project: Project, loopback: Loopback, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model, aside = Outage(), tmp_path_factory.mktemp("aside")
    made = begun(project, loopback, model)
    made.swarm("start", "one", "-m", "do it", code=4)
    model.reply = None
    shutil.copytree(project.root.parent, aside / "whole", symlinks=True)
    with Server(aside) as server:

        def resume(point: int | str) -> subprocess.CompletedProcess[str]:
            return server.execute(point, ("resume",), made.root, made.env)

        points = resume(COUNT).stdout.splitlines()
        assert any("git read-tree" in point for point in points)
        for number, point in list(enumerate(points, start=1))[SAMPLE - 1 :: SAMPLE]:
            shutil.rmtree(project.root.parent)
            shutil.copytree(aside / "whole", project.root.parent, symlinks=True)
            assert resume(number).returncode == -signal.SIGKILL, point
            done = resume(NONE)
            assert done.returncode == 0, (point, done.stderr)
            assert seen(made).split() == ["one", "two"], point
            assert receipt(made)["continues"] == "work@1", point
            assert kept(made) == [], point
            made.git("fsck", "--strict")
