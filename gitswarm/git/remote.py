"""Another repository, reached by git as the user configured it: by its URL, so that no ref of ours follows, without
hooks, and never with a question."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import GitFailedError, NotFoundError, UsageError
from gitswarm.git.as_user import UsersGit, output_of
from gitswarm.git.reader import RepositoryReader

_QUIET = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "submodule.recurse=false"),
)
_FETCHED = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--stdin")
_PARTIAL = "git-swarm"
_DECLINED = ("hook declined", "deny updating a hidden ref", "protected", "denyNonFastForwards", "non-fast-forward")


class Move(Struct, frozen=True):
    """A ref over there, from exactly `old` (None: absent) to `new` (None: it goes)."""

    ref: str
    old: str | None
    new: str | None


class Remote(Struct, frozen=True):
    """`name`: as people call it. `patience_s`: how long its answer may take."""

    name: str
    url: str
    users: UsersGit
    patience_s: float = 900.0

    def refs(self, *patterns: str) -> dict[str, str]:
        """Ids of the refs there that match, by name.

        :raises GitFailedError: it cannot be reached.
        """
        listed = self._must("ls-remote", "--quiet", "--refs", "--", self.url, *patterns).decode(
            errors="surrogateescape"
        )
        pairs = (line.partition("\t") for line in listed.splitlines())
        return {name: commit_id for commit_id, _tab, name in pairs}

    def fetch(self, wanted: Iterable[str]) -> None:
        """Brings the objects of refs there, or those with an id; no ref moves here.

        :raises GitFailedError: it cannot be reached, or has no such ref.
        """
        self._must("fetch", *_FETCHED, "--", self.url, stdin="".join(f"{each}\n" for each in wanted).encode())

    def fetch_some(self, wanted: Iterable[str], depth: int) -> None:
        """As `fetch`, into a repository that need not be whole: of trees only so many levels, and with them no files.
        A hub that does not filter (`uploadpack.allowFilter`) sends everything.

        :param depth: 0: commits alone, and none that a ref here reaches.
        :raises GitFailedError: it cannot be reached, has no such ref, or gives no object by its id.
        """
        # What belongs to a ref here may be missing here: below a commit nothing is told to be had.
        negotiation = () if depth == 0 else ("-c", "fetch.negotiationAlgorithm=noop")
        # Configured for this call: otherwise git would write it down, and fetch what is missing whenever it is read.
        partial = (("url", self.url), ("promisor", "true"), ("partialclonefilter", "tree:0"))
        config = [word for key, value in partial for word in ("-c", f"remote.{_PARTIAL}.{key}={value}")]
        stdin = "".join(f"{each}\n" for each in wanted).encode()
        self._must(*negotiation, *config, "fetch", f"--filter=tree:{depth}", *_FETCHED, "--", _PARTIAL, stdin=stdin)

    def seen_from(self, folder: Path) -> Remote:
        """The same remote, for another repository here."""
        local = self.users.folder / self.url
        url = str(local) if local.exists() else self.url
        return replace(self, url=url, users=UsersGit(self.users.env, folder, lambda: None))

    def push(self, moves: Sequence[Move]) -> str | None:
        """Moves all of them or none; None: done, else why not, in the words of the other side if it has any.

        An answer that got lost looks like a refusal: ask what is there.
        """
        leases = [f"--force-with-lease={move.ref}:{move.old or ''}" for move in moves]
        changes = [f"{move.new or ''}:{move.ref}" for move in moves]
        plain = ("--quiet", "--atomic", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
        done = self._run("push", *plain, *leases, "--", self.url, *changes)
        return None if done.returncode == 0 else _reasons(output_of(done)) or "no message"

    def _must(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self._run(*arguments, stdin=stdin)
        if done.returncode != 0:
            message = "; ".join(output_of(done).splitlines()[:2]) or "no message"
            raise GitFailedError(f"{self.name}: {message}", hint=f"git ls-remote {self.name}")
        return done.stdout

    def _run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        quiet: Mapping[str, str] = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
        try:
            return self.users.run(*_QUIET, *arguments, stdin=stdin, extra_env=quiet, timeout_s=self.patience_s)
        except subprocess.TimeoutExpired as error:
            raise GitFailedError(
                f"{self.name} did not answer within {self.patience_s:.0f} s", hint=f"git ls-remote {self.name}"
            ) from error


def _reasons(message: str) -> str:
    """Why a push was refused: what a hook said, and git's reasons, without git's list of all refs, which is the same
    for each."""
    lines = message.splitlines()
    words = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    refused = [line for line in lines if line.lstrip().startswith("! [")]
    why = [line.rpartition("(")[2].rstrip(") ") for line in refused if line.endswith(")")]
    other = [line for line in lines if line.startswith(("fatal:", "error:"))] if not why else []
    return "; ".join(dict.fromkeys(each for each in (*words, *why, *other) if each)) or message


def is_declined(message: str) -> bool:
    """Whether a rule over there refused a push: it will again."""
    return any(word in message for word in _DECLINED)


def refusal_of(remote: Remote, what: str, message: str, *, again: str) -> GitFailedError:
    """The error for a push that the other side does not take, whoever asks.

    :param message: its reasons.
    :param again: the command to type when that is mended.
    """
    when = "when the hub lets runs in: docs/hub.md" if is_declined(message) else "when that is fixed"
    return GitFailedError(f"{remote.name} did not take {what}: {message}", hint=f"{again}   ({when})")


def configured_hub(repository: RepositoryReader) -> str:
    """The name or URL of the remote that runs go to by default; where none is configured, that of a fleet of ours.

    :raises NotFoundError: `swarm.hub` is not set.
    """
    hub = repository.config("swarm.hub").get("swarm.hub")
    if not hub and own_hub(repository).is_dir():
        return str(own_hub(repository))
    if not hub:
        raise NotFoundError(
            "no hub is configured",
            hint="git config swarm.hub REMOTE   (or git swarm init, if .swarm/config.yaml has hub:)",
        )
    return hub


def own_hub(repository: RepositoryReader) -> Path:
    """Where a fleet makes a hub for this repository alone: it leaves the machine no more than the repository does."""
    return repository.swarm_dir / "hub.git"


def remote_of(repository: RepositoryReader, name: str, env: Mapping[str, str]) -> Remote:
    """A remote by its name or URL; nothing is asked of it.

    :param env: the user's whole environment.
    :raises UsageError: name or URL is what git, or a program that git starts, would take for an option.
    """
    if name.startswith("-"):
        raise UsageError(f"'{name}' is no remote: it begins with '-'", hint="git remote -v")
    users = UsersGit(env, repository.main_folder, repository.git.before)
    named = users.run("remote", "get-url", "--push", "--", name)
    if named.returncode != 0:  # a URL, which may be rewritten too
        named = users.run("ls-remote", "--get-url", "--", name)
    url = named.stdout.decode(errors="surrogateescape").partition("\n")[0] or name
    if url.startswith("-"):
        raise UsageError(f"the URL of {name} begins with '-': {url}", hint="git remote -v")
    return Remote(name, url, users)
