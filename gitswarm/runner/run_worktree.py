"""The worktree of a run and what watches over it; those of parallel steps, and of tests: added, filled, set up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import SetupFailedError
from gitswarm.ledger.layout import AGENT_DOMAIN, agent_identity
from gitswarm.ledger.reading import siblings
from gitswarm.processes import CommandLimits
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.runner.containing import REGISTRIES, contained, contained_environment, remove_copies
from gitswarm.runner.run_processes import MARKER
from gitswarm.runner.run_session import Session
from gitswarm.safety.environment import isolated_git, passed_on, without_credentials
from gitswarm.safety.guard import is_installed_hook
from gitswarm.worktree.extra_worktrees import (
    StepWorktree,
    add_landing,
    add_step_worktree,
    open_step_worktree,
    remove_landing,
)
from gitswarm.worktree.index_entries import NestedFinder
from gitswarm.worktree.provisioning import copy_untracked, run_setup
from gitswarm.worktree.repository_watch import IndexWatch, RepositoryWatch
from gitswarm.worktree.run_folder import RunFolder
from gitswarm.worktree.shadow import (
    Shadow,
    add_shadow,
    choose_path,
    fill,
    find_shadow,
    follow_moved,
    narrowed,
    reattach,
    recorded_path,
)
from gitswarm.worktree.snapshot import reveal


class RunWorktree(Struct, frozen=True):
    """The run's worktree and what watches over it while this process lives."""

    shadow: Shadow
    folder: RunFolder
    nested: NestedFinder
    index: IndexWatch
    watch: RepositoryWatch
    interrupted: Mapping[tuple[str, str], int]
    """Highest iteration per (flow, step) of executions that need not be on the branch."""

    @classmethod
    def of(cls, session: Session, shadow: Shadow) -> RunWorktree:
        folder = RunFolder(shadow.path, session.layout.base, session.repository.objects)
        # Filters run on what agents wrote: with what an agent could do itself.
        shadow = replace(shadow, git=replace(shadow.git, env=_isolated_git(shadow.git.env)))
        interrupted = off_branch(session)
        watch = _watch(session, shadow)
        return cls(shadow, folder, NestedFinder(shadow.path), IndexWatch(shadow), watch, interrupted)

    def leave(self) -> None:
        """From here on whatever changes is the step's."""
        self.index.leave()
        self.watch.leave()


def _isolated_git(env: Mapping[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in env.items() if name.startswith("GIT_")}
    return {**isolated_git(env, agent_identity("git")), **ours}


def _watch(session: Session, shadow: Shadow) -> RepositoryWatch:
    home, repository = session.context.env.get("HOME", ""), session.repository
    config_home = session.context.env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    outside = (Path(home, ".gitconfig"), Path(config_home, "git", "config")) if home else ()
    return RepositoryWatch(shadow, repository.common_dir, repository.refs, outside, is_installed_hook, AGENT_DOMAIN)


def off_branch(session: Session) -> dict[tuple[str, str], int]:
    """Highest iteration per (flow, step) of executions that need not be on the branch: interrupted ones, and
    parallel ones."""
    highest: dict[tuple[str, str], int] = {}
    found = [
        (kept["Swarm-Flow"], kept["Swarm-Step"], int(kept["Swarm-Iteration"]))
        for _name, kept in session.store.kept_work()
        if "Swarm-Iteration" in kept
    ]
    records = siblings(session.repository, session.layout)
    found += [(record.flow, record.step, record.execution.iteration) for record in records]
    for flow, step, iteration in found:
        highest[flow, step] = max(highest.get((flow, step), 0), iteration)
    return highest


def prepare_worktree(session: Session) -> Shadow:
    """The run's worktree, filled and set up. One that exists already is only filled if it was not yet.

    :raises SetupFailedError: the project's setup command failed, or there is no place for the worktree.
    """
    branch, paths = session.layout.branch, session.spec.settings.worktree_paths
    path = choose_path(session.repository, session.layout.run_id, session.context.placement)
    shadow = find_shadow(session.repository, branch) or follow_moved(session.repository, branch, path)
    if shadow is not None:
        reattach(shadow)
    if shadow is not None and shadow.is_set_up:
        return _equipped(session, shadow)
    if shadow is None:
        _mention_gone(session)
        shadow = add_shadow(session.repository, branch, path, session.locks, paths)
    else:
        shadow = narrowed(session.repository, shadow, paths)
        fill(shadow)
    tree = session.repository.objects.commit(session.repository.refs.read(branch) or session.spec.base).tree
    try:
        shadow.remember_set_up(_set_up(session, shadow, tree))
    except SetupFailedError as error:
        shadow.remember_failed_setup(error.message.partition("\n")[0])  # what it printed may hold anything
        raise
    shadow = _equipped(session, shadow)
    reveal(shadow, shadow.branch)
    return shadow


def prepare_side(session: Session, shadow: Shadow, step: str, commit: str) -> Shadow:
    """A worktree of its own for a step that is executed in parallel, filled and set up as the run's is.

    :param shadow: the run's worktree.
    :raises SetupFailedError: as `prepare_worktree`.
    """
    side = _equipped(session, add_step_worktree(session.repository, shadow, step, commit, session.locks))
    fill(side)
    side.remember_set_up(_set_up(session, side, session.repository.objects.commit(commit).tree))
    reveal(side, commit)
    return side


@contextmanager
def temporary_worktree(session: Session, shadow: Shadow, commit: str, tree: str) -> Iterator[Shadow]:
    """A worktree with the files of `tree`, set up as the run's is, HEAD detached at `commit`; gone afterwards.

    :param shadow: the run's worktree.
    :raises SetupFailedError: as `prepare_worktree`.
    """
    checkout = _equipped(session, add_landing(session.repository, shadow, commit, session.locks))
    try:
        checkout.git.output("read-tree", "--reset", "-u", tree)
        reveal(checkout, tree)
        _set_up(session, checkout, tree)
        yield checkout
    finally:
        remove_landing(session.repository, session.layout.run_id, session.locks)


def opened_side(session: Session, side: StepWorktree) -> Shadow | None:
    """A side worktree that somebody left; None when it was not filled yet, or is half removed."""
    shadow = open_step_worktree(session.repository, side)
    return _equipped(session, shadow) if shadow is not None else None


def _mention_gone(session: Session) -> None:
    gone = recorded_path(session.repository, session.layout.branch)
    if gone is not None:
        notice = f"{gone} is gone: the worktree is made again from the last commit; edits are where it was moved to"
        session.context.observer.notice(notice)


def _equipped(session: Session, shadow: Shadow) -> Shadow:
    """With what is known of the run."""
    objects = session.repository.objects
    base = session.spec.base
    # Only what was a submodule before the run: an agent may call anything one later.
    submodules = tuple(objects.submodules(objects.commit(base).tree))
    return replace(shadow, base=base, submodules=submodules)


def _set_up(session: Session, shadow: Shadow, tree: str) -> tuple[str, ...]:
    """Copies files and runs the setup command; the files that were copied.

    :param tree: what is checked out there. Where an agent had a hand in it, setup is confined as an agent is.
    """
    copied_files: tuple[str, ...] = ()
    settings = session.spec.settings
    observer = session.context.observer
    objects = session.repository.objects
    source = session.repository.checkout_git if session.repository.checkout else None
    if source is not None and settings.copy_patterns:
        copied = copy_untracked(
            source, shadow.path, settings.copy_patterns, lambda name: objects.entry(tree, name) is not None
        )
        copied_files = copied.files
        if copied.files:
            observer.notice(f"copied into the worktree, never committed: {', '.join(copied.files)}")
        for name, reason in copied.left_out:
            observer.notice(f"not copied: {name}: {reason}")
    if settings.setup:
        observer.notice(f"setup: {settings.setup}")
        is_base = objects.same_but(tree, objects.commit(session.spec.base).tree, RUNS_FOLDER)
        copies = f"setup.{shadow.path.name}"
        containment = contained(session, shadow, copies, None if is_base else REGISTRIES, agents=not is_base)
        limits = CommandLimits(settings.setup_timeout_s, containment=containment)
        env = {**session.context.env, MARKER: session.mark}
        if session.sandbox.backend is not None:
            env = without_credentials(env) if is_base else passed_on(env, settings.policy.env)
            env |= {MARKER: session.mark, **contained_environment(session, agents=not is_base)}
        try:
            run_setup(settings.setup, shadow.path, env, limits)
        finally:
            remove_copies(session, copies)
    return copied_files
