"""Whether a loop still brings anything new: evidence of its passes, one beside the other."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from gitswarm.records.routing import StallState

WINDOW = 3
"""Equal passes in a row, the first included, that make a stall."""


class Pass(Struct, frozen=True):
    """One round of a loop, from behind its earlier last step to its last step.

    `failure`: signature of the tests that failed at its end, None when none did or none ran. `work`: what the round
    left: the tree of the code, and the artifacts that are not its critic's.
    """

    failure: str | None
    work: str

    @property
    def signature(self) -> str:
        """Equal for rounds of which the later one made no progress.

        The same failing tests are no progress, whatever was edited meanwhile. Without failing tests a round brings
        something new when it leaves other work behind; that its critic words it otherwise does not count.
        """
        if self.failure is not None:
            return f"failure:{self.failure}"
        return f"work:{sha256(self.work.encode()).hexdigest()[:16]}"


def stall_state(passes: Sequence[Pass], window: int = WINDOW) -> StallState | None:
    """
    :param passes: the rounds since the loop was entered, oldest first; None for none.
    """
    if not passes:
        return None
    last = passes[-1]
    equal = 0
    for earlier in reversed(passes):
        if earlier.signature != last.signature:
            break
        equal += 1
    return StallState(passes=equal, window=window, signature=last.signature, same_failure=last.failure is not None)
