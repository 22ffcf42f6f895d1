"""The shell lines behind the names of a project's commands: `test`, `lint`, `smoke`, and those of its test suites."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from gitswarm.engines.detect import ProjectFiles, detect_test_command
from gitswarm.git.objects import Objects
from gitswarm.records.command_names import TEST
from gitswarm.runner.session import Session


def project_command(session: Session, name: str, worktree: Path, env: Mapping[str, str]) -> str | None:
    """As configured; the tests are looked for where nothing is. None: the project has no such command.

    :param env: of the processes that will run it.
    """
    settings = session.spec.settings
    suite = settings.test_suites.get(name)
    line = suite.run if suite is not None else settings.commands.get(name)
    return _detected(session, worktree, env) if line is None and name == TEST else line


def _detected(session: Session, worktree: Path, env: Mapping[str, str]) -> str | None:
    """What the base calls its tests; only where it has none, what is there by now."""
    objects = session.repository.objects
    base = BaseFiles(worktree, objects, objects.commit(session.spec.base).tree)
    found = (detect_test_command(files, _available(env)) for files in (base, ProjectFiles(worktree)))
    return next((each.command for each in found if each is not None), None)


class BaseFiles(ProjectFiles, frozen=True):
    """The files of a commit; what was installed, which is in none, is looked for in the worktree."""

    objects: Objects
    tree: str

    def has(self, name: str) -> bool:
        if name.startswith(".venv/"):
            return ProjectFiles(self.root).has(name)
        return self.objects.file(self.tree, name) is not None

    def text(self, name: str) -> str:
        return (self.objects.file(self.tree, name) or b"").decode("utf-8-sig", errors="replace")

    def has_python_tests(self) -> bool:
        names = (PurePosixPath(path).name for path, _blob in self.objects.files(self.tree))
        return any(fnmatchcase(name, "test_*.py") or fnmatchcase(name, "*_test.py") for name in names)


def _available(env: Mapping[str, str]) -> Callable[[str], bool]:
    return lambda program: shutil.which(program, path=env.get("PATH")) is not None
