"""The configuration of a repository as agents may see it: without what opens a door elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SECTIONS = frozenset(
    """add advice alias am apply blame branch clean color column commit core diff extensions feature fetch filter
    format gc grep gui help i18n index init lfs log merge mergetool notes pack pull push rebase remote rerere
    safe sequence showbranch sparse stash status submodule swarm tag transfer tree user versionsort""".split()  # noqa: SIM905
)
_NEVER = re.compile(
    r"^core\.(hookspath|fsmonitor|sshcommand|askpass|gitproxy|editor|pager|worktree|attributesfile|excludesfile)$"
    r"|^include|token|secret|passw|apikey|api_key|extraheader|credential|cookie|proxy",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")
_NAME = re.compile(r"^(?P<section>[A-Za-z0-9.-]+?)(?:\.(?P<sub>.*))?\.(?P<key>[A-Za-z][A-Za-z0-9-]*)$", re.DOTALL)


def shown_config(entries: Iterable[tuple[str, str | None]]) -> str:
    """Text of a configuration file.

    :param entries: name as `git config --list` has it, and value; None: without a value, which means true.
    """
    lines = []
    for name, value in entries:
        found = _NAME.match(name)
        section = found["section"].lower() if found else ""
        if found is None or section not in _SECTIONS or _NEVER.search(name):
            continue
        sub = _USERINFO.sub("", found["sub"] or "")
        head = f'{section} "{_escaped(sub)}"' if found["sub"] else section
        told = "" if value is None else f' = "{_escaped_value(_USERINFO.sub("", value))}"'
        lines.append(f"[{head}]\n\t{found['key']}{told}\n")
    return "".join(lines)


def entries_of(listed: bytes) -> list[tuple[str, str | None]]:
    """Of `git config --list -z`."""
    pairs = (entry.partition("\n") for entry in listed.decode(errors="surrogateescape").split("\0") if entry)
    return [(name, value if line_end else None) for name, line_end, value in pairs]


def identity_config(name: str, email: str) -> str:
    """A `.gitconfig` with an identity, so that a project's own tests can commit in repositories of theirs."""
    return shown_config([("user.name", name), ("user.email", email), ("init.defaultBranch", "main")])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _escaped_value(text: str) -> str:
    return _escaped(text).replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
