"""Which step broke something: git's own bisect over the commits of a run, in a worktree that is thrown away."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from gitswarm.cli.opened import step_name
from gitswarm.errors import GitFailedError, NotFoundError, SwarmError
from gitswarm.git.process import Git
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.worktrees import pointer
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord

_FOUND = re.compile(r"^# (?:possible )?first bad commit: \[([0-9a-f]{40})\]", re.MULTILINE)
_ONLY_SKIPPED = 2


class BisectVerdict(StrEnum):
    """As git calls them."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


Tester = Callable[[Path, StepRecord | None], BisectVerdict]
"""Judges the code in a folder, as it is after a step; None: before the first one."""


def bisect_run(repository: RepositoryReader, state: RunState, test: Tester) -> tuple[StepRecord, ...]:
    """The step that broke it; several, the oldest first, where those between could not be tested.

    :raises NotFoundError: the run has no step, or the command does not go from good to bad in it.
    """
    if not state.steps:
        raise NotFoundError(f"{state.layout.run_id} has no step yet", hint=f"git swarm status {state.layout.run_id}")
    good, bad = state.ground.root, state.steps[-1].commit
    after = _steps_by_commit(repository, state, good, bad)
    with _thrown_away(repository, bad) as (folder, git):
        verdicts: dict[str | None, BisectVerdict] = {}
        identity = _identity(folder)

        def judged(commit_id: str) -> BisectVerdict:
            """Commits between two steps hold the code of the first."""
            step = after[commit_id]
            key = step.commit if step is not None else None
            if key not in verdicts:
                verdicts[key] = test(folder, step)
                if _identity(folder) != identity:
                    what = f"{folder}: the command put something else in place of its folder"
                    raise SwarmError(what, hint=f"git swarm log {state.layout.run_id}")
                _clean(git)
            return verdicts[key]

        _expect(
            judged(bad),
            BisectVerdict.BAD,
            f"it does not fail after the last step ({step_name(state.steps[-1])})",
            state,
        )
        git.output("checkout", "--quiet", "--detach", good, "--")
        _expect(judged(good), BisectVerdict.GOOD, f"it does not pass before the first step, on {good[:12]}", state)
        git.output("bisect", "start", "--first-parent", bad, good, "--")
        while not (found := _FOUND.findall(git.output("bisect", "log").decode(errors="replace"))):
            head = git.output("rev-parse", "HEAD").decode().strip()
            done = git.run("bisect", judged(head).value)
            if done.returncode not in (0, _ONLY_SKIPPED):
                raise GitFailedError(f"git bisect: {done.stderr.decode(errors='replace').strip()}")
    steps = {step.commit: step for commit in found if (step := after[commit]) is not None}
    return tuple(sorted(steps.values(), key=lambda step: step.number))


def _steps_by_commit(
    repository: RepositoryReader, state: RunState, good: str, bad: str
) -> dict[str, StepRecord | None]:
    """Each commit from `good` to `bad` → the last step that its code is of."""
    records = {record.commit: record for record in state.steps}
    chain = [bad]
    while chain[-1] != good:
        chain.append(repository.objects.commit(chain[-1]).parents[0])
    found: dict[str, StepRecord | None] = {}
    last = None
    for commit_id in reversed(chain):
        found[commit_id] = last = records.get(commit_id, last)
    return found


def _expect(found: BisectVerdict, wanted: BisectVerdict, otherwise: str, state: RunState) -> None:
    if found is not wanted:
        cannot = "; the command says that it cannot be tested (exit code 125)" if found is BisectVerdict.SKIP else ""
        raise NotFoundError(f"{otherwise}{cannot}", hint=f"git swarm log {state.layout.run_id}")


@contextmanager
def _thrown_away(repository: RepositoryReader, commit_id: str) -> Iterator[tuple[Path, Git]]:
    """A worktree outside of the repository, and git in it; what bisect writes there belongs to it alone."""
    folder = Path(tempfile.mkdtemp(prefix="git-swarm-bisect-")).resolve()
    try:
        repository.git.output("worktree", "add", "--quiet", "--detach", "--", str(folder), commit_id)
        git_dir = pointer(folder)
        if git_dir is None:
            raise SwarmError(f"git made no worktree in {folder}", hint="git worktree list")
        yield folder, repository.git_in(git_dir, folder)
    finally:
        repository.git.run("worktree", "remove", "--force", "--force", "--", str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _identity(folder: Path) -> tuple[int, int, int] | None:
    """Git would clean what a link leads to."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode)


def _clean(git: Git) -> None:
    """What a test left would be seen by the next one."""
    for words in (["reset", "--quiet", "--hard"], ["clean", "-ffdxq"]):
        git.output(*words)
