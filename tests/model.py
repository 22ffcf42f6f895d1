"""What runs must look like, in plain Python: no git, no files. `tests/test_model.py` compares it with the real thing.

The worktree of a run is a dictionary without folders, because git has none: path → (kind, content).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

File = tuple[Literal["-", "x", "link"], str]
"""An ordinary file, an executable one, or a link with its target."""
Files = Mapping[str, File]

FLOW = ("s1", "s2", "s3", "s4", "s5")
ADOPT = "adopt"


@dataclass(frozen=True)
class Put:
    """Writes a file; whatever stands in its way goes."""

    path: str
    content: str

    @property
    def shell(self) -> str:
        return f"{_make_way(self.path)}; printf '{self.content}' > {self.path}"

    def on(self, files: Files) -> Files:
        return {**_without(files, self.path), self.path: ("-", self.content.replace("\\n", "\n"))}


@dataclass(frozen=True)
class Link:
    """Makes a link, dangling or to a folder; whatever stands in its way goes."""

    path: str
    target: str

    @property
    def shell(self) -> str:
        return f"{_make_way(self.path)}; ln -s {self.target} {self.path}"

    def on(self, files: Files) -> Files:
        return {**_without(files, self.path), self.path: ("link", self.target)}


@dataclass(frozen=True)
class Delete:
    """Deletes a file or a folder, if it is there."""

    path: str

    @property
    def shell(self) -> str:
        return f"{_reached(self.path)} && rm -rf {self.path}"

    def on(self, files: Files) -> Files:
        return {name: file for name, file in files.items() if not _inside(name, self.path)}


@dataclass(frozen=True)
class Chmod:
    """Makes an ordinary file executable, if it is there."""

    path: str

    @property
    def shell(self) -> str:
        return f"{_reached(self.path)} && [ -f {self.path} ] && [ ! -L {self.path} ] && chmod +x {self.path}"

    def on(self, files: Files) -> Files:
        kind, content = files.get(self.path, ("link", ""))
        return files if kind == "link" else {**files, self.path: ("x", content)}


@dataclass(frozen=True)
class Rename:
    """Moves a file or a folder over whatever is there, if it is there itself."""

    path: str
    to: str

    @property
    def shell(self) -> str:
        empty = f"find {self.path} -type d -empty -delete 2> /dev/null"
        there = f"{{ [ -e {self.path} ] || [ -L {self.path} ]; }}"
        move = f"{{ {_make_way(self.to)}; mv {self.path} {self.to}; }}"
        return f"{_reached(self.path)} && {{ {empty}; {there}; }} && {move}"

    def on(self, files: Files) -> Files:
        moved = {name: file for name, file in files.items() if _inside(name, self.path)}
        if not moved:
            return files
        left = {name: file for name, file in files.items() if name not in moved}
        return _without(left, self.to) | {self.to + name.removeprefix(self.path): f for name, f in moved.items()}


Deed = Put | Link | Delete | Chmod | Rename


def _make_way(path: str) -> str:
    folder, slash, _name = path.rpartition("/")
    parent = (
        f"{{ [ -d {folder} ] && [ ! -L {folder} ]; }} || {{ rm -f {folder}; mkdir {folder}; }}; " if slash else ""
    )
    return f"{parent}rm -rf {path}"


def _reached(path: str) -> str:
    """A path below a link is somewhere else."""
    folder, slash, _name = path.rpartition("/")
    return f"[ ! -L {folder} ]" if slash else "true"


def _inside(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")


def _without(files: Files, path: str) -> dict[str, File]:
    """Without everything that cannot be there beside a file at `path`."""
    return {name: file for name, file in files.items() if not _inside(name, path) and not _inside(path, name)}


def done(deeds: Iterable[Deed], files: Files) -> Files:
    for deed in deeds:
        files = deed.on(files)
    return files


def ignores(files: Files, path: str) -> bool:
    """By the `.gitignore` of these files; patterns are names, `*.ending`, or `name/` for folders only."""
    lines = files.get(".gitignore", ("-", ""))[1].split("\n")
    parts = path.split("/")
    return any(_matches(line, part, is_folder=n < len(parts)) for n, part in enumerate(parts, 1) for line in lines)


def _matches(pattern: str, name: str, *, is_folder: bool) -> bool:
    if pattern.endswith("/"):
        return is_folder and name == pattern[:-1]
    return name.endswith(pattern[1:]) if pattern.startswith("*") else name == pattern


def staged(files: Files, tracked: Files) -> Files:
    """What a commit takes: everything that is tracked or not ignored."""
    return {name: file for name, file in files.items() if name in tracked or not ignores(files, name)}


def in_the_way(files: Files, tracked: Files, target: Files) -> Files:
    """Ignored files that cannot stay beside `target`."""
    hidden = {name: file for name, file in files.items() if name not in tracked and ignores(files, name)}
    return {name: file for name, file in hidden.items() if any(collide(name, other) for other in target)}


def collide(one: str, other: str) -> bool:
    return _inside(one, other) or _inside(other, one)


def kept(files: Files, tracked: Files, target: Files) -> Files:
    """What has to be set aside before the files become `target`: all that is not ignored, or in the way."""
    return {**staged(files, tracked), **in_the_way(files, tracked, target)}


def restored(files: Files, tracked: Files, target: Files) -> Files:
    """`target`, and beside it what is ignored, before or after."""
    untracked = {name: file for name, file in files.items() if name not in tracked}
    beside = {name: f for name, f in untracked.items() if not any(collide(name, other) for other in target)}
    after = {**beside, **target}
    return {n: f for n, f in after.items() if n in target or ignores(files, n) or ignores(after, n)}


@dataclass(frozen=True)
class Turn:
    """What one execution of a step does, and how it ends."""

    deeds: tuple[Deed, ...]
    outcome: Literal["ok", "failed", "blocked"] = "ok"


@dataclass(frozen=True)
class Step:
    """A committed step. `outcome`: that of its turn, or `skipped`."""

    name: str
    iteration: int
    outcome: str
    code: Files


@dataclass(frozen=True)
class Before:
    """A run as it was before a rollback. `kept`: what was set aside; several if git may see it differently."""

    steps: tuple[Step, ...]
    end: str | None
    kept: tuple[Files, ...]


@dataclass(frozen=True)
class Run:
    """One run. `disk`: all files of its worktree, None when there is none.

    `end`: the state that it ended in, None while it did not. `shared`: how many steps are those of the run
    that it was forked from. `indexes`: what git's index may hold, when that is not
    the tip. `interrupted`: highest iteration per step of executions that were set aside. `cut_off`: an execution that
    was killed and is not set aside yet.
    """

    script: Mapping[str, Sequence[Turn]]
    base: Files
    steps: tuple[Step, ...] = ()
    disk: Files | None = None
    end: str | None = None
    before: tuple[Before, ...] = ()
    shared: int = 0
    indexes: tuple[Files, ...] = ()
    interrupted: Mapping[str, int] = field(default_factory=dict)
    cut_off: tuple[str, int] | None = None

    @property
    def code(self) -> Files:
        """Of the tip."""
        return self.steps[-1].code if self.steps else self.base

    @property
    def is_stuck(self) -> bool:
        """Whether the last step lets the run end without success."""
        return bool(self.steps) and self.steps[-1].outcome in ("failed", "blocked")

    @property
    def pending(self) -> str | None:
        """The step that is next; one that failed or was blocked comes again."""
        past = sum(step.outcome in ("ok", "skipped") for step in self.steps if step.name != ADOPT)
        return FLOW[past] if past < len(FLOW) else None

    @property
    def is_dirty(self) -> bool:
        return self.disk is not None and staged(self.disk, self.code) != self.code

    def iteration(self, name: str) -> int:
        return max((step.iteration for step in self.steps if step.name == name), default=0) + 1


def tidied(run: Run) -> list[Run]:
    """The worktree as the tip says, in every way that is possible; what was cut off is set aside."""
    interrupted = dict(run.interrupted)
    if run.cut_off is not None:
        name, iteration = run.cut_off
        interrupted[name] = max(iteration, interrupted.get(name, 0))
    clean = replace(run, indexes=(), interrupted=interrupted, cut_off=None)
    if run.disk is None:
        return [replace(clean, disk=run.code)]
    found = []
    for index in run.indexes or (run.code,):
        is_dirty = staged(run.disk, index) != run.code or run.cut_off is not None
        found.append(replace(clean, disk=restored(run.disk, index, run.code)) if is_dirty else clean)
    return found


def next_iteration(run: Run) -> int:
    """Of the pending step; an execution that was cut off has had its number."""
    name = run.pending
    assert name is not None
    return max(run.iteration(name), run.interrupted.get(name, 0) + 1)


def executed(run: Run) -> Run:
    """The pending step, on a tidy worktree; the run ends behind it."""
    name = run.pending
    assert name is not None
    assert run.disk is not None
    turns = run.script[name]
    turn = turns[min(sum(step.name == name for step in run.steps), len(turns) - 1)]
    disk = done(turn.deeds, run.disk)
    code = staged(disk, run.code)
    iteration = next_iteration(run)
    if turn.outcome == "failed":
        disk, code = restored(disk, code, run.code), run.code
    after = replace(run, steps=(*run.steps, Step(name, iteration, turn.outcome, code)), disk=disk, end=None)
    return ended(after, "stopped")


def advanced(run: Run, until: str | None) -> Run:
    """The pending step and those behind it up to `until`, or to one that does not succeed."""
    after = executed(run)
    while after.end == "stopped" and after.steps[-1].name != until:
        after = executed(after)
    return after


def ended(run: Run, end: str) -> Run:
    """Ended at this boundary, as a person requested, or because there is nothing left to execute."""
    if run.is_stuck:
        return replace(run, end={"failed": "failed", "blocked": "paused"}[run.steps[-1].outcome])
    return replace(run, end=end if run.pending else "succeeded")


def resumed(run: Run, until: str | None) -> list[Run]:
    if run.end == "succeeded":
        return [replace(run, indexes=(), cut_off=None)]
    nothing = run.pending is None or (run.is_stuck and run.end is None)
    return [ended(tidy, "") if nothing else advanced(tidy, until) for tidy in tidied(run)]


def adopted(run: Run, until: str | None) -> Run:
    """The edits as a step of its own, and on from there."""
    assert run.disk is not None
    step = Step(ADOPT, run.iteration(ADOPT), "ok", staged(run.disk, run.code))
    after = replace(run, steps=(*run.steps, step), end=None)
    return advanced(after, until) if after.pending else ended(after, "")


def skipped(run: Run, until: str | None) -> list[Run]:
    """The pending step skipped, and on from there."""
    assert run.pending is not None
    step = Step(run.pending, run.iteration(run.pending), "skipped", run.code)
    after = [replace(tidy, steps=(*run.steps, step), end=None) for tidy in tidied(run)]
    return [advanced(tidy, until) if tidy.pending else ended(tidy, "") for tidy in after]


def rolled_back(run: Run, number: int) -> list[Run]:
    """Back to the `number`-th step; 0: before the first of its own. One that would undo nothing does nothing."""
    if run.end == "succeeded" and number == len(run.steps) and not run.is_dirty:
        return [replace(run, disk=run.code if run.disk is None else run.disk)]
    target = replace(run, steps=run.steps[: max(number, run.shared)])
    disk = run.code if run.disk is None else run.disk
    indexes = run.indexes or (run.code,)
    before = Before(run.steps, run.end, tuple(kept(disk, index, target.code) for index in indexes))
    back = replace(target, end=None, before=(*run.before, before), indexes=(), cut_off=None)
    return [replace(back, disk=restored(disk, index, target.code)) for index in indexes]


def unrolled(run: Run) -> list[Run]:
    """The last rollback taken back, with the uncommitted work of then."""
    *earlier, last = run.before
    disk = run.code if run.disk is None else run.disk
    back = replace(run, steps=last.steps, end=last.end, before=tuple(earlier), indexes=(), cut_off=None)
    return [
        replace(back, disk=restored(disk, index, then)) for index in run.indexes or (run.code,) for then in last.kept
    ]


def forked(run: Run, number: int, until: str | None) -> Run:
    """A new run with the first steps of this one, and on from there."""
    fork = Run(run.script, run.base, run.steps[:number], shared=number)
    return resumed(fork, until)[0]
