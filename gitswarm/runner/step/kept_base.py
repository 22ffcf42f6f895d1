"""Reports of bases in the ledger, so that no base is tested again by a later step, process or run.

They may only speak for the run: who keeps a report is another process, on another day, so that it neither excuses a
failure nor shows that a test is gone. Where one would, the base is tested again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath

from gitswarm.evidence.suite_run import Missing, SuiteRun
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.records.evidence import BaseTests
from gitswarm.records.execution import BRANCH_PREFIX
from gitswarm.runner.run_session import Session

_BRANCHES = f"refs/heads/{BRANCH_PREFIX}"
_MOST_RUNS = 200
_DECIDING = ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "NODE_PATH", "NODE_ENV", "CI", "LANG", "LC_ALL", "TZ")
"""Variables by which the same tests may be others."""


def base_key(session: Session, tree: str, line: str) -> str:
    env, settings = session.context.env, session.spec.settings
    sandbox = session.sandbox.containment.name
    about = [tree, line, settings.setup, sandbox, *(env.get(name) for name in _DECIDING)]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]


def base_to_keep(key: str, run: SuiteRun | Missing) -> BaseTests | None:
    """The results of the base that are stored; None: they may not be kept."""
    if not isinstance(run, SuiteRun) or run.is_red or run.report is None or run.results is None or not run.names_all:
        return None
    return BaseTests(key=key, asked=run.asked, report=run.report, results=run.results, leaves=run.leaves)


def kept_base(session: Session, state: RunState, key: str) -> SuiteRun | None:
    """Kept results of the base: of this run's commits; of those of other runs where no agent can write to the
    repository."""
    trees = [(session.layout, state.tip_tree)]
    if session.sandbox.backend is not None:
        trees += _other_runs(session)
    for layout, tree in trees:
        for content in _contents(session, layout, tree):
            try:
                found = BaseTests.from_json(content)
            except ValueError:
                continue
            if found.key == key:
                return SuiteRun(
                    failed=False, report=found.report, results=found.results, asked=found.asked, leaves=found.leaves
                )
    return None


def _other_runs(session: Session) -> Iterator[tuple[RunLayout, str]]:
    """Newest first: their names begin with when they did."""
    refs, objects = session.repository.refs, session.repository.objects
    for name in islice(sorted(refs.list(_BRANCHES), reverse=True), _MOST_RUNS):
        tip = refs.read(name)
        if tip is not None and name != session.layout.branch:
            yield RunLayout(name.removeprefix(_BRANCHES)), objects.commit(tip).tree


def _contents(session: Session, layout: RunLayout, tree: str) -> Iterator[bytes]:
    objects = session.repository.objects
    for flow in objects.names(tree, layout.base):
        folder = PurePosixPath(layout.base, flow, "base").as_posix()
        for name in objects.names(tree, folder):
            yield objects.file(tree, f"{folder}/{name}") or b""
