"""`diff`: the code that a run or a step changed, and how the code of two differs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import err
from gitswarm.cli.opened import RunOption, reader_here
from gitswarm.errors import NotFoundError, SwarmError, UsageError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import find_run, find_step
from gitswarm.ledger.state import replay
from gitswarm.records.execution import RUNS_FOLDER


def diff(
    what: Annotated[
        list[str] | None,
        Argument(
            metavar="RUN|STEP",
            help="A run, or a step of the current run (its newest iteration; STEP@1: the first); two: the code of "
            "one against the other's.",
        ),
    ] = None,
    run: RunOption = None,
    evidence: Annotated[bool, Option("--evidence", help="The run's evidence files too.")] = False,
    stat: Annotated[bool, Option("--stat", help="Only how much changed in which file.")] = False,
    ext_diff: Annotated[
        bool, Option("--ext-diff", help="By the diff programs of the repository's own configuration too.")
    ] = False,
) -> None:
    """What a run or a step changed, or how two differ, by git.

    An agent may have configured a program in the repository: only those of the user's own configuration are run.
    """
    repository = reader_here()
    old, new = _ends(repository, what or [], run)
    plain = not ext_diff and _names_programs(repository)
    options = [*(["--stat"] if stat else []), *(["--no-ext-diff", "--no-textconv"] if plain else [])]
    arguments = ["diff", *options, old, new]
    if not evidence:
        arguments += ["--", f":(top,exclude){RUNS_FOLDER}"]
    git = repository.checkout_git if repository.checkout else repository.git
    sys.stdout.flush()
    pager = ["--paginate"] if sys.stdout.isatty() else ["--no-pager"]
    colour = ["-c", "color.ui=auto"]
    argv = git.argv()
    done = subprocess.run(
        [*argv, *colour, *pager, *arguments], env=dict(git.env), cwd=repository.checkout, check=False
    )
    if done.returncode != 0:
        raise SwarmError(f"git diff ended with {done.returncode}", hint=f"git diff {old[:12]} {new[:12]}")


def _names_programs(repository: RepositoryReader) -> bool:
    """Whether the repository itself, and not the user, configures programs that show differences."""
    arguments = ("config", "--show-scope", "-z", "--get-regexp", r"^diff\.(external|.*\.(command|textconv))$")
    scopes = repository.git_in(repository.checkout_git_dir, None).run(*arguments).stdout.split(b"\0")[::2]
    return bool({b"local", b"worktree"} & set(scopes))


def _ends(repository: RepositoryReader, words: Sequence[str], run: str | None) -> tuple[str, str]:
    """The two commits to compare.

    :raises UsageError: more than two are named.
    """
    if len(words) > 2:
        raise UsageError("give two at most", hint=f"git swarm diff {words[0]} {words[1]}")
    if not words:
        state = replay(repository, find_run(repository, run))
        return state.base, state.tip
    found = [_meant(repository, word, run) for word in words]
    if len(found) == 1:
        return found[0].before, found[0].after
    if found[0].after == found[1].after:
        err(f"both are {found[0].name}: there is no difference")
    if len({each.base for each in found}) > 1:
        err("their bases differ: what was changed between those is shown too")
    return found[0].after, found[1].after


class _Change(Struct, frozen=True):
    """Of a run or a step. `base`: the run's."""

    name: str
    before: str
    after: str
    base: str


def _meant(repository: RepositoryReader, word: str, run: str | None) -> _Change:
    """A step name wins over a run's, as everywhere."""
    try:
        state = replay(repository, find_run(repository, run))
        record = find_step(repository, state, word)
    except NotFoundError:
        if run is not None:
            raise
        state = replay(repository, find_run(repository, word))
        return _Change(state.layout.run_id, state.base, state.tip, state.base)
    return _Change(f"{record.step}@{record.execution.iteration}", record.parent, record.commit, state.base)
