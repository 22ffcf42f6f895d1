"""Which forge a run's configuration means, and where its repository is there."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from gitswarm.git.as_user import LOCAL_VARIABLES
from gitswarm.runner.landing.look import users_git
from gitswarm.runner.marks import MARKER
from gitswarm.runner.operations.forge.github import GitHub
from gitswarm.runner.operations.forge.gitlab import GitLab
from gitswarm.runner.operations.forge.program import Forge, ForgeCli, ForgeError
from gitswarm.runner.session import Session

NO_FORGE = "no forge is configured"
_URL = re.compile(r"[a-z+]+://(?:[^@/]*@)?(?P<host>[^/:]+)(?P<port>:\d+)?/(?P<path>.+)")
_SCP = re.compile(r"(?:[^@/]*@)?(?P<host>[^/:]{2,}):(?P<path>[^/].*)")
_FORGES: dict[str, Callable[[ForgeCli, str, str], Forge]] = {"gh": GitHub, "glab": GitLab}


class ForgeRemote(Struct, frozen=True):
    """A repository on a server."""

    host: str
    path: str


def configured_forge(session: Session) -> Forge | None:
    """None: nothing leaves this machine.

    :raises ForgeError: git does not know the remote, or it is on no server.
    """
    rules = session.spec.settings.review
    make = _FORGES.get(rules.forge)
    if make is None:
        return None
    done = users_git(session).run("remote", "get-url", rules.remote)
    url = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        raise ForgeError(f"git has no remote '{rules.remote}' (review.remote)", hint="git remote -v")
    place = place_of(url)
    if place is None:
        raise ForgeError(
            f"remote '{rules.remote}' is on no server that {rules.forge} could ask", hint="git remote -v"
        )
    env = {name: value for name, value in session.around.env.items() if name not in LOCAL_VARIABLES}
    # A call that outlives us is ended by whoever resumes the run, before it asks what is there.
    program = ForgeCli(rules.forge, {**env, MARKER: session.mark}, session.repository.main_folder)
    return make(program, place.host, place.path)


def place_of(url: str) -> ForgeRemote | None:
    """Host and path of a repository's address; None: it is none on a server. A port counts for the web only."""
    found = _URL.fullmatch(url) or (_SCP.fullmatch(url) if "://" not in url else None)
    if found is None:
        return None
    port = (found["port"] or "") if url.startswith("http") else ""
    path = found["path"].strip("/").removesuffix(".git")
    return ForgeRemote(f"{found['host']}{port}", path) if path else None
