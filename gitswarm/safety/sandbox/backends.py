"""What confines a program: bubblewrap on Linux (a file system of named folders, no privileges, limits that are
watched), sandbox-exec on macOS (a profile that was made and tested as text, and never run on a Mac). Which of them
works on this machine is found by starting it with the flags that are used later.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.containment import EVERY_HOST, Containment, Uncontained
from gitswarm.safety.sandbox.gateway import Gateway
from gitswarm.safety.sandbox.limits import LIMITS, ControlGroup, Limits, Watch, find_parent, group_for
from gitswarm.safety.sandbox.mounts import Machine, Mount, emptied, look_around, ordered, shown, writable

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
    # Root that may not map users, and bubblewrap before 0.8. The file system is the same in each.
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
        mounts = ordered(own)
        for mount in mounts:
            line += _option(mount)
        # Without these two, folders that hold mount points would be memory without a limit.
        line += ["--dir", "/run", "--dir", "/var", "--symlink", str(_TMP), "/var/tmp"]  # noqa: S108 - its own
        for mount in mounts:
            line += ["--remount-ro", str(mount.target)] if mount.kind == "hidden" else []
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


_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1


def join_empty_keyring() -> None:
    """Gives the thread that calls this, and what it starts, a new session keyring: namespaces do not hide the user's,
    with its tickets and tokens. Where the kernel has none, or refuses, nothing changes."""
    number = _KEYCTL.get(os.uname().machine)
    if sys.platform == "linux" and number is not None and sys.maxsize > 1 << 32:
        import ctypes  # noqa: PLC0415 - only who starts something in a sandbox pays for it

        ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None)


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


_ALWAYS_WRITTEN = ("/private/tmp", "/private/var/folders", "/dev")
_HEAD = """(version 1)
(allow default)
(deny file-write*)
"""


class Seatbelt(Struct, frozen=True):
    """Writes only where mounts say so, reads nothing of `home` but what they show. It replaces no file: where
    bubblewrap would put something else in a file's place, this one denies it."""

    home: Path | None
    mounts: tuple[Mount, ...] = ()
    name: str = "sandbox-exec"
    depth: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    hosts: Sequence[str] = EVERY_HOST
    refused: Sequence[str] = ()

    def showing(self, *mounts: Mount) -> Seatbelt:
        return replace(self, mounts=(*self.mounts, *mounts))

    def opened(self, *, read: Sequence[Path] = (), write: Sequence[Path] = ()) -> Seatbelt:
        """See `Containment`."""
        return self.showing(*map(shown, read), *map(writable, write))

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """See `Containment`."""
        return ["/usr/bin/sandbox-exec", "-p", profile(self.home, self.mounts), *argv]

    def served(self) -> AbstractContextManager[None]:
        """See `Containment`."""
        return nullcontext()


def profile(home: Path | None, mounts: Sequence[Mount]) -> str:
    """Rules in order; the last one that fits a path decides."""
    rules = [_HEAD]
    if home is not None:
        rules.append(f"(deny file-read* {_below(home)})\n(allow file-read-metadata {_below(home)})\n")
    rules += [f"(allow file-write* {_below(Path(path))})\n" for path in _ALWAYS_WRITTEN]
    for mount in sorted(mounts, key=lambda each: each.target.parts):
        rules.append(_rule(mount))
    return "".join(rules)


def _rule(mount: Mount) -> str:
    subpath = _below(mount.target)
    if not mount.is_itself:
        return f"(deny file-read* file-write* {subpath})\n"
    if mount.kind == "write":
        return f"(allow file-read* file-write* {subpath})\n"
    return f"(allow file-read* {subpath})\n(deny file-write* {subpath})\n"


def _below(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{text}")'


_TRIAL_S = 10.0
LISTENS = "perl"
"""Starts the bridge of the network; where it is missing, Python does, more slowly."""
INSTALL = "install bubblewrap: apt-get install bubblewrap, dnf install bubblewrap"


class Sandbox(Struct, frozen=True):
    """What confines agents. `backend`: without what they may see; None: nothing, and why in `reason`. Both are empty
    where nobody asked for one. `network`: for people, what they reach. `isolates`: the backend can keep them from the
    network; why it does not, where it should, is in `leak`."""

    backend: Bubblewrap | Seatbelt | None = None
    reason: str = ""
    network: str = "open"
    isolates: bool = False
    leak: str = ""

    @property
    def containment(self) -> Containment:
        return self.backend or Uncontained("none" if self.reason else "")

    @property
    def limits(self) -> str:
        """For people: what keeps a step from starting processes without end; nothing without bubblewrap."""
        if not isinstance(self.backend, Bubblewrap):
            return ""
        if os.geteuid() != 0:
            kept = "by the kernel" if self.backend.prlimit is not None else "counted: there is no prlimit"
        else:
            kept = "by a control group" if self.backend.groups is not None else "counted: root, and no control group"
        return f"processes: {kept}; memory: watched"

    @property
    def line(self) -> str:
        """One line for people; empty: there is nothing to say."""
        if self.backend is not None:
            why = f" ({self.leak})" if self.leak else ""
            return f"sandbox: {self.backend.name}, network: {self.network}{why}"
        return f"no sandbox, network: open: {self.reason}" if self.reason else ""


def find_sandbox(env: Mapping[str, str], home: Path | None, *, isolated: bool = False) -> Sandbox:
    """
    :param env: of the programs that will be confined.
    :param isolated: without the network, where that is possible.
    """
    if sys.platform == "darwin":
        found = _tried_seatbelt(env, home)
        return replace(found, leak="sandbox-exec does not limit it here") if isolated and found.backend else found
    if sys.platform != "linux":
        return Sandbox(reason=f"git-swarm knows none for {sys.platform}")
    program = shutil.which("bwrap", path=env.get("PATH"))
    if program is None:
        return Sandbox(reason=f"there is no bwrap on PATH; {INSTALL}")
    machine = look_around(env, home)
    prlimit, perl = (shutil.which(name, path="/usr/bin:/bin") for name in ("prlimit", LISTENS))
    groups = find_parent() if os.geteuid() == 0 else None
    problem = leak = ""
    for network in ("none", "shared") if isolated else ("shared",):
        for flags in NAMESPACES:
            backend = Bubblewrap(program, flags, machine, prlimit, groups=groups)
            tried = replace(backend, network=network)
            # Once for both: what perl's variables name need not be inside.
            if perl is not None and not _problem(tried, env, perl, "-e", "exit"):
                return Sandbox(replace(backend, perl=perl), isolates=network == "none", leak=leak)
            problem = _problem(tried, env)
            if not problem:
                return Sandbox(backend, isolates=network == "none", leak=leak)
        leak = problem
    return Sandbox(reason=f"bwrap does not work here ({problem}); docs/sandbox.md says what it needs")


def _tried_seatbelt(env: Mapping[str, str], home: Path | None) -> Sandbox:
    backend = Seatbelt(home)
    problem = _problem(backend, env)
    return Sandbox(reason=f"sandbox-exec does not work here ({problem})") if problem else Sandbox(backend)


def _problem(backend: Bubblewrap | Seatbelt, env: Mapping[str, str], *command: str) -> str:
    """Why nothing can be started; empty: it can.

    :param command: what is tried, if not a shell.
    """
    try:
        done = subprocess.run(
            backend.wrap(command or ["/bin/sh", "-c", ":"]),
            env=dict(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return str(error)
    errors = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (errors[-1] if errors else f"exit code {done.returncode}")
