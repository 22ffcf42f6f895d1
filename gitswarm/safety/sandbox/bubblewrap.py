"""The command line of bubblewrap around a program: a file system of named folders, no privileges, limits; the
watch over what is confined in it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import EVERY_HOST, Containment
from gitswarm.safety.sandbox.gateway import Gateway
from gitswarm.safety.sandbox.limits import LIMITS, ControlGroup, Limits, Watch, group_for
from gitswarm.safety.sandbox.mounts import Machine, Mount, emptied, ordered, shown, writable

Network = Literal["shared", "none"]

_ALONE = (
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--new-session",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
)
NAMESPACES = (
    ("--unshare-user", "--disable-userns", *_ALONE),
    # Root that may not map users, and bubblewrap before 0.8. The file system is the same wall in each.
    ("--unshare-user", *_ALONE),
    _ALONE,
)
"""From the best to what old systems can do; which one works is found by trying."""

_MARKS = ("SWARM_STEP_OF", "SWARM_FLOW", "SWARM_STEP", "SWARM_ITERATION")
_TMP = Path("/tmp")  # noqa: S108 - one of its own
_SHM = Path("/dev/shm")  # noqa: S108 - same


class Bubblewrap(Struct, frozen=True):
    """`program`: path of `bwrap`. `flags`: one of `NAMESPACES`. `prlimit`, `perl`: their paths; None: there is none.
    `mounts`: what is shown besides the machine. `gateway`: the way out where `network` is none.
    `groups`: where control groups can be made; `group`: the one that everything inside is in."""

    program: str
    flags: tuple[str, ...]
    machine: Machine
    prlimit: str | None = None
    limits: Limits = LIMITS
    network: Network = "shared"
    mounts: tuple[Mount, ...] = ()
    name: str = "bubblewrap"
    depth: int = 2
    gateway: Gateway | None = None
    perl: str | None = None
    groups: Path | None = None
    group: ControlGroup | None = None

    def showing(self, *mounts: Mount) -> Bubblewrap:
        return replace(self, mounts=(*self.mounts, *mounts))

    def through(self, gateway: Gateway) -> Bubblewrap:
        """Cut off from the network but for that."""
        return replace(self.showing(*gateway.mounts), network="none", gateway=gateway)

    @property
    def environment(self) -> Mapping[str, str]:
        return self.gateway.environment if self.gateway is not None else {}

    @property
    def hosts(self) -> Sequence[str]:
        if self.network == "shared":
            return EVERY_HOST
        return self.gateway.rules if self.gateway is not None else ()

    @property
    def refused(self) -> Sequence[str]:
        return self.gateway.refused if self.gateway is not None else ()

    def grouped(self, name: str) -> Bubblewrap:
        """The same, with a limit of processes for root too, where there can be one.

        :param name: of the group; who works at the same time needs another one.
        """
        if self.groups is None:
            return self
        return replace(self, group=group_for(self.groups, name, self.limits.threads))

    @contextmanager
    def served(self) -> Iterator[None]:
        """See `Containment`."""
        with ExitStack() as stack:
            for each in (self.group, self.gateway):
                if each is not None:
                    stack.enter_context(each.opened())
            yield

    def opened(self, *, read: Sequence[Path] = (), write: Sequence[Path] = ()) -> Bubblewrap:
        """See `Containment`."""
        return self.showing(*map(shown, read), *map(writable, write))

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """See `Containment`."""
        own = [emptied(_TMP, self.limits.temporary), emptied(_SHM, self.limits.shared_memory)]
        if self.machine.home is not None:
            own.append(emptied(self.machine.home, self.limits.home))
        own += [*self.machine.mounts, *self.mounts]
        line = [self.program, *self.flags]
        line += ["--unshare-net"] if self.network == "none" else []
        for link, path in self.machine.links:
            line += ["--symlink", link, path]
        # Not even root needs a capability to write /proc/sys: it owns the files.
        line += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
        for mount in ordered(own):
            line += _option(mount)
        # Without these two, folders that hold mount points would be memory without a limit.
        line += ["--dir", "/run", "--dir", "/var", "--symlink", str(_TMP), "/var/tmp"]  # noqa: S108 - its own
        line += ["--remount-ro", "/dev", "--remount-ro", "/", "--"]
        program = self.gateway.bridged(argv, self.perl) if self.gateway is not None else argv
        line += [*self._limited(), *program]
        return self.group.joined(line) if self.group is not None else line

    def _limited(self) -> list[str]:
        if self.prlimit is None:
            return []
        # Set inside, where only the sandbox's own processes count.
        return [self.prlimit, f"--nproc={self.limits.threads}", f"--fsize={self.limits.growth}", "--core=0", "--"]


def _option(mount: Mount) -> list[str]:
    target = str(mount.target)
    if mount.source is None:
        return ["--size", str(mount.size), "--tmpfs", target]
    return ["--ro-bind-try" if mount.kind == "read" else "--bind", str(mount.source), target]


@contextmanager
def watched(containment: Containment, env: Mapping[str, str]) -> Iterator[Watch]:
    """Watches what is confined in it while the block lasts.

    :param env: of the step's programs.
    """
    if not isinstance(containment, Bubblewrap):
        yield Watch(Limits(), (), {})
        return
    folders = [mount.source for mount in containment.mounts if mount.kind == "write" and mount.source is not None]
    watch = Watch(containment.limits, folders, {name: env[name] for name in _MARKS if name in env})
    thread = threading.Thread(target=watch.keep, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()
    if watch.reason:
        watch.make_room()
