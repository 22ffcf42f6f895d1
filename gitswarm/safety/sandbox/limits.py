"""How much of the machine a step may take. One place for the numbers; docs/sandbox.md has them in a table."""

from __future__ import annotations

from msgspec import Struct

_GIB = 1 << 30


class Limits(Struct, frozen=True):
    """Bytes, but for `processes` (counted, by whoever the user is) and `threads` (the kernel's: for users other than
    root, or of a control group). `growth`: of everything together that a step may write on the disk; `reserve`: what
    has to stay free. `memory`: what a step's processes may have in any case; `memory_left`: when the machine has less
    than that, no more."""

    temporary: int = 2 * _GIB
    shared_memory: int = 1 * _GIB
    home: int = 1 * _GIB
    growth: int = 10 * _GIB
    reserve: int = 256 << 20
    memory: int = 1 * _GIB
    memory_left: int = 512 << 20
    processes: int = 2_000
    threads: int = 8_000


LIMITS = Limits()
