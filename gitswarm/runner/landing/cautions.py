"""What a person has to know before a yes: what is missing from the code, and what was not tested."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.ledger.last_tests import last_tests
from gitswarm.ledger.state import RunState
from gitswarm.records.outcome import RunStatus, Status
from gitswarm.records.secrets import SecretFound
from gitswarm.runner.session import Session
from gitswarm.runner.step.test_steps import is_test_step
from gitswarm.runner.stored import evidence_of
from gitswarm.specs.flow import Flow

_OUTCOMES = {True: "passed", False: "failed", None: "had nothing to run"}


class Caution(Struct, frozen=True):
    """`name`: one or two words, `text`: one line."""

    name: str
    text: str


def cautions_of(session: Session, state: RunState) -> tuple[Caution, ...]:
    """
    :param state: a run that has ended.
    """
    found: list[Caution] = []
    if state.end is not None and state.end is not RunStatus.SUCCEEDED:
        found.append(Caution("state", f"the run is {state.end}: it is not complete"))
    last = state.last_step
    if last is not None and last.status is Status.BLOCKED:
        found.append(Caution("blocked", f"{last.flow}/{last.step}: {(last.summary.splitlines() or [''])[0]}"))
    found += (Caution("left out", f"{one.path}: a secret ({one.kind})") for one in _left_out(session, state))
    return tuple(found)


def tests_of(session: Session, state: RunState) -> str:
    """What the newest test run said, and whether it was about this code."""
    if found := last_tests(session.repository, state):
        outcome = "fail as they did before the run" if found.red_before else _OUTCOMES[found.passed]
        return f"tests {outcome}{'' if found.current else ' on earlier code'} ({found.step})"
    missing = next(
        (
            f"{flow.id}/{step.id}"
            for flow in _own_flows(session)
            for step in flow.steps
            if is_test_step(session.spec.settings, step)
        ),
        None,
    )
    return "no tests have run on this code" + (f": {missing} was not executed" if missing else "")


def _left_out(session: Session, state: RunState) -> list[SecretFound]:
    """The files that secrets kept out, but for those that a later step brought; one secret of each."""
    found: dict[str, SecretFound] = {}
    for record in state.steps:
        evidence = evidence_of(session, record)
        if evidence is None:
            continue
        for file in evidence.diff.files:
            found.pop(file.path, None)
        found |= {one.path: one for one in reversed(evidence.secrets)}
    return list(found.values())


def _own_flows(session: Session) -> list[Flow]:
    return [session.specs.flows[name] for name in session.spec.flows]
