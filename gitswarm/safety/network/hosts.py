"""Which hosts a list of rules lets through: `host`, `host:port`, `*.host`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gitswarm.containment import REFUSED

_RULE = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>[0-9]+))?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_STRANGE = re.compile(r"[^A-Za-z0-9._:\[\]-]")

LOCAL = "localhost,127.0.0.1,::1"
"""For `NO_PROXY`: programs talk to each other inside without the proxy."""


def is_allowed(host: str, port: int, rules: Iterable[str]) -> bool:
    """A rule without a port means every port; one that begins with `*.` every host below, not the host itself."""
    asked = _plain(host)
    return asked != "" and any(_fits(asked, port, rule) for rule in rules)


def local_ports(rules: Iterable[str]) -> tuple[int, ...]:
    """Ports of this machine's own that rules name: they are brought into the sandbox under the same number."""
    parts = (_parts(rule) for rule in rules)
    return tuple(dict.fromkeys(port for host, port in parts if host in _LOOPBACK and port is not None))


def refusal(host: str, port: int) -> str:
    """One line, for programs and people alike. Whatever was asked for, it is plain text."""
    return f"{REFUSED}{_STRANGE.sub('?', host)[:253]}:{port}"


def _fits(asked: str, port: int, rule: str) -> bool:
    host, only = _parts(rule)
    if only is not None and only != port:
        return False
    if host.startswith("*."):
        return asked.endswith(host[1:]) and asked != host[1:]
    return asked == host or (asked in _LOOPBACK and host in _LOOPBACK)


def _parts(rule: str) -> tuple[str, int | None]:
    found = _RULE.fullmatch(rule)
    if found is None:
        return "", None  # fits no host
    return _plain(found["host"]), int(found["port"]) if found["port"] else None


def _plain(host: str) -> str:
    return host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
