"""A decision of the policy for a hook of an agent's CLI: in bounded time, and a no where there is none."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from pydantic import JsonValue

from gitswarm.records.policy import Allow, Decide, Deny, Rewrite, Verdict

HOOK_S = 60
"""When the CLI gives its hook up; longer than everything in it, so that the hook itself can say no."""
DECISION_S = 20.0
"""For one decision; they take milliseconds."""

Question = Mapping[str, JsonValue]
Answer = dict[str, JsonValue]


def judged(decide: Decide, tool: str, given: Mapping[str, JsonValue], timeout_s: float = DECISION_S) -> Verdict:
    """In a thread of its own: a policy that hangs must not take the session with it. Never raises."""
    decided: Future[Verdict] = Future()

    def work() -> None:
        try:
            decided.set_result(_checked(decide(tool, given)))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in a policy is a no
            decided.set_result(undecided(f"{type(error).__name__}: {error}"))

    threading.Thread(target=work, daemon=True).start()
    try:
        return decided.result(timeout_s)
    except TimeoutError:
        return undecided(f"no decision within {timeout_s:g} s")


def undecided(why: str) -> Deny:
    return Deny("policy", f"the policy could not decide ({why})", "continue without this call")


def _checked(verdict: object) -> Verdict:
    return verdict if isinstance(verdict, Allow | Deny | Rewrite) else undecided(f"it says {verdict!r:.80}")
