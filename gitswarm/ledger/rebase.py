"""What the commits of a run say about its base (docs/decisions/0011-reset.md)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

REBASED_FROM = "Swarm-Rebased-From"
"""Trailer of a copy on another base: the commit that executing the step made."""

ONTO = "Swarm-Onto"
"""Trailer of a step that left the run's code merged onto another base: the new base, and the one before."""

REBASED = "Swarm-Rebased"
"""Trailer of the step that ends a rebase: the chain belongs on that base."""

GIVEN_UP = "Swarm-Given-Up"
"""Trailer of the step that takes a rebase back: the run stays on that base."""


class RunBase(Struct, frozen=True):
    """`base`: the commit that the code of a run is a change of; `root`: the one that its chain branches off.
    `before`: the base that a rebase which is under way started from."""

    base: str
    root: str
    before: str | None = None

    @property
    def is_moved(self) -> bool:
        """Whether the chain belongs on another base than it stands on."""
        return self.before is None and self.base != self.root

    def after(self, said: Mapping[str, str]) -> RunBase:
        """The ground behind a commit with these trailers."""
        if ONTO in said:
            base, _blank, before = said[ONTO].partition(" ")
            return replace(self, base=base, before=before)
        if GIVEN_UP in said:
            return replace(self, base=said[GIVEN_UP], before=None)
        return replace(self, before=None) if REBASED in said else self


def copied_message(message: str, origin: str) -> str:
    """The message of a copy of the commit `origin`.

    :param message: that commit's, or that of another copy of it.
    """
    lines = message.rstrip("\n").split("\n")
    kept = lines[:-1] if lines[-1].startswith(f"{REBASED_FROM}: ") else lines
    return "\n".join([*kept, f"{REBASED_FROM}: {origin}"]) + "\n"
