"""What goes wrong in a session, through the real Codex: outcome, what is kept, what is said."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil
import pytest

from gitswarm.engines.base import SessionTerms
from gitswarm.records.event import EventKind
from gitswarm.records.execution import Result
from gitswarm.records.record import without_defaults
from gitswarm.testing.orders import SECRET, SeenStep
from tests.codex.stage import SCHEMA, Stage
from tests.loopback.api import ApiRequest, Model, Reply, say
from tests.loopback.replies import WORK, bash, failing, handed_over, working

HANGS = Reply(hang_s=60)


def outcome(seen: SeenStep) -> dict[str, Any]:
    assert seen.done.outcome is not None
    found: dict[str, Any] = without_defaults(seen.done.outcome)
    found.pop("detail", None)
    return found


def detail(seen: SeenStep) -> str:
    return seen.done.outcome.detail if seen.done.outcome else ""


def at_first(*replies: Reply, model: Model | None = None) -> Model:
    """Says these to its first requests, whatever they are."""
    left = list(replies)
    return lambda asked: left.pop(0) if left else (model or working(WORK))(asked)


def cut(text: str) -> Reply:
    return Reply(say(text).blocks, cut=True)


PROVIDER: Mapping[str, tuple[Reply, dict[str, Any], int, str]] = {
    "a key that is not valid": (failing(401), {"kind": "api_error", "status": 401}, 2, "401 Unauthorized"),
    "too many requests": (failing(429), {"kind": "api_error", "status": 429, "retryable": True}, 1, "429 Too Many"),
    "a server that fails": (failing(500), {"kind": "api_error", "retryable": True}, 4, "high demand"),
    "a stream that is cut": (cut("half"), {"kind": "api_error", "retryable": True}, 2, "stream disconnected"),
    "an error in the stream": (Reply(overloaded=True), {"kind": "api_error", "retryable": True}, 1, "at capacity"),
    "a request it does not take": (failing(400, "no such model"), {"kind": "api_error"}, 1, "no such model"),
}
USUALLY = ("too many requests",)


@pytest.mark.parametrize(
    "fault", [pytest.param(each, marks=() if each in USUALLY else pytest.mark.soak) for each in PROVIDER]
)
def test_a_provider_that_fails_fails_the_step_and_keeps_the_work(stage: Stage, fault: str) -> None:
    reply, expected, requests, told = PROVIDER[fault]

    seen = stage.run(working(WORK, reply, reply, reply, reply))

    assert outcome(seen) == expected
    assert told in detail(seen)
    assert (seen.done.status, seen.done.handoff) == (Result.FAILED, None)
    assert (seen.done.error, seen.done.handoff_problem) == (f"codex: {detail(seen)}", f"no handoff: {detail(seen)}")
    assert seen.files == {"a.txt": "hi\n"}
    assert [call.tool_name for call in seen.done.tool_calls] == ["Bash"]
    assert len(stage.asked) == 1 + requests
    assert seen.done.tokens.total == 120


def test_what_may_pass_is_tried_again_in_the_same_session(stage: Stage) -> None:
    seen = stage.run(at_first(WORK, failing(429), model=working()), settings={"attempts": 2})

    assert outcome(seen) == {"kind": "ok", "attempts": 2}
    assert [(each["attempt"], each["of"]) for each in seen.events_of(EventKind.ENGINE_RETRY)] == [(2, 2)]
    assert stage.asked[2].said[-1].startswith("The connection to the model failed and is there again.")
    assert seen.files == {"a.txt": "hi\n"}
    assert seen.done.handoff is not None


@pytest.mark.soak
def test_what_failed_before_it_began_begins_again(stage: Stage) -> None:
    seen = stage.run(at_first(failing(429)), settings={"attempts": 2})

    assert outcome(seen) == {"kind": "ok", "attempts": 2}
    assert [asked.said[-1] for asked in stage.asked[:2]] == ["Do the work."] * 2


@pytest.mark.soak
def test_an_empty_answer_ends_the_work(stage: Stage) -> None:
    seen = stage.run(working(Reply()))

    assert outcome(seen) == {"kind": "ok"}
    assert (seen.done.output, seen.done.handoff is not None) == ("", True)


@pytest.mark.soak
def test_a_handoff_that_cannot_be_used_is_asked_for_again(stage: Stage) -> None:
    finals = [say("VERIFIED!"), handed_over("SPLENDID"), handed_over()]
    model = working(WORK)

    seen = stage.run(lambda asked: finals.pop(0) if asked.wants_result else model(asked))

    assert outcome(seen) == {"kind": "ok"}
    assert seen.done.handoff is not None
    assert seen.done.handoff.status.value == "VERIFIED"
    assert seen.done.output == "done"
    asked = [each.said[-1] for each in stage.asked if each.wants_result]
    assert asked[0].startswith("The work of this step is over")
    assert "what came is no JSON object" in asked[1]
    assert "it is not valid: status" in asked[2]


@pytest.mark.soak
def test_a_handoff_that_never_comes_is_asked_for_three_times(stage: Stage) -> None:
    seen = stage.run(working(WORK, final=say("later")))

    assert outcome(seen) == {"kind": "no_envelope"}
    assert (seen.done.status, seen.done.handoff_problem) == (
        Result.SUCCEEDED,
        "no handoff: what came is no JSON object",
    )
    assert [asked.wants_result for asked in stage.asked].count(True) == 3


@pytest.mark.soak
def test_tools_are_gone_when_it_hands_over(stage: Stage) -> None:
    finals = [bash("echo late > late.txt"), handed_over()]
    model = working(WORK)

    seen = stage.run(lambda asked: finals.pop(0) if asked.wants_result else model(asked))

    assert outcome(seen) == {"kind": "ok"}
    assert seen.files == {"a.txt": "hi\n"}
    assert seen.done.tool_calls[-1].blocked_reason == "tool: the work of this step is over"


@pytest.mark.soak
def test_a_program_that_is_killed_has_no_result(stage: Stage) -> None:
    def answer(asked: ApiRequest) -> Reply:
        if asked.turn == 0:
            return WORK
        for process in psutil.process_iter(["name"]):
            if process.info["name"] == "codex" and process.environ().get("TMPDIR") == stage.env["TMPDIR"]:
                process.kill()
        return say("too late")

    seen = stage.run(answer)

    assert outcome(seen) == {"kind": "killed"}
    assert "codex ended without a result, exit code" in detail(seen)
    assert seen.files == {"a.txt": "hi\n"}
    assert seen.done.status is Result.FAILED


@pytest.mark.soak
@pytest.mark.parametrize(
    ("more", "kind", "told"),
    [
        (lambda: {"settings": {"step_timeout": 1.5}}, "killed", "it took longer than engines.codex.step_timeout"),
        (lambda: {"deadline": time.monotonic() + 1.5}, "budget", "its time was over by --max-time"),
    ],
)
def test_a_step_has_an_end(stage: Stage, more: Callable[[], dict[str, Any]], kind: str, told: str) -> None:
    seen = stage.run(working(WORK, HANGS), **more())

    assert outcome(seen) == {"kind": kind}
    assert told in detail(seen)
    assert seen.files == {"a.txt": "hi\n"}
    assert seen.took_s < 10


LIMITS = {
    "tokens": ({"max_tokens": 200}, "240 tokens used of 200 that were left"),
    "cost": ({"max_cost_usd": 0.002}, "$0.0024 spent of $0.0020 that were left"),
}


@pytest.mark.soak
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_of_the_budget_ends_it_in_the_middle(stage: Stage, limit: str) -> None:
    most, told = LIMITS[limit]
    terms = SessionTerms(output_schema=SCHEMA, **most)  # type: ignore[arg-type]

    seen = stage.run(working(*[WORK] * 9), terms=terms, prices=lambda _model: (10.0, 10.0))

    assert (outcome(seen), detail(seen)) == ({"kind": "budget"}, told)
    assert len(stage.asked) in (3, 4)
    # A third answer may have come when it was seen that two were too many: it is paid, too.
    assert seen.done.tokens.total in (240, 360)
    assert seen.done.cost_usd == pytest.approx(seen.done.tokens.total / 100_000)
    assert seen.events_of(EventKind.USAGE)[-1]["cost_usd"] == pytest.approx(seen.done.cost_usd)


@pytest.mark.soak
def test_without_turns_it_hands_over_what_there_is(stage: Stage) -> None:
    seen = stage.run(working(WORK, WORK, WORK), terms=SessionTerms(max_turns=2, output_schema=SCHEMA))

    assert outcome(seen) == {"kind": "max_turns"}
    assert seen.files == {"a.txt": "hi\nhi\n"}
    assert seen.done.handoff is not None
    assert seen.done.handoff.status.value == "PARTIAL"
    assert seen.done.tool_calls[-1].blocked_reason == "max_turns: no turns are left"


@pytest.mark.soak
def test_a_secret_in_an_output_is_in_no_event(stage: Stage) -> None:
    seen = stage.run(working(bash("echo $ACME_TOKEN; echo key=$OPENAI_API_KEY."), say(f"it is {SECRET}")))

    assert SECRET not in repr(seen.events) + repr(seen.done.tool_calls)
    assert seen.done.tool_calls[0].output == "***\nkey=.\n"
