"""Git as the user calls it: with their configuration, hooks, signing and identity; never with an editor."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from gitswarm.errors import GitFailedError
from gitswarm.git.object_reader import NewCommit, Person

# `git rev-parse --local-env-vars`: what would aim git at another repository than the one it stands in.
LOCAL_VARIABLES = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)

UTF_8 = ("-c", "i18n.commitEncoding=UTF-8")
"""Options of a call that is given a message, whatever the user writes theirs in."""


class UsersGit(Struct, frozen=True):
    """`env`: the user's whole environment; `folder`: where git is started, a checkout or a bare repository;
    `before`: is called before each start."""

    env: Mapping[str, str]
    folder: Path
    before: Callable[[], None]

    @property
    def own_env(self) -> dict[str, str]:
        """The user's environment without what would aim git at another repository."""
        return {name: value for name, value in self.env.items() if name not in LOCAL_VARIABLES}

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        extra_env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """The finished process, whatever its exit code; stdout and stderr apart.

        :raises subprocess.TimeoutExpired: it took longer, and was ended.
        """
        self.before()
        return subprocess.run(
            ["git", *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            cwd=self.folder,
            timeout=timeout_s,
            env={**self.own_env, "GIT_EDITOR": ":", "GIT_NO_REPLACE_OBJECTS": "1", **(extra_env or {})},
        )

    def config(self, key: str, kind: str | None = None) -> str | None:
        """A configured value; None: it is not set.

        :param kind: git's type of the value: `bool`, `path`.
        """
        done = self.run("config", *([f"--type={kind}"] if kind else []), "--get", key)
        return done.stdout.decode(errors="surrogateescape").rstrip("\n") if done.returncode == 0 else None

    def commit_tree(
        self, tree: str, parents: tuple[str, ...], message: str, *, sign: bool, when: datetime | None = None
    ) -> str:
        """A commit of the user's own, without a checkout; its id.

        :param when: its dates; None: now.
        :raises GitFailedError: git has no identity or could not sign; the message is git's own.
        """
        dates = {f"GIT_{role}_DATE": _date(when) for role in ("AUTHOR", "COMMITTER")} if when is not None else {}
        return self._commit_tree(tree, parents, message, dates, sign=sign)

    def signed(self, new: NewCommit) -> str:
        """A commit as described, signed as the user's configuration says; its id.

        :raises GitFailedError: git could not sign.
        """
        when = _date(new.when)
        variables = {**_person("AUTHOR", new.author, when), **_person("COMMITTER", new.committer, when)}
        return self._commit_tree(new.tree, new.parents, new.message, variables, sign=True)

    def _commit_tree(
        self, tree: str, parents: tuple[str, ...], message: str, variables: Mapping[str, str], *, sign: bool
    ) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        flag = "-S" if sign else "--no-gpg-sign"
        done = self.run(
            *UTF_8, "commit-tree", flag, *words, "-F", "-", tree, stdin=message.encode(), extra_env=variables
        )
        if done.returncode != 0:
            raise GitFailedError(
                f"git commit-tree failed: {output_of(done)}",
                hint="git config --list --show-origin | grep -e '^.*user' -e gpg",
            )
        return done.stdout.decode().strip()


def output_of(done: subprocess.CompletedProcess[bytes]) -> str:
    """Both outputs of a process, as text."""
    return (done.stdout + done.stderr).decode(errors="replace").strip()


def _person(role: str, person: Person, when: str) -> dict[str, str]:
    return {
        f"GIT_{role}_NAME": person.name,
        f"GIT_{role}_EMAIL": person.email,
        f"GIT_{role}_DATE": when,
    }


def _date(when: datetime) -> str:
    return f"@{int(when.timestamp())} {when:%z}" if when.tzinfo else f"@{int(when.timestamp())} +0000"
