"""Random sequences of what can be done to runs, against a plain model of what they must look like then.

After each rule the user's world is untouched (guarantee 2); every worktree holds exactly what the model says, so that
a rollback restored the exact tree, deleted nothing that git ignores and can be undone (guarantee 6); `log` and
`list` say the same; and no run but the one that was asked for has moved (guarantee 9).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pygit2
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests import model
from tests.conftest import GIT_CONFIG, Project
from tests.faults import Server
from tests.fingerprint import fingerprint
from tests.model import ADOPT, FLOW, Chmod, Deed, Delete, File, Files, Link, Put, Rename, Run, Step, Turn
from tests.projects import ask
from tests.unseen import unseen

PATHS = ("a", "b.txt", "c.ign", "d", "d/x", "d/y.txt", "d/z.ign")
IGNORED = ("*.ign\\n", "*.ign\\n*.txt\\n", "*.ign\\nd/\\n", "d\\n", "a\\n", "")
TARGETS = ("nowhere", "d", "a")
POINTS = 100
"""About so many points for a kill has a command that executes or takes back one step."""
MOST_RUNS = 4
GC_PID = ("repo/.git/gc.pid", "repo/.git/gc.pid.lock")
EXIT_CODES = {"failed": 4, "paused": 5}

paths = st.sampled_from(PATHS)
deeds: st.SearchStrategy[Deed] = st.one_of(
    st.builds(Put, paths, st.sampled_from("123")),
    st.builds(Put, st.just(".gitignore"), st.sampled_from(IGNORED)),
    st.builds(Delete, st.sampled_from((*PATHS, ".gitignore"))),
    st.builds(Rename, paths, paths).filter(lambda deed: not model.collide(deed.path, deed.to)),
    st.builds(Link, paths, st.sampled_from(TARGETS)),
    st.builds(Chmod, paths),
)
turns = st.builds(
    Turn,
    st.lists(deeds, max_size=5).map(tuple),
    st.sampled_from((*("ok",) * 14, "failed", "blocked")),
)
scripts = st.fixed_dictionaries({name: st.lists(turns, min_size=1, max_size=2) for name in FLOW})
choices = st.integers(0, 1000)
"""Which run, which step: taken modulo how many there are."""


def script_text(script: dict[str, list[Turn]]) -> str:
    """The script that the stub plays; YAML is a superset of JSON."""
    endings: dict[str, dict[str, str]] = {"ok": {}, "failed": {"fail": "as told"}, "blocked": {"status": "BLOCKED"}}
    steps = {
        name: [{"run": [shell(turn.deeds)] if turn.deeds else [], **endings[turn.outcome]} for turn in turns]
        for name, turns in script.items()
    }
    return unseen(json.dumps({"steps": steps}))


def shell(asked: tuple[Deed, ...]) -> str:
    return "\n".join(deed.shell for deed in asked)


def files_on_disk(root: Path) -> Files:
    """Every file of a worktree but git's and our own."""
    found: dict[str, File] = {}
    for folder, subfolders, names in os.walk(root):
        here = Path(folder)
        if here == root:
            subfolders[:] = [name for name in subfolders if name != ".swarm"]
        links = [name for name in subfolders if (here / name).is_symlink()]
        for path in (here / name for name in [*names, *links] if name != ".git"):
            found[path.relative_to(root).as_posix()] = _file(path)
    return found


def _file(path: Path) -> File:
    if path.is_symlink():
        return "link", str(path.readlink())
    return "x" if os.access(path, os.X_OK) else "-", path.read_text(encoding="utf-8")


def files_in_tree(objects: Any, tree: Any) -> Files:
    """Every file of a commit but our own."""
    # pygit2's stubs type an object by none of its kinds.
    kinds = {0o100644: "-", 0o100755: "x", 0o120000: "link"}
    found: dict[str, Any] = {}
    for entry in tree:
        if entry.filemode == 0o040000:
            if entry.name != ".swarm":
                below = files_in_tree(objects, objects[entry.id])
                found.update({f"{entry.name}/{name}": file for name, file in below.items()})
        else:
            found[entry.name] = kinds[entry.filemode], objects[entry.id].data.decode()
    return found


def make_template(folder: Path) -> None:
    (folder / "home").mkdir(parents=True)
    (folder / "home" / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    (folder / "repo").mkdir()
    project = project_in(folder)
    project.git("init", "-q")
    steps = "".join(f"  - {{id: {name}, station: code-implementer}}\n" for name in FLOW)
    project.commit(
        {".swarm/flows/walk.yaml": f"id: walk\nsteps:\n{steps}", ".gitignore": "*.ign\n", "a": "0", "d/x": "0"}
    )
    project.write({"c.ign": "the user's", "a": "changed"})


def project_in(folder: Path) -> Project:
    env = {
        "HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "home" / "state"),
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "80",
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }
    return Project(folder / "repo", env)


class Walks(RuleBasedStateMachine):
    """Runs in one repository, by id, as the model has them."""

    def __init__(self, template: Path, server: Server) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=template.parent))
        shutil.copytree(template, self.folder, symlinks=True, dirs_exist_ok=True)
        self.project = project_in(self.folder)
        self.server = server
        self.repository = pygit2.Repository(str(self.project.root))
        self.user = fingerprint(self.folder)
        self.base = files_in_tree(self.repository, self.repository.head.peel(pygit2.Commit).tree)
        self.runs: dict[str, Run] = {}
        self.trash: dict[str, Run] = {}
        self.unsure: set[str] = set()
        """Runs that were killed and not touched since: what is published of them is not known."""
        self.tips: dict[str, str] = {}
        self.touched: str | None = None

    def teardown(self) -> None:
        fsck = ("fsck", "--full", "--strict", "--no-dangling")
        if self.runs or self.trash:
            assert self.project.git(*fsck) == ""
        shutil.rmtree(self.folder)

    # The product and the disk

    def swarm(self, *arguments: str, code: int = 0) -> str:
        said = ask(self.project, *arguments)
        assert said.code == code, f"{arguments}: exit code {said.code}\n{said.stdout}{said.stderr}"
        return said.stdout

    def worktree(self, run: str) -> Path:
        return self.folder / "repo.swarm" / run

    def disk(self, run: str) -> Files | None:
        root = self.worktree(run)
        return files_on_disk(root) if root.exists() else None

    def settle(self, run: str, possible: list[Run]) -> None:
        """One of the possible runs must be the real one."""
        disk = self.disk(run)
        found = [candidate for candidate in possible if candidate.disk == disk]
        assert found, f"{run} holds\n{disk}\nand not\n" + "\n".join(str(other.disk) for other in possible)
        self.runs[run] = found[0]
        self.unsure.discard(run)
        self.touched = run

    def pick(self, choice: int, want: Callable[[Run], object] = lambda _run: True) -> tuple[str, Run] | None:
        """One of the runs that are as wanted, if there is one."""
        fitting = [(name, run) for name, run in self.runs.items() if want(run)]
        return fitting[choice % len(fitting)] if fitting else None

    def pick_sure(self, choice: int, want: Callable[[Run], object] = lambda _run: True) -> tuple[str, Run] | None:
        fitting = [(name, run) for name, run in self.runs.items() if name not in self.unsure and want(run)]
        return fitting[choice % len(fitting)] if fitting else None

    def edit_in(self, name: str, asked: tuple[Deed, ...]) -> None:
        subprocess.run(["sh", "-c", shell(asked)], cwd=self.worktree(name), check=False)

    def new_run(self) -> str:
        (name,) = set(self.branches()) - set(self.runs)
        return name

    def branches(self) -> dict[str, str]:
        """Run → tip."""
        prefix = "refs/heads/shadow/"
        references = self.repository.references.iterator()
        return {r.name.removeprefix(prefix): str(r.target) for r in references if r.name.startswith(prefix)}

    # What people do

    @initialize(script=scripts, far=choices)
    def start_the_first(self, script: dict[str, list[Turn]], far: int) -> None:
        self.start_one(script, far)

    @precondition(lambda self: len(self.runs) + len(self.trash) < MOST_RUNS)
    @rule(script=scripts, far=choices)
    def start(self, script: dict[str, list[Turn]], far: int) -> None:
        self.start_one(script, far)

    def start_one(self, script: dict[str, list[Turn]], far: int) -> None:
        path = self.folder.with_suffix(".yaml")
        path.write_text(script_text(script), encoding="utf-8")
        goal = goal_behind(FLOW[0], far)
        after = model.advanced(Run(script, self.base, disk=self.base), goal)
        self.swarm("start", "walk", "--script", str(path), *until(goal), code=EXIT_CODES.get(str(after.end), 0))
        self.settle(self.new_run(), [after])

    @precondition(lambda self: self.runs)
    @rule(choice=choices, far=choices)
    def resume(self, choice: int, far: int) -> None:
        picked = self.pick(choice)
        assert picked is not None
        name, run = picked
        goal = goal_behind(run.pending, far)
        possible = model.resumed(run, goal)
        self.swarm("resume", name, *until(goal), code=EXIT_CODES.get(str(possible[0].end), 0))
        self.settle(name, possible)

    @precondition(lambda self: self.runs)
    @rule(choice=choices, asked=st.lists(deeds, min_size=1, max_size=4).map(tuple))
    def edit(self, choice: int, asked: tuple[Deed, ...]) -> None:
        picked = self.pick_sure(choice, lambda run: run.disk is not None)
        if picked is None:
            return
        name, run = picked
        assert run.disk is not None
        self.edit_in(name, asked)
        self.runs[name] = replace(run, disk=model.done(asked, run.disk))

    @precondition(lambda self: self.runs)
    @rule(choice=choices, far=choices, asked=st.lists(deeds, max_size=3).map(tuple))
    def adopt(self, choice: int, far: int, asked: tuple[Deed, ...]) -> None:
        picked = self.pick_sure(choice, lambda run: run.end != "succeeded")
        if picked is None:
            return
        name, run = picked
        disk = run.code if run.disk is None else run.disk
        if run.disk is not None:
            self.edit_in(name, asked)
            disk = model.done(asked, disk)
        run = replace(run, disk=disk)
        if not run.is_dirty or run.cut_off is not None:
            self.swarm("resume", name, "--adopt", code=1)
            self.settle(name, [run])
            return
        goal = goal_behind(run.pending, far)
        after = model.adopted(run, goal)
        self.swarm("resume", name, "--adopt", *until(goal), code=EXIT_CODES.get(str(after.end), 0))
        self.settle(name, [after])

    @precondition(lambda self: self.runs)
    @rule(choice=choices, far=choices)
    def skip(self, choice: int, far: int) -> None:
        picked = self.pick(choice, lambda run: run.pending and run.end != "succeeded")
        if picked is None:
            return
        name, run = picked
        assert run.pending is not None
        following = FLOW[FLOW.index(run.pending) + 1 :]
        goal = goal_behind(following[0] if following else None, far)
        possible = model.skipped(run, goal)
        self.swarm("skip", run.pending, "--run", name, *until(goal), code=EXIT_CODES.get(str(possible[0].end), 0))
        self.settle(name, possible)

    @precondition(lambda self: self.runs)
    @rule(choice=choices)
    def skip_another(self, choice: int) -> None:
        """Refused: only the pending step can be skipped."""
        picked = self.pick_sure(choice, lambda run: run.pending and run.end != "succeeded")
        if picked is None:
            return
        name, run = picked
        others = [step for step in FLOW if step != run.pending]
        self.swarm("skip", others[choice % len(others)], "--run", name, code=1)
        self.settle(name, [run])

    @precondition(lambda self: self.runs)
    @rule(choice=choices, number=choices)
    def rollback(self, choice: int, number: int) -> None:
        picked = self.pick(choice)
        assert picked is not None
        self.rollback_of(*picked, number)

    def rollback_of(self, name: str, run: Run, number: int) -> None:
        target = number % (len(run.steps) + 1)
        if 0 < target < run.shared:
            self.swarm("rollback", str(target), "--run", name, code=1)
            return
        self.swarm("rollback", str(target), "--run", name)
        self.settle(name, model.rolled_back(run, target))

    @precondition(lambda self: self.runs)
    @rule(choice=choices)
    def undo_rollback(self, choice: int) -> None:
        picked = self.pick(choice, lambda run: run.before)
        if picked is None:
            some = self.pick(choice)
            assert some is not None
            self.rollback_of(*some, choice)
            picked = self.pick(choice, lambda run: run.before)
        if picked is None:
            return
        name, run = picked
        self.swarm("rollback", "--undo", "--run", name)
        self.settle(name, model.unrolled(run))

    @precondition(lambda self: len(self.runs) + len(self.trash) < MOST_RUNS)
    @rule(choice=choices, number=choices, far=choices)
    def fork(self, choice: int, number: int, far: int) -> None:
        picked = self.pick_sure(choice, lambda run: run.steps)
        if picked is None:
            return
        name, run = picked
        fitting = [n for n, step in enumerate(run.steps, 1) if step.outcome != "failed"]
        if not fitting:
            self.swarm("fork", "1", "--run", name, code=1)
            return
        at = fitting[number % len(fitting)]
        goal = goal_behind(replace(run, steps=run.steps[:at]).pending, far)
        after = model.forked(run, at, goal)
        self.swarm("fork", str(at), "--run", name, *until(goal), code=EXIT_CODES.get(str(after.end), 0))
        self.settle(self.new_run(), [after])

    @precondition(lambda self: self.runs)
    @rule(choice=choices, command=st.sampled_from((("stop", "stopped"), ("pause", "paused"))))
    def stop_or_pause(self, choice: int, command: tuple[str, str]) -> None:
        picked = self.pick(choice, lambda run: run.end is None) or self.pick(choice)
        assert picked is not None
        name, run = picked
        self.swarm(command[0], name)
        self.settle(name, [model.ended(tidy, command[1]) for tidy in model.tidied(run)] if run.end is None else [run])

    @precondition(lambda self: len(self.runs) > 1)
    @rule(choice=choices)
    def discard(self, choice: int) -> None:
        picked = self.pick(choice)
        assert picked is not None
        name, _run = picked
        self.swarm("discard", name, "--force")
        self.trash[name] = self.runs.pop(name)
        self.unsure.discard(name)
        assert not self.worktree(name).exists()

    @precondition(lambda self: self.trash)
    @rule(choice=choices)
    def restore(self, choice: int) -> None:
        name = list(self.trash)[choice % len(self.trash)]  # ids are random: their order is no choice
        self.swarm("discard", "--restore", name)
        run = self.trash.pop(name)
        self.settle(name, [replace(run, indexes=(), cut_off=None)])

    @precondition(lambda self: self.runs)
    @rule(choice=choices)
    def lose_worktree(self, choice: int) -> None:
        picked = self.pick_sure(choice, lambda run: run.disk is not None and run.is_dirty)
        if picked is None:
            return
        name, run = picked
        shutil.rmtree(self.worktree(name))
        self.runs[name] = replace(run, disk=None)

    @precondition(lambda self: self.runs)
    @rule(choice=choices, point=st.integers(1, POINTS))
    def kill(self, choice: int, point: int) -> None:
        """Dies at a point of executing a step; what it had paid for by then is read with plain git."""
        picked = self.pick_sure(choice, lambda run: run.pending and not (run.is_stuck and run.end is None))
        if picked is None:
            return
        name, run = picked
        possible = model.resumed(run, run.pending)
        arguments = ["resume", name, *until(run.pending)]
        ended = self.server.execute(point, arguments, self.project.root, self.project.env)
        if ended.returncode != -signal.SIGKILL:
            assert ended.returncode == EXIT_CODES.get(str(possible[0].end), 0), ended.stderr
            self.settle(name, possible)
            return
        self.killed(name, self.after_kill(name, run, possible[0]))

    @precondition(lambda self: self.runs)
    @rule(choice=choices, number=choices, point=st.integers(1, POINTS))
    def kill_rollback(self, choice: int, number: int, point: int) -> None:
        picked = self.pick_sure(choice, lambda run: run.disk is not None)
        if picked is None:
            return
        name, run = picked
        target = number % (len(run.steps) + 1)
        if 0 < target < run.shared:
            return
        self.killed_taking_back(name, model.rolled_back(run, target), point, str(target))

    @precondition(lambda self: self.runs)
    @rule(choice=choices, point=st.integers(1, POINTS))
    def kill_undo(self, choice: int, point: int) -> None:
        picked = self.pick_sure(choice, lambda run: run.before and run.disk is not None)
        if picked is None:
            return
        name, run = picked
        self.killed_taking_back(name, model.unrolled(run), point, "--undo")

    def killed_taking_back(self, name: str, possible: list[Run], point: int, what: str) -> None:
        """Dies at a point of a rollback or its undo. What was kept and whether the branch moved is read from refs."""
        run, back = self.runs[name], possible[0]
        tip, marks = self.branches()[name], self.marks(name)
        ended = self.server.execute(point, ("rollback", what, "--run", name), self.project.root, self.project.env)
        if ended.returncode != -signal.SIGKILL:
            assert ended.returncode == 0, ended.stderr
            self.settle(name, possible)
            return
        after = back if self.branches()[name] != tip else run
        before = back.before if self.marks(name) > marks else run.before
        after = replace(after, before=before, disk=self.disk(name), indexes=(run.code, back.code))
        self.killed(name, replace(after, cut_off=None if self.journals(name) == [] else run.cut_off))

    def marks(self, name: str) -> int:
        """How many rollbacks and undos are noted."""
        listed = self.project.git("for-each-ref", "--format=%(contents)", f"refs/swarm/{name}/rollback/")
        return listed.count("Swarm-Target: ") + listed.count("Swarm-Undoes: ")

    def journals(self, name: str) -> list[Path]:
        return list((self.project.root / ".git/swarm/journal" / name).glob("*.jsonl"))

    def killed(self, name: str, run: Run) -> None:
        self.runs[name] = run
        self.unsure.add(name)
        self.touched = name

    def after_kill(self, name: str, run: Run, paid: Run) -> Run:
        disk = self.disk(name)
        tip = self.paid_tip(name)
        if self.steps_behind(tip) == len(paid.steps):
            is_ended = "Swarm-Kind: end" in self.repository[tip].peel(pygit2.Commit).message
            after = replace(paid, disk=disk, end=paid.end if is_ended else None)
        else:
            cut_off = (str(run.pending), model.next_iteration(run)) if self.journals(name) else None
            after = replace(run, disk=disk, cut_off=cut_off)
        index = model.staged(disk, run.code) if disk is not None else run.code
        return replace(after, indexes=(run.code, index))

    def paid_tip(self, name: str) -> str:
        """The tip, or the finished commit that waits to become it."""
        tip = self.branches()[name]
        waiting = self.repository.references.get(f"refs/swarm/{name}/next")
        if waiting is None:
            return tip
        commit = waiting.peel(pygit2.Commit)
        return str(commit.id) if str(commit.parent_ids[0]) == tip else tip

    def steps_behind(self, tip: str) -> int:
        walker = self.repository.walk(tip)
        return sum("Swarm-Kind: step" in commit.message for commit in walker)

    # What must be true then

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        self.check_user()
        self.check_worktrees()
        self.check_tips()
        self.check_reading()

    def check_user(self) -> None:
        now = fingerprint(self.folder)
        # A killed owner cannot take its hold on gc away; git, and the next owner, see that it is dead.
        assert {name: about for name, about in now.entries.items() if name not in GC_PID} == self.user.entries
        assert self.user.objects <= now.objects

    def check_worktrees(self) -> None:
        assert {name: self.disk(name) for name in self.runs} == {name: run.disk for name, run in self.runs.items()}

    def check_tips(self) -> None:
        tips = self.branches()
        assert set(tips) == set(self.runs)
        others = {name: tip for name, tip in self.tips.items() if name != self.touched and name in tips}
        assert {name: tips[name] for name in others} == others
        self.tips = tips

    def check_reading(self) -> None:
        name, self.touched = self.touched, None
        if name is None or name in self.unsure:
            return
        run = self.runs[name]
        log = json.loads(self.swarm("log", name, "--json"))
        told = [(entry["step"], entry["iteration"], entry["result"], entry["status"]) for entry in log]
        assert told == [(step.name, step.iteration, *outcome_told(step)) for step in run.steps]
        for entry, step in zip(log, run.steps, strict=True):
            assert files_in_tree(self.repository, self.repository[entry["commit"]].peel(pygit2.Tree)) == step.code
        states = {entry["run_id"]: entry["state"] for entry in json.loads(self.swarm("list", "--json"))}
        expected = {other: run.end or "interrupted" for other, run in self.runs.items() if other not in self.unsure}
        assert {other: states[other] for other in expected} == expected


def outcome_told(step: Step) -> tuple[str, str]:
    """Result and status of a step in the log."""
    if step.name == ADOPT or step.outcome == "skipped":
        return "skipped" if step.outcome == "skipped" else "succeeded", "UNVERIFIED"
    return {
        "ok": ("succeeded", "VERIFIED"),
        "failed": ("failed", "UNVERIFIED"),
        "blocked": ("succeeded", "BLOCKED"),
    }[step.outcome]


def goal_behind(first: str | None, far: int) -> str | None:
    """A step from `first` on."""
    behind = FLOW[FLOW.index(first) :] if first else ()
    return behind[far % len(behind)] if behind else None


def until(step: str | None) -> tuple[str, ...]:
    return ("--until", step) if step else ()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def template(tmp_path: Path) -> Path:
    make_template(tmp_path / "template")
    return tmp_path / "template"


def walk(template: Path, server: Server, *, examples: int, steps: int, **more: Any) -> None:
    asked = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        **more,
    )
    machine: Any = partial(Walks, template, server)
    run_state_machine_as_test(machine, settings=asked)


def test_whatever_is_done_to_runs_they_are_as_the_model_says(template: Path, server: Server) -> None:
    walk(template, server, examples=4, steps=25, derandomize=True)


@pytest.mark.soak
def test_whatever_is_done_to_runs_for_long_they_are_as_the_model_says(template: Path, server: Server) -> None:
    walk(template, server, examples=100, steps=50)
