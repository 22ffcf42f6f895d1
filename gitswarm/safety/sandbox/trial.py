"""Which containment works on this machine: found by starting it with the flags that are used later.

On macOS a profile for sandbox-exec: made and tested as text; it was never run on a Mac.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.containment import EVERY_HOST, Containment, Uncontained
from gitswarm.safety.sandbox.bubblewrap import NAMESPACES, Bubblewrap
from gitswarm.safety.sandbox.limits import find_parent
from gitswarm.safety.sandbox.mounts import Mount, look_around, shown, writable

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
    place = _below(mount.target)
    if not mount.is_itself:
        return f"(deny file-read* file-write* {place})\n"
    if mount.kind == "write":
        return f"(allow file-read* file-write* {place})\n"
    return f"(allow file-read* {place})\n(deny file-write* {place})\n"


def _below(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{text}")'


_TRIAL_S = 10.0
LISTENS = "perl"
"""Starts the bridge of the network; where it is missing, Python does, more slowly."""
INSTALL = "install bubblewrap: apt-get install bubblewrap, dnf install bubblewrap"


class Sandbox(Struct, frozen=True):
    """`wall`: what agents are confined by, before it is told what they may see; None: nothing, and why in `reason`.
    Both are empty where nobody asked for one. `network`: for people, what they reach. `isolates`: the wall can keep
    them from the network; why it does not, where it should, is in `leak`."""

    wall: Bubblewrap | Seatbelt | None = None
    reason: str = ""
    network: str = "open"
    isolates: bool = False
    leak: str = ""

    @property
    def containment(self) -> Containment:
        return self.wall or Uncontained("none" if self.reason else "")

    @property
    def limits(self) -> str:
        """For people: what keeps a step from starting processes without end; nothing without bubblewrap."""
        if not isinstance(self.wall, Bubblewrap):
            return ""
        if os.geteuid() != 0:
            kept = "by the kernel" if self.wall.prlimit is not None else "counted: there is no prlimit"
        else:
            kept = "by a control group" if self.wall.groups is not None else "counted: root, and no control group"
        return f"processes: {kept}; memory: watched"

    @property
    def line(self) -> str:
        """For people; empty: there is nothing to say."""
        if self.wall is not None:
            why = f" ({self.leak})" if self.leak else ""
            return f"sandbox: {self.wall.name}, network: {self.network}{why}"
        return f"no sandbox, network: open: {self.reason}" if self.reason else ""


def find_sandbox(env: Mapping[str, str], home: Path | None, *, isolated: bool = False) -> Sandbox:
    """
    :param env: of the programs that will be confined.
    :param isolated: without the network, where that is possible.
    """
    if sys.platform == "darwin":
        found = _tried_seatbelt(env, home)
        return replace(found, leak="sandbox-exec does not limit it here") if isolated and found.wall else found
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
            wall = Bubblewrap(program, flags, machine, prlimit, groups=groups)
            tried = replace(wall, network=network)
            # Once for both: what perl's variables name need not be inside.
            if perl is not None and not _problem(tried, env, perl, "-e", "exit"):
                return Sandbox(replace(wall, perl=perl), isolates=network == "none", leak=leak)
            problem = _problem(tried, env)
            if not problem:
                return Sandbox(wall, isolates=network == "none", leak=leak)
        leak = problem
    return Sandbox(reason=f"bwrap does not work here ({problem}); docs/sandbox.md says what it needs")


def _tried_seatbelt(env: Mapping[str, str], home: Path | None) -> Sandbox:
    wall = Seatbelt(home)
    problem = _problem(wall, env)
    return Sandbox(reason=f"sandbox-exec does not work here ({problem})") if problem else Sandbox(wall)


def _problem(wall: Bubblewrap | Seatbelt, env: Mapping[str, str], *command: str) -> str:
    """Why nothing can be started; empty: it can.

    :param command: what is tried, if not a shell.
    """
    try:
        done = subprocess.run(
            wall.wrap(command or ["/bin/sh", "-c", ":"]),
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
