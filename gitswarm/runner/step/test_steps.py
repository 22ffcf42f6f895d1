"""Which steps run the project's tests, the lines behind its commands, and whether tests have seen today's code."""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from gitswarm.engines.detect import DetectedCommand, ProjectFiles, detect_test_command
from gitswarm.evidence.path_roles import role_of
from gitswarm.git.objects import Objects
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import OpenConcern, StepRecord
from gitswarm.records.execution import TEST, Result
from gitswarm.records.globs import gitignore
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.records.worklists import AC_MATRIX
from gitswarm.runner.run_session import Session
from gitswarm.specs.flow import Flow, ShellCommand, Step

_MOST_LINKS = 20
_NO_WORKTREE = Path("/dev/null")


def is_test_step(settings: FrozenSettings, step: Step) -> bool:
    """Whether a step's command is what the project calls its tests; another line that ends with 0 proves nothing."""
    line = step.command.run if isinstance(step.command, ShellCommand) else None
    return step.is_test or (line is not None and line == settings.commands.get(TEST))


def is_test_record(session: Session, record: StepRecord) -> bool:
    step = _step_of(session, record)
    return step is not None and is_test_step(session.spec.settings, step)


def _step_of(session: Session, record: StepRecord) -> Step | None:
    """None for one of no flow's graph: command steps are never part of an interruption; of a fork, the flow may be
    another run's."""
    flow = session.specs.flows.get(record.flow)
    return flow.step(record.step) if flow and flow.has_step(record.step) and not record.is_detour else None


def untested(session: Session, state: RunState, flow: Flow) -> str | None:
    """The closing step of `flow` whose tests have not seen the run's code; None: all have.

    Documentation, and files that a suite is not about, are not what it looks at.
    """
    store, objects = session.store, session.repository.objects
    code = store.code(state.tip_tree)
    if not state.is_judged or code == store.code(objects.commit(state.base).tree):
        return None
    stale = (step for step in flow.closing_tests if _is_stale(session, state, step, code))
    return next((step.id for step in stale), None)


def _is_stale(session: Session, state: RunState, step: Step, code: str) -> bool:
    newest = next((record for record in reversed(state.steps) if _runs(session, record, step)), None)
    if newest is None:
        return True
    if newest.by_human and newest.result is Result.SKIPPED:
        return False  # that they did not run is a concern of its own
    matrix = f"{session.layout.base}/{AC_MATRIX}"
    if session.repository.objects.entry(newest.tree, matrix) != session.repository.objects.entry(
        state.tip_tree, matrix
    ):
        return True
    if newest.sibling and any(_is_criterion(each) and each.opened_by == newest for each in state.concerns):
        return True  # a suite beside it may have shown them
    tested = session.store.code(tested_tree(session, newest))
    paths = suite_paths(session.spec.settings, step)
    changed = session.repository.diffs.between(tested, code) if tested != code else ()
    names = [path for delta in changed for path in (delta.path, delta.old_path) if path and is_within(path, paths)]
    return bool(names) and not _are_docs(session.repository.objects, (tested, code), names)


def _are_docs(objects: Objects, trees: Sequence[str], paths: Sequence[str]) -> bool:
    """Whether these are text for people in each tree: no program, and no link elsewhere leads to them."""
    if any(role_of(path) != "docs" or any(_is_program(objects, tree, path) for tree in trees) for path in paths):
        return False
    links = [
        (path, posixpath.normpath(posixpath.join(posixpath.dirname(path), to)))
        for path, to in objects.links(trees[-1])
    ]
    known = set(paths)
    for _ in range(_MOST_LINKS):  # that lead to each other
        seen = {path + _below(each, to) for path, to in links for each in known if _leads_to(to, each)}
        if any(role_of(path) != "docs" for path in seen):
            return False
        if seen <= known:
            return True
        known |= seen
    return False


def _is_program(objects: Objects, tree: str, path: str) -> bool:
    return objects.is_executable(tree, path) or (objects.file(tree, path) or b"").startswith(b"#!")


def _leads_to(target: str, path: str) -> bool:
    return target in {".", path} or path.startswith(f"{target}/")


def _below(path: str, target: str) -> str:
    """What a path is called below a link to `target`, with its slash; empty: the link is the file."""
    return f"/{path}" if target == "." else path.removeprefix(target)


def tested_tree(session: Session, record: StepRecord) -> str:
    """What a test step ran on: of a branch of a fork, without what its siblings brought."""
    return session.repository.objects.commit(record.sibling).tree if record.sibling else record.tree


def suite_paths(settings: FrozenSettings, step: Step) -> tuple[str, ...]:
    """Globs of what a step's tests are about; none: everything."""
    suite = settings.test_suites.get(step.command) if isinstance(step.command, str) else None
    return suite.paths if suite is not None else ()


def _is_criterion(concern: OpenConcern) -> bool:
    return concern.id.startswith("criterion:")


def _runs(session: Session, record: StepRecord, step: Step) -> bool:
    executed = _step_of(session, record)
    return executed is not None and executed.command == step.command


def is_within(path: str, paths: tuple[str, ...]) -> bool:
    """Whether a suite is about a path, as `suite_paths` says."""
    return not paths or gitignore(*(each.removeprefix("./") for each in paths)).match_file(path)


def project_command(session: Session, name: str, worktree: Path, env: Mapping[str, str]) -> str | None:
    """The configured command; the tests are looked for where nothing is configured. None: the project has no such
    command.

    :param env: of the processes that will run it.
    """
    configured = configured_command(session.spec.settings, name)
    if configured is not None or name != TEST:
        return configured.command if configured is not None else None
    objects = session.repository.objects
    # Only where the base has no tests, what is there by now.
    base = BaseFiles(worktree, objects, objects.commit(session.spec.base).tree)
    found = (detect_test_command(files, _available(env)) for files in (base, ProjectFiles(worktree)))
    return next((each.command for each in found if each is not None), None)


def configured_command(settings: FrozenSettings, name: str) -> DetectedCommand | None:
    """What somebody wrote down for a name that flows use."""
    suite = settings.test_suites.get(name)
    if suite is not None:
        return DetectedCommand(suite.run, f"commands.tests.{name} says so")
    line = settings.commands.get(name)
    return None if line is None else DetectedCommand(line, f"commands.{name} says so")


def detected_tests(objects: Objects, commit: str, env: Mapping[str, str]) -> DetectedCommand | None:
    """What a run that begins on this commit takes for its tests where nothing is configured, as far as that can be
    said without its worktree."""
    return detect_test_command(BaseFiles(_NO_WORKTREE, objects, objects.commit(commit).tree), _available(env))


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
