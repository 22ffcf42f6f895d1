"""Guarantee 1: kill -9 at any point: no committed step lost, none executed twice once it was paid for."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gitswarm.ledger.reading import effective_decision, parse_note
from tests.conftest import GIT_CONFIG, Project
from tests.faults import COUNT, NONE, Server
from tests.unseen import unseen
from tests.waiting import ends_within

SEED = 2
SAMPLED_POINTS = 8
SAMPLED_STUMBLES = 2
SAMPLED_MOMENTS = 4
ALL_MOMENTS = 200
SHARDS = 64
"""Parts that the points are cut into for the soak, so that several processes can share them."""

FIRST_KILLS = (
    ("torn write_text in engines.stub._write", 1),
    ("after Journal", 1),
    ("after Refs.swap next", 2),
    ("after Refs.swap branch", 2),
    ("before git update-index", 2),
    ("before Refs.swap next away", 1),
)
"""Where the first of two kills falls: a point, and which one of that name, counted from the end of the run."""

FLOW = """\
id: tale
title: Tell a tale
steps:
  - {id: write, station: teller, teaching: {outputs: [notes.md, "src/**"]}}
  - {id: critique, station: teller, routing: {kind: microloop, loop_target: write, max_iterations: 3}}
  - {id: check, engine: command, command: {run: 'echo check-1 >> "$SWARM_TRACE" && grep -q second src/tale.txt'}}
  - {id: close, station: teller, teaching: {outputs: [closing.json]}, routing: {kind: terminal}}
"""
STATION = """\
id: teller
title: Teller
category: implementation
identity: You tell tales.
invariants: [The tale ends.]
"""
CONFIG = """\
worktree: {copy: [local.cfg], setup: 'cat local.cfg > setup.log'}
"""
SCRIPT = r"""
steps:
  write:
    - write: {src/tale.txt: "first\n", old.txt: "soon gone\n", RUN_BASE/tale/notes.md: "one\n"}
      run:
        - echo write-1 >> "$SWARM_TRACE"
        - >-
          inbox="$(git rev-parse --git-common-dir)/swarm/inbox/$RUN_ID" && mkdir -p "$inbox" &&
          printf '{"source": "reader", "message": "go on"}' > "$inbox/.letter" &&
          mv "$inbox/.letter" "$inbox/1.json"
    - write: {src/tale.txt: "second\n", RUN_BASE/tale/notes.md: "two\n"}
      delete: [old.txt]
      run: ['echo write-2 >> "$SWARM_TRACE"']
  critique:
    - status: UNVERIFIED
      can_further_iteration_help: "yes"
      concerns: [thin]
      run: ['echo critique-1 >> "$SWARM_TRACE"']
    - {status: VERIFIED, run: ['echo critique-2 >> "$SWARM_TRACE"']}
  close:
    STUMBLE
    - write: {src/end.txt: "the end\n", RUN_BASE/tale/closing.json: "{}\n"}
      run: ['echo close-1 >> "$SWARM_TRACE"']
"""
STUMBLE = r"""
    - OUTCOME
      write: {src/end.txt: "the\n", src/half.txt: "half\n", RUN_BASE/tale/closing.json: "{\n"}
      run: ['echo close-0 >> "$SWARM_TRACE"']
"""
ARTIFACTS = ("tale/notes.md", "tale/closing.json")
EXECUTIONS = ("write-1", "critique-1", "write-2", "critique-2", "check-1")


@dataclass(frozen=True)
class Story:
    """What a run plays. `executions`: what each step that gets committed leaves in the trace, in order.

    `exit_code`: of the first command that ends by itself; when it is not 0, `resume` has to follow.
    """

    script: str
    executions: tuple[str, ...]
    exit_code: int


STRAIGHT = Story(SCRIPT.replace("    STUMBLE\n", ""), (*EXECUTIONS, "close-1"), 0)
STUMBLING = {
    name: Story(
        SCRIPT.replace("    STUMBLE\n", STUMBLE.strip("\n").replace("OUTCOME", outcome) + "\n"),
        (*EXECUTIONS, "close-0", "close-1"),
        exit_code,
    )
    for name, outcome, exit_code in (
        ("failed", "fail: model overloaded", 4),
        ("paused", "status: BLOCKED", 5),
    )
}


@dataclass(frozen=True)
class Tale:
    """What must be the same, whatever happened on the way."""

    status: str
    steps: tuple[str, ...]
    trees: tuple[dict[str, str], ...]
    artifacts: tuple[dict[str, str | None], ...]
    decisions: tuple[tuple[str, str | None, str], ...]
    letters: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """A commit of the run, as its trailers say."""

    commit: str
    kind: str
    flow: str
    step: str
    iteration: str
    result: str

    @property
    def events(self) -> str:
        """Where its events lie, relative to RUN_BASE."""
        names = {
            "run": "events/run.jsonl",
            "end": f"events/end@{self.iteration}.jsonl",
            "step": f"{self.flow}/events/{self.step}@{self.iteration}.jsonl",
        }
        return names[self.kind]


@dataclass
class Place:
    """A copy of the template in which a run is told, killed and resumed. The trace lies outside of the repository."""

    folder: Path
    story: Story
    project: Project
    server: Server
    paid: list[str] = field(default_factory=list)
    """Commits of steps that were there, published or as `next`, when a process was killed."""
    executed: Counter[str] = field(default_factory=Counter)
    """What those had left in the trace by then."""
    kills: int = 0

    @property
    def start(self) -> tuple[str, ...]:
        return ("start", "tale", "--script", str(self.folder / "script.yaml"))

    @property
    def trace(self) -> Counter[str]:
        path = self.folder / "tmp" / "trace"
        return Counter(path.read_text(encoding="utf-8").split() if path.exists() else ())

    @property
    def run(self) -> str | None:
        """The run's id; None when it was killed before its branch existed."""
        found = self.project.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow/").split()
        assert len(found) < 2
        return found[0] if found else None

    def swarm(self, *arguments: str, point: int | str = NONE) -> subprocess.CompletedProcess[str]:
        return self.server.execute(point, arguments, self.project.root, self.project.env)

    def killed_at(self, point: int, *arguments: str) -> str:
        """Executes up to a point; what the seam says about it."""
        done = self.swarm(*arguments, point=point)
        assert done.returncode == -signal.SIGKILL, f"not killed at {point}: {done.returncode}\n{done.stderr}"
        self._note_kill()
        return done.stderr.splitlines()[-1].removeprefix("faults: SIGKILL at ")

    def killed_after(self, seconds: float, *arguments: str) -> None:
        """Executes for a time in a process of the product alone; it may also end before."""
        with subprocess.Popen(
            self.project.argv(*arguments),
            cwd=self.project.root,
            env=dict(self.project.env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            if not ends_within(process, seconds):
                process.kill()
        self._note_kill()

    def save(self) -> Place:
        """A copy that `restored` brings back to the same place: a worktree knows its path."""
        saved = self.folder.with_name(f"{self.folder.name}.saved")
        shutil.copytree(self.folder, saved, symlinks=True)
        return replace(self, folder=saved)

    def restored(self, saved: Place) -> Place:
        shutil.rmtree(self.folder)
        shutil.copytree(saved.folder, self.folder, symlinks=True)
        return replace(saved, folder=self.folder, paid=list(saved.paid), executed=Counter(saved.executed))

    def _note_kill(self) -> None:
        """Remembers what may not be lost from now on, and what may not be executed again."""
        self.kills += 1
        paid = self._paid_steps()
        assert paid[: len(self.paid)] == self.paid, "a committed step was lost"
        self.paid = paid
        executed = self.trace
        self.executed = Counter({name: executed[name] for name in self.story.executions[: len(paid)]})

    def _paid_steps(self) -> list[str]:
        run = self.run
        if run is None:
            return []
        tip = self.project.git("rev-parse", f"refs/heads/shadow/{run}")
        pending = self.project.git("for-each-ref", "--format=%(objectname)", f"refs/swarm/{run}/next")
        if pending and self.project.git("rev-parse", f"{pending}^") == tip:
            tip = pending
        return [told.commit for told in chain(self.project, tip) if told.kind == "step"]


def chain(project: Project, tip: str) -> list[Told]:
    """Commits that the run made, oldest first."""
    trailers = (
        f"%(trailers:key=Swarm-{n},valueonly,separator=)" for n in ("Kind", "Flow", "Step", "Iteration", "Result")
    )
    form = f"--format=%H,{','.join(trailers)}"
    lines = project.git("log", "--first-parent", "--reverse", form, tip).splitlines()
    return [told for line in lines if (told := Told(*line.split(","))).kind]


@dataclass(frozen=True)
class Undisturbed:
    """The template, the run that nothing happened to, and the points of that run by name."""

    template: Path
    story: Story
    server: Server
    whole: Project
    tale: Tale
    points: tuple[str, ...]
    seconds: float

    def place(self, folder: Path) -> Place:
        """A fresh copy; links and modes kept, no absolute path in it."""
        shutil.copytree(self.template, folder, symlinks=True)
        return Place(folder, self.story, Project(folder / "repo", environment(folder)), self.server)


def environment(folder: Path) -> dict[str, str]:
    """As the fixture `env`, but all in one folder, so that it can be copied as a whole."""
    return {
        "HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "home" / "state"),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "80",
        "PYTHONPATH": str(Path(__file__).parent.parent),
        "TMPDIR": str(folder / "tmp"),
        "SWARM_TRACE": str(folder / "tmp" / "trace"),
    }


@contextmanager
def told_undisturbed(folder: Path, story: Story) -> Iterator[Undisturbed]:
    """Makes the template, plays the story on one copy and counts its points on another."""
    make_template(folder / "template", story)
    with Server(folder) as server:
        project = Project(folder / "whole" / "repo", environment(folder / "whole"))
        bare = Undisturbed(folder / "template", story, server, project, Tale("", (), (), (), (), ()), (), 0.0)
        whole = bare.place(folder / "whole")
        begun = time.monotonic()
        project.swarm(*whole.start, code=story.exit_code)
        seconds = time.monotonic() - begun
        tale = check_whole(whole) if story.exit_code == 0 else finish(whole)
        assert whole.trace == Counter(story.executions)
        counted = bare.place(folder / "counted").swarm(*whole.start, point=COUNT)
        assert counted.returncode == story.exit_code, counted.stderr
        yield replace(bare, tale=tale, points=points_of(counted), seconds=seconds)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with told_undisturbed(tmp_path_factory.mktemp("tale"), STRAIGHT) as told:
        yield told


@pytest.fixture(scope="session", params=sorted(STUMBLING))
def stumbling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    """The same tale with a last step that first fails, or is blocked."""
    with told_undisturbed(tmp_path_factory.mktemp("tale"), STUMBLING[request.param]) as told:
        yield told


def points_of(counted: subprocess.CompletedProcess[str]) -> tuple[str, ...]:
    return tuple(line.partition(" ")[2] for line in counted.stdout.splitlines())


def make_template(folder: Path, story: Story) -> None:
    (folder / "repo").mkdir(parents=True)
    (folder / "home").mkdir()
    (folder / "tmp").mkdir()
    (folder / "home" / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    (folder / "script.yaml").write_text(unseen(story.script), encoding="utf-8")
    project = Project(folder / "repo", environment(folder))
    project.git("init", "-q")
    project.commit(
        {
            "README.md": "# tales\n",
            ".gitignore": "setup.log\n",
            ".swarm/config.yaml": CONFIG,
            ".swarm/flows/tale.yaml": FLOW,
            ".swarm/flows/stations/teller.yaml": STATION,
        },
        "first",
    )
    project.write({"local.cfg": "KEY=1\n"})


def check_whole(place: Place) -> Tale:
    """All that guarantee 1 promises of a repository in which a run has ended; what the run told.

    Read with plain git: a process of the product would double the time of the suite.
    """
    project, run = place.project, place.run
    assert run is not None
    told = chain(project, f"refs/heads/shadow/{run}")
    steps = [item for item in told if item.kind == "step"]
    listed = {item.commit: dict(files(project, item.commit)) for item in told}
    base = f".swarm/runs/{run}/"

    assert [item.commit for item in steps][: len(place.paid)] == place.paid, "a committed step was lost"
    check_repository(project, run)
    notes = {name.replace("/", ""): about for name, about in files(project, f"refs/notes/swarm/{run}/events")}
    assert {item.commit: notes.get(item.commit) for item in told} == {
        item.commit: listed[item.commit][base + item.events] for item in told
    }
    check_worktree(project, run)
    check_executions(place)
    return Tale(
        status=told[-1].result,
        steps=tuple(item.step for item in steps),
        trees=tuple(code(listed[item.commit]) for item in steps),
        artifacts=tuple({name: listed[item.commit].get(base + name) for name in ARTIFACTS} for item in steps),
        decisions=tuple(decisions(project, run, steps)),
        letters=tuple(letters(project, [f"{item.commit}:{base}{item.events}" for item in told])),
    )


def code(listed: Mapping[str, str]) -> dict[str, str]:
    """As `Project.tree`."""
    return {name: about for name, about in listed.items() if not name.startswith(".swarm/runs/")}


def files(project: Project, revision: str) -> Iterator[tuple[str, str]]:
    """Path and `mode type id` of every file in a tree."""
    for line in project.git("ls-tree", "-r", revision).splitlines():
        about, name = line.split("\t", 1)
        yield name, about


def contents(project: Project, names: Sequence[str]) -> list[str]:
    """Texts of blobs, in the order of the names."""
    asked = "".join(f"{name}\n" for name in names)
    said = project.git("cat-file", "--batch===blob== %(objectname)", stdin=asked)
    return re.split(r"^==blob== [0-9a-f]{40}\n", said, flags=re.MULTILINE)[1:]


def decisions(project: Project, run: str, steps: Iterable[Told]) -> Iterator[tuple[str, str | None, str]]:
    """The decision that stands after each step."""
    ref = f"refs/notes/swarm/{run}/routing"
    for note in contents(project, [f"{ref}:{item.commit[:2]}/{item.commit[2:]}" for item in steps]):
        last = effective_decision(parse_note(note.strip("\n").encode()))
        assert last is not None
        yield last.decision.value, last.to_step, last.routing_source.value


def letters(project: Project, names: Sequence[str]) -> Iterator[str]:
    """What outside writers said, from these events files."""
    for content in contents(project, names):
        for event in map(json.loads, content.strip("\n").split("\n")):
            if event["kind"] == "external":
                yield event["payload"]["message"]


def check_repository(project: Project, run: str) -> None:
    fsck = subprocess.run(
        ["git", "fsck", "--full", "--strict", "--no-dangling"],
        cwd=project.root,
        env=dict(project.env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (fsck.returncode, fsck.stdout, fsck.stderr) == (0, "", "")
    assert project.git("for-each-ref", f"refs/swarm/{run}/next") == ""
    common = project.root / ".git"
    assert leftovers(common) == []
    assert [path.name for path in common.glob("swarm/journal/**/*") if path.is_file()] == []
    assert [path.name for path in common.glob("swarm/inbox/**/*") if path.is_file()] == []


def leftovers(common: Path) -> list[str]:
    """Lock files and half-written files; the files that our own kernel locks lie on are meant to stay."""
    patterns = ("*.lock", "gc.pid*", "index.swarm", "*.swarm", "*.tmp")
    found = {path.relative_to(common) for pattern in patterns for path in common.rglob(pattern) if path.is_file()}
    return sorted(str(path) for path in found if path.parts[:2] != ("swarm", "locks") or path.suffix != ".lock")


def check_worktree(project: Project, run: str) -> None:
    worktree = project.root.parent / "repo.swarm" / run
    assert project.git("status", "--porcelain", cwd=worktree) == "?? local.cfg", "the worktree is not clean"
    assert project.git("rev-parse", "--abbrev-ref", "HEAD", cwd=worktree) == f"shadow/{run}"
    copied = {name: (worktree / name).read_text(encoding="utf-8") for name in ("local.cfg", "setup.log")}
    assert copied == {"local.cfg": "KEY=1\n", "setup.log": "KEY=1\n"}


def check_executions(place: Place) -> None:
    """A paid execution never again; any other once, and once more for each kill that may have interrupted it."""
    trace = place.trace
    assert {name: trace[name] for name in place.executed} == dict(place.executed), "a paid step was executed again"
    assert set(trace) == set(place.story.executions)
    assert trace.total() <= len(place.story.executions) + place.kills


def finish(place: Place) -> Tale:
    """Takes a run on after a kill, in the way a person would."""
    done = go_on(place)
    if done.returncode == place.story.exit_code != 0:
        done = go_on(place)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return check_whole(place)


def go_on(place: Place) -> subprocess.CompletedProcess[str]:
    if place.run is not None:
        return place.swarm("resume")
    assert place.swarm("list", "--json").stdout == "[]\n"
    return place.swarm(*place.start)


def sampled(points: Sequence[str], size: int, seed: int) -> list[int]:
    """Numbers of `size` points: every kind of point once before any a second time, else at random."""
    chooser = random.Random(seed)
    shuffled = chooser.sample(range(len(points)), len(points))
    seen: Counter[str] = Counter()
    rank = {}
    for index in shuffled:
        rank[index] = seen[points[index]]
        seen[points[index]] += 1
    return [index + 1 for index in sorted(shuffled, key=rank.__getitem__)[:size]]


def each(attempts: Iterable[int], attempt: Callable[[int], None]) -> None:
    """Makes every attempt, then fails with all that went wrong."""
    wrong = []
    for number in attempts:
        try:
            attempt(number)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)


@contextmanager
def named(what: str) -> Iterator[None]:
    """Says in a failure inside the block where the kill was."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{what}\n{error}") from error


def kill_at(undisturbed: Undisturbed, point: int, folder: Path) -> None:
    """Killed at one point of `start`, then taken on."""
    name = undisturbed.points[point - 1]
    place = undisturbed.place(folder)
    assert place.killed_at(point, *place.start) == f"{point} {name}"
    with named(f"start killed at {point} {name}"):
        assert finish(place) == undisturbed.tale
    shutil.rmtree(folder)


@dataclass(frozen=True)
class KilledOnce:
    """A run that was killed, and the points of the `resume` that comes next."""

    first: str
    place: Place
    saved: Place
    points: tuple[str, ...]

    @classmethod
    def at(cls, undisturbed: Undisturbed, name: str, from_end: int, folder: Path) -> KilledOnce:
        where = [number for number, point in enumerate(undisturbed.points, start=1) if point == name]
        place = undisturbed.place(folder)
        first = place.killed_at(where[-from_end], *place.start)
        saved = place.save()
        time.sleep(1)  # within the second it would make commits that the killed process made, and write none
        counted = place.swarm("resume", point=COUNT)
        assert counted.returncode == 0, counted.stderr
        return cls(f"start killed at {first}", place, saved, points_of(counted))

    def kill_again_at(self, point: int, tale: Tale) -> None:
        name = self.points[point - 1]
        place = self.place.restored(self.saved)
        assert place.killed_at(point, "resume") == f"{point} {name}"
        with named(f"{self.first}, resume killed at {point} {name}"):
            assert finish(place) == tale


def kill_at_moment(undisturbed: Undisturbed, moment: int, folder: Path) -> None:
    """Even moments: `start` is killed; odd ones: `resume` of a run that was killed at a random point."""
    chooser = random.Random(SEED * 1000 + moment)
    place = undisturbed.place(folder)
    seconds = chooser.uniform(0, undisturbed.seconds)
    first = ""
    if moment % 2 == 1:
        first = place.killed_at(chooser.randint(1, len(undisturbed.points)), *place.start)
    place.killed_after(seconds, *(place.start if place.run is None else ("resume",)))
    with named(
        f"start killed at {first}, resume after {seconds:.3f} s" if first else f"killed after {seconds:.3f} s"
    ):
        assert finish(place) == undisturbed.tale
    shutil.rmtree(folder)


def test_the_seam_lies_around_everything_durable(undisturbed: Undisturbed) -> None:
    calls = {name.partition(" ")[2] for name in undisturbed.points}
    assert calls >= {
        "Journal",
        "Journal._write",
        "Journal.delete",
        "Objects.write_blob",
        "Objects.write_commit",
        "Objects.with_files",
        "Objects.with_subtree",
        "Refs.swap base",
        "Refs.swap branch",
        "Refs.swap events",
        "Refs.swap next",
        "Refs.swap next away",
        "Refs.swap routing",
        "Inbox.delete",
        "RunFolder.write",
        "git add",
        "Indexes.tree",
        "Indexes.align",
        "git update-index",
        "git read-tree",
        "git worktree",
    }


def test_plain_git_reads_what_log_says(undisturbed: Undisturbed) -> None:
    log = undisturbed.whole.json("log")
    tale = undisturbed.tale
    assert tuple(entry["step"] for entry in log) == tale.steps
    assert tuple(undisturbed.whole.tree(entry["commit"]) for entry in log) == tale.trees
    routing = (entry["routing"] for entry in log)
    assert tuple((one["decision"], one["to_step"], one["routing_source"]) for one in routing) == tale.decisions
    assert undisturbed.whole.json("status")["state"] == tale.status


def test_the_undisturbed_run_is_told_once(undisturbed: Undisturbed) -> None:
    assert undisturbed.tale.status == "succeeded"
    assert undisturbed.tale.steps == ("write", "critique", "write", "critique", "check", "close")
    assert undisturbed.tale.letters == ("go on",)


@pytest.mark.parametrize("number", range(SAMPLED_POINTS))
def test_a_run_killed_at_a_sampled_point_ends_as_if_nothing_had_happened(
    undisturbed: Undisturbed, tmp_path: Path, number: int
) -> None:
    kill_at(undisturbed, sampled(undisturbed.points, SAMPLED_POINTS, SEED)[number], tmp_path / "killed")


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_run_killed_at_any_point_ends_as_if_nothing_had_happened(
    undisturbed: Undisturbed, tmp_path: Path, shard: int
) -> None:
    points = range(1 + shard, 1 + len(undisturbed.points), SHARDS)
    each(points, lambda point: kill_at(undisturbed, point, tmp_path / str(point)))


def test_a_run_killed_while_a_step_fails_or_is_blocked_ends_as_if_nothing_had_happened(
    stumbling: Undisturbed, tmp_path: Path
) -> None:
    begun = len(stumbling.points) - stumbling.points[::-1].index("before Journal") - 1
    points = sampled(stumbling.points[begun:], SAMPLED_STUMBLES, SEED)
    each(points, lambda point: kill_at(stumbling, begun + point, tmp_path / str(point)))


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS // 4))
def test_a_run_killed_at_any_point_while_a_step_fails_or_is_blocked_ends_as_if_nothing_had_happened(
    stumbling: Undisturbed, tmp_path: Path, shard: int
) -> None:
    begun = len(stumbling.points) - stumbling.points[::-1].index("before Journal")
    points = range(begun + shard, 1 + len(stumbling.points), SHARDS // 4)
    each(points, lambda point: kill_at(stumbling, point, tmp_path / str(point)))


@pytest.mark.parametrize(("name", "from_end"), FIRST_KILLS)
def test_a_run_killed_twice_ends_as_if_nothing_had_happened(
    undisturbed: Undisturbed, tmp_path: Path, name: str, from_end: int
) -> None:
    once = KilledOnce.at(undisturbed, name, from_end, tmp_path / "killed")
    (point,) = sampled(once.points, 1, SEED)
    once.kill_again_at(point, undisturbed.tale)


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(8))
@pytest.mark.parametrize(("name", "from_end"), FIRST_KILLS)
def test_a_run_killed_again_at_any_point_of_resume_ends_as_if_nothing_had_happened(
    undisturbed: Undisturbed, tmp_path: Path, name: str, from_end: int, shard: int
) -> None:
    once = KilledOnce.at(undisturbed, name, from_end, tmp_path / "killed")
    each(range(1 + shard, 1 + len(once.points), 8), lambda point: once.kill_again_at(point, undisturbed.tale))


@pytest.mark.parametrize("moment", range(SAMPLED_MOMENTS))
def test_a_process_killed_at_a_sampled_moment_loses_nothing(
    undisturbed: Undisturbed, tmp_path: Path, moment: int
) -> None:
    kill_at_moment(undisturbed, moment, tmp_path / "killed")


@pytest.mark.soak
@pytest.mark.parametrize("moment", range(SAMPLED_MOMENTS, ALL_MOMENTS))
def test_a_process_killed_at_any_moment_loses_nothing(undisturbed: Undisturbed, tmp_path: Path, moment: int) -> None:
    kill_at_moment(undisturbed, moment, tmp_path / "killed")


MEDDLING = {
    "committed": "git add -A && git commit -q -m mine",
    "went back": "git reset -q --hard HEAD~1",
    "detached HEAD": "git checkout -q --detach",
    "switched branch": "git checkout -q -b feature/mine",
    "merged": "git checkout -q -b mine && git add -A && git commit -q -m mine && git checkout -q - && "
    "echo theirs > other.txt && git add -A && git commit -q -m theirs && git merge -q mine",
    "made a repository": "git init -q inner && echo inner > inner/file.txt",
    "deleted the pointer": "rm .git",
    "left locks": 'touch "$(git rev-parse --git-dir)/index.lock" "$(git rev-parse --git-dir)/HEAD.lock"',
    "broke the index": 'echo broken > "$(git rev-parse --git-dir)/index"',
}
"""What an agent may have done with git in its worktree, by itself, just before everything is killed."""


@pytest.mark.parametrize("meddling", MEDDLING)
def test_a_run_goes_on_whatever_its_agent_did_with_git_before_the_kill(
    undisturbed: Undisturbed, project: Project, meddling: str
) -> None:
    steps = "steps: [{id: first, station: teller}, {id: second, station: teller}]"
    project.commit(
        {
            ".swarm/flows/two.yaml": f"id: two\n{steps}\n",
            ".swarm/flows/stations/teller.yaml": STATION,
        },
        "the flow",
    )
    trace = project.root.parent / "trace"
    once = '[ "$SWARM_ITERATION" != 1 ] || {'
    first = [f"echo first >> '{trace}'"]
    second = [f"{once} echo work > work.txt; {MEDDLING[meddling]}; }}", f'{once} kill -9 "$PPID"; }}']
    script = project.script(unseen(json.dumps({"steps": {"first": {"run": first}, "second": {"run": second}}})))
    killed = undisturbed.server.execute(NONE, ["start", "two", "--script", script], project.root, project.env)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    resumed = undisturbed.server.execute(NONE, ["resume"], project.root, project.env)

    assert resumed.returncode == 0, resumed.stderr
    (run,) = project.json("list")
    assert (run["state"], run["steps_completed"]) == ("succeeded", 2)
    committed = [told for told in chain(project, run["tip"]) if told.kind == "step"]
    assert [(told.step, told.iteration) for told in committed] == [("first", "1"), ("second", "2")]
    assert trace.read_text(encoding="utf-8") == "first\n"
    assert project.tree(run["tip"]) == project.tree("main")
    assert project.git("status", "--porcelain", cwd=Path(run["worktree"])) == ""
    assert project.git("show", f"refs/swarm/{run['run_id']}/rollback/1:work.txt") == "work"
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""
