"""What is not as it should be around git-swarm on this machine and in this repository, and what repairs it."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gitswarm.engines.detect import how_to_set
from gitswarm.engines.names import short_of
from gitswarm.engines.registry import broken_engines
from gitswarm.errors import SwarmError
from gitswarm.git.discovery import MINIMUM_GIT
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.overview import overviews
from gitswarm.records.execution import TEST, RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.runner.containing import CACHES, sandbox_for
from gitswarm.runner.initialise import missing_parts
from gitswarm.runner.run_context import RunContext
from gitswarm.runner.run_engines import choices, survey_engines
from gitswarm.runner.step.test_steps import configured_command, detected_tests
from gitswarm.runner.undo.discard import leftovers, remove
from gitswarm.safety.guard import CHAINED, HOOK, is_guard, put, state_of
from gitswarm.safety.sandbox.backends import INSTALL
from gitswarm.untrusted import files_below
from gitswarm.worktree.push_block import is_initialised

Level = Literal["ok", "note", "problem"]
_STALE_LOCK_S = 600
_LOCKS = ("*.lock", "refs/**/*.lock", "worktrees/*/*.lock")
_LFS = re.compile(rb"filter\s*=\s*lfs")
_CALLS_LFS = b"git lfs pre-push", b"git-lfs pre-push"


class Diagnosis(Struct, frozen=True):
    """`hint`: the command that repairs it. `repair`: what `--fix` does; None: a person has to look first."""

    check: str
    level: Level
    message: str
    hint: str = ""
    repair: Callable[[], None] | None = None

    def to_json(self, *, fixed: bool) -> dict[str, JsonValue]:
        return {
            "check": self.check,
            "level": self.level,
            "message": self.message,
            "hint": self.hint or None,
            "fixable": self.repair is not None,
            "fixed": fixed,
        }


def examine_machine(settings: FrozenSettings, machine: RunContext) -> Iterator[Diagnosis]:
    """What is the same for every repository."""
    yield from _containment(settings, machine.env)
    for broken in broken_engines():
        is_asked = any(short_of(choice.engine) == broken.engine for choice in choices(settings))
        yield Diagnosis("engine", "problem" if is_asked else "note", broken.message, broken.hint)
    for each in survey_engines(settings, machine):
        name = f"{each.engine} ({each.mode})"
        version = each.program.version
        if each.problem is None:
            yield Diagnosis("engine", "ok", f"{name}: {short_of(each.engine)} {version}" if version else name)
        else:
            level: Level = "problem" if each.is_configured else "note"
            yield Diagnosis("engine", level, f"{name}: {each.problem}", "git swarm engines")


def examine_repository(
    repository: Repository, settings: FrozenSettings, env: Mapping[str, str]
) -> Iterator[Diagnosis]:
    yield _git(repository)
    yield from _tests(repository, settings, env)
    yield from _guard(repository)
    yield from _large_files(repository)
    yield from _interrupted(repository)
    yield from _locks(repository)
    for path in leftovers(repository):
        name = os.path.relpath(path, repository.main_folder)
        what = f"{name} was left by a process that was killed, or by a run that is gone"
        yield Diagnosis("leftover", "problem", what, "git swarm gc", lambda gone=path: remove(gone))  # type: ignore[misc]
    yield from _kept(repository)


def _containment(settings: FrozenSettings, env: Mapping[str, str]) -> Iterator[Diagnosis]:
    policy = settings.policy
    if policy.sandbox == "off":
        yield Diagnosis("sandbox", "note", "off: policy.sandbox says so; agents' scripts run with all your rights")
        yield Diagnosis("network", "note", f"open: policy.network: {policy.network} holds in a sandbox only")
        return
    try:
        found = sandbox_for(policy, env)
    except SwarmError as error:
        yield Diagnosis("sandbox", "problem", error.message, error.hint)
        return
    if found.backend is None:
        why, missing, _how = found.reason.partition(f"; {INSTALL}")
        hint = "apt-get install bubblewrap   (dnf, pacman: the same name)" if missing else ""
        yield Diagnosis("sandbox", "problem", f"none: {why}", hint)
        yield Diagnosis("network", "note", f"open: policy.network: {policy.network} holds in a sandbox only")
        return
    yield Diagnosis("sandbox", "ok", found.backend.name)
    if found.limits:
        yield Diagnosis("limits", "note", found.limits)
    if found.leak:
        yield Diagnosis("network", "problem", f"open: {found.leak}", "git config swarm.policy.network allow")
    else:
        yield Diagnosis("network", "ok", found.network)


def _git(repository: Repository) -> Diagnosis:
    version = repository.git.output("--version").decode(errors="replace").strip()
    found = re.search(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) >= MINIMUM_GIT:
        return Diagnosis("git", "ok", version)
    needed = ".".join(str(part) for part in MINIMUM_GIT)
    return Diagnosis("git", "problem", f"{version} is too old: git-swarm needs {needed}", "install a newer git")


def _tests(repository: Repository, settings: FrozenSettings, env: Mapping[str, str]) -> Iterator[Diagnosis]:
    """The command that test steps of a run on HEAD would take."""
    head = repository.head()
    found = configured_command(settings, TEST)
    if found is None and head is not None:
        found = detected_tests(repository.objects, head, env)
    for name, suite in settings.test_suites.items():
        yield Diagnosis("tests", "ok", f"{suite.run}: commands.tests.{name} says so")
    if found is not None:
        yield Diagnosis("tests", "ok", f"{found.command}: {found.reason}")
    elif not settings.test_suites:
        yield Diagnosis("tests", "note", "no test command is configured or found in HEAD", how_to_set(TEST))


def _guard(repository: Repository) -> Iterator[Diagnosis]:
    if is_initialised(repository):
        missing = missing_parts(repository)
        for path in missing:
            name = os.path.relpath(path, repository.main_folder)
            what = f"{name} is not what git swarm init wrote: another tool changed it, or a newer git-swarm is here"
            yield Diagnosis("guard", "problem", what, "git swarm init")
        if not missing:
            yield Diagnosis("guard", "ok", "installed")
        return
    dead = _dead_guards(repository)
    for path in dead:
        name = os.path.relpath(path, repository.main_folder)
        what = f"{name} is a push guard whose git-swarm is gone"
        yield Diagnosis("guard", "problem", what, f"rm {shlex.quote(str(path))}", lambda gone=path: put(gone, None))  # type: ignore[misc]
    if not dead:
        yield Diagnosis(
            "guard", "note", "not installed: your own pushes of a run's work are not stopped", "git swarm init"
        )


def _dead_guards(repository: Repository) -> list[Path]:
    """Guards of a repository where init was undone, or that was copied without what it recorded."""
    folder = repository.common_dir / "hooks"
    if folder.is_symlink():
        return []
    paths = (*folder.glob(f"{HOOK}*"), folder / CHAINED / HOOK)
    return [path for path in sorted(paths) if is_guard(state_of(path))]


def _large_files(repository: Repository) -> Iterator[Diagnosis]:
    """`git lfs install` stops at a hook that is not its own, and then installs none of the others."""
    if not is_initialised(repository) or not _uses_lfs(repository):
        return
    hooks = repository.common_dir / "hooks"
    paths = (hooks / HOOK, hooks / CHAINED / HOOK)
    if any(call in path.read_bytes() for path in paths if path.is_file() for call in _CALLS_LFS):
        return
    what = "this project has files in git-lfs, and no hook that sends them: git lfs install stops at the guard"
    yield Diagnosis("git-lfs", "problem", what, "git swarm init --undo && git lfs install --local && git swarm init")


def _uses_lfs(repository: Repository) -> bool:
    files = [repository.common_dir / "info" / "attributes"]
    if repository.checkout is not None:
        files.append(repository.checkout / ".gitattributes")
    return any(path.is_file() and _LFS.search(path.read_bytes()) for path in files)


def _interrupted(repository: Repository) -> Iterator[Diagnosis]:
    listed = overviews(repository, all_runs(repository))
    for error in listed.unreadable:
        yield Diagnosis("run", "problem", error.message, error.hint)
    for found in listed.runs:
        if found.state is RunStatus.INTERRUPTED:
            what = f"{found.run_id} was interrupted, and no process executes it"
            yield Diagnosis("run", "problem", what, found.hint)


def _locks(repository: Repository) -> Iterator[Diagnosis]:
    """Locks of git, left by a process that was killed. A git that works for so long is rare, but there may be one."""
    oldest = time.time() - _STALE_LOCK_S
    for pattern in _LOCKS:
        for path in sorted(repository.common_dir.glob(pattern)):
            with suppress(FileNotFoundError):  # its git is done just now
                if path.lstat().st_mtime < oldest:
                    name = os.path.relpath(path, repository.main_folder)
                    what = f"{name} has kept git from writing for over {_STALE_LOCK_S // 60} minutes"
                    yield Diagnosis("lock", "problem", what, f"rm {shlex.quote(str(path))}   (when no git runs)")


def _kept(repository: Repository) -> Iterator[Diagnosis]:
    """What is kept on purpose, and takes room or wants to be looked at."""
    for folder in sorted((repository.swarm_dir / "quarantine").glob("run-*")):
        what = f"{os.path.relpath(folder, repository.main_folder)} holds what steps of the run had changed"
        yield Diagnosis("quarantine", "note", what, f"git swarm discard {folder.name}   (when you have looked at it)")
    folders = sorted((repository.swarm_dir / CACHES).glob("run-*"))
    size = sum(about.st_size for folder in folders for _path, about in files_below(folder))
    if size:
        what = f"{len(folders)} runs keep {size >> 20} MiB of package caches"
        yield Diagnosis("caches", "note", what, "git swarm discard RUN   (of a run that is over)")


def repair(findings: Sequence[Diagnosis]) -> set[Diagnosis]:
    """Does what needs nobody's judgement; what was repaired."""
    done = set()
    for finding in findings:
        if finding.repair is not None:
            finding.repair()
            done.add(finding)
    return done
