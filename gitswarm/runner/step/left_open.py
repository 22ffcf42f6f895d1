"""What is open when a flow continues: critics that are not content, joins that are not met. Warnings, both."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.ledger.layout import HUMAN
from gitswarm.records.evidence import Concern
from gitswarm.records.execution import Status
from gitswarm.records.text import shorten
from gitswarm.routing.forks import unmet
from gitswarm.runner.step.kept_promises import step_concern
from gitswarm.runner.step.plan import StepOutcome, StepPlan
from gitswarm.runner.stored import branch_of, joined
from gitswarm.specs.flow import Join

_COLUMNS = 200


def left_open(plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """A person who stands in for the step leaves nothing. A BLOCKED critic waits for its answer."""
    if plan.execution.agent == HUMAN:
        return
    loop, envelope, routing, joins = outcome.loop, outcome.envelope, plan.step.routing, plan.joins
    if loop is not None and not loop.again and not loop.content and envelope.status is not Status.BLOCKED:
        said = "; ".join(envelope.concerns) or envelope.summary
        fact = f"{envelope.status} ({loop.reason}): {shorten(said, _COLUMNS)}"
        yield step_concern(plan, "critic_open", fact, envelope.concerns, blocking=False)
    if isinstance(routing, Join) and joins is not None and not joins.is_met:
        branches = joined(plan.before, plan.flow, plan.step)
        names = unmet(routing, {name: branch_of(record) for name, record in branches.items()})
        what = ", ".join(f"{name} {joins.statuses[name]}" for name in names)
        yield step_concern(plan, "join_open", f"{joins.reason} ({what})", names, blocking=False)
