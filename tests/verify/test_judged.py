"""A step that is judged worse than its agent claimed: its last event says so, and `verify` compares it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitswarm.ledger.verify.commit_record import _status
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.execution import Execution, Status
from tests.leaks import token
from tests.projects import ask, new_project, only_run
from tests.verify.forging import Edit, Run, only

FLOW = "id: leak\nsteps:\n  - {id: write, station: code-implementer}\n"
JUDGED = "leak/write@1"
EVENTS = "leak/events/write@1.jsonl"


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Its only step says VERIFIED, and is BLOCKED: there is a secret in what it wrote."""
    project = new_project(tmp_path_factory.mktemp("judged"))
    project.commit({".swarm/flows/leak.yaml": FLOW})
    script = json.dumps({"steps": {"write": {"write": {"key.py": f"KEY = '{token(3)}'\n"}}}})
    assert ask(project, "start", "leak", "--script", project.script(script)).code == 5
    return Run(project, only_run(project))


@pytest.fixture
def run(blocked: Run, tmp_path: Path) -> Run:
    return blocked.copy(tmp_path)


def last_event(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.show(run.named()[JUDGED], EVENTS).splitlines()[-1])
    return found


def ends(**said: str | None) -> Edit:
    """Another last event; None: the field is not there."""

    def line(content: bytes) -> bytes:
        event = json.loads(content)
        event["payload"] = {name: value for name, value in {**event["payload"], **said}.items() if value is not None}
        return json.dumps(event, separators=(",", ":")).encode() + b"\n"

    def edit(content: bytes | None) -> bytes:
        *lines, last = (content or b"").splitlines(keepends=True)
        return b"".join([*lines, line(last)])

    return only(JUDGED, lambda forged: forged.files.__setitem__(EVENTS, edit(forged.files[EVENTS])))


def test_the_last_event_says_what_the_commit_says_and_what_the_agent_claimed(run: Run) -> None:
    payload = last_event(run)["payload"]
    assert (payload["handoff_status"], payload["claimed_status"]) == ("BLOCKED", "VERIFIED")
    assert run.found() == []


@pytest.mark.parametrize("claim", ["VERIFIED", "UNVERIFIED", "PARTIAL"])
def test_a_run_of_an_earlier_version_has_only_the_claim_there(run: Run, claim: str) -> None:
    run.rewrite(ends(handoff_status=claim, claimed_status=None), whole=True)
    assert run.found() == []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (ends(handoff_status="VERIFIED"), "step_end says handoff_status VERIFIED, the files say BLOCKED"),
        (ends(claimed_status="BLOCKED"), "step_end says claimed_status BLOCKED, which nothing explains"),
        (ends(claimed_status="FINE"), "step_end says claimed_status FINE, which nothing explains"),
        (
            ends(handoff_status="FINE", claimed_status=None),
            "step_end says handoff_status FINE, the files say BLOCKED",
        ),
    ],
)
def test_a_changed_status_is_found(run: Run, edit: Edit, message: str) -> None:
    run.rewrite(edit, whole=True)
    assert run.found() == [f"{JUDGED} events {EVENTS}: {message}"]


def test_a_claim_needs_a_judgement_that_was_worse(original: Run, tmp_path: Path) -> None:
    run = original.copy(tmp_path)
    path = "small/events/write@1.jsonl"
    old = b'"handoff_status":"VERIFIED"'
    edit = only("small/write@1", lambda forged: forged.change(path, old, old + b',"claimed_status":"VERIFIED"'))
    run.rewrite(edit, whole=True)
    message = "step_end says claimed_status VERIFIED, which nothing explains"
    assert run.found() == [f"small/write@1 events {path}: {message}"]


@pytest.mark.parametrize(
    ("payload", "replayed", "expected"),
    [
        ({"handoff_status": "UNVERIFIED", "claimed_status": "VERIFIED"}, True, []),
        ({"handoff_status": "VERIFIED"}, True, []),
        ({"handoff_status": "BLOCKED"}, True, ["step_end says handoff_status BLOCKED, the files say PARTIAL"]),
        (
            {"handoff_status": "UNVERIFIED", "claimed_status": "VERIFIED"},
            False,
            ["step_end says handoff_status UNVERIFIED, the files say PARTIAL"],
        ),
    ],
)
def test_code_that_conflicts_makes_a_replayed_step_partial_after_its_last_event(
    payload: dict[str, Any],
    replayed: bool,  # noqa: FBT001
    expected: list[str],
) -> None:
    keys = Execution("run-20260101-000000-abcdef", "fan", "left", 1, "maker").keys
    envelope = Envelope(status=Status.PARTIAL, status_reason="its code is not on the branch", **keys)
    end = LoggedEvent(**keys, seq=1, ts="2026-01-01T00:00:00Z", kind=EventKind.STEP_END, payload=payload)
    assert list(_status(end, envelope, replayed=replayed)) == expected
