"""How a repository looks from inside a sandbox: to be read, but for what `git add` writes, which goes to copies."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from gitswarm.git.process import Git
from gitswarm.records.text import words
from gitswarm.safety.sandbox.machine import Mount, covered, emptied, replaced, shown, writable

_SECTIONS = words("""
    add advice alias am apply blame branch clean color column commit core diff extensions feature fetch filter
    format gc grep gui help i18n index init lfs log merge mergetool notes pack pull push rebase remote rerere
    safe sequence showbranch sparse stash status submodule swarm tag transfer tree user versionsort
""")
_NEVER = re.compile(
    r"^core\.(hookspath|fsmonitor|sshcommand|askpass|gitproxy|editor|pager|worktree|attributesfile|excludesfile)$"
    r"|^include|token|secret|passw|apikey|api_key|extraheader|credential|cookie|proxy",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")
_NAME = re.compile(r"^(?P<section>[A-Za-z0-9.-]+?)(?:\.(?P<sub>.*))?\.(?P<key>[A-Za-z][A-Za-z0-9-]*)$", re.DOTALL)
_REAL_OBJECTS = Path("/run/git-swarm/objects")
_OURS_BYTES = 1 << 20
_SHOWN: dict[bytes, str] = {}
"""Configuration file → as agents see it. It rarely changes between steps, and git takes 3 ms to read it."""


class RepositoryView(Struct, frozen=True):
    """`common`: the repository; `admin`: what it keeps about the worktree; `own`: an empty folder for the copies, on
    the same disk. Nobody outside ever reads those."""

    worktree: Path
    common: Path
    admin: Path
    own: Path

    def mounts(self, git: Git) -> tuple[Mount, ...]:
        """Makes the copies anew, and tells what is shown where.

        :param git: on the repository.
        """
        shutil.rmtree(self.own, ignore_errors=True)
        admin, objects = self.own / "admin", self.own / "objects"
        (objects / "info").mkdir(parents=True)
        shutil.copytree(self.admin, admin, symlinks=True)
        real = self.common / "objects"
        others = list(_alternates(real))
        lines = [_REAL_OBJECTS, *others]
        (objects / "info" / "alternates").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        covers = [self._configured(git, name) for name in ("config", "config.worktree")]
        return (
            shown(self.common),
            *(cover for cover in covers if cover is not None),
            emptied(self.common / "swarm", _OURS_BYTES),
            covered(_REAL_OBJECTS, real),
            *map(shown, others),
            replaced(real, objects),
            replaced(self.admin, admin),
            writable(self.worktree),
            shown(self.worktree / ".git"),
        )

    def _configured(self, git: Git, name: str) -> Mount | None:
        path = self.common / name
        if not path.is_file():
            return None
        content = path.read_bytes()
        if content not in _SHOWN:
            listed = git.output("config", "--file", "-", "--no-includes", "--list", "-z", stdin=content)
            _SHOWN[content] = shown_config(entries_of(listed))
        (self.own / name).write_text(_SHOWN[content], encoding="utf-8", errors="surrogateescape")
        return covered(path, self.own / name)


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
        assignment = "" if value is None else f' = "{_escaped_value(_USERINFO.sub("", value))}"'
        lines.append(f"[{head}]\n\t{found['key']}{assignment}\n")
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


def _alternates(objects: Path) -> Iterator[Path]:
    """Object folders that these borrow from, theirs too."""
    try:
        lines = (objects / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        if line and not line.startswith("#"):
            other = (objects / line).resolve()
            yield other
            yield from _alternates(other)
