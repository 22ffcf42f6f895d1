"""`watch_ci`: waits for the checks of the commit that landed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.errors import RunInterruptedError
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.runner.operations.forge.branch import NO_FORGE, configured_forge
from gitswarm.runner.operations.forge.program import CiCheck, Forge, ForgeError
from gitswarm.runner.step.operation import KernelStep, reported
from gitswarm.safety.redact.redactor import Redactor

MERGE_RESULT = "deploy/merge_result.json"

FIRST_POLL_S = 2.0
MOST_POLL_S = 30.0
NO_CHECKS_S = 60.0
"""How long a forge may take to begin a pipeline; after that there is none."""

_GLANCE_S = 0.1
_MOST_CHECKS = 200
_MOST_TEXT = 300

CiState = Literal["passed", "failed", "pending", "none"]


class _Seen(Struct, frozen=True):
    """`reason`: why no more is known. `concerns`: what is not as it should be."""

    checks: Sequence[CiCheck] = ()
    reason: str = ""
    concerns: tuple[str, ...] = ()

    @property
    def state(self) -> CiState:
        states = {check.state for check in self.checks}
        if "failed" in states:
            return "failed"
        if "pending" in states:
            return "pending"
        return "passed" if states else "none"

    @property
    def is_done(self) -> bool:
        return bool(self.checks) and all(check.state != "pending" for check in self.checks)


def watch_ci(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Ctrl-C and `git swarm stop` end the wait at once; `resume` waits again."""
    commit = step.earlier(MERGE_RESULT).get("commit")
    landed = step.earlier(MERGE_RESULT).get("landed") is True and isinstance(commit, str)
    try:
        forge = configured_forge(step.session) if landed else None
        if forge is None:
            seen = _Seen(reason=NO_FORGE if landed else "nothing landed")
        else:
            seen = _watched(step, forge, str(commit), request)
    except ForgeError as error:
        seen = _Seen(reason=error.message, concerns=error.lines)
    return _report(step, request, commit if landed else None, seen)


def _watched(step: KernelStep, forge: Forge, commit: str, request: StepRequest) -> _Seen:
    """
    :raises ForgeError: at the first look; later ones may fail.
    """
    timeout = step.session.spec.settings.deploy.ci_timeout
    started, pause = time.monotonic(), FIRST_POLL_S
    seen = _look(step, forge, commit)
    if not seen.is_done and not seen.reason:
        notice = f"waiting for the checks of {commit[:12]}, {timeout} s at most; Ctrl-C stops the wait"
        step.session.context.observer.notice(notice)
    while not seen.is_done and not seen.reason:
        passed = time.monotonic() - started
        if passed >= timeout or (not seen.checks and passed >= NO_CHECKS_S):
            return replace(seen, reason=f"waited {passed:.0f} s") if seen.checks else seen
        _wait(step, min(pause, timeout - passed), request)
        pause = min(pause * 1.5, MOST_POLL_S)
        try:
            seen = _look(step, forge, commit)
        except ForgeError as error:
            seen = replace(seen, concerns=(error.message,))
    return seen


def _look(step: KernelStep, forge: Forge, commit: str) -> _Seen:
    checks = forge.checks(commit)
    if checks is not None:
        return _Seen(checks)
    reason = f"{forge.program.name} does not know {commit[:12]}: it was not pushed there"
    pushes = step.session.spec.settings.deploy.push
    return _Seen(reason=reason, concerns=(reason,) if pushes else ())


def _wait(step: KernelStep, seconds: float, request: StepRequest) -> None:
    """
    :raises RunInterruptedError: a person wants the run to end.
    """
    session, until = step.session, time.monotonic() + seconds
    while time.monotonic() < until:
        if session.context.stop_requested() or session.requests.read() is not None:
            raise RunInterruptedError
        request.ended.wait(min(_GLANCE_S, max(0.0, until - time.monotonic())))


def _report(step: KernelStep, request: StepRequest, commit: JsonValue, seen: _Seen) -> StepResult:
    redactor, checks = step.session.redactor, seen.checks
    report: dict[str, JsonValue] = {
        "state": seen.state,
        "commit": commit,
        "reason": seen.reason,
        "left_out": max(0, len(checks) - _MOST_CHECKS),
        "checks": [_check_json(check, redactor) for check in checks[:_MOST_CHECKS]],
    }
    counts = ", ".join(
        f"{count} {state}"
        for state in ("passed", "failed", "pending", "skipped", "tolerated")
        if (count := sum(check.state == state for check in checks))
    )
    summary = f"checks of the landed commit: {seen.state}"
    fine = seen.state in ("passed", "none") and not seen.concerns
    handoff = Handoff(
        status=Status.VERIFIED if fine else Status.UNVERIFIED,
        summary="; ".join(text for text in (summary, counts, seen.reason) if text),
        concerns=seen.concerns or (() if fine else (f"{summary} ({counts})",)),
    )
    return reported(step, request, handoff, report)


def _check_json(check: CiCheck, redactor: Redactor) -> dict[str, JsonValue]:
    return {
        "name": redactor.scrub(check.name)[:_MOST_TEXT],
        "state": check.state,
        "url": redactor.scrub(check.url)[:_MOST_TEXT],
    }
