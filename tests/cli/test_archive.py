"""The archive: what `gc` folds into it, how that is read and brought back, and what a kill between moves leaves."""

from __future__ import annotations

import json
import random
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitswarm.errors import RefMovedError
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.refs import Refs
from tests.conftest import Project
from tests.faults import COUNT, NONE, Server
from tests.projects import ask, new_project

FLOW = "id: one\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"
SCRIPT = 'steps: {s1: {write: {a.txt: "x\\n"}}, s2: {write: {b.txt: "y\\n"}}}\ndefault: {status: VERIFIED}\n'
ASKS = "steps: {s1: {status: BLOCKED, blockers: [which?]}}\n"
SEED, SAMPLED = 11, 3

READ = (
    "log RUN --json",
    "show s1 --run RUN",
    "transcript s2 --run RUN",
    "report RUN --format json",
    "verify RUN",
    "cost RUN",
    "events RUN --json",
    "diff RUN",
    "why a.txt:1",
    "why b.txt --run RUN",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A project with a landed run that has a history of rollbacks, and a fork of it that has not landed."""

    project: Project
    run: str
    fork: str

    def reads(self) -> dict[str, str]:
        found = {}
        for line in READ:
            answer = ask(self.project, *line.replace("RUN", self.run).split())
            assert answer.code == 0, f"{line}\n{answer.stderr}"
            found[line] = answer.stdout.replace("shadow/", "")
        return found

    def refs(self) -> list[str]:
        return [line for line in self.project.git("for-each-ref").splitlines() if "run-" in line]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("archive") / "place"
    folder.mkdir()
    project = new_project(folder)
    project.commit({".swarm/flows/one.yaml": FLOW})
    run = project.start(SCRIPT, "--allow-stub", "-m", "The first", flow="one")
    project.swarm("rollback", "s1", "--run", run)
    project.swarm("resume", run)
    project.swarm("approve", run)
    project.swarm("land", run)
    project.swarm("fork", "s1", "--run", run)
    fork = next(str(each["run_id"]) for each in project.json("list") if each["run_id"] != run)
    return Place(project, run, fork)


@pytest.fixture(scope="module")
def read(made: Place) -> dict[str, str]:
    return made.reads()


@pytest.fixture
def place(made: Place, tmp_path: Path) -> Iterator[Place]:
    """The place as it was made, at its own path, whatever tests do with it."""
    folder, saved = made.project.root.parent, tmp_path / "saved"
    shutil.copytree(folder, saved, symlinks=True)
    yield made
    shutil.rmtree(folder)
    shutil.move(saved, folder)


def test_nothing_is_archived_unless_it_is_configured(place: Place) -> None:
    before = place.refs()
    assert (place.project.swarm("gc").stdout, place.refs()) == ("nothing to clean up\n", before)


def test_archived_runs_are_one_commit_to_git_and_read_as_ever(place: Place, read: dict[str, str]) -> None:
    project = place.project
    said = project.swarm("gc", "--archive", "0s").stdout
    assert [line.split()[:2] for line in said.splitlines() if line.startswith("arch")] == [
        ["archived", place.fork],
        ["archived", place.run],
    ]
    refs = project.git("for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/heads/main", ARCHIVE_REF]
    own = project.git("log", "--format=%s", "main").count("\n") + 1
    assert project.git("log", "--all", "--format=%s").count("\n") == own
    assert project.git("worktree", "list").count("\n") == 0
    assert project.json("list") == []
    assert [(each["run_id"], each["archived"]) for each in project.json("list", "--all")] == [
        (place.fork, True),
        (place.run, True),
    ]
    assert "landed, archived" in project.swarm("list", "--all", "--state", "landed").stdout
    for columns in range(72, 92):
        narrow = Project(project.root, {**project.env, "COLUMNS": str(columns)})
        assert narrow.swarm("list", "--all").stdout.splitlines()[0].endswith("  task")
    assert place.reads() == read
    shutil.rmtree(project.root / ".git/logs")
    project.git("gc", "-q", "--prune=now")
    assert place.reads() == read
    assert "missing" not in project.git("fsck", "--full")


def test_the_report_of_an_archived_run_names_commands_that_work(place: Place) -> None:
    place.project.swarm("gc", "--archive", "0s")
    for run in (place.run, place.fork):
        report = place.project.swarm("report", run).stdout
        (diff,) = (line for line in report.splitlines() if line.startswith("git diff "))
        assert place.project.git(*shlex.split(diff)[1:])


def test_an_archived_run_comes_back_whole(place: Place, read: dict[str, str]) -> None:
    before = place.refs()
    place.project.swarm("gc", "--archive", "0s")
    shutil.rmtree(place.project.root / ".git/logs")
    place.project.git("gc", "-q", "--prune=now")
    place.project.swarm("discard", "--restore", place.fork, place.run)
    assert (place.refs(), place.project.git("for-each-ref", ARCHIVE_REF)) == (before, "")
    assert place.reads() == read
    place.project.swarm("rollback", "s1", "--run", place.fork)
    place.project.swarm("resume", place.fork)
    assert place.project.swarm("verify", place.fork).stdout


def test_what_changes_a_run_is_refused_with_the_way_back(place: Place) -> None:
    place.project.swarm("gc", "--archive", "0s")
    no_worktree = ask(place.project, "path", place.run).stderr
    assert no_worktree.endswith(f"hint: git swarm discard --restore {place.run}\n")
    for line in ("approve RUN", "resume RUN", "rollback s1 --run RUN", "discard RUN", "stop RUN"):
        answer = ask(place.project, *line.replace("RUN", place.run).split())
        assert (answer.code, answer.stderr) == (
            1,
            f"git-swarm: {place.run} is archived\nhint: git swarm discard --restore {place.run}\n",
        )


def test_a_run_that_waits_is_young_or_holds_work_is_not_archived(place: Place) -> None:
    waits = place.project.start(ASKS, flow="one", code=5)
    (place.project.worktree(place.fork) / "mine.txt").write_text("mine", encoding="utf-8")
    place.project.swarm("config", "retention.days", "30")
    assert place.project.swarm("gc").stdout == "nothing to clean up\n"
    place.project.swarm("config", "retention.days", "0")
    answer = place.project.swarm("gc")
    assert "holds work that is not committed" in " ".join(answer.stderr.split())
    assert {each["run_id"] for each in place.project.json("list")} == {waits, place.fork}


def test_a_run_that_goes_on_after_it_was_stored_is_stored_anew(place: Place) -> None:
    """As after a kill between archive and branch: both are there, and the branch counts."""
    place.project.swarm("gc", "--archive", "0s")
    archive = place.project.git("rev-parse", ARCHIVE_REF)
    place.project.swarm("discard", "--restore", place.run)
    place.project.git("update-ref", ARCHIVE_REF, archive)
    place.project.swarm("rollback", "s1", "--run", place.run)
    place.project.swarm("resume", place.run)
    log = place.project.json("log", place.run)
    assert [each["archived"] for each in place.project.json("list", "--all")] == [True, False]
    place.project.swarm("gc", "--archive", "0s")
    assert place.project.json("log", place.run) == log


def test_what_somebody_put_in_its_place_is_left_there(place: Place) -> None:
    """Neither a commit of the user nor a ref of a run that cannot be stored gets lost."""
    project = place.project
    own = project.git("commit-tree", "-m", "mine", "main^{tree}")
    project.git("update-ref", ARCHIVE_REF, own)
    answer = ask(project, "gc", "--archive", "0s")
    assert "which git-swarm did not make" in " ".join((answer.stdout + answer.stderr).split())
    assert project.git("rev-parse", ARCHIVE_REF) == own
    project.git("update-ref", "-d", ARCHIVE_REF)
    project.git("tag", "-a", "-m", "note", "noted")
    project.git("update-ref", f"refs/swarm/{place.fork}/mine", project.git("rev-parse", "noted"))
    answer = ask(project, "gc", "--archive", "0s")
    assert f"refs/swarm/{place.fork}/mine is not a commit but a tag" in " ".join(
        (answer.stdout + answer.stderr).split()
    )
    assert f"shadow/{place.fork}" in project.git("branch", "--list", "shadow/*")


def test_a_damaged_archive_is_not_to_be_deleted(place: Place) -> None:
    place.project.swarm("gc", "--archive", "0s")
    commit = place.project.git("rev-parse", ARCHIVE_REF)
    (place.project.root / ".git" / ARCHIVE_REF).write_bytes(b"")
    answer = ask(place.project, "list", "--all")
    assert (answer.code != 0, "git fsck --lost-found" in answer.stderr, "hint: rm" in answer.stderr) == (
        True,
        True,
        False,
    )
    (place.project.root / ".git" / ARCHIVE_REF).unlink()
    assert commit in place.project.git("fsck", "--lost-found")
    place.project.git("update-ref", ARCHIVE_REF, commit)
    assert len(place.project.json("list", "--all")) == 2


def test_no_push_gets_it_out_under_any_name(place: Place, tmp_path: Path) -> None:
    project = place.project
    project.git("init", "-q", "--bare", str(tmp_path / "remote.git"))
    project.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    project.swarm("gc", "--archive", "0s")
    project.swarm("init")
    for name in ("refs/heads/backup", ARCHIVE_REF):
        argv = ["git", "push", "origin", f"{ARCHIVE_REF}:{name}"]
        done = subprocess.run(argv, cwd=project.root, env=project.env, capture_output=True, text=True, check=False)
        assert (done.returncode, "git-swarm:" in done.stderr) == (1, True), done.stderr
    assert project.git("ls-remote", "origin") == ""


def test_two_that_archive_at_once_lose_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    swap = Refs.swap
    lost: list[str | None] = []

    def moved_meanwhile(refs: Refs, name: str, old: str | None, new: str | None, *, why: str) -> None:
        if name == ARCHIVE_REF and not lost:
            lost.append(new)
            raise RefMovedError("somebody else was faster")
        swap(refs, name, old, new, why=why)

    monkeypatch.setattr(Refs, "swap", moved_meanwhile)
    place.project.swarm("gc", "--archive", "0s")
    assert (len(lost), len(place.project.json("list", "--all"))) == (1, 2)


STORIES = {"gc": ("gc", "--archive", "0s"), "restore": ("discard", "--restore", "RUN")}


@dataclass(frozen=True, slots=True)
class Stage:
    place: Place
    line: tuple[str, ...]
    folder: Path
    saved: Path
    server: Server
    read: dict[str, str]
    refs: list[str]

    def play(self, point: int | str) -> subprocess.CompletedProcess[str]:
        return self.server.execute(point, self.line, self.place.project.root, self.place.project.env)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.saved, self.folder, symlinks=True)

    def killed_at(self, point: int) -> None:
        """Readable at once; typed again, it ends as if nothing had happened; so it does the other way round."""
        self.restore()
        done = self.play(point)
        assert done.returncode == -signal.SIGKILL, f"not killed at {point}: {done.returncode}\n{done.stderr}"
        name = done.stderr.splitlines()[-1]
        assert self.place.reads() == self.read, name
        there = ask(self.place.project, "list", "--all", "--json")
        assert {each["run_id"] for each in json.loads(there.stdout)} == {self.place.run, self.place.fork}, name
        assert there.stderr == "", name
        assert self.play(NONE).returncode == 0, name
        self.place.project.swarm("gc", "--archive", "0s")
        assert self.place.refs() == [], name
        self.place.project.swarm("discard", "--restore", self.place.run, self.place.fork)
        assert self.place.refs() == self.refs, name
        assert self.place.reads() == self.read, name
        assert "missing" not in self.place.project.git("fsck"), name


@pytest.fixture(params=list(STORIES))
def stage(
    request: pytest.FixtureRequest, place: Place, read: dict[str, str], tmp_path: Path
) -> Iterator[tuple[Stage, int]]:
    line = tuple(word.replace("RUN", place.run) for word in STORIES[request.param])
    refs = place.refs()
    if request.param == "restore":
        place.project.swarm("gc", "--archive", "0s")
    folder, saved = place.project.root.parent, tmp_path / "before"
    shutil.copytree(folder, saved, symlinks=True)
    with Server(tmp_path) as server:
        stage = Stage(place, line, folder, saved, server, read, refs)
        counted = stage.play(COUNT)
        assert counted.returncode == 0, counted.stderr
        yield stage, counted.stdout.count("\n")


def test_a_kill_at_some_point_loses_nothing(stage: tuple[Stage, int]) -> None:
    found, points = stage
    for point in sorted(random.Random(SEED).sample(range(1, points + 1), SAMPLED)):
        found.killed_at(point)


@pytest.mark.soak
def test_a_kill_at_any_point_loses_nothing(stage: tuple[Stage, int]) -> None:
    found, points = stage
    assert points > 20
    for point in range(1, points + 1):
        found.killed_at(point)


@pytest.mark.soak
def test_200_archived_runs_are_listed_in_a_moment(project: Project) -> None:
    project.commit({".swarm/flows/one.yaml": FLOW})
    for number in range(200):
        project.start(SCRIPT.replace("a.txt", f"a{number}.txt"), flow="one")
    begun = time.monotonic()
    project.swarm("gc", "--archive", "0s")
    archived = time.monotonic()
    assert len(project.json("list", "--all")) == 200
    listed = time.monotonic()
    assert (project.json("list"), listed - archived < 2, archived - begun < 120) == ([], True, True)
