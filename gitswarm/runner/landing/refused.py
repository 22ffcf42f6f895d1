"""A refusal is a value: an expected outcome of a question, with the next command to type."""

from __future__ import annotations

from msgspec import Struct


class Refused(Struct, frozen=True):
    """Why not; `paths` are the files that it is about, `said` the end of what a hook, a test run or git printed.
    `voids`: an approval does not stand any more after it."""

    reason: str
    hint: str
    paths: tuple[str, ...] = ()
    said: str = ""
    voids: bool = False


def refuse_rehearsal(run: str) -> Refused:
    """What a stub or a script did is not approved, and does not land."""
    return Refused(
        f"{run} is a rehearsal: a stub or a script did the work, not a model, so it cannot be approved or landed",
        "git swarm start FLOW --mode cli   (with a model; --allow-stub lets a rehearsal land)",
    )
