"""What a provider or an agent does wrong, through the real Gemini CLI: outcome, what is kept, what is said."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest
from msgspec import Struct

from gitswarm.engines.base import SessionTerms
from gitswarm.engines.gemini.gemini_events import EventReader, GeminiHookPolicy, process_outcome
from gitswarm.engines.recorder import Recorder
from gitswarm.records.event import EventKind
from gitswarm.records.execution import Result
from gitswarm.records.record import without_defaults
from gitswarm.records.safety import Deny, Rewrite, Verdict
from gitswarm.testing.orders import MARK, SECRET, Given, SeenStep, allow
from tests.claude.stage import SCHEMA
from tests.gemini.conftest import Stage
from tests.loopback.api import ApiRequest, Model, Reply, Text, say, use
from tests.loopback.replies import WORK, always, bash, failing, handed_over, working
from tests.waiting import wait_until


def outcome(seen: SeenStep) -> dict[str, Any]:
    """Without its text."""
    assert seen.done.outcome is not None
    found: dict[str, Any] = without_defaults(seen.done.outcome)
    found.pop("detail", None)
    return found


def detail(seen: SeenStep) -> str:
    assert seen.done.outcome is not None
    return seen.done.outcome.detail


class Fault(Struct, frozen=True):
    """One that ends the work. `says`: what a person reads."""

    reply: Reply
    outcome: Mapping[str, Any]
    says: str


REFUSED: Mapping[str, Any] = {"kind": "api_error"}
FAULTS = {
    "400": Fault(failing(400), {**REFUSED, "status": 400}, "400 scripted (the same request fails again: check "),
    "401": Fault(failing(401), {**REFUSED, "status": 401}, "401 scripted (set GEMINI_API_KEY)"),
    "403": Fault(failing(403), {**REFUSED, "status": 403}, "403 scripted (set GEMINI_API_KEY)"),
    "429": Fault(failing(429, "slow down"), {**REFUSED, "status": 429, "retryable": True}, "slow down (wait, or use"),
    "500": Fault(failing(500, "oops"), {**REFUSED, "status": 500, "retryable": True}, "500 oops"),
    "503": Fault(failing(503), {**REFUSED, "status": 503, "retryable": True}, "scripted"),
    "a stream that is cut": Fault(Reply((Text("half"),), cut=True), REFUSED, "ended without a finish reason"),
    "nothing": Fault(Reply(), REFUSED, "The model returned an empty response"),
    "a broken call": Fault(Reply((), "MALFORMED_FUNCTION_CALL"), REFUSED, "malformed function call"),
    "a refusal": Fault(Reply((), "SAFETY"), REFUSED, "safety"),
}
_USUAL = "500"


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, marks=() if name == _USUAL else pytest.mark.soak, id=name) for name, each in FAULTS.items()],
)
def test_a_provider_that_does_not_answer_fails_the_step(stage: Stage, fault: Fault) -> None:
    seen = stage.run(always(fault.reply))

    assert outcome(seen) == fault.outcome
    assert fault.says.lower() in detail(seen).lower()
    assert len(detail(seen)) <= 300
    assert (seen.done.status, seen.done.error) == (Result.FAILED, f"gemini: {detail(seen)}")
    assert (seen.done.handoff, seen.done.handoff_problem) == (None, f"no handoff: {detail(seen)}")
    assert len(stage.asked) == 1


@pytest.mark.soak
def test_a_failure_that_passes_is_got_over(stage: Stage) -> None:
    def answer(asked: ApiRequest) -> Reply:
        return failing(429, "Please retry in 0.1s.") if asked.number == 1 else working(WORK)(asked)

    seen = stage.run(answer, section={"attempts": 2})

    assert outcome(seen) == {"kind": "ok"}
    assert (stage.worktree / "a.txt").read_text("utf-8") == "hi\n"


def test_a_handoff_is_asked_for_again_in_the_same_conversation(stage: Stage) -> None:
    """With what is wrong with the last one; each result of a tool is sent once, as the provider counts them."""
    seen = stage.run(working(WORK, use("StructuredOutput", status="SPLENDID"), final=handed_over()))

    assert outcome(seen) == {"kind": "ok"}
    assert seen.done.handoff is not None
    assert seen.done.handoff.summary == "did it"
    assert [asked.wants_result for asked in stage.asked] == [False, False, True]
    last = stage.asked[-1].body["messages"]
    assert "is not an allowed value (known: BLOCKED, PARTIAL, UNVERIFIED, VERIFIED)" in last[-1]["content"][0]["text"]
    kinds = [block["type"] for message in last for block in message["content"]]
    assert [kinds.count(kind) for kind in ("tool_use", "tool_result")] == [1, 1]
    assert seen.done.tokens.total == 3 * 120
    assert seen.done.cost_usd == pytest.approx((300 * 1 + 60 * 10) / 1_000_000)


@pytest.mark.soak
@pytest.mark.parametrize("final", [say("my handoff: VERIFIED"), use("StructuredOutput", summary="no status")])
def test_without_a_handoff_the_work_is_kept_and_nothing_is_claimed(stage: Stage, final: Reply) -> None:
    seen = stage.run(working(WORK, final=final))

    assert outcome(seen) == {"kind": "no_envelope"}
    assert (seen.done.status, seen.done.handoff) == (Result.SUCCEEDED, None)
    assert seen.done.handoff_problem == f"no handoff: {detail(seen)}"
    assert detail(seen).endswith("also when it was asked for 3 times more")
    assert [asked.wants_result for asked in stage.asked] == [False, False, True, True, True]
    assert (stage.worktree / "a.txt").read_text("utf-8") == "hi\n"


@pytest.mark.soak
def test_the_end_of_the_turns(stage: Stage) -> None:
    seen = stage.run(working(WORK, WORK, WORK), terms=SessionTerms(max_turns=2, output_schema=SCHEMA))

    assert outcome(seen) == {"kind": "max_turns"}
    assert seen.done.handoff is not None
    assert seen.done.handoff.status.value == "PARTIAL"
    assert (stage.worktree / "a.txt").read_text("utf-8") == "hi\nhi\n"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ({"max_tokens": 100}, "120 tokens used of 100 that were left"),
        ({"max_cost_usd": 0.0001}, "$0.00 used of $0.00 that were left"),
    ],
)
def test_the_end_of_the_budget(stage: Stage, limit: dict[str, Any], says: str) -> None:
    """While it works, not only at its end."""
    model = working(bash("sleep 0.2"), bash("sleep 30"), bash("sleep 30"))
    seen = stage.run(model, terms=SessionTerms(output_schema=SCHEMA, **limit))

    assert outcome(seen) == {"kind": "budget"}
    assert detail(seen) == says
    assert seen.took_s < 20
    assert seen.events_of(EventKind.USAGE)[-1]["tokens"] == seen.done.tokens.to_plain()


@pytest.mark.soak
def test_the_model_that_answers_is_named_and_paid(stage: Stage) -> None:
    """Gemini CLI has names of its own for some; this one has no price."""
    seen = stage.run(working(handed_over()), model="gemini-3-flash")

    assert [asked.model for asked in stage.asked] == [seen.done.model] == ["gemini-3.8-flash"]
    assert (seen.done.tokens.total, seen.done.cost_usd) == (120, None)


def hanging(stage: Stage) -> Model:
    """Works, then has a shell that leaves another one behind, in a session of its own, and waits."""
    line = f"setsid nohup sleep 300 >/dev/null 2>&1 & touch {stage.worktree}/began; sleep 300"
    return working(bash(line))


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_session_that_is_ended_from_outside_hands_nothing_over(stage: Stage, number: int) -> None:
    """By SIGTERM and SIGINT its exit code is 0."""

    def end() -> None:
        wait_until((stage.worktree / "began").exists, "it works")
        for process in psutil.process_iter():
            try:
                is_ours = process.environ().get(MARK) == stage.scenario
            except psutil.Error:
                continue
            if is_ours and "--output-format" in process.cmdline() and process.cmdline()[0].endswith("node"):
                os.kill(process.pid, number)

    ending = threading.Thread(target=end)
    ending.start()
    seen = stage.run(hanging(stage))
    ending.join()

    assert outcome(seen) == {"kind": "killed"}
    assert (seen.done.status, seen.done.handoff) == (Result.FAILED, None)
    assert [(call.tool_name, call.success) for call in seen.done.tool_calls] == [("Bash", False)]


@pytest.mark.soak
def test_a_step_that_takes_too_long_is_ended_with_its_shells(stage: Stage) -> None:
    seen = stage.run(hanging(stage), section={"step_timeout": 4})

    assert outcome(seen) == {"kind": "killed"}
    assert detail(seen) == "no end after 4 s: it was ended"


def test_what_was_denied_or_changed_is_in_the_receipt_and_a_secret_in_no_event(stage: Stage) -> None:
    def decide(tool: str, given: Given) -> Verdict:
        command = str(given.get("command"))
        if tool == "Grep":
            assert given == {"pattern": "x", "path": "base"}
            return Deny("test-rule", "not in this test", "do something else")
        if command.startswith("touch"):
            return Rewrite({**given, "command": "echo other; exit 4"}, "test-rule")
        raise RuntimeError("no idea")

    calls = (
        Text(f"it is {SECRET}"),
        *use("Grep", pattern="x", dir_path="base").blocks,
        *bash("touch b.txt").blocks,
        *bash(f"echo {SECRET}").blocks,
        *use("Bash", command="true", dir_path="base").blocks,
        *use("invoke_agent", name="x").blocks,
    )
    seen = stage.run(working(Reply(calls), handed_over()), decide=decide, scrub=scrubbed)

    assert [(call.tool_name, call.success, call.blocked, call.blocked_reason) for call in seen.done.tool_calls] == [
        ("Grep", False, True, "test-rule: not in this test"),
        ("Bash", False, False, None),
        ("Bash", False, True, "policy: the policy could not decide (RuntimeError: no idea)"),
        ("Bash", False, True, "tool: a command begins at the top of the worktree"),
        ("invoke_agent", False, False, None),
    ]
    changed = seen.done.tool_calls[1]
    assert (changed.input, changed.executed_input) == ({"command": "touch b.txt"}, {"command": "echo other; exit 4"})
    assert changed.output.strip() == "other"
    assert seen.events_of(EventKind.MESSAGE)[0]["text"] == "it is ***"
    assert SECRET not in repr([call.output for call in seen.done.tool_calls])
    assert "denied (test-rule): not in this test" in stage.asked[1].said[-5]


def scrubbed(text: str) -> str:
    return text.replace(SECRET, "***")


@pytest.mark.parametrize("verdict", [None, Deny("test-rule", "not in this test", "")])
def test_a_call_that_nobody_allowed_ends_the_session(stage: Stage, verdict: Deny | None) -> None:
    """As where settings of the machine, which come before ours, switch hooks off, or an agent ends a hook."""
    request = stage.run(always(failing(400)), section={"cli": "/nowhere"}).request
    recorder = Recorder(request, lambda: datetime.now(UTC), lambda _event: None, "cli-observed")
    listener = EventReader(recorder, GeminiHookPolicy(allow))
    if verdict is not None:
        listener.gate.verdicts.append(("write_file", {}, verdict))
    listener.read(json.dumps({"type": "tool_use", "tool_name": "write_file", "tool_id": "1", "parameters": {}}))
    listener.read(json.dumps({"type": "tool_result", "tool_id": "1", "status": "success"}))

    assert listener.unjudged == "Write"
    assert [(call.success, call.blocked) for call in recorder.tool_calls] == [(True, False)]
    assert process_outcome(listener, None, "").detail.startswith(
        "Write was carried out against the policy or without asking"
    )
