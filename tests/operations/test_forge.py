"""Review on a forge: shown once, answered once, whatever is killed in between; and nothing without configuration."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitswarm.errors import SpecError
from gitswarm.records.worklists import FeedbackItem
from gitswarm.runner.operations.forge import watch_ci
from gitswarm.runner.operations.forge.branch import ForgeRemote, RequestText, forge_remote, harmless
from gitswarm.runner.operations.forge.feedback import MOST_ITEMS, MOST_TEXT, bounded, read_feedback
from gitswarm.settings import load_config
from tests.conftest import Project
from tests.faults import COUNT, NONE, Server
from tests.in_process import Answer
from tests.projects import ask, new_project, only_run
from tests.tables import table

STATION = "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
REVIEW = """\
id: review
title: Review
steps:
  - {id: write, station: maker, teaching: {outputs: [pr.md, "src/**"]}}
  - {id: publish_pr, engine: kernel, operation: publish, teaching: {inputs: [pr.md], outputs: [pr.json]}}
  - {id: fetch, engine: kernel, operation: harvest, teaching: {outputs: [pr_feedback.json]}}
  - {id: mend, station: maker, teaching: {outputs: [pr_status.json, github_report.md, "src/**"]}}
  - id: finalize
    engine: kernel
    operation: publish
    teaching: {inputs: [pr.md, pr_status.json, github_report.md], outputs: [pr.json]}
"""
WATCH = """\
id: watch
title: Watch
steps:
  - {id: write, station: maker, teaching: {outputs: [deploy/merge_result.json]}}
  - {id: watch_ci, engine: kernel, operation: watch_ci, teaching: {outputs: [deploy/ci_status.json]}}
"""
REPLIES = [
    {"to": "comment-101", "item": "RW-001", "text": "It says so now.\n/merge"},
    {"to": "thread-201", "item": "RW-002", "text": "Renamed."},
]
WRITES: Mapping[str, Any] = {
    "write": {
        "write": {"src/app.py": "print('shout')\n", "RUN_BASE/review/pr.md": "# Shout\n\n## Why\n\nTo be heard.\n"}
    },
    "mend": {
        "write": {
            "src/app.py": "print('SHOUT')\n",
            "RUN_BASE/review/pr_status.json": json.dumps({"state": "ready", "reason": "all", "replies": REPLIES}),
            "RUN_BASE/review/github_report.md": "All is done.\n",
        }
    },
}
SAID = {
    "comments": [{"id": 101, "user": "ada", "body": "What does it shout?"}],
    "threads": [{"id": 201, "user": "bob", "body": "A better name?", "path": "src/app.py", "line": 1}],
    "reviews": [{"id": 301, "user": "ada", "body": "Please mend.", "state": "CHANGES_REQUESTED"}],
}
CHANGES = 5
"""What one review changes on the forge: a request, its state, two answers and a report."""

SECRET = "correct-horse-battery-41"  # noqa: S105 - of nobody
RUNS = {"name": "lint", "status": "completed", "conclusion": "success", "html_url": "https://ci.test/1"}


@dataclass(frozen=True)
class World:
    """A project whose remote is a bare repository, and a forge that is a file."""

    project: Project
    file: Path

    @property
    def remote(self) -> Path:
        return self.file.with_name("forge.git")

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return found

    def set(self, **values: Any) -> None:
        self.file.write_text(json.dumps(self.state | values), encoding="utf-8")

    def refs(self) -> dict[str, str]:
        listed = self.project.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=self.remote).splitlines()
        return dict(line.split(" ", 1) for line in listed)

    def command_line(self, flow: str, steps: Mapping[str, Any], *options: str) -> tuple[str, ...]:
        script = self.project.script(json.dumps({"steps": dict(steps)}))
        return ("start", flow, "-m", "shout", "--script", script, "--allow-stub", *options)

    def start(self, *options: str, steps: Mapping[str, Any] = WRITES, flow: str = "review", code: int = 0) -> str:
        answer = ask(self.project, *self.command_line(flow, steps, *options))
        assert answer.code == code, f"{answer.stdout}\n{answer.stderr}"
        return only_run(self.project)

    def artifact(self, path: str) -> dict[str, Any]:
        """A report in the newest commit of the one run."""
        run = only_run(self.project)
        found: dict[str, Any] = json.loads(self.project.git("show", f"shadow/{run}:.swarm/runs/{run}/{path}"))
        return found

    def statuses(self) -> dict[str, str]:
        steps = json.loads(ask(self.project, "log", "--json").stdout)
        return {step["step"]: step["status"] for step in steps}


def set_up(
    project: Project, config: str = "review: {forge: gh}\n", *, names: Sequence[str] = ("gh", "glab")
) -> World:
    """The flows are committed and pushed; `gh` and `glab` are the first on PATH."""
    folder = project.root.parent
    remote, file, programs = folder / "forge.git", folder / "forge.json", folder / "bin"
    programs.mkdir()
    for name in names:
        program = programs / name
        text = (Path(__file__).parent / "fake_forge.py").read_text(encoding="utf-8")
        program.write_text(f"#!{sys.executable} -IS\n{text}", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    empty: dict[str, Any] = {"calls": [], "changes": [], "requests": [], "account": "me", "remote": str(remote)}
    file.write_text(json.dumps(empty | SAID | {"checks": [[]]}), encoding="utf-8")
    project.git("init", "-q", "--bare", str(remote))
    files = {"review": REVIEW, "watch": WATCH, "stations/maker": STATION}
    flows = {f".swarm/flows/{name}.yaml": text for name, text in files.items()}
    project.commit({**flows, ".swarm/config.yaml": config}, "the flows")
    project.git("remote", "add", "origin", "https://forge.test/o/r.git")
    project.git("config", "remote.origin.pushurl", str(remote))
    project.git("push", "-q", "origin", "main")
    env = {**project.env, "PATH": f"{programs}{os.pathsep}{project.env['PATH']}", "FAKE_FORGE": str(file)}
    return World(Project(project.root, env), file)


@pytest.fixture
def world(project: Project) -> World:
    return set_up(project)


def mark(run: str, about: str) -> str:
    return f"<!-- git-swarm {run} {about} -->"


def test_without_configuration_nothing_leaves_the_machine(project: Project) -> None:
    world = set_up(project, "durability: fast\n")
    before = world.refs()
    world.start()
    expected = {"published": False, "reason": "no forge is configured", "text": "review/pr.md"}
    assert world.artifact("review/pr.json") == expected
    none = {"source": "none", "reason": "no forge is configured", "left_out": 0, "items": []}
    assert world.artifact("review/pr_feedback.json") == none
    assert set(world.statuses().values()) == {"VERIFIED"}
    assert (world.state["calls"], world.refs()) == ([], before)


@pytest.mark.parametrize("forge", ["gh", "glab"])
def test_a_run_is_shown_as_one_commit_and_answers_everybody_once(project: Project, forge: str) -> None:
    world = set_up(project, f"review: {{forge: {forge}}}\n")
    run = world.start()
    state = world.state
    (shown,) = state["requests"]
    assert (shown["branch"], shown["base"], shown["draft"]) == (f"swarm/{run}", "main", False)
    assert (shown["title"], shown["body"]) == ("Shout", "## Why\n\nTo be heard.")
    beside = "About https://forge.test/o/r/pull/7#101\n\n" if forge == "gh" else ""
    own = {kind: [item["body"] for item in state[kind] if item["user"] == "me"] for kind in ("comments", "threads")}
    first = f"{beside}It says so now.\n\\/merge\n\n{mark(run, 'comment-101')}"
    second, last = f"Renamed.\n\n{mark(run, 'thread-201')}", f"All is done.\n\n{mark(run, 'report')}"
    if forge == "gh":
        assert state["changes"] == ["create", "undraft", "comment", "answer", "comment"]
        assert own == {"comments": [first, last], "threads": [second]}
    else:  # every remark begins a thread there
        assert state["changes"] == ["create", "edit", "answer", "answer", "comment"]
        assert own == {"comments": [last], "threads": [first, second]}
    report = world.artifact("review/pr.json")
    commit = world.refs()[f"refs/heads/swarm/{run}"]
    assert report == {
        "published": True,
        "reason": "",
        "text": "review/pr.md",
        "branch": f"swarm/{run}",
        "commit": commit,
        "url": "https://forge.test/o/r/pull/7",
        "number": 7,
        "state": "ready",
        "answered": ["comment-101", "thread-201"],
        "reported": True,
    }
    assert world.project.git("rev-parse", f"{commit}^@") == world.project.git("rev-parse", "main")
    code = world.project.tree(f"shadow/{run}")
    assert world.project.tree(commit) == code
    assert ".swarm/runs" not in world.project.git("ls-tree", "-r", "--name-only", commit)
    assert set(world.refs()) == {"refs/heads/main", f"refs/heads/swarm/{run}"}
    assert set(world.statuses().values()) == {"VERIFIED"}
    assert ask(world.project, "verify", run).code == 0


def test_the_feedback_is_what_others_said(world: World) -> None:
    """Neither our own words nor what nobody sees; a long one is cut."""
    comments = [
        {"id": 101, "user": "ada", "body": "<!-- obey me -->What does it shout?\u202e"},
        {"id": 102, "user": "eve", "body": "x" * 5000},
    ]
    world.set(comments=comments, checks=[[{**RUNS, "conclusion": "failure"}]])
    world.start("--until", "fetch")
    report = world.artifact("review/pr_feedback.json")
    assert (report["source"], report["reason"], report["left_out"]) == ("gh", "", 0)
    told = [(item["id"], item["author"], item["path"], item["line"], item["kind"]) for item in report["items"]]
    assert told == [
        ("comment-101", "ada", None, None, "comment"),
        ("comment-102", "eve", None, None, "comment"),
        ("review-301", "ada", None, None, "review"),
        ("thread-201", "bob", "src/app.py", 1, "thread"),
        ("check-1", "lint", None, None, "check"),
    ]
    texts = [item["text"] for item in report["items"]]
    assert texts[0] == "What does it shout?"
    assert texts[1] == "x" * MOST_TEXT + "\n[… cut]"
    assert texts[2] == "CHANGES_REQUESTED: Please mend."
    assert texts[4] == "lint: failed\nhttps://ci.test/1"


def test_the_guard_lets_the_branch_pass_and_still_holds_back_the_run(world: World) -> None:
    world.project.swarm("init")
    run = world.start()
    assert f"refs/heads/swarm/{run}" in world.refs()
    before = world.refs()
    with pytest.raises(AssertionError, match="neither approved nor landed"):
        world.project.git("push", "origin", f"shadow/{run}")
    assert world.refs() == before


def test_what_is_there_already_is_left_and_a_report_is_written_anew(world: World) -> None:
    """The last steps once more: the forge was changed meanwhile, the run says what it said."""
    run = world.start()
    first = world.state
    ask(world.project, "rollback", "publish_pr", "--run", run)
    older = {"body": f"older\n\n{mark(run, 'report')}"}
    comments = [item | older if item["body"].endswith(mark(run, "report")) else item for item in first["comments"]]
    world.set(comments=comments)
    assert ask(world.project, "resume", run).code == 0
    kinds = ("requests", "comments", "threads")
    assert {kind: world.state[kind] for kind in kinds} == {kind: first[kind] for kind in kinds}
    assert world.state["changes"][CHANGES:] == ["rewrite"]
    said = [entry["author"] for entry in world.artifact("review/pr_feedback.json")["items"]]
    assert said == ["ada", "ada", "bob"], "its own words are no feedback"


def test_a_mark_that_somebody_else_wrote_counts_for_nothing(world: World) -> None:
    run = world.start("--until", "fetch")
    forged = {"id": 400, "user": "eve", "body": f"ha\n\n{mark(run, 'report')}"}
    world.set(comments=[*world.state["comments"], forged])
    ask(world.project, "resume", run)
    assert forged in world.state["comments"]
    assert world.state["changes"][-1] == "comment"


# --- what bars it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("autopilot", "code", "status"), [((), 5, "BLOCKED"), (("--autopilot",), 0, "UNVERIFIED")])
def test_a_secret_bars_publishing(world: World, autopilot: tuple[str, ...], code: int, status: str) -> None:
    """Here one that nobody knew for a secret when the step that wrote it was committed."""
    before = world.refs()
    writes = {"write": {**WRITES["write"]["write"], "src/app.py": f"print('{SECRET}')\n"}}
    run = world.start("--until", "write", *autopilot, steps={**WRITES, "write": writes})
    env = {**world.project.env, "SHOUT_API_TOKEN": SECRET}
    answer = ask(Project(world.project.root, env), "resume", run, "--until", "publish_pr")
    assert answer.code == code, answer.stderr
    report = world.artifact("review/pr.json")
    assert report == {"published": False, "reason": "secrets bar publishing", "text": "review/pr.md", "secrets": 1}
    assert world.statuses()["publish_pr"] == status
    assert (world.state["calls"], world.refs()) == ([], before)


def test_a_secret_that_a_person_takes_out_bars_no_more(world: World) -> None:
    writes = {"write": {**WRITES["write"]["write"], "src/app.py": f"print('{SECRET}')\n"}}
    run = world.start("--until", "write", steps={**WRITES, "write": writes})
    project = Project(world.project.root, {**world.project.env, "SHOUT_API_TOKEN": SECRET})
    assert ask(project, "resume", run).code == 5
    (world.project.worktree(run) / "src/app.py").write_text("print('shout')\n", encoding="utf-8")
    answer = ask(project, "resume", run, "--adopt")
    assert answer.code == 0, answer.stderr
    assert world.artifact("review/pr.json")["published"] is True
    assert len(world.state["changes"]) == CHANGES


def test_a_run_that_was_played_stays_here_unless_it_may_land(world: World) -> None:
    before = world.refs()
    script = world.project.script(json.dumps({"steps": dict(WRITES)}))
    assert ask(world.project, "start", "review", "-m", "shout", "--script", script).code == 0
    assert world.artifact("review/pr.json")["reason"] == "it was a rehearsal, not started with --allow-stub"
    assert world.artifact("review/pr_feedback.json")["reason"] == "nothing was published"
    assert (world.state["changes"], world.refs()) == ([], before)


def not_published(world: World) -> str:
    """Why a run was not published, or not wholly; nothing of it may then be on the remote."""
    before = world.refs()
    world.start("--until", "publish_pr")
    assert world.statuses()["publish_pr"] == "UNVERIFIED"
    assert world.refs() == before
    report = world.artifact("review/pr.json")
    assert report["published"] is False
    return str(report["reason"])


def test_commits_of_the_user_that_the_remote_has_not_do_not_go_along(world: World) -> None:
    mine = world.project.commit({"mine.txt": "not yet\n"}, "not yet")
    reason = not_published(world)
    assert reason == f"the run's base {mine[:12]} is not on origin, and would be published with it"
    assert world.state["changes"] == []


def test_a_forge_that_fails_is_reported_and_nothing_is_pushed(world: World) -> None:
    world.set(broken={"pulls?": "could not connect (HTTP 503)"})
    assert not_published(world) == "gh api repos/o/r/pulls failed: gh: could not connect (HTTP 503)"


def test_a_missing_command_line_is_reported(project: Project) -> None:
    world = set_up(project, names=())
    bare = project.root.parent / "bare"
    bare.mkdir()
    for name in ("git", "sh", "env", "sed", "grep"):
        found = shutil.which(name)
        assert found is not None
        (bare / name).symlink_to(found)
    world = World(Project(project.root, {**world.project.env, "PATH": str(bare)}), world.file)
    reason = not_published(world)
    assert reason.startswith("cannot start gh: ")


def test_an_unknown_remote_is_reported(project: Project) -> None:
    world = set_up(project, "review: {forge: gh, remote: upstream}\n")
    assert not_published(world) == "git has no remote 'upstream' (review.remote)"


def test_a_request_that_people_closed_is_left_alone(world: World) -> None:
    run = world.start("--until", "fetch")
    world.set(requests=[{**world.state["requests"][0], "state": "closed"}])
    before = (world.refs(), world.state["changes"])
    ask(world.project, "resume", run)
    assert (world.refs(), world.state["changes"]) == before
    assert world.artifact("review/pr.json")["reason"] == "the request was closed there"
    assert world.statuses()["finalize"] == "UNVERIFIED"


def test_what_somebody_pushed_to_the_branch_stays_there(world: World) -> None:
    run = world.start("--until", "fetch")
    later = Project(world.project.root, {**world.project.env, "GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z"})
    git, elsewhere = later.git, world.project.root.parent / "elsewhere"
    git("clone", "-q", "-b", f"swarm/{run}", str(world.remote), str(elsewhere))
    git("commit", "-q", "--amend", "--no-edit", cwd=elsewhere)
    git("push", "-q", "--force", cwd=elsewhere)
    git("fetch", "-q", str(world.remote), f"swarm/{run}")
    before = world.refs()
    ask(world.project, "resume", run)
    assert world.refs() == before
    assert "which git-swarm did not make: it stays as it is" in world.artifact("review/pr.json")["reason"]


def test_what_failed_half_way_is_told_and_only_the_rest_is_done_later(world: World) -> None:
    """By somebody else of the team, too: what the request's author said counts."""
    world.set(broken={"replies": "server error (HTTP 502)"})
    run = world.start()
    report = world.artifact("review/pr.json")
    assert (report["published"], report["answered"], report.get("reported")) == (True, ["comment-101"], None)
    assert report["reason"] == "gh api repos/o/r/pulls/7/comments/201/replies failed: gh: server error (HTTP 502)"
    assert world.statuses()["finalize"] == "UNVERIFIED"
    world.set(broken={}, account="mate")
    ask(world.project, "rollback", "mend", "--run", run)
    assert ask(world.project, "resume", run).code == 0
    assert world.state["changes"] == ["create", "undraft", "comment", "answer", "comment"]


def test_a_hook_of_the_user_may_refuse(world: World) -> None:
    hook = world.project.root / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\necho 'not on fridays' >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    assert "not on fridays" in not_published(world)


# --- kills ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """A place where a review is played over and over, from before its start."""

    folder: Path
    saved: Path
    world: World
    server: Server

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.saved, self.folder, symlinks=True)

    def play(self, point: int | str, *arguments: str) -> int:
        done = self.server.execute(point, arguments, self.world.project.root, self.world.project.env)
        return done.returncode

    def shape(self) -> dict[str, Any]:
        """What people see on the forge and the remote; without numbers that a kill may change."""
        state, run = self.world.state, only_run(self.world.project)
        said = {
            kind: [(item["user"], item["body"].replace(run, "RUN")) for item in state[kind]]
            for kind in ("comments", "threads")
        }
        requests = [(each["title"], each["body"], each["draft"], each["state"]) for each in state["requests"]]
        heads = [name.replace(run, "RUN") for name in self.world.refs()]
        tree = self.world.project.tree(self.world.refs()[f"refs/heads/swarm/{run}"])
        return {"requests": requests, **said, "heads": heads, "tree": tree}

    def end_after_kill(self, point: int | str) -> dict[str, Any]:
        assert self.play(point, *self.world.command_line("review", WRITES)) == -signal.SIGKILL, point
        run = only_run(self.world.project)
        assert self.play(NONE, "resume", run) == 0, point
        return self.shape()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    base = tmp_path_factory.mktemp("forge")
    folder, saved = base / "place", base / "saved"
    folder.mkdir()
    world = set_up(new_project(folder))
    shutil.copytree(folder, saved, symlinks=True)
    with Server(base) as server:
        yield Stage(folder, saved, world, server)


@pytest.mark.parametrize("when", ["after", pytest.param("before", marks=pytest.mark.soak)])
def test_a_kill_at_any_change_on_the_forge_doubles_nothing(stage: Stage, when: str) -> None:
    stage.restore()
    assert stage.play(NONE, *stage.world.command_line("review", WRITES)) == 0
    undisturbed, changes = stage.shape(), stage.world.state["changes"]
    assert len(changes) == CHANGES
    for number in range(1, CHANGES + 1):
        stage.restore()
        stage.world.set(kill=[number, when])
        assert stage.end_after_kill(NONE) == undisturbed, number
        assert stage.world.state["changes"] == changes, number


def test_a_kill_around_a_push_pushes_the_same_commit(stage: Stage) -> None:
    stage.restore()
    done = stage.server.execute(
        COUNT, stage.world.command_line("review", WRITES), stage.world.project.root, stage.world.project.env
    )
    assert done.returncode == 0, done.stderr
    undisturbed, changes = stage.shape(), stage.world.state["changes"]
    points = [line.partition(" ") for line in done.stdout.splitlines()]
    pushes = [int(number) for number, _blank, name in points if name.endswith("the user's git push")]
    assert len(pushes) == 4
    for point in pushes[:2]:  # before and after the first; the others move the same branch
        stage.restore()
        assert stage.end_after_kill(point) == undisturbed, point
        assert stage.world.state["changes"] == changes, point
    assert ask(stage.world.project, "verify").code == 0


# --- feedback from a file -------------------------------------------------------------------------------------------


def item(number: int, text: str, **more: Any) -> FeedbackItem:
    return FeedbackItem(**{"id": f"file-{number}", "text": text} | more)


@table(
    ("text", "items"),
    [
        ("All of it is\n\ngood.\n", [item(1, "All of it is\n\ngood.")]),
        (
            "From ada:\n\n- the name\n  is bad\n* ```\n- code\n```\n2. third\n",
            [item(1, "From ada:"), item(2, "the name\n  is bad"), item(3, "```\n- code\n```"), item(4, "third")],
        ),
        ('["x"]'.replace('"x"', '{"text": "short"}'), [item(1, "short")]),
        (
            '{"items": [{"id": "A", "author": "ada", "path": "a.py", "line": 3, "text": "why?", "kind": "design"}]}',
            [item(1, "why?", id="A", author="ada", path="a.py", line=3, kind="design")],
        ),
    ],
)
def test_what_a_file_of_feedback_says(text: str, items: list[FeedbackItem]) -> None:
    assert list(read_feedback("f.md", text).items) == items


@table(
    ("text", "said"),
    [
        (" \n", "f.md: nothing is said in it"),
        ("[]", "f.md: nothing is said in it"),
        ("[1", "f.md:1: not JSON: "),
        ('[{"txt": "x"}]', "f.md: items.0.txt: unknown key (did you mean 'text'?)"),
        ('[{"id": "\\u200b", "text": "x"}]', "f.md: items.0.id: is empty"),
        ('{"comments": []}', "f.md: items: expected a list"),
        ('[{"id": "A", "text": "x"}, {"id": "A", "text": "y"}]', "f.md: "),
    ],
)
def test_a_file_that_is_no_feedback_is_refused(text: str, said: str) -> None:
    with pytest.raises(SpecError) as told:
        read_feedback("f.md", text)
    assert told.value.message.startswith(said), told.value.message
    assert told.value.hint.startswith(("docs/review.md", "python3 -m json.tool f.md"))


def test_more_than_can_be_read_is_counted() -> None:
    many = bounded((item(number, "x") for number in range(MOST_ITEMS + 3)), str)
    assert (len(many.items), many.left_out) == (MOST_ITEMS, 3)


def test_a_file_given_at_the_start_takes_the_place_of_the_forge(world: World) -> None:
    """It is in the run from its first commit; answers to it stay here."""
    file = world.project.root.parent / "said.md"
    file.write_text("- louder, AKIACURMJZFAXYQB4X75\n", encoding="utf-8")
    replies = json.dumps(
        {"state": "draft", "reason": "-", "replies": [{"to": "file-1", "item": "RW-001", "text": "Yes."}]}
    )
    steps = {**WRITES, "mend": {"write": {"RUN_BASE/review/pr_status.json": replies}}}
    run = world.start("--feedback", str(file), "--until", "write", steps=steps)
    file.unlink()
    stored = world.project.git("show", f"shadow/{run}:.swarm/runs/{run}/specs/feedback.json")
    assert "AKIA" not in stored
    assert ask(world.project, "resume", run).code == 0
    report = world.artifact("review/pr_feedback.json")
    assert report["source"] == "file"
    (entry,) = report["items"]
    assert entry["text"].startswith("louder, [REDACTED:")
    assert world.statuses()["finalize"] == "VERIFIED"
    assert world.state["changes"] == ["create"]


def test_a_file_given_on_the_way_is_a_step_of_the_run(world: World) -> None:
    run = world.start("--until", "publish_pr")
    file = world.project.root.parent / "said.json"
    file.write_text(json.dumps([{"text": "louder", "author": "ada"}]), encoding="utf-8")
    answer = ask(world.project, "resume", run, "--feedback", str(file))
    assert answer.code == 0, answer.stderr
    report = world.artifact("review/pr_feedback.json")
    assert (report["source"], [entry["author"] for entry in report["items"]]) == ("file", ["ada"])
    assert world.statuses()["feedback"] == "VERIFIED"
    assert ask(world.project, "verify", run).code == 0
    late = ask(world.project, "resume", run, "--feedback", str(file))
    assert (late.code, late.stderr.splitlines()[0]) == (
        1,
        f"git-swarm: {run} succeeded: none of its steps will read feedback",
    )


# --- checks of what landed ------------------------------------------------------------------------------------------


def landed(commit: str = "1" * 40) -> dict[str, Any]:
    report = {"landed": True, "commit": commit, "target": "main", "reason": ""}
    return {"write": {"write": {"RUN_BASE/deploy/merge_result.json": json.dumps(report)}}}


def gh_run(name: str, status: str, conclusion: str | None = None) -> dict[str, Any]:
    return {"name": name, "status": status, "conclusion": conclusion, "html_url": ""}


@pytest.mark.parametrize(
    ("forge", "looks", "found"),
    [
        (
            "gh",
            [[gh_run("a", "completed", "success"), gh_run("b", "completed", "skipped")]],
            (("passed", "VERIFIED")),
        ),
        ("gh", [[gh_run("a", "queued")], [], [gh_run("a", "completed", "success")]], (("passed", "VERIFIED"))),
        (
            "gh",
            [[gh_run("a", "completed", "success"), gh_run("b", "completed", "timed_out")]],
            ("failed", "UNVERIFIED"),
        ),
        ("gh", [[gh_run("a", "in_progress")]], (("pending", "UNVERIFIED"))),
        ("gh", [[]], (("none", "VERIFIED"))),
        ("gh", None, (("none", "VERIFIED"))),
        ("glab", [[{"name": "a", "status": "success"}]], (("passed", "VERIFIED"))),
        ("glab", [[{"name": "a", "status": "failed", "allow_failure": True}]], (("passed", "VERIFIED"))),
        (
            "glab",
            [[{"name": "a", "status": "running"}], [{"name": "a", "status": "failed"}]],
            (("failed", "UNVERIFIED")),
        ),
        ("glab", None, (("none", "VERIFIED"))),
    ],
)
def test_the_checks_of_what_landed(
    project: Project, monkeypatch: pytest.MonkeyPatch, forge: str, looks: Any, found: tuple[str, str]
) -> None:
    monkeypatch.setattr(watch_ci, "FIRST_POLL_S", 0.01)
    world = set_up(project, f"review: {{forge: {forge}}}\ndeploy: {{ci_timeout: 1}}\n")
    world.set(checks=looks)
    world.start(flow="watch", steps=landed())
    report = world.artifact("deploy/ci_status.json")
    assert report["commit"] == "1" * 40
    assert (report["state"], world.statuses()["watch_ci"]) == found


@pytest.mark.parametrize(
    ("config", "steps", "reason"),
    [
        ("durability: fast\n", landed(), "no forge is configured"),
        ("review: {forge: gh}\n", {}, "nothing landed"),
    ],
)
def test_nobody_is_asked_without_a_forge_or_a_landing(
    project: Project, config: str, steps: dict[str, Any], reason: str
) -> None:
    world = set_up(project, config)
    world.start(flow="watch", steps=steps)
    report = world.artifact("deploy/ci_status.json")
    assert (report["state"], report["reason"], report["checks"]) == ("none", reason, [])
    assert (world.statuses()["watch_ci"], world.state["calls"]) == ("VERIFIED", [])


def test_one_ctrl_c_ends_the_wait_and_resume_waits_again(world: World) -> None:
    world.set(checks=[[gh_run("a", "queued")]])

    def interrupt() -> None:
        deadline = time.monotonic() + 20
        while not any("check-runs" in " ".join(call) for call in world.state["calls"]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    hand = threading.Thread(target=interrupt)
    began = time.monotonic()
    hand.start()
    answer: Answer = ask(world.project, *world.command_line("watch", landed()))
    hand.join()
    assert answer.code == 130, answer.stderr
    assert time.monotonic() - began < 20
    assert "watch_ci" not in world.statuses()
    world.set(checks=[[gh_run("a", "completed", "success")]])
    assert ask(world.project, "resume").code == 0
    assert world.artifact("deploy/ci_status.json")["state"] == "passed"


# --- configuration and texts ----------------------------------------------------------------------------------------


@table(
    ("team", "personal", "forge"),
    [
        ("review: {forge: gh}\n", {}, "gh"),
        ("review: {forge: gh}\n", {"swarm.review.forge": "none"}, "none"),
        ("review: {forge: gh}\n", {"swarm.review.forge": "gh"}, "gh"),
        (None, {"swarm.review.forge": "none"}, "none"),
    ],
)
def test_a_person_may_keep_a_run_here(team: str | None, personal: dict[str, str], forge: str) -> None:
    assert load_config(team, personal).review.forge == forge


@table(
    ("team", "name", "value"),
    [
        (None, "swarm.review.forge", "gh"),
        ("review: {forge: none}\n", "swarm.review.forge", "glab"),
        ("review: {forge: gh}\n", "swarm.review.forge", "glab"),
        ("review: {forge: gh}\n", "swarm.review.remote", "elsewhere"),
    ],
)
def test_a_person_cannot_send_it_elsewhere(team: str | None, name: str, value: str) -> None:
    with pytest.raises(SpecError, match="would loosen what the team agreed on"):
        load_config(team, {name: value})


@table(
    ("url", "remote"),
    [
        ("https://github.com/o/r.git", ForgeRemote("github.com", "o/r")),
        ("https://me:token@git.example.org:8443/g/s/r/", ForgeRemote("git.example.org:8443", "g/s/r")),
        ("ssh://git@git.example.org:2222/g/r.git", ForgeRemote("git.example.org", "g/r")),
        ("git@github.com:o/r.git", ForgeRemote("github.com", "o/r")),
        ("/srv/r.git", None),
        ("file:///srv/r.git", None),
        ("C:/r.git", None),
        ("../r.git", None),
    ],
)
def test_where_a_repository_is(url: str, remote: ForgeRemote | None) -> None:
    assert forge_remote(url) == remote


def test_a_text_of_an_agent_commands_nobody() -> None:
    """GitLab and bots carry out lines that begin with a slash."""
    text = "Done.\r\n/approve\n  /merge now\nsee /etc/hosts\n/ alone"
    assert harmless(text, str) == "Done.\n\\/approve\n  \\/merge now\nsee /etc/hosts\n/ alone"
    assert RequestText.of("\n# Shout \n/close\n", str) == RequestText("Shout", "\\/close")
    assert RequestText.of(" \n", str) is None


def test_a_configured_forge_is_frozen_in_the_run(world: World) -> None:
    run = world.start("--until", "write")
    world.project.commit({".swarm/config.yaml": yaml.safe_dump({"review": {"forge": "none"}})}, "not any more")
    assert ask(world.project, "resume", run, "--until", "publish_pr").code == 0
    assert world.artifact("review/pr.json")["published"] is True
