"""`diff`: the code that a run or a step changed."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.opened import RunOption, reader_here
from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import find_run, find_step
from gitswarm.ledger.state import replay
from gitswarm.records.execution import RUNS_FOLDER


def diff(
    what: Annotated[str | None, Argument(metavar="RUN|STEP", help="A run, or a step of the current run.")] = None,
    run: RunOption = None,
    evidence: Annotated[bool, Option("--evidence", help="The run's evidence files too.")] = False,
    stat: Annotated[bool, Option("--stat", help="Only how much changed in which file.")] = False,
    ext_diff: Annotated[
        bool, Option("--ext-diff", help="By the diff programs of the repository's own configuration too.")
    ] = False,
) -> None:
    """What a run, or one step of it, changed in the code; git shows it.

    An agent may have configured a program in the repository: only those of the user's own configuration are run.
    """
    repository = reader_here()
    old, new = _diff_ends(repository, what, run)
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


def _diff_ends(repository: RepositoryReader, what: str | None, run: str | None) -> tuple[str, str]:
    """The two commits to compare. A step name wins over a run's, as everywhere."""
    layout = find_run(repository, run) if run or what is None else None
    if layout is not None and what is None:
        state = replay(repository, layout)
        return state.base, state.tip
    try:
        state = replay(repository, layout or find_run(repository, None))
        record = find_step(repository, state, what)
    except NotFoundError:
        if layout is not None:
            raise
        state = replay(repository, find_run(repository, what))
        return state.base, state.tip
    return record.parent, record.commit
