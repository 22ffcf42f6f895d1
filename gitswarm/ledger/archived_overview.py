"""How an archived run stood."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import OVERVIEW, archived_file
from gitswarm.ledger.conflicts import LandingConflict
from gitswarm.ledger.last_tests import TestsTold
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import BudgetFields, LandedOn, OpenInterruption, RunOverview, SpokenAs
from gitswarm.ledger.stored_json import ConcernFields
from gitswarm.records.execution import RunStatus

if TYPE_CHECKING:
    from pydantic import JsonValue


def archived_overview(repository: RepositoryReader, layout: RunLayout) -> RunOverview:
    """How the run stood when it was archived: it does not change any more.

    :raises NotFoundError: the run is not archived.
    """
    return overview_of(json.loads(archived_file(repository, layout, OVERVIEW)))


def overview_of(plain: JsonValue) -> RunOverview:
    """What `to_plain` wrote, also an earlier version's; without the worktree, which is not the run's own.

    :raises LookupError, TypeError, ValueError: it wrote no such thing.
    """
    whole = _known(RunOverview, plain)
    return RunOverview(
        **{
            **whole,
            "state": RunStatus(whole["state"]),
            "stack": tuple(OpenInterruption(**_known(OpenInterruption, each)) for each in whole["stack"]),
            "open_concerns": tuple(ConcernFields(**_known(ConcernFields, each)) for each in whole["open_concerns"]),
            "approved": _one(SpokenAs, whole["approved"]),
            "rejected": _one(SpokenAs, whole["rejected"]),
            "landed": _one(LandedOn, whole["landed"]),
            "tests": _one(TestsTold, whole["tests"]),
            "budget": _one(BudgetFields, whole["budget"]),
            "conflict": _one(LandingConflict, whole.get("conflict")),
            "worktree": None,
        }
    )


def _one(kind: Any, plain: JsonValue) -> Any:
    return kind(**_known(kind, plain)) if isinstance(plain, dict) else None


def _known(kind: Any, plain: Any) -> dict[str, Any]:
    """Without what a later version added."""
    return {name: plain[name] for name in kind.__struct_fields__ if name in plain}
