from __future__ import annotations

from typing import Annotated, Literal

from gitswarm.records.execution import Status
from gitswarm.records.record import AtLeastOne, Record, short_form
from gitswarm.records.routing import RoutingSignal


def _yes_no(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value


YesNo = Annotated[Literal["yes", "no"], short_form(_yes_no)]
Confidence = Literal["high", "medium", "low"]


ChangeKind = Literal["added", "modified", "deleted", "renamed", "copied", "type_changed"]


class FileChange(Record):
    path: str
    change: ChangeKind


class Assumption(Record):
    statement: str
    rationale: str = ""
    impact_if_wrong: str = ""
    confidence: Confidence = "medium"


class DecisionEntry(Record):
    subject: str
    decision: str
    rationale: str = ""


class RemovedTest(Record):
    """A test that a handoff says was removed on purpose. `name`: of a test, or the path of a test file."""

    name: str
    why: str = ""


class Handoff(Record):
    """What an agent says when it finishes: the part of the envelope that is the agent's own claim.

    `routing`: where the agent would go on; counts only where the graph leaves it open and no navigator answers.
    `removed_tests`: tests that went on purpose, because what they tested did.
    """

    status: Status = Status.UNVERIFIED
    summary: str = ""
    can_further_iteration_help: YesNo | None = None
    artifacts: tuple[str, ...] = ()
    file_changes: tuple[FileChange, ...] = ()
    concerns: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    decisions: tuple[DecisionEntry, ...] = ()
    observations: tuple[str, ...] = ()
    removed_tests: tuple[RemovedTest, ...] = ()
    confidence: Confidence | None = None
    routing: RoutingSignal | None = None


class Envelope(Handoff):
    """`<flow>/handoff/<step>.json`: the handoff with the execution that it belongs to.

    `status` is what holds: the agent's claim, capped by what is proven. `claimed_status`: the claim, where it was
    another; `status_reason` says why the status is what it is when the agent did not say so itself.
    """

    run_id: str
    flow_key: str
    step_id: str
    agent_key: str
    iteration: AtLeastOne
    status_reason: str | None = None
    claimed_status: Status | None = None
