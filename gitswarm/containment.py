"""What confines a program, as those see it who start programs. Where it comes from: `safety/sandbox`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    import psutil


EVERY_HOST = ("*",)

REFUSED = "not in policy.allow_hosts: "
"""Begins the answer to a program that asks for a host which it may not reach; `host:port` follows."""


class Containment(Protocol):
    """Confines a program by the operating system. `name`: for people. `depth`: how many processes stand between the
    one that is started and the program itself; the program is who a signal is for. `environment`: variables that
    programs need inside. `hosts`: what they reach, as in `policy.allow_hosts`; `EVERY_HOST`: everything.
    `refused`: what they asked the network for in vain, in words for people."""

    @property
    def name(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def hosts(self) -> Sequence[str]: ...

    @property
    def refused(self) -> Sequence[str]: ...

    def opened(self, *, read: Sequence[Path] = (), write: Sequence[Path] = ()) -> Containment:
        """The same, and the program may also read or write these."""

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """The command line that starts `argv` confined."""

    def served(self) -> AbstractContextManager[None]:
        """While it lasts, what is confined reaches the hosts that it may."""


class Uncontained(Struct, frozen=True):
    """No confinement at all. `name` is empty where nobody asked for any."""

    name: str = ""
    depth: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    hosts: Sequence[str] = EVERY_HOST
    refused: Sequence[str] = ()

    def opened(self, *, read: Sequence[Path] = (), write: Sequence[Path] = ()) -> Uncontained:
        del read, write
        return self

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def served(self) -> AbstractContextManager[None]:
        return nullcontext()


UNCONTAINED = Uncontained()


def program_below(pid: int, depth: int) -> int | None:
    """The first child of the first child …; None: it has not been started, or is gone. For Linux only."""
    # Not by psutil: it compares start times, and those follow a clock that is set while they are compared.
    try:
        for _ in range(depth):
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])
    except (OSError, IndexError):
        return None
    return pid


def holds_namespace(process: psutil.Process) -> bool:
    """Whether it holds a PID namespace: with it everything inside would end at once, without a last word."""
    own = pid_namespace(process.pid)
    return any(pid_namespace(child.pid) not in (own, None) for child in process.children())


def pid_namespace(pid: int) -> str | None:
    """The PID namespace of a process; None: it is gone, or this is not Linux."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - not a path
    except OSError:
        return None
