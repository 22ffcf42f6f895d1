"""kill -9 between every two actions of `approve` and `land`: typed again, it ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.faults import COUNT, NONE, Server
from tests.landing.common import Run, code_of, hook, make_run, tidy, with_flow
from tests.projects import ask, new_project
from tests.unseen import unseen_line

SEED = 6
SAMPLED = 2
"""Points of each story that are always tried, besides those around what cannot be taken back."""

DECISIVE = ("git merge", "the user's git", "Refs.swap branch", "Refs.swap approval")


@dataclass(frozen=True)
class Story:
    """A command, and what there is before it. `code`: its exit code; `end`: steps of the run afterwards."""

    name: str
    command: str
    code: int
    end: tuple[tuple[str, str], ...]
    moved: dict[str, str]
    hooks: bool = False
    elsewhere: bool = False


MADE, APPROVED, LANDED = ("make", "VERIFIED"), ("approve", "VERIFIED"), ("land", "VERIFIED")
STORIES = (
    Story("approve", "approve", 0, (MADE, APPROVED), {}),
    Story("elsewhere", "land", 0, (MADE, APPROVED, LANDED), {}, elsewhere=True),
    Story("checked out", "land", 0, (MADE, APPROVED, LANDED), {"other.txt": "1\n"}, hooks=True),
    Story("conflict", "land", 1, (MADE, APPROVED, ("land", "BLOCKED")), {"src/app.py": "theirs\n"}),
)
HOME = {"README.md": "# hello", "src/app.py": "print('changed')", "src/new.py": "print('new')"}


@dataclass(frozen=True)
class Stage:
    """A place where a story is played over and over: `saved` is as it was before the command."""

    story: Story
    folder: Path
    saved: Path
    run: Run
    server: Server
    points: tuple[str, ...]

    def play(self, point: int | str) -> subprocess.CompletedProcess[str]:
        project = self.run.project
        return self.server.execute(point, (self.story.command, self.run.id), project.root, project.env)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.saved, self.folder, symlinks=True)

    def killed_at(self, point: int) -> None:
        """Killed there, typed again, and once more: it is as it would have been."""
        self.restore()
        done = self.play(point)
        assert done.returncode == -signal.SIGKILL, f"not killed at {point}: {done.returncode}\n{done.stderr}"
        name = done.stderr.splitlines()[-1]
        again = self.play(NONE)
        end = self.story.end
        if self.lock.exists():
            assert f"hint: rm {self.lock} " in again.stderr, name
            self.lock.unlink()
            again = self.play(NONE)
            end = (*end[:-1], ("land", "BLOCKED"), end[-1])
        assert again.returncode == self.story.code, f"{name}\n{again.stdout}\n{again.stderr}"
        self.check(name, end)
        tip = self.run.tip
        assert self.play(NONE).returncode == self.story.code, name
        assert self.run.tip == tip, name

    @property
    def lock(self) -> Path:
        """Git's lock on the user's own branch, which is for the user to remove."""
        return self.run.project.root / ".git/refs/heads/main.lock"

    def check(self, name: str, end: tuple[tuple[str, str], ...]) -> None:
        run, story, project = self.run, self.story, self.run.project
        found = tuple((step.partition("@")[0], status) for step, status in run.steps())
        assert found == end, name
        landed = end[-1] == LANDED
        assert len(run.landings()) == int(landed), name
        code = code_of(project, "main")
        expected = {path: text.rstrip("\n") for path, text in story.moved.items()}
        base = HOME if landed else {"README.md": "# hello", "src/app.py": "print('hello')"}
        assert code == {**base, **expected}, name
        status = run.status()
        assert status["state"] == "succeeded", name
        assert (status["approved"] is not None, status["landed"] is not None) == (story.code == 0, landed), name
        assert project.git("status", "--porcelain") == "", name
        refs = project.git("for-each-ref", "--format=%(refname)", f"refs/swarm/{run.id}/")
        assert (f"refs/swarm/{run.id}/approval" in refs, "/next" in refs) == (story.code == 0, False), name
        tidy(run)


SELDOM = ("approve", "conflict")
"""Stories that only the soak plays: what is decisive in them is so in the others too."""


def _params() -> Iterator[Any]:
    for story in STORIES:
        yield pytest.param(story, id=story.name, marks=[pytest.mark.soak] if story.name in SELDOM else [])


@pytest.fixture(scope="module", params=_params())
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    story: Story = request.param
    base = tmp_path_factory.mktemp("landing")
    folder, saved = base / "place", base / "saved"
    folder.mkdir()
    with Server(base) as server:
        run = set_up(new_project(folder), story)
        shutil.copytree(folder, saved, symlinks=True)
        stage = Stage(story, folder, saved, run, server, ())
        counted = stage.play(COUNT)
        assert counted.returncode == story.code, counted.stderr
        points = tuple(line.partition(" ")[2] for line in counted.stdout.splitlines())
        stage = Stage(story, folder, saved, run, server, points)
        stage.check("undisturbed", story.end)
        yield stage


def set_up(project: Project, story: Story) -> Run:
    run = make_run(with_flow(project, config="commands: {test: 'test -e src/new.py'}\n"))
    if story.command == "land":
        run.approve()
    if story.moved:
        project.commit(story.moved, "meanwhile")
    if story.hooks:
        hook(project, "pre-commit", ["exit 0"])
    if story.elsewhere:
        project.git("checkout", "-q", "-b", "elsewhere")
    return run


def sampled(points: Sequence[str]) -> list[int]:
    """Numbers of the points around what cannot be taken back, and of some others."""
    decisive = [number for number, name in enumerate(points, start=1) if name.endswith(DECISIVE) or _users(name)]
    waiting = {number for number, name in enumerate(points, start=1) if name == "before moving a locked ref"}
    others = sorted(set(range(1, len(points) + 1)) - {*decisive, *waiting})  # 10 s until a lock counts as left
    return sorted([*decisive, *random.Random(SEED).sample(others, SAMPLED)])


def _users(name: str) -> bool:
    return "the user's git" in name


def test_a_kill_at_a_decisive_point_changes_nothing(stage: Stage) -> None:
    for point in sampled(stage.points):
        stage.killed_at(point)


@pytest.mark.soak
def test_a_kill_at_any_point_changes_nothing(stage: Stage) -> None:
    assert len(stage.points) > 50
    for point in range(1, len(stage.points) + 1):
        stage.killed_at(point)


def test_a_place_that_a_killed_landing_left_is_swept(project: Project) -> None:
    """By the next command that takes hold of the run, and by `gc` when there is none for an hour."""
    run = make_run(with_flow(project))
    run.approve()
    left = project.root.parent / "repo.swarm" / f"{run.id}.landing"
    for sweep in (("gc",), ("land", run.id)):
        project.git("worktree", "add", "-q", "--detach", str(left), "main")
        for path in (left, project.root / ".git/worktrees" / left.name):
            os.utime(path, (0, 0))
        assert ask(project, *sweep).code == 0
        tidy(run)


def test_gc_leaves_the_place_of_a_landing_that_goes_on(project: Project) -> None:
    """The tests of the merged code call it themselves."""
    gc = " ".join(map(shlex.quote, [*project.argv("gc"), "--older-than", "0"]))
    test = f"touch -t 200001010000 . && {gc} && test -e src/new.py"
    config = f"commands: {{test: {json.dumps(unseen_line(test))}}}\n"
    run = make_run(with_flow(project, config=config))
    project.commit({"other.txt": "1\n"}, "meanwhile")
    run.landed()
    assert run.evidence()["tests"]["passed"] is True
