"""A run whose upstream moved: on repositories that have really gone apart, a second clone pushes."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project
from tests.faults import COUNT, Server
from tests.projects import ask, new_project, only_run
from tests.routes.common import decision

BUILD = """\
id: mini
title: Mini
steps:
  - {id: make, station: maker}
  - {id: more, station: maker}
  - {id: last, station: maker}
"""
STATION = "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
FORKING = (
    BUILD.replace("make, station: maker", "make, station: maker, routing: {kind: fork, fork_targets: [more, beside]}")
    .replace("last, station: maker", "last, station: maker, routing: {kind: join, join_from: [more, beside]}")
    .replace("  - {id: last", "  - {id: beside, station: maker}\n  - {id: last")
)
GATE = """\
id: gate
steps:
  - {id: decide, station: merge-decider}
  - {id: approve, engine: kernel, operation: approve, teaching: {outputs: [approval.json]}}
"""
MADE = {"make": {"write": {"src/new.py": "new = 1\n"}}, "more": {"write": {"src/app.py": "print('run')\n"}}}


@dataclass(frozen=True)
class Diverged:
    """The user's repository follows a bare one, to which a second clone pushes."""

    project: Project
    other: Path

    def push(self, files: Mapping[str, str], *, forced: bool = False) -> str:
        """Upstream gets a commit with these files; its id. `forced`: in place of its newest one."""
        for name, content in files.items():
            path = self.other / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        git = self.project.git
        git("add", "-A", cwd=self.other)
        git("commit", "-q", "-m", f"upstream: {', '.join(files)}", *(["--amend"] if forced else []), cwd=self.other)
        git("push", "-q", *(["--force"] if forced else []), "origin", "main", cwd=self.other)
        return git("rev-parse", "HEAD", cwd=self.other)

    def start(
        self,
        script: Mapping[str, Any] | None = None,
        *words: str,
        flows: Sequence[str] = ("mini", "reset"),
        code: int = 0,
    ) -> str:
        steps = {"steps": {**(MADE if "mini" in flows else {}), **(script or {})}}
        answer = ask(
            self.project, "start", *flows, "-m", "x", "--allow-stub", "--script",
            self.project.script(yaml.safe_dump(steps)), *words,
        )  # fmt: skip
        assert answer.code == code, answer.stderr
        return only_run(self.project)

    def report(self, run: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.project.git("show", f"shadow/{run}:.swarm/runs/{run}/reset/{name}.json")
        )
        return found

    def show(self, run: str, path: str) -> str:
        return self.project.git("show", f"shadow/{run}:{path}")

    def ref(self, name: str) -> str:
        return self.project.git("rev-parse", name)

    def executed(self) -> list[str]:
        return [f"{step['flow']}/{step['step']}" for step in self.project.json("log")]


@pytest.fixture
def diverged(tmp_path: Path) -> Diverged:
    project = new_project(tmp_path)
    project.commit({".swarm/flows/mini.yaml": BUILD, ".swarm/flows/stations/maker.yaml": STATION})
    bare = tmp_path / "upstream.git"
    project.git("clone", "-q", "--bare", str(project.root), str(bare))
    project.git("remote", "add", "origin", str(bare))
    project.git("fetch", "-q", "origin")
    project.git("branch", "-q", "--set-upstream-to=origin/main", "main")
    project.git("clone", "-q", str(bare), str(tmp_path / "other"))
    return Diverged(project, tmp_path / "other")


def users(diverged: Diverged) -> tuple[str, bytes, str]:
    """What a reset may not touch."""
    project = diverged.project
    refs = project.git("for-each-ref", "refs/heads/main", "refs/remotes", "refs/tags")
    return (
        refs,
        (project.root / ".git" / "FETCH_HEAD").read_bytes(),
        project.git("status", "--porcelain=v2", "--branch"),
    )


def lands(diverged: Diverged, run: str) -> None:
    """Approved, landed on main, sound before and after."""
    project = diverged.project
    project.swarm("verify", run)
    project.swarm("approve", run)
    project.swarm("land", run)
    project.swarm("verify", run)
    assert project.git("status", "--porcelain") == ""


def test_a_clean_one_moves_chain_base_and_notes_and_touches_nothing_of_the_users(diverged: Diverged) -> None:
    project = diverged.project
    onto = diverged.push({"src/theirs.py": "theirs = 1\n", "src/secret.py": "key = 'AKIAIOSFODNN7EXAMPLQ'\n"})
    before = users(diverged)
    run = diverged.start()
    assert users(diverged) == before
    assert diverged.ref(f"refs/swarm/{run}/base") == diverged.ref(f"refs/swarm/{run}/upstream") == onto
    changed = project.git("diff", "--name-only", f"{onto}...shadow/{run}", "--", ":(top,exclude).swarm/runs")
    assert changed.splitlines() == ["src/app.py", "src/new.py"]
    # Each step by itself: the first one has upstream's file and not yet what the second one did.
    make = project.json("log")[0]["commit"]
    assert project.git("show", "--name-only", "--format=", make, "--", "src").splitlines() == ["src/new.py"]
    assert project.git("show", f"{make}:src/theirs.py") == "theirs = 1"
    executed = project.git("log", "-1", "--format=%(trailers:key=Swarm-Rebased-From,valueonly)", make).strip()
    assert executed in project.git("rev-list", f"refs/swarm/{run}/rollback/1").split()
    for notes in ("events", "routing"):
        shown = [project.git("notes", f"--ref=swarm/{run}/{notes}", "show", name) for name in (make, executed)]
        assert shown[0] == shown[1]
    assert project.git("status", "--porcelain", cwd=project.worktree(run)) == ""
    lands(diverged, run)
    assert project.git("log", "--format=%s", "main").splitlines()[1].startswith("upstream: ")
    assert project.git("show", "--name-only", "--format=", "main").splitlines() == ["src/app.py", "src/new.py"]


def test_markers_that_are_left_lead_back_until_they_are_gone(diverged: Diverged) -> None:
    diverged.push({"src/app.py": "print('theirs')\n"})
    resolve = [{"status": "VERIFIED"}, {"write": {"src/app.py": "print('run and theirs')\n"}}]
    run = diverged.start({"resolve_conflicts": resolve})
    steps = diverged.executed()
    assert steps.count("reset/resolve_conflicts") == 2
    assert steps.count("reset/execute_rebase") == 3
    assert diverged.report(run, "rebase")["conflicts"] == 0
    assert diverged.show(run, "src/app.py") == "print('run and theirs')"
    assert diverged.project.git("show", f"{diverged.project.json('log')[1]['commit']}:src/app.py") == "print('run')"
    lands(diverged, run)


def test_what_cannot_be_resolved_moves_nothing(diverged: Diverged) -> None:
    project = diverged.project
    diverged.push({"src/app.py": "print('theirs')\n"})
    base = diverged.ref("main")
    run = diverged.start({"resolve_conflicts": {"status": "UNVERIFIED", "can_further_iteration_help": "no"}})
    assert diverged.report(run, "reconciliation")["moved"] is False
    assert diverged.executed()[-4:-1] == ["reset/carry_over", "reset/reconcile_state", "reset/report"]
    assert diverged.ref(f"refs/swarm/{run}/base") == base == project.json("status", run)["base"]
    assert diverged.show(run, "src/app.py") == "print('run')"
    lands(diverged, run)


def test_what_a_forced_push_dropped_is_no_history_of_the_run_any_more(diverged: Diverged) -> None:
    project = diverged.project
    dropped = diverged.push({"src/dropped.py": "x = 1\n"})
    project.git("pull", "-q", "--ff-only")
    run_base = diverged.ref("main")
    assert run_base == dropped
    (diverged.other / "src" / "dropped.py").unlink()
    onto = diverged.push({"src/instead.py": "x = 2\n"}, forced=True)
    run = diverged.start()
    found = diverged.report(run, "upstream")
    assert (found["moved"], found["rewritten"], found["ahead"], found["behind"]) == (True, True, 1, 1)
    assert diverged.ref(f"refs/swarm/{run}/base") == onto
    assert dropped not in project.git("rev-list", f"shadow/{run}").split()
    assert "src/dropped.py" not in project.tree(f"shadow/{run}")
    # The user's own branch still has what was dropped; a landing goes onto it as it is, and the report says so.
    assert "have diverged" in found["reason"]
    lands(diverged, run)
    assert {"src/dropped.py", "src/instead.py", "src/new.py"} <= project.tree("main").keys()


def test_a_branch_that_is_gone_there_moves_nothing(diverged: Diverged) -> None:
    diverged.project.git("config", "receive.denyDeleteCurrent", "ignore", cwd=diverged.other.parent / "upstream.git")
    diverged.project.git("push", "-q", "origin", "--delete", "main", cwd=diverged.other)
    before = users(diverged)
    run = diverged.start()
    found = diverged.report(run, "upstream")
    assert (found["moved"], found["deleted"]) == (False, True)
    assert diverged.executed()[2:4] == ["mini/last", "reset/fetch_upstream"]
    assert "execute_rebase" not in " ".join(diverged.executed())
    assert users(diverged) == before


def test_a_target_of_this_repository_alone_is_read_as_it_is(diverged: Diverged) -> None:
    project = diverged.project
    project.git("branch", "-q", "--unset-upstream", "main")
    run = diverged.start(None, "--until", "more")
    project.commit({"src/theirs.py": "theirs = 1\n"}, "theirs")
    project.swarm("resume", run)
    assert diverged.report(run, "upstream")["commits"][0].endswith(" theirs")
    assert diverged.ref(f"refs/swarm/{run}/base") == diverged.ref("main")
    lands(diverged, run)


def test_an_approval_of_the_old_ground_is_void(diverged: Diverged) -> None:
    project = diverged.project
    project.commit({".swarm/flows/gate.yaml": GATE})
    project.git("push", "-q", "origin", "main")
    diverged.project.git("pull", "-q", "--ff-only", cwd=diverged.other)
    diverged.push({"src/theirs.py": "theirs = 1\n"})
    merge = {"decide": {"write": {"RUN_BASE/gate/merge_decision.json": decision("MERGE")}}}
    run = diverged.start(merge, flows=("mini", "gate", "reset"))
    assert diverged.report(run, "reconciliation")["voided_approval"] is not None
    assert project.json("status", run)["approved"] is None
    assert ask(project, "land", run).code == 1
    lands(diverged, run)


def test_a_second_reset_and_what_was_taken_back_in_between(diverged: Diverged) -> None:
    project = diverged.project
    first = diverged.push({"src/theirs.py": "theirs = 1\n"})
    used = {"make": {**MADE["make"], "tokens": {"prompt": 100}, "cost_usd": 0.5}}
    run = diverged.start(used)
    second = diverged.push({"src/theirs.py": "theirs = 2\n"})
    project.swarm("rollback", "more", "--run", run)
    project.swarm("verify", run)
    assert diverged.ref(f"refs/swarm/{run}/base") == first
    project.swarm("resume", run)
    assert diverged.ref(f"refs/swarm/{run}/base") == second
    assert diverged.show(run, "src/theirs.py") == "theirs = 2"
    assert project.json("status", run)["tokens"] == 100
    lands(diverged, run)


def test_a_conflict_in_the_middle_of_a_build_interrupts_it_once(diverged: Diverged) -> None:
    project = diverged.project
    resolve = {"resolve_conflicts": {"write": {"src/new.py": "both = 1\n"}}}
    run = diverged.start(resolve, "--until", "make")
    onto = diverged.push({"src/new.py": "theirs = 1\n"})
    project.git("fetch", "-q")
    project.swarm("resume", run)
    steps = diverged.executed()
    assert steps[:3] == ["mini/make", "mini/more", "reset/fetch_upstream"]
    assert steps.index("reset/report") < steps.index("mini/last") < steps.index("reset/fetch_upstream", 3)
    assert steps.count("reset/carry_over") == 1
    assert diverged.ref(f"refs/swarm/{run}/base") == onto
    assert diverged.show(run, "src/new.py") == "both = 1"
    lands(diverged, run)


def test_a_reset_by_itself_tells_where_upstream_is(diverged: Diverged) -> None:
    onto = diverged.push({"src/theirs.py": "theirs = 1\n"})
    run = diverged.start(flows=("reset",))
    assert diverged.report(run, "upstream")["behind"] == 1
    assert diverged.ref(f"refs/swarm/{run}/base") == onto
    diverged.project.swarm("verify", run)
    diverged.project.swarm("approve", run)
    assert "changes nothing in the code" in ask(diverged.project, "land", run).stderr


def test_killed_between_any_two_moves_of_refs_it_comes_to_the_same_end(diverged: Diverged) -> None:
    """To the byte, where nothing is executed again: copies have no clock of their own."""
    project, folder = diverged.project, diverged.other.parent
    diverged.push({"src/theirs.py": "theirs = 1\n"})
    run = diverged.start(None, "--until", "carry_over")
    copies = project.git("rev-list", f"shadow/{run}~1").splitlines()
    end = diverged.ref(f"shadow/{run}")
    old = project.git("rev-parse", f"refs/swarm/{run}/rollback/1^")
    project.git("update-ref", f"refs/heads/shadow/{run}", old)
    # As if git-swarm had been killed when the step was committed: neither ref nor note of the copies is there yet.
    project.git("update-ref", "-d", f"refs/swarm/{run}/rollback/1")
    project.git("update-ref", f"refs/swarm/{run}/base", "main")
    for kind in ("events", "routing"):
        project.git("notes", f"--ref=swarm/{run}/{kind}", "remove", "--ignore-missing", *copies, end)
    saved = shutil.copytree(folder, folder.parent / f"{folder.name}-saved", symlinks=True)
    with Server(saved) as server:
        counted = server.execute(COUNT, ("resume", run), project.root, project.env).stdout.splitlines()
        first = next(number for number, name in enumerate(counted) if name.endswith("before Refs.swap rollback"))
        last = next(number for number, name in enumerate(counted) if name.endswith("after Refs.swap base"))
        points = [number for number in range(first, last + 1) if "Refs.swap" in counted[number]]
        assert len(points) >= 10
        for point in points:
            shutil.rmtree(folder)
            shutil.copytree(saved, folder, symlinks=True)
            done = server.execute(point + 1, ("resume", run), project.root, project.env)
            assert done.returncode == -signal.SIGKILL, counted[point]
            project.swarm("resume", run)
            project.swarm("verify", run)
            assert set(copies) <= set(project.git("rev-list", f"shadow/{run}").split()), counted[point]
            assert diverged.executed().count("reset/carry_over") == 1
            kept = project.git("for-each-ref", "--format=%(refname)", f"refs/swarm/{run}/rollback/").splitlines()
            assert len(kept) == 1, counted[point]


def test_verify_finds_what_was_changed_in_a_copy_or_its_notes(diverged: Diverged) -> None:
    project = diverged.project
    diverged.push({"src/theirs.py": "theirs = 1\n"})
    run = diverged.start(None, "--until", "carry_over")
    project.swarm("verify", run)
    copy = project.json("log")[0]["commit"]
    note = project.git("notes", f"--ref=swarm/{run}/routing", "show", copy)
    project.git("notes", f"--ref=swarm/{run}/routing", "add", "-f", "-m", note.replace("make", "fake"), copy)
    assert "the routing note of its copy" in ask(project, "verify", run).stdout
    project.git("notes", f"--ref=swarm/{run}/routing", "add", "-f", "-m", note, copy)

    tip = project.json("log")[-1]["commit"]
    message = project.git("show", "-s", "--format=%B", tip) + "\n"
    who = project.git("show", "-s", "--format=%an%n%ae%n%ad%n%cn%n%ce%n%cd", "--date=raw", tip).splitlines()
    names = [f"GIT_{role}_{what}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE")]
    forger = replace(project, env={**project.env, **dict(zip(names, who, strict=True))})
    wrong = project.git("rev-parse", f"{tip}~2^{{tree}}")
    forged = forger.git("commit-tree", "-p", f"{tip}~1", "-F", "-", wrong, stdin=message)
    project.git("update-ref", f"refs/heads/shadow/{run}", forged)
    assert f".swarm/runs/{run}: is not as in" in ask(project, "verify", run).stdout


def test_a_run_with_a_fork_in_it_and_one_that_was_forked_from_it(diverged: Diverged) -> None:
    project = diverged.project
    project.commit({".swarm/flows/mini.yaml": FORKING})
    project.git("push", "-q", "origin", "main")
    project.git("pull", "-q", "--ff-only", cwd=diverged.other)
    diverged.push({"src/theirs.py": "theirs = 1\n"})
    run = diverged.start()
    project.swarm("verify", run)
    project.swarm("rollback", "more", "--run", run)
    project.swarm("resume", run)
    project.swarm("verify", run)
    assert diverged.executed()[:4] == ["mini/make", "mini/more", "mini/beside", "mini/last"]
    project.swarm("fork", "last", "--run", run)
    forked = next(each["run_id"] for each in project.json("list") if each["run_id"] != run)
    project.swarm("verify", forked)
    diverged.push({"src/theirs.py": "theirs = 2\n"})
    project.swarm("resume", forked)
    assert "forked from another" in diverged.report(forked, "upstream")["reason"]
    lands(diverged, run)


def test_an_ignored_file_where_upstream_has_one_now_is_not_overwritten(diverged: Diverged) -> None:
    project = diverged.project
    project.commit({".gitignore": "*.gen\n"})
    project.git("push", "-q", "origin", "main")
    project.git("pull", "-q", "--ff-only", cwd=diverged.other)
    (diverged.other / "out.gen").write_text("theirs\n", encoding="utf-8")
    project.git("add", "-f", "out.gen", cwd=diverged.other)
    onto = diverged.push({"src/theirs.py": "theirs = 1\n"})
    run = diverged.start({"last": {"run": ["echo mine > out.gen"]}}, code=5)
    mine = project.worktree(run) / "out.gen"
    assert mine.read_text(encoding="utf-8") == "mine\n"
    assert "out.gen" in project.json("status", run)["question"]
    mine.unlink()
    project.swarm("resume", run)
    assert diverged.ref(f"refs/swarm/{run}/base") == onto
    assert diverged.show(run, "out.gen") == "theirs"
    project.swarm("verify", run)


def test_a_remote_that_does_not_answer_ends_in_time_and_asks_nobody(
    diverged: Diverged, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = diverged.project
    project.git("remote", "set-url", "origin", "ssh://nobody@example.invalid/x.git")
    monkeypatch.setattr("gitswarm.runner.operations.reset._FETCH_S", 0.5)
    silent = replace(diverged, project=replace(project, env={**project.env, "GIT_SSH_COMMAND": "sleep 1000; true"}))
    before = users(silent)
    run = silent.start()
    found = silent.report(run, "upstream")
    assert (found["moved"], found["deleted"]) == (False, False)
    assert "timed out after 0.5 s" in found["reason"]
    assert users(silent) == before


def test_the_hint_after_a_conflict_of_landing_leads_out_of_it(diverged: Diverged) -> None:
    project = diverged.project
    settled = {"resolve_conflicts": {"write": {"src/app.py": "print('both')\n"}}}
    run = diverged.start(settled)
    project.swarm("approve", run)
    project.commit({"src/app.py": "print('theirs')\n"}, "meanwhile")
    for refused in (ask(project, "land", run), ask(project, "approve", run)):
        assert refused.code == 1
        assert (
            f"hint: git swarm rollback 3 --run {run}   (then git swarm resume {run}: reset merges)" in refused.stderr
        )
    command = project.json("status", run)["hint"].partition("   (")[0]
    project.swarm(*command.split()[2:])
    project.swarm("resume", run)
    project.swarm("approve", run)
    project.swarm("land", run)
    assert project.git("show", "main:src/app.py") == "print('both')"
