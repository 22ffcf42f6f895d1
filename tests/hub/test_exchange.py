"""Runs go to a hub and come from there, and nobody's work is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitswarm.ledger.layout import RunLayout
from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.hub.clones import STEPS, Clones, two_clones
from tests.projects import ask


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return two_clones(tmp_path)


def started(clones: Clones, *arguments: str) -> str:
    clones.here.swarm("start", "trip", "--allow-stub", "--script", clones.here.script(clones.script()), *arguments)
    return str(clones.here.json("list")[0]["run_id"])


def told(project: Project, run: str) -> dict[str, object]:
    """How a run stands, without where its worktree is."""
    return {**project.json("status", run), "worktree": None}


def test_a_pulled_run_is_the_same_under_another_path_and_user(clones: Clones) -> None:
    here, there = clones.here, clones.there
    run = started(clones, "--until", "second")
    hook = here.root / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    before = fingerprint(here.root)
    here.swarm("push")
    assert fingerprint(here.root).entries == before.entries
    assert here.git("for-each-ref", "refs/remotes") == ""

    there.swarm("pull", run)

    for command in (["log", run], ["why", "src/first.txt", "--run", run], ["stats", "--run", run]):
        assert there.json(*command) == here.json(*command)
    assert there.json("db", "query", "from steps") == here.json("db", "query", "from steps")
    assert told(there, run) == told(here, run)
    assert there.swarm("report", run).stdout == here.swarm("report", run).stdout
    there.swarm("verify", run)
    assert there.git("for-each-ref", "refs/swarm", "refs/notes") == here.git(
        "for-each-ref", "refs/swarm", "refs/notes"
    )

    there.swarm("resume", run)
    there.swarm("push", run)
    here.swarm("pull", run)

    assert [entry["step"] for entry in here.json("log", run)] == list(STEPS)
    assert told(here, run)["state"] == "succeeded"
    assert here.git("status", "--porcelain", cwd=here.worktree(run)) == ""
    assert clones.trace == list(STEPS)


def test_only_the_hub_gets_a_run(clones: Clones) -> None:
    here = clones.here
    run = started(clones, "--until", "first")
    here.git("init", "-q", "--bare", "../other.git")
    here.git("remote", "add", "other", "../other.git")
    for command in (("push", run, "other"), ("pull", run, "../other.git")):
        refused = here.swarm(*command, code=1)
        assert f"{command[2]} is not the hub" in refused.stderr
        assert f"hint: git config --add swarm.hub {command[2]}" in refused.stderr
    assert here.git("ls-remote", "other") == ""
    here.git("config", "--unset", "swarm.hub")
    assert "no hub is configured" in here.swarm("start", "trip", "--hub", code=1).stderr
    assert len(here.json("list")) == 1


def test_newer_work_on_the_hub_is_never_overwritten(clones: Clones) -> None:
    here, there = clones.here, clones.there
    run = started(clones, "--until", "first")
    here.swarm("push")
    there.swarm("pull", run)
    there.swarm("resume", run, "--until", "second")
    there.swarm("push", run)
    pushed = clones.on_hub("for-each-ref")
    here.git("config", "swarm.hub", "../nowhere.git")  # out of reach for a while
    here.swarm("resume", run)
    here.git("config", "swarm.hub", "hub")
    mine = here.git("rev-parse", f"shadow/{run}")

    refused = here.swarm("push", run, code=1)

    assert f"hub has commits of {run} that are not here" in refused.stderr
    assert clones.on_hub("for-each-ref") == pushed
    assert "set aside" in here.swarm("pull", run).stdout
    assert here.git("rev-parse", f"refs/swarm/{run}/rollback/1^1") == mine
    assert told(here, run) == told(there, run) | {"cost_usd": told(here, run)["cost_usd"]}
    assert here.git("status", "--porcelain", cwd=here.worktree(run)) == ""
    here.swarm("push", run)
    there.swarm("pull", run)
    assert there.git("rev-parse", f"refs/swarm/{run}/rollback/1^1") == mine


def test_a_rollback_travels(clones: Clones) -> None:
    here, there = clones.here, clones.there
    run = started(clones)
    here.swarm("push")
    there.swarm("pull", run)
    there.swarm("rollback", "first", "--run", run)
    there.swarm("push", run)
    assert "set aside" not in here.swarm("pull", run).stdout
    assert [entry["step"] for entry in here.json("log", run)] == ["first"]
    assert not (here.worktree(run) / "src" / "second.txt").exists()
    here.swarm("rollback", "--undo", "--run", run)
    assert [entry["step"] for entry in here.json("log", run)] == list(STEPS)


def test_the_hub_is_read_without_fetching_a_run(clones: Clones) -> None:
    here, there = clones.here, clones.there
    clones.here.swarm(*clones.start(), "--until", "second")
    run = clones.run
    objects = there.git("rev-list", "--all", "--objects")

    (listed,) = there.json("list", "--hub")
    status = there.json("status", "--hub")

    assert status == listed
    local = told(here, run)
    assert {name: listed[name] for name in local} == local | {"hint": f"{local['hint']} --hub"}
    assert {name: listed["hub"][name] for name in ("generation", "executes")} == {"generation": 1, "executes": False}
    assert run in there.swarm("list", "--hub").stdout.replace("…", run[-2:])
    assert f"hint      git swarm pull {run}" in there.swarm("status", "--hub").stdout
    assert there.git("rev-list", "--all", "--objects") == objects
    tree = here.git("rev-parse", f"shadow/{run}^{{tree}}")
    assert ask(there, "log", run).code == 1
    assert there.git("cat-file", "--batch-check", stdin=tree).endswith("missing")


def test_a_run_that_is_held_is_continued_by_nobody_else(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    here.swarm("hold", run)
    refused = there.swarm("resume", run, "--hub", code=75)
    assert f"{run} is held by {here.json('status', '--hub')['hub']['owner']}" in refused.stderr
    here.swarm("resume", "--hub", "--until", "second")
    assert here.json("status", "--hub")["hub"]["held"]
    there.swarm("release", run)
    there.swarm("resume", run, "--hub")
    assert clones.pushed() == list(STEPS)


def test_a_forked_run_needs_nothing_of_the_other(clones: Clones) -> None:
    here, there = clones.here, clones.there
    other = started(clones)
    here.swarm("fork", "first", "--run", other, "--until", "second")
    run = here.json("list")[0]["run_id"]
    here.swarm("push", run)
    there.swarm("pull", run)
    assert there.json("log", run) == here.json("log", run)
    assert "verified, no changes found" in there.swarm("verify", run).stdout
    here.swarm("resume", run, "--no-hub")
    ahead = here.git("rev-parse", f"shadow/{run}")
    here.swarm("pull", run)
    assert here.git("rev-parse", f"shadow/{run}") == ahead
    assert here.json("push", run)["refs"] == 3


def test_a_lease_that_cannot_be_read_hides_no_other_run(clones: Clones) -> None:
    here, there = clones.here, clones.there
    runs = [started(clones, "--until", "first") for _each in range(2)]
    here.swarm("push", runs[0])
    here.swarm("push", runs[1])
    tree = here.git("rev-parse", "HEAD^{tree}").strip()
    torn = here.git("commit-tree", "-m", "lease", "-m", '{"run_id": ', tree).strip()
    here.git("push", "-q", "--no-verify", "hub", f"+{torn}:{RunLayout(runs[0]).lease_ref}")
    listed = there.swarm("list", "--hub")
    assert f"unreadable: the lease of {runs[0]}" in listed.stderr
    assert [each["run_id"] for each in there.json("list", "--hub")] == [runs[1]]


def test_no_name_or_url_of_a_hub_is_an_option_of_git(clones: Clones) -> None:
    run = started(clones, "--until", "first")
    option = f"--receive-pack=touch {clones.door}/called;"
    typed = ask(clones.here, "push", run, "--", option)
    assert (typed.code, typed.stderr.splitlines()[0]) == (
        2,
        f"git-swarm: '{option}' is no remote: it begins with '-'",
    )
    clones.here.git("config", "remote.odd.url", option)
    named = ask(clones.here, "push", run, "odd")
    assert (named.code, named.stderr.splitlines()[0]) == (2, f"git-swarm: the URL of odd begins with '-': {option}")
    assert not (clones.door / "called").exists()


def test_a_clone_without_runs_names_those_of_its_hub_and_asks_nobody(clones: Clones) -> None:
    there = clones.there
    there.git("remote", "set-url", "hub", "ssh://nowhere.invalid/hub.git")
    hint = "hint: git swarm list --hub"
    for command in ("resume", "log"):
        answer = ask(there, command)
        assert answer.stderr.splitlines() == [
            "git-swarm: there is no run in this repository yet",
            f"{hint}   (then: git swarm resume RUN --hub)",
        ]
    assert ask(there, "resume", "2aa18a").stderr.splitlines()[-1] == hint
    assert ask(there, "list").stderr.splitlines() == [hint]
