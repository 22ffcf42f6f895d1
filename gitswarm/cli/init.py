"""`init`: what stands between a run and the outside, put in place and taken away again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import out, out_lines, plural, told
from gitswarm.cli.here import repository_here
from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.runner.initialise import Initialised, Wishes, initialise, undo_init
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.safety.guard import Change, FileState, is_guard
from gitswarm.settings import CONFIG_FILE, load_config

CONFIG_TEXT = """\
# Team settings of git-swarm: commit this file.
# All keys: git swarm config
# git swarm config --team KEY VALUE writes it.
# git swarm config KEY VALUE is for you alone.

# commands: {test: "make test"}  # null: detected
# worktree: {copy: [.env], setup: "npm ci"}
# policy: {deny: [], protected_paths: []}
# hub: null  # or the remote for unfinished runs
# deploy: {strategy: squash}  # or merge, or evidence
"""


def init(
    undo: Annotated[bool, Option("--undo", help="Remove everything that it added.")] = False,
) -> None:
    """Install the push guard: a run's commits cannot be pushed before it has landed.

    Prints every line that it adds.
    """
    repository = repository_here()
    refuse_agent(os.environ, "init", repository.common_dir)
    if undo:
        _undo(repository)
        return
    done = initialise(repository, _wishes(repository))
    for change in done.changes:
        _tell(repository, change)
    if done.dispatching:
        folder = _name(repository, done.dispatching[-1].path.parent)
        more = f"the push guard, and {plural(len(done.dispatching) - 1, 'file')} that call your own hooks"
        out_lines(told(f"+ {folder}  ", more, sys.stdout))
    _tell_worktrees(repository, done)
    if not done.changes and not done.dispatching:
        out("nothing to add: everything is in place")
    out("undo       git swarm init --undo")
    out("in git log git log --notes='swarm/*/routing' shadow/RUN")


def _wishes(repository: Repository) -> Wishes:
    """A run's own worktree gets no file: it would become part of the next step."""
    checkout = repository.checkout
    if checkout is None or (repository.checkout_git_dir / "swarm-branch").exists():
        return Wishes()
    path = checkout / CONFIG_FILE
    if not path.is_file():
        return Wishes(config=(path, CONFIG_TEXT))
    return Wishes(hub=load_config(path.read_text(encoding="utf-8", errors="replace"), {}).hub)


def _tell(repository: Repository, change: Change) -> None:
    name = _name(repository, change.path)
    for entry in change.removed:
        out(f"- {name}  {entry.key} = {entry.value}")
    for entry in change.added:
        out(f"+ {name}  {entry.key} = {entry.value}")
    if change.is_configuration or change.after is None:
        return
    if is_guard(change.after):
        out(f"+ {name}  the push guard, {_length(change.after)}")
    elif change.after.is_link:
        out(f"+ {name} -> {os.fsdecode(change.after.bytes)}")
    elif change.path.is_relative_to(repository.common_dir):
        out(f"+ {name}  {_length(change.after)}")
    else:
        out(f"+ {name}")
        out_lines(f"    {line}".rstrip() for line in change.after.bytes.decode().splitlines())


def _tell_worktrees(repository: Repository, done: Initialised) -> None:
    for path in done.blocked:
        out_lines(told("closed     ", f"{_name(repository, path)}: it cannot push", sys.stdout))
    for url in done.open:
        out_lines(
            told(
                "still open ",
                f"{url}: your configuration rewrites exactly this pushurl (url.*.insteadOf)",
                sys.stdout,
            )
        )


def _undo(repository: Repository) -> None:
    undone = undo_init(repository)
    if undone is None:
        out("nothing to undo: git swarm init was not done here")
        return
    for path in undone.restored:
        out_lines(told("restored   ", f"{_name(repository, path)}", sys.stdout))
    for path in undone.ours_removed:
        out_lines(
            told(
                "changed    ",
                f"{_name(repository, path)}: changed since by another tool: only our lines were removed",
                sys.stdout,
            )
        )
    for path, reason in undone.left:
        out_lines(told("left       ", f"{_name(repository, path)}: {reason}", sys.stdout))
    if undone.left:
        raise SwarmError("not everything could be undone", hint="see the lines that begin with 'left'")


def _length(state: FileState) -> str:
    return plural(len(state.bytes.splitlines()), "line")


def _name(repository: Repository, path: Path) -> str:
    """As short as it can be read from the folder that people call the repository."""
    return os.path.relpath(path, repository.main_folder)
