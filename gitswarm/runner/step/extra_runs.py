"""Test runs beside that of a test step, each in a fresh checkout, and how the output of a test command is read."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import StepResult
from gitswarm.engines.command import CommandEngine
from gitswarm.errors import SetupFailedError, SwarmError
from gitswarm.evidence.suite_run import Missing, SuiteRun
from gitswarm.records.event import Event, EventKind
from gitswarm.records.evidence import ExtraRun, extra_run_words
from gitswarm.records.execution import Result
from gitswarm.runner.containing import contained, remove_copies
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import temporary_worktree
from gitswarm.runner.step.plan import OpenStep
from gitswarm.runner.step.request import ask_for_names, command_order
from gitswarm.untrusted import files_below, read_file
from gitswarm.worktree.provisioning import copy_leftovers, ignored_entries

_FOREIGN = frozenset({".git", "node_modules", ".venv", "venv"})
_REPORT_BYTES = 8_000_000
_MASKED_LINES = 5_000
_SHORTEST_S = 60
_TIMES_USUAL = 3
"""A run beside that of the step may take so many times as long: it also shares no caches with it."""


class ExtraTest(Struct, frozen=True):
    """The tests on another tree than the run's worktree has, or by another line than the test command.

    `leftovers`: copied into the checkout out of the run's worktree.
    """

    kind: ExtraRun
    tree: str
    line: str
    leftovers: tuple[str, ...] = ()


class ExtraRuns:
    """What a test step has run beside its own tests: in checkouts that are set up as the run's worktree is, one after
    the other. `took_ms`: how long those took that were made."""

    def __init__(self, session: Session, step: OpenStep, line: str, trees: tuple[str, str], usual_s: float) -> None:
        """
        :param line: the test command.
        :param trees: code trees of the run's base and as it is now.
        :param usual_s: seconds that the step's own run took.
        """
        self.session, self.step, self.line = session, step, line
        self.base, self.code = trees
        self.took_ms: dict[ExtraRun, int] = {}
        self._usual_s = usual_s
        self._left_s: float = session.spec.settings.proof.max_time
        self._announced: set[ExtraTest] = set()

    def on(self, tree: str, line: str | None = None) -> SuiteRun | Missing:
        """Once per tree and command while this process owns the run.

        :param line: in place of the test command.
        """
        kind: ExtraRun = "again" if line or tree == self.code else "base" if tree == self.base else "old_tests"
        test = ExtraTest(kind, tree, line or self.line)
        if test not in self._announced:
            self._announced.add(test)
            self._announce(kind)
        reports = self.session.reports
        known = (test.tree, test.line, self.session.spec.settings.setup)
        if known not in reports:
            reports[known] = self._timed(test)
        return reports[known]

    def of_commit(self, leftovers: Sequence[str]) -> SuiteRun | Missing:
        """Of the code as it is now, each time anew.

        :param leftovers: copied to it out of the run's worktree.
        """
        self._announce("commit")
        return self._timed(ExtraTest("commit", self.code, self.line, tuple(leftovers)))

    def _announce(self, kind: ExtraRun) -> None:
        self.step.journal.append(Event(EventKind.EXTRA_RUN, {"of": kind}))

    def _timed(self, test: ExtraTest) -> SuiteRun | Missing:
        began = time.monotonic()
        found = self._run(test)
        took_s = time.monotonic() - began
        self._left_s -= took_s
        self.took_ms[test.kind] = self.took_ms.get(test.kind, 0) + int(took_s * 1000)
        return found

    def _run(self, test: ExtraTest) -> SuiteRun | Missing:
        """Of the base all the time that is left: the code may have become faster."""
        is_base = test.kind == "base"
        usual_s = max(_SHORTEST_S, _TIMES_USUAL * self._usual_s)
        limit_s = self._left_s if is_base else min(self._left_s, usual_s)
        if limit_s <= 0:
            return "no time"
        observer = self.session.context.observer
        observer.notice(extra_run_words(test.kind))
        try:
            found = _tested(self.session, self.step, test, limit_s)
        except SwarmError as error:
            observer.notice(f"this could not be tested: {error.message}")
            return "setup failed" if isinstance(error, SetupFailedError) and not is_base else "not possible"
        return "far longer" if found == "no time" and is_base and limit_s >= usual_s else found


def _tested(session: Session, step: OpenStep, test: ExtraTest, limit_s: float) -> SuiteRun | Missing:
    """In a checkout that is gone afterwards.

    :raises SetupFailedError: the project's setup failed there.
    """
    with temporary_worktree(session, step.worktree.shadow, step.plan.before.base, test.tree) as checkout:
        try:
            copy_leftovers(step.worktree.shadow.path, checkout.path, test.leftovers)
        except OSError:
            return "not possible"
        run_base = checkout.path / session.layout.base
        env = {**step.request.env, "RUN_BASE": str(run_base)}
        order = command_order(session, step.plan.step, checkout.path, env)
        if order is None:
            return "not possible"
        order = replace(order, shell=test.line, timeout_s=min(order.timeout_s, limit_s))
        containment = contained(session, checkout, "landing")
        asked = replace(
            step.request, worktree=checkout.path, run_base=run_base, env=env, command=order, containment=containment
        )
        began = time.time()
        result = CommandEngine(None, session.context.clock).run(ask_for_names(asked), lambda _event: None)
        remove_copies(session, "landing")
        if result.status is Result.FAILED:
            return "no time" if result.duration_ms >= order.timeout_s * 1000 else "not possible"
        in_tree = {} if result.report_files else _left_in(checkout.path, began)
        found = suite_run(session, checkout.path, result, in_tree)
        return replace(found, leaves=ignored_entries(checkout)) if test.kind == "base" else found


def suite_run(
    session: Session, root: Path, result: StepResult, in_tree: Mapping[str, bytes] = MappingProxyType({})
) -> SuiteRun:
    """The results of a test command.

    :param root: where it ran.
    :param in_tree: reports that it left there; they count where none came as asked.
    """
    text = session.redactor.scrub(result.report_text)
    passed = result.check.passed if result.check is not None else None
    from gitswarm.evidence.test_report import read_run  # noqa: PLC0415 - where tests ran

    run = read_run(text, result.report_files or in_tree, _roots(root), ended_well=passed is True)
    return SuiteRun(
        failed=passed is False,
        report=run.report if run is not None else None,
        results=run.results if run is not None else None,
        masked_output=_hashed(text),
        asked=bool(result.report_files),
    )


def _roots(root: Path) -> tuple[str, ...]:
    """How a tool may call the folder: it may have found its own settings in one above."""
    parts = root.resolve().parts[1:]
    above = ("/".join(parts[at:]) for at in range(1, len(parts)))
    return (str(root), str(root.resolve()), *above)


def _hashed(text: str) -> str:
    from gitswarm.evidence.test_output import masked  # noqa: PLC0415 - where tests ran

    lines = (masked(line) for line in text.splitlines()[-_MASKED_LINES:])
    return hashlib.sha256("\n".join(lines).encode(errors="replace")).hexdigest()[:16] if text.strip() else ""


def _left_in(folder: Path, began: float) -> dict[str, bytes]:
    """Files of a checkout that were written since, and may be reports."""
    found: dict[str, bytes] = {}
    for path, about in files_below(folder):
        may_be_one = path.suffix in (".xml", ".json") and about.st_mtime >= began and about.st_size < _REPORT_BYTES
        if may_be_one and not _FOREIGN.intersection(path.relative_to(folder).parts):
            found[path.relative_to(folder).as_posix()] = read_file(path, _REPORT_BYTES)
    return found
