"""The only way out of a sandbox without network: a socket, and behind it a proxy that starts when it is needed and
lets through what a list of rules names (`host`, `host:port`, `*.host`).
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from gitswarm.containment import REFUSED
from gitswarm.records.lazy_re import lazy_re
from gitswarm.safety.sandbox import bridge
from gitswarm.safety.sandbox.mounts import Mount, covered, shown

_RULE = lazy_re(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>[0-9]+))?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_STRANGE = lazy_re(r"[^A-Za-z0-9._:\[\]-]")

LOCAL = "localhost,127.0.0.1,::1"
"""For `NO_PROXY`: programs talk to each other inside without the proxy."""


def is_allowed(host: str, port: int, rules: Iterable[str]) -> bool:
    """A rule without a port means every port; one that begins with `*.` every host below, not the host itself."""
    wanted = _plain(host)
    return wanted != "" and any(_fits(wanted, port, rule) for rule in rules)


def local_ports(rules: Iterable[str]) -> tuple[int, ...]:
    """Ports of this machine's own that rules name: they are brought into the sandbox under the same number."""
    parts = (_parts(rule) for rule in rules)
    return tuple(dict.fromkeys(port for host, port in parts if host in _LOOPBACK and port is not None))


def refusal(host: str, port: int) -> str:
    """One line, for programs and people alike. Whatever was asked for, it is plain text."""
    return f"{REFUSED}{_STRANGE.sub('?', host)[:253]}:{port}"


def _fits(wanted: str, port: int, rule: str) -> bool:
    host, only = _parts(rule)
    if only is not None and only != port:
        return False
    if host.startswith("*."):
        return wanted.endswith(host[1:]) and wanted != host[1:]
    return wanted == host or (wanted in _LOOPBACK and host in _LOOPBACK)


def _parts(rule: str) -> tuple[str, int | None]:
    found = _RULE.fullmatch(rule)
    if found is None:
        return "", None  # fits no host
    return _plain(found["host"]), int(found["port"]) if found["port"] else None


def _plain(host: str) -> str:
    return host.lower().removeprefix("[").removesuffix("]").removesuffix(".")


_BRIDGE = Path(bridge.__file__)
_LISTEN = _BRIDGE.with_name("listen.pl")
_INSIDE = Path("/run/git-swarm/network")
_DOOR = "door"
_LOG = "refused"
_PORT = 3128
_LOOK_MS = 500


class Upstream(Struct, frozen=True):
    """The proxy that the user's own programs go through; empty: none. `bypass`: hosts that they reach without it."""

    url: str = ""
    bypass: str = ""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Upstream:
        """Only plain ones: what else there is needs `policy.network: allow`."""
        names = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
        value = next((env[name] for name in names if env.get(name)), "")
        url = value if "://" in value or not value else f"http://{value}"
        return cls(url if url.startswith("http://") else "", env.get("no_proxy") or env.get("NO_PROXY") or "")


class Gateway(Struct, frozen=True):
    """`folder`: of its own, for the socket; it goes when the gateway is closed, if it is not `kept`. `rules`: hosts
    that are reached. `is_open`: its block lasts."""

    folder: Path
    rules: tuple[str, ...] = ()
    upstream: Upstream = Upstream()
    kept: bool = False
    is_open: threading.Event = field(default_factory=threading.Event)
    _refused: list[str] = field(default_factory=list)

    @property
    def refused(self) -> list[str]:
        """What was asked for in vain, in words."""
        return list(dict.fromkeys((*self._refused, *self._logged())))

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What has to be seen inside. Connecting to a socket needs no right to write."""
        return (covered(_INSIDE, self.folder / "shown"), shown(_BRIDGE), shown(_LISTEN))

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs inside find the proxy."""
        url = f"http://127.0.0.1:{_PORT}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        found = {name: url for each in names for name in (each, each.lower())}
        return found | {"NO_PROXY": LOCAL, "no_proxy": LOCAL, "NODE_USE_ENV_PROXY": "1"}

    def bridged(self, argv: Sequence[str], perl: str | None = None) -> list[str]:
        """The command line that starts `argv` inside, behind the bridge.

        :param perl: path of one that works inside; None: there is none.
        """
        ports = ",".join(str(port) for port in dict.fromkeys((_PORT, *local_ports(self.rules))))
        rest = [str(_BRIDGE), str(_INSIDE / _DOOR), ports, *argv]
        return [sys.executable, "-I", "-S", *rest] if perl is None else [perl, str(_LISTEN), sys.executable, *rest]

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Listens while the block lasts; the proxy starts with the first connection, and ends with the block. Within
        another block of it nothing happens."""
        if self.is_open.is_set():
            yield
            return
        shown = self.folder / "shown"
        shown.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        over, done = os.pipe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            _bind(listener, shown)
            listener.listen(128)
            thread = threading.Thread(target=self._attend, args=(listener, over), daemon=True)
            thread.start()
            self.is_open.set()
            try:
                yield
            finally:
                self.is_open.clear()
                os.close(done)
                thread.join()
                os.close(over)
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _attend(self, listener: socket.socket, over: int) -> None:
        if _ready(over, listener.fileno(), None):
            return
        with (self.folder / _LOG).open("wb") as log:
            line = (
                str(os.getpid()),
                str(listener.fileno()),
                str(self.folder),
                self.upstream.url,
                self.upstream.bypass,
            )
            # The kernel ends it with the thread that started it: this one, which waits here.
            proxy = subprocess.Popen(
                [sys.executable, "-I", "-m", "gitswarm.safety.sandbox.proxy", *line, *self.rules],
                pass_fds=(listener.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.DEVNULL,
            )
            while not _ready(over, None, _LOOK_MS):
                if proxy.poll() is not None and listener.fileno() >= 0:
                    listener.close()  # nobody may wait for an answer that does not come
                    self._refused.append(f"no host can be reached: the proxy ended, exit code {proxy.returncode}")
            proxy.kill()
            proxy.wait()
        self._refused.extend(self._logged())

    def _logged(self) -> list[str]:
        """Each line is there before whoever asked is answered."""
        try:
            return (self.folder / _LOG).read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return []


def _ready(over: int, other: int | None, timeout_ms: int | None) -> bool:
    """Waits; whether it is over."""
    poll = select.poll()
    for descriptor in (over, *(() if other is None else (other,))):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    return any(descriptor == over for descriptor, _event in poll.poll(timeout_ms))


def _bind(listener: socket.socket, folder: Path) -> None:
    """Binds a socket by a short path to its folder: its address has room for about 100 characters."""
    with suppress(FileNotFoundError):
        (folder / _DOOR).unlink()
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{_DOOR}")
    finally:
        os.close(opened)
