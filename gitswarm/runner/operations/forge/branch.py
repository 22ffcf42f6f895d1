"""Where a run is shown: the configured forge, and the run's code as one commit on a branch of its remote."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import Struct

from gitswarm.errors import GitFailedError
from gitswarm.git.as_user import LOCAL_VARIABLES, UsersGit, output_of
from gitswarm.ledger.approval import code_tree
from gitswarm.ledger.message import CommitMessage
from gitswarm.ledger.state import RunState
from gitswarm.records.safety import Scrub
from gitswarm.runner.landing.landing_plan import HEADS, LandingRequest, short, target_of, users_git
from gitswarm.runner.operations.forge.github import GitHub
from gitswarm.runner.operations.forge.gitlab import GitLab
from gitswarm.runner.operations.forge.program import Forge, ForgeCli, ForgeError, Remark
from gitswarm.runner.run_processes import MARKER
from gitswarm.runner.run_session import Session

_MOST_BODY = 60_000  # GitHub takes 65,536 characters
_MOST_TITLE = 200
_COMMAND = re.compile(r"^([ \t]*)/(?=[A-Za-z])", re.MULTILINE)
_CUT = "\n\n[… cut]"


def harmless(text: str, scrub: Scrub) -> str:
    """The text without secrets, and without lines that a forge or its bots would carry out (`/merge`)."""
    plain = _COMMAND.sub(r"\1\\/", scrub(text.replace("\r\n", "\n"))).replace("\0", "").strip()
    return plain if len(plain) <= _MOST_BODY else plain[:_MOST_BODY] + _CUT


class RequestText(Struct, frozen=True):
    """Title and text of a request."""

    title: str
    body: str

    @classmethod
    def of(cls, page: str, scrub: Scrub) -> RequestText | None:
        """The first line with something on it is the title; None: there is none."""
        lines = page.strip().splitlines()
        title = scrub(lines[0].lstrip("#").strip())[:_MOST_TITLE].strip() if lines else ""
        return cls(title, harmless("\n".join(lines[1:]), scrub)) if title else None


class Mark(Struct, frozen=True):
    """An invisible last line of a comment. `about`: the report, or the id of what the comment answers."""

    run: str
    about: str = "report"

    @property
    def line(self) -> str:
        return f"<!-- git-swarm {self.run} {self.about} -->"

    def under(self, text: str) -> str:
        return f"{text}\n\n{self.line}"

    def found_in(self, remarks: Iterable[Remark]) -> Remark | None:
        """The first that ends with it; what quotes it does not."""
        return next((each for each in remarks if last_line(each.text) == self.line), None)


def last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].rstrip("\r")


def is_ours(remark: Remark, run: str) -> bool:
    """Whether a remark says that git-swarm made it for this run."""
    return last_line(remark.text).startswith(f"<!-- git-swarm {run} ")


GIT_TIMEOUT_S = 300.0
_TRAILER = "Swarm-Run"


def branch_of(run: str) -> str:
    """Short name of the branch on which a run is shown."""
    return f"swarm/{run}"


def has_change(session: Session, state: RunState) -> bool:
    """Whether there is anything to show."""
    return code_tree(session.repository, state) != session.repository.objects.commit(state.base).tree


def target_on_remote(session: Session) -> str | None:
    """Short name, on the remote, of the branch that the run is to land on; None: nobody said."""
    target = target_of(session, LandingRequest())
    if target is None:
        return None
    users, name = users_git(session), short(target)
    follows = users.config(f"branch.{name}.remote") == session.spec.settings.review.remote
    upstream = users.config(f"branch.{name}.merge") if follows else None
    return short(upstream) if upstream is not None and upstream.startswith(HEADS) else name


def publish_branch(session: Session, state: RunState, title: str) -> str:
    """Makes the branch on the remote that commit, whose id it returns; one that is there already is not pushed again.

    :raises ForgeError: git could not, or may not.
    """
    branch = _Branch(session, state, users_git(session), session.spec.settings.review.remote)
    branch.refuse_unknown_base()
    commit = branch.make(title)
    on_remote = branch.on_remote()
    if on_remote != commit:
        branch.push(commit, on_remote)
    return commit


class _Branch(Struct, frozen=True):
    session: Session
    state: RunState
    users: UsersGit
    remote: str

    @property
    def _name(self) -> str:
        return HEADS + branch_of(self.session.layout.run_id)

    def refuse_unknown_base(self) -> None:
        """What the run began on would go along; nobody scanned that, and it may not be meant for others yet."""
        base = self.state.base
        done = self.users.run("rev-list", "--max-count=1", base, "--not", f"--remotes={self.remote}")
        if done.returncode != 0 or done.stdout.strip():
            raise ForgeError(
                f"the run's base {base[:12]} is not on {self.remote}, and would be published with it",
                hint=f"git push {self.remote} BRANCH   (or git fetch {self.remote}; then start the review again)",
            )

    def make(self, title: str) -> str:
        """Makes the commit, which is the same for the same run, code and title, whenever it is made."""
        run = self.session.layout.run_id
        message = CommitMessage(title, "", {_TRAILER: run}).render()
        when = datetime.fromisoformat(self.session.spec.created_at)
        tree = code_tree(self.session.repository, self.state)
        try:
            return self.users.commit_tree(tree, (self.state.base,), message, sign=False, when=when)
        except GitFailedError as error:
            raise ForgeError(error.message, hint=error.hint) from error

    def on_remote(self) -> str | None:
        """Where the branch is on the remote; None: there is none."""
        address = (
            self.users.run("remote", "get-url", "--push", "--", self.remote).stdout.decode(errors="replace").strip()
        )
        done = self._ask("ls-remote", "--refs", "--", address, self._name)
        return done.partition("\t")[0].strip() or None

    def push(self, commit: str, on_remote: str | None) -> None:
        """Over what a run published before, and only if it still stands there."""
        if on_remote is not None and not self._is_ours(on_remote):
            branch = branch_of(self.session.layout.run_id)
            raise ForgeError(
                f"{branch} on {self.remote} is at {on_remote[:12]}, which git-swarm did not make: it stays as it is",
                hint=f"git fetch {self.remote} {branch} && git log -p FETCH_HEAD",
            )
        lease = f"--force-with-lease={self._name}:{on_remote or ''}"
        self._ask("push", "--no-follow-tags", lease, "--", self.remote, f"{commit}:{self._name}")

    def _is_ours(self, commit: str) -> bool:
        """Whether it is one of `make`: a person's commit, or amended one, has another time."""
        objects = self.session.repository.objects
        if not objects.has(commit):
            return False
        found = objects.commit(commit)
        made = int(datetime.fromisoformat(self.session.spec.created_at).timestamp())
        ending = f"\n\n{_TRAILER}: {self.session.layout.run_id}\n"
        return found.message.endswith(ending) and len(found.parents) == 1 and objects.when(commit) == made

    def _ask(self, *words: str) -> str:
        """
        :raises ForgeError: it ended non-zero, or took too long.
        """
        env = {MARKER: self.session.mark, "GIT_TERMINAL_PROMPT": "0"}
        try:
            done = self.users.run(*words, extra_env=env, timeout_s=GIT_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise ForgeError(
                f"git {words[0]} took longer than {GIT_TIMEOUT_S:g} s", hint=f"git fetch {self.remote}"
            ) from error
        if done.returncode != 0:
            output = self.session.redactor.scrub(output_of(done))
            raise ForgeError(f"git {words[0]} failed: {output}", hint=f"git fetch {self.remote}")
        return done.stdout.decode(errors="replace")


NO_FORGE = "no forge is configured"
_URL = re.compile(r"[a-z+]+://(?:[^@/]*@)?(?P<host>[^/:]+)(?P<port>:\d+)?/(?P<path>.+)")
_SCP = re.compile(r"(?:[^@/]*@)?(?P<host>[^/:]{2,}):(?P<path>[^/].*)")
_FORGES: dict[str, Callable[[ForgeCli, str], Forge]] = {"gh": GitHub, "glab": GitLab}


class ForgeRemote(Struct, frozen=True):
    """A repository on a server."""

    host: str
    path: str


def configured_forge(session: Session) -> Forge | None:
    """The forge of the repository; None: nothing leaves this machine.

    :raises ForgeError: git does not know the remote, or it is on no server.
    """
    rules = session.spec.settings.review
    make = _FORGES.get(rules.forge)
    if make is None:
        return None
    done = users_git(session).run("remote", "get-url", "--", rules.remote)
    url = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        raise ForgeError(f"git has no remote '{rules.remote}' (review.remote)", hint="git remote -v")
    remote = forge_remote(url)
    if remote is None:
        raise ForgeError(
            f"remote '{rules.remote}' is on no server that {rules.forge} could ask", hint="git remote -v"
        )
    env = {name: value for name, value in session.context.env.items() if name not in LOCAL_VARIABLES}
    # A call that outlives us is ended by whoever resumes the run, before it asks what is there.
    program = ForgeCli(rules.forge, remote.host, {**env, MARKER: session.mark}, session.repository.main_folder)
    return make(program, remote.path)


def forge_remote(url: str) -> ForgeRemote | None:
    """Host and path of a repository's address; None: it is none on a server. A port counts for the web only."""
    found = _URL.fullmatch(url) or (_SCP.fullmatch(url) if "://" not in url else None)
    if found is None:
        return None
    port = (found["port"] or "") if url.startswith("http") else ""
    path = found["path"].strip("/").removesuffix(".git")
    return ForgeRemote(f"{found['host']}{port}", path) if path else None
