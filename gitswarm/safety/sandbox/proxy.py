"""Outside a sandbox: proxy.py with an allow-list, at a socket that the owner opened.

Run by itself: `python -I -m gitswarm.safety.sandbox.proxy OWNER SOCKET FOLDER UPSTREAM BYPASS RULE …`. OWNER: its
process; SOCKET: number of the descriptor; FOLDER: for files of its own; UPSTREAM: `http://host:port` of the user's
own proxy, or nothing; BYPASS: hosts that are reached without that one, as in NO_PROXY. What is refused goes to
standard output, a line each. One process, a thread for each connection: proxy.py's own main program takes three.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from typing import Any
from urllib.request import proxy_bypass

from proxy.common.flag import FlagParser
from proxy.core.work import start_threaded_work
from proxy.http.exception import HttpRequestRejected
from proxy.http.parser import HttpParser
from proxy.http.proxy import HttpProxyBasePlugin
from proxy.plugin import ProxyPoolPlugin

from gitswarm.safety.sandbox.gateway import LOCAL, is_allowed, refusal

_PR_SET_PDEATHSIG = 1
_QUIET_S = 24 * 3600
"""A model may think for long without a byte; proxy.py would hang up after ten seconds."""

_ADVICE = "\nTo allow it: policy.allow_hosts in .swarm/config.yaml, committed before the run starts.\n"


class AllowList(HttpProxyBasePlugin):
    rules: tuple[str, ...] = ()

    def before_upstream_connection(self, request: HttpParser) -> HttpParser | None:
        """
        :raises HttpRequestRejected: no rule lets it through.
        """
        host, port = (request.host or b"").decode("latin-1"), int(request.port or 0)
        if is_allowed(host, port, self.rules):
            return request
        message = refusal(host, port)
        sys.stdout.write(f"{message}\n")
        sys.stdout.flush()
        kind = {b"Content-Type": b"text/plain"}
        raise HttpRequestRejected(403, reason=message.encode(), headers=kind, body=(message + _ADVICE).encode())

    def handle_client_request(self, request: HttpParser) -> HttpParser | None:
        """Each connection has one request in clear: a second one might be for another host."""
        if not request.is_https_tunnel and not request.is_connection_upgrade:
            request.add_header(b"Connection", b"close")
        return request


class ThroughUsersProxy(ProxyPoolPlugin):
    def before_upstream_connection(self, request: HttpParser) -> HttpParser | None:
        host = (request.host or b"").decode("latin-1")
        if proxy_bypass(host):
            return request
        return super().before_upstream_connection(request)


def main() -> None:
    owner, descriptor, folder, upstream, bypass, *rules = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(owner):
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the owner's; sessions end in order through us
    AllowList.rules = tuple(rules)
    os.environ["no_proxy"] = f"{LOCAL},{bypass}"
    words = ["--threaded", "--timeout", str(_QUIET_S), "--log-level", "CRITICAL", "--disable-headers", ""]
    words += ["--data-dir", folder, "--cache-dir", folder]
    plugins: list[Any] = [AllowList]
    if upstream:
        words += ["--proxy-pool", upstream.removeprefix("http://").rstrip("/")]
        plugins.append(ThroughUsersProxy)
    flags = FlagParser.initialize(words, plugins=plugins)
    listener = socket.socket(fileno=int(descriptor))
    while True:
        caller, _address = listener.accept()
        start_threaded_work(flags, caller, None)


if __name__ == "__main__":
    main()
