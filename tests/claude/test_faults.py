"""What a provider does wrong, through the real CLI by both transports: outcome, what is kept, what is said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from gitswarm.engines.base import EngineAccess, StepEndedError
from gitswarm.engines.claude.claude_code import ClaudeSettings
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.provider import ClaudeProfile
from gitswarm.engines.claude.session import Phases
from gitswarm.records.event import Event, EventKind, Message
from gitswarm.records.execution import Result
from tests.claude.runs import having, reaching
from tests.claude.stage import (
    LOGIN,
    MODEL,
    NO_RETRIES,
    Stage,
    Told,
    both,
    by,
    engine_of,
    in_turns,
    quick,
    request_for,
    terms_of,
)
from tests.conftest import Project
from tests.forking import AUDITS, steps, with_flow
from tests.loopback.api import ApiRequest, Model, Reply, Text, say, use
from tests.loopback.replies import WORK, always, failing, handed_over, limit_reached, working
from tests.loopback.server import Loopback

RESET = 4_102_444_800
ISO = "2100-01-01T00:00:00.000Z"
MIB = 1 << 20


def then_fails(reply: Reply) -> Model:
    """One tool call works; then, handoff included, there is only this answer."""
    return lambda asked: WORK if asked.turn == 0 else reply


def at_first(reply: Reply, times: int = 1, model: Model | None = None) -> Model:
    """So often this answer to what comes after one tool call; then what `model` says."""
    given: list[ApiRequest] = []
    after = model or working(WORK)

    def answer(asked: ApiRequest) -> Reply:
        if asked.turn == 1 and len(given) < times:
            given.append(asked)
            return reply
        return after(asked)

    return answer


@dataclass(frozen=True)
class Fault:
    """One that ends the work. `says`: part of what a person reads; `requests`: how many the provider sees."""

    reply: Reply
    outcome: Mapping[str, Any]
    says: str
    requests: int = 1
    env: Mapping[str, str] = field(default_factory=dict)


REFUSED = {"kind": "api_error"}
PASSING = {"kind": "api_error", "retryable": True}
FAULTS = {
    "400": Fault(failing(400), {**REFUSED, "status": 400}, "check ANTHROPIC_BASE_URL and the model", 3),
    "401": Fault(failing(401), {**REFUSED, "status": 401}, "(set ANTHROPIC_API_KEY or log in with `claude`;"),
    "403": Fault(
        failing(403),
        {**REFUSED, "status": 403},
        "(set ANTHROPIC_API_KEY or log in with `claude`;",
    ),
    "404": Fault(failing(404), {**REFUSED, "status": 404}, "start with --model ID", 2),
    "429": Fault(failing(429, "slow down", retry_after="1"), {**PASSING, "status": 429}, "slow down"),
    "500": Fault(failing(500, "oops"), {**PASSING, "status": 500}, "500 oops"),
    "529": Fault(failing(529, "Overloaded"), {**PASSING, "status": 529}, "529 Overloaded"),
    "credit": Fault(
        failing(400, "Your credit balance is too low"),
        {**REFUSED, "status": 400},
        "(add credit, or ",
    ),
    "prompt": Fault(
        failing(400, "prompt is too long: 300000 tokens > 200000 maximum"),
        {**REFUSED, "status": 400},
        "context: lean",
    ),
    "hang": Fault(Reply(hang_s=60), PASSING, "set API_TIMEOUT_MS above 300", env={"API_TIMEOUT_MS": "300"}),
    "refused": Fault(say(""), PASSING, "Connection refused", 0, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}),
    "refusal": Fault(Reply((Text("no"),), "refusal"), REFUSED, "(git swarm resume -m TEXT says it in other words", 2),
    "max_tokens": Fault(Reply((Text("and "),), "max_tokens"), REFUSED, "CLAUDE_CODE_MAX_OUTPUT_TOKENS", 4),
    "no key": Fault(say(""), REFUSED, "Not logged in (set ANTHROPIC_API_KEY", 0, {"ANTHROPIC_API_KEY": ""}),
}


@in_turns("fault", FAULTS, every=3)
def test_a_provider_that_does_not_answer_fails_the_step(stage: Stage, mode: str, fault: Fault) -> None:
    told = stage.having(**NO_RETRIES, **fault.env).run(mode, always(fault.reply), profile=quick(attempts=1))
    assert told.outcome == fault.outcome
    assert (told.result.status, told.result.error) == (Result.FAILED, f"claude: {told.detail}")
    assert (told.handoff, told.result.handoff_problem) == (None, f"no handoff: {told.detail}")
    assert fault.says in told.detail
    assert len(told.detail) <= 160
    assert len(told.asked) == fault.requests


@pytest.mark.parametrize("status", [401, pytest.param(403, marks=pytest.mark.soak)])
@by("cli")
def test_a_refused_key_is_asked_for_once(stage: Stage, mode: str, status: int) -> None:
    """By the product's own settings the CLI would ask three times."""
    profile = ClaudeProfile("anthropic", ClaudeSettings(), EngineAccess())
    told = stage.run(mode, always(failing(status)), profile=profile)
    assert told.outcome == {"kind": "api_error", "status": status}
    assert FAULTS[str(status)].says in told.detail
    assert (len(told.detail) <= 160, told.retries, len(told.asked)) == (True, [], 1)


@pytest.mark.soak
@both
def test_a_provider_that_is_down_by_the_product_s_own_settings(stage: Stage, mode: str) -> None:
    told = stage.run(mode, always(failing(500)), profile=ClaudeProfile("anthropic", ClaudeSettings(), EngineAccess()))
    assert told.outcome == {"kind": "api_error", "status": 500, "retryable": True, "attempts": 3}
    assert [(retry["attempt"], retry["of"]) for retry in told.retries] == [
        *[(1, 2), (2, 2), (2, 3)],
        *[(1, 2), (2, 2), (3, 3)],
        *[(1, 2), (2, 2)],
    ]
    assert len(told.asked) == 9


BROKEN: Mapping[str, tuple[Reply, list[str], list[int]]] = {
    "a stream that is cut": (replace(say("half a sentence"), cut=True), ["unknown"], [0, 1, 1, 2]),
    "an error in the stream": (replace(say("half"), overloaded=True), [], [0, 1, 2, 3]),
    "too many requests once": (failing(429, retry_after="1"), ["429 rate_limit"], [0, 1, 1, 2]),
}


@in_turns("broken", BROKEN, every=3)
def test_what_the_cli_gets_over_by_itself(
    stage: Stage, mode: str, broken: tuple[Reply, list[str], list[int]]
) -> None:
    reply, reasons, turns = broken
    told = stage.run(mode, at_first(reply))
    assert told.outcome == {"kind": "ok"}
    assert [retry["reason"] for retry in told.retries] == reasons
    assert told.result.output == "done"
    assert told.files == {"a.txt": "hi\n"}
    assert [asked.turn for asked in told.asked] == turns


NO_HANDOFF: Mapping[str, tuple[Reply, int, str]] = {
    "a text": (say("my handoff: VERIFIED"), 3, "the session gave no structured output, also when it was asked again"),
    "nothing": (Reply(), 5, "the session gave no structured output, also when it was asked again"),
    "an invalid one, five times": (use("StructuredOutput", status="MAYBE"), 5, "after 5 attempts"),
    "one that only the schema takes": (
        handed_over(observations="none"),
        1,
        "it is not valid: observations: expected a list",
    ),
}


@in_turns("without", NO_HANDOFF, every=4)
def test_without_a_handoff_the_work_is_kept_and_nothing_is_claimed(
    stage: Stage, mode: str, without: tuple[Reply, int, str]
) -> None:
    final, requests, says = without
    told = stage.having(**NO_RETRIES).run(mode, working(WORK, final=final), profile=quick(attempts=1))
    assert told.outcome == {"kind": "no_envelope"}
    assert (told.result.status, told.handoff) == (Result.SUCCEEDED, None)
    assert says in told.detail
    assert told.result.handoff_problem == f"no handoff: {told.detail}"
    assert [asked.wants_result for asked in told.asked] == [False, False, *[True] * requests]
    assert told.files == {"a.txt": "hi\n"}


@by("sdk")
def test_a_fault_instead_of_a_handoff_fails_the_step_and_its_work_is_left(stage: Stage, mode: str) -> None:
    model = working(WORK, final=failing(500, "oops"))
    told = stage.having(**NO_RETRIES).run(mode, model, profile=quick(attempts=1))
    assert told.outcome == {"kind": "api_error", "status": 500, "retryable": True}
    assert (told.result.status, told.handoff) == (Result.FAILED, None)
    assert told.files == {"a.txt": "hi\n"}


@by("sdk")
def test_an_empty_answer_ends_the_work(stage: Stage, mode: str) -> None:
    told = stage.run(mode, working(Reply()))
    assert told.outcome == {"kind": "ok"}
    assert told.handoff is not None
    assert told.result.output == ""


@by("cli")
def test_work_is_taken_up_where_it_stopped(stage: Stage, mode: str) -> None:
    told = stage.having(**NO_RETRIES).run(mode, at_first(failing(500, "boom"), times=2))
    assert told.outcome == {"kind": "ok", "attempts": 3}
    assert [(retry["attempt"], retry["of"]) for retry in told.retries] == [(2, 3), (3, 3)]
    assert all("500 boom" in str(retry["reason"]) for retry in told.retries)
    assert told.files == {"a.txt": "hi\n"}
    assert [call.tool_name for call in told.calls] == ["Bash"]
    assert [asked.turn for asked in told.asked] == [0, 1, 1, 1, 2]
    assert told.asked[0].said[-1] == "Do the work."
    assert told.asked[3].said[-1].startswith("The connection to the model failed and is there again.")
    assert _noted(told, "user")[1] == told.asked[3].said[-1]
    assert told.result.tokens.total == 3 * 120


@by("sdk")
def test_what_failed_before_it_began_begins_again(stage: Stage, mode: str) -> None:
    failed: list[ApiRequest] = []

    def answer(asked: ApiRequest) -> Reply:
        if not failed:
            failed.append(asked)
            return failing(529)
        return working(WORK)(asked)

    told = stage.having(**NO_RETRIES).run(mode, answer)
    assert told.outcome == {"kind": "ok", "attempts": 2}
    assert [asked.said[-1] for asked in told.asked[:2]] == ["Do the work."] * 2
    assert told.files == {"a.txt": "hi\n"}


@by("sdk")
def test_a_handoff_is_asked_for_again(stage: Stage, mode: str) -> None:
    failed: list[ApiRequest] = []

    def answer(asked: ApiRequest) -> Reply:
        if asked.wants_result and not failed:
            failed.append(asked)
            return failing(529)
        return working(WORK)(asked)

    told = stage.having(**NO_RETRIES).run(mode, answer)
    assert told.outcome == {"kind": "ok", "attempts": 2}
    assert told.handoff is not None
    assert [asked.wants_result for asked in told.asked] == [False, False, True, True]


@by("sdk")
def test_the_end_of_the_turns(stage: Stage, mode: str) -> None:
    told = stage.run(mode, working(WORK, WORK, WORK), terms=terms_of(max_turns=2))
    assert told.outcome == {"kind": "max_turns"}
    assert told.result.status is Result.SUCCEEDED
    assert told.handoff is not None
    assert (told.handoff.status.value, told.handoff.concerns) == (
        "PARTIAL",
        ("the session ended early (max_turns): Reached maximum number of turns (2)",),
    )
    assert told.files == {"a.txt": "hi\nhi\n"}


@by("cli")
def test_the_end_of_the_budget(stage: Stage, mode: str) -> None:
    costly = replace(WORK, tokens_in=1_000_000)
    told = stage.run(mode, working(costly), terms=terms_of(max_cost_usd=0.5))
    assert told.outcome == {"kind": "budget"}
    assert (told.result.status, told.handoff) == (Result.SUCCEEDED, None)
    assert told.result.handoff_problem == "no handoff: Reached maximum budget ($0.5)"
    assert told.result.cost_usd == pytest.approx(3.0003)
    assert len(told.asked) == 1


PAID_OVER = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": str(RESET),
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "anthropic-ratelimit-unified-overage-status": "allowed",
}
LIMITED: Mapping[str, tuple[Callable[[], Model], str, int]] = {
    "at once": (lambda: always(limit_reached(RESET)), ISO, 1),
    "in the work": (lambda: then_fails(limit_reached(RESET)), ISO, 2),
    "in the handoff": (lambda: working(WORK, final=limit_reached(RESET)), ISO, 3),
    "without an end": (lambda: always(limit_reached(None)), "unknown", 1),
}


@in_turns("limited", LIMITED, every=2)
def test_a_usage_limit_keeps_what_is_done(
    stage: Stage, mode: str, limited: tuple[Callable[[], Model], str, int]
) -> None:
    model, resets_at, requests = limited
    told = stage.having(**LOGIN).run(mode, model())
    assert told.outcome == {"kind": "api_error", "status": 429, "resets_at": resets_at}
    assert (told.result.status, told.result.error) == (Result.SUCCEEDED, None)
    assert told.handoff is not None
    assert told.handoff.status.value == "PARTIAL"
    assert told.handoff.blockers[0].endswith("after that: git swarm resume")
    assert told.files == ({"a.txt": "hi\n"} if requests > 1 else {})
    assert len(told.asked) == requests


@pytest.mark.soak
@by("sdk")
def test_a_limit_that_is_paid_over_is_no_reason_for_another_fault(stage: Stage, mode: str) -> None:
    model = at_first(failing(400), times=9, model=working(replace(WORK, headers=PAID_OVER)))
    told = stage.having(**LOGIN).run(mode, model)
    assert told.outcome == {"kind": "api_error", "status": 400}
    assert told.result.status is Result.FAILED


@by("sdk")
def test_another_model_takes_over(stage: Stage, mode: str) -> None:
    def answer(asked: ApiRequest) -> Reply:
        return failing(529) if asked.model == MODEL else working(WORK)(asked)

    second = "claude-haiku-4-5"
    told = stage.run(mode, answer, profile=quick(fallback_model=second))
    assert told.outcome == {"kind": "ok"}
    assert (told.handoff is not None, told.result.model) == (True, second)
    assert f"{second} answers from here on" in _noted(told, "system")
    assert told.result.cost_usd == pytest.approx(0.0006)


@by("sdk")
def test_lines_of_2_mib(stage: Stage, mode: str) -> None:
    long = "x" * (2 * MIB)
    output = use("Bash", command="head -c 2097152 /dev/zero | tr '\\0' y")
    told = stage.run(mode, working(use("Write", file_path="long.txt", content=long), output, say(long)))
    assert told.outcome == {"kind": "ok"}
    assert [(call.tool_name, call.success) for call in told.calls] == [("Write", True), ("Bash", True)]
    assert told.files == {"long.txt": long}
    assert told.result.output.endswith("x" * 49_000)


@by("cli")
def test_halves_of_characters(stage: Stage, mode: str) -> None:
    told = stage.run(mode, working(say("half \ud83d end"), final=handed_over(concerns=["half \udc00"])))
    assert told.outcome == {"kind": "ok"}
    assert told.result.output == "half \ufffd end"
    assert told.handoff is not None
    assert told.handoff.concerns == ("half \ufffd",)


@pytest.mark.parametrize(("mode", "price", "cost"), [("cli", None, None), ("sdk", (10.0, 100.0), 0.009)])
def test_what_another_provider_costs(
    stage: Stage, mode: str, price: tuple[float, float] | None, cost: float | None
) -> None:
    profile = replace(quick(), provider="anthropic_compat", prices=lambda _model: price)
    told = stage.run(mode, working(WORK), profile=profile)
    assert told.result.tokens.to_plain() == {"prompt": 300, "completion": 60, "total": 360}
    assert told.result.cost_usd == cost


def _noted(told: Told, role: str) -> list[str]:
    return [line.content for line in told.result.transcript if isinstance(line, Message) and line.role == role]


def test_a_wait_ends_when_nobody_waits_for_the_step(stage: Stage) -> None:
    """As when a sibling of its fork has decided the join, or a person ends the run."""
    request = request_for(stage.folder, {**stage.env, **NO_RETRIES}, mode="cli")
    stage.play(always(failing(529)))
    waits = threading.Event()

    def emit(event: Event) -> None:
        if event.kind is EventKind.ENGINE_RETRY:
            threading.Timer(0.1, request.ended.set).start()
            waits.set()

    began = time.monotonic()
    with pytest.raises(StepEndedError):
        engine_of("cli", replace(quick(attempts=2), retry_wait_s=30.0)).run(request, emit)
    assert (waits.is_set(), len(stage.asked)) == (True, 1)
    assert time.monotonic() - began < 20


@by("sdk")
def test_nothing_waits_that_could_not_be_tried_again_in_time(stage: Stage, mode: str) -> None:
    began = time.monotonic()
    told = stage.having(**NO_RETRIES).run(
        mode,
        always(failing(529)),
        profile=replace(quick(attempts=3), retry_wait_s=30.0),
        deadline=began + 29,
    )
    assert told.outcome == {"kind": "api_error", "status": 529, "retryable": True}
    assert (told.retries, time.monotonic() - began < 20) == ([], True)


@pytest.mark.soak
def test_a_join_does_not_wait_for_a_sibling_that_waits_for_its_provider(
    project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClaudeEngine, "_phases", lambda self, start: Phases(self.transport, start, 3, 40.0))
    own = "engines: {default: gemini, claude: {mode: cli}, steps: {left: claude, right: claude}}\n"
    project.commit({".swarm/config.yaml": own}, "the team's")
    first = "right], join_strategy: first_complete}}\n  - {id: close"
    with_flow(project, AUDITS, (", teaching: {outputs: [right.md]}", ""), ("right]}}\n  - {id: close", first))
    failed = threading.Event()

    def answer(asked: ApiRequest) -> Reply:
        if "left.md" in " ".join(asked.said):
            failed.set()
            return failing(529)
        failed.wait(20)
        return replace(working()(asked), hang_s=0.0 if asked.wants_result else 2.0)

    here = having(reaching(project, loopback, answer), CLAUDE_CODE_MAX_RETRIES="0")
    began = time.monotonic()
    here.swarm("start", "fan", "-m", "x", "--allow-stub")
    assert time.monotonic() - began < 20
    assert steps(project) == ["begin@1", "right@1", "both@1", "close@1"]
    assert not [thread.name for thread in threading.enumerate() if thread.name.endswith("left")]
