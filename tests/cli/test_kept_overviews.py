"""`list` asks git again only about runs that moved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import RunOverview, overview
from tests.conftest import Project

FLOW = "id: one\ntitle: One\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"
SCRIPT = "default: {write: {x.txt: hello}, status: VERIFIED}\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs whose commits were read, in order."""
    found: list[str] = []

    def read(repository: RepositoryReader, layout: RunLayout) -> RunOverview:
        found.append(layout.run_id)
        return overview(repository, layout)

    monkeypatch.setattr("gitswarm.ledger.kept_overviews.overview", read)
    return found


def test_a_run_is_read_again_when_something_of_it_changed(project: Project, asked: list[str]) -> None:
    project.commit({".swarm/flows/one.yaml": FLOW})
    project.swarm("start", "one", "--script", project.script(SCRIPT), "--allow-stub")
    run = str(project.json("list")[0]["run_id"])
    kept = project.root / ".git" / "swarm" / "overviews" / "runs"

    def reads(change: Callable[[], object] = lambda: None) -> bool:
        """Whether a list reads the run's commits after a change; it says what `status` says in any case."""
        change()
        asked.clear()
        said = project.json("list")[0]
        assert {**said, "disk_bytes": None} == {**project.json("status"), "disk_bytes": None}
        return asked == [run]

    journal = project.root / ".git" / "swarm" / "journal" / run / "one.s1@9.jsonl"
    worktree = Path(str(project.json("status")["worktree"]))
    assert not reads()
    assert reads(lambda: project.swarm("rollback", "s1"))
    assert not reads()
    failed = Path(project.git("rev-parse", "--absolute-git-dir", cwd=worktree), "swarm-setup-failed")
    assert reads(lambda: failed.write_text("worktree.setup failed", encoding="utf-8"))
    assert not reads(failed.unlink)
    assert not reads(lambda: project.git("worktree", "remove", "--force", str(worktree)))
    journal.parent.mkdir(exist_ok=True)
    assert reads(lambda: journal.write_text("{}\n", encoding="utf-8"))
    assert not reads(journal.unlink)
    whole = kept.read_bytes()
    before, field, behind = whole.rpartition(b"steps_completed")
    for damaged in (b"", b"[]", whole[:-9], before + field.upper() + behind):
        kept.write_bytes(damaged)
        assert reads()
    assert not reads()
    project.swarm("resume")
    project.swarm("approve", run)
    assert (reads(), reads()) == (True, True)  # how to land it depends on other branches
    project.swarm("gc")
    assert not kept.parent.exists()


def test_a_run_that_moves_while_it_is_read_is_read_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.commit({".swarm/flows/one.yaml": FLOW})
    project.swarm("start", "one", "--script", project.script(SCRIPT), "--allow-stub")

    run = str(project.json("status")["run_id"])
    branch = RunLayout(run).branch
    tip = project.git("rev-parse", branch).strip()

    def read(repository: RepositoryReader, layout: RunLayout) -> RunOverview:
        project.git("update-ref", branch, f"{tip}~2")  # before the second step and the end
        return overview(repository, layout)

    with monkeypatch.context() as patched:
        patched.setattr("gitswarm.ledger.kept_overviews.overview", read)
        assert project.json("list")[0]["steps_executed"] == 1
    project.git("update-ref", branch, tip)
    assert project.json("list")[0]["steps_executed"] == 2


def test_amounts_that_nobody_can_have_used_are_listed_and_are_json(project: Project) -> None:
    """Their sums are no number of 64 bits, and no finite one."""
    project.commit({".swarm/flows/one.yaml": FLOW})
    entry = {"tokens": {"prompt": 2**63 - 1, "completion": 2**63 - 1}, "cost_usd": 1e308}
    script = project.script(json.dumps({"steps": {"s1": entry, "s2": entry}}))
    project.swarm("start", "one", "--script", script, "--allow-stub")

    def refuse(word: str) -> None:
        raise ValueError(word)

    for command in (("list",), ("list",), ("status",), ("cost",), ("report", "--format", "json")):
        line = command if "json" in command else (*command, "--json")
        json.loads(project.swarm(*line).stdout, parse_constant=refuse)
    (listed,) = project.json("list")
    assert (listed["tokens"], listed["cost_usd"]) == (4 * (2**63 - 1), None)
