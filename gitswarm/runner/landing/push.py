"""Pushes the target after a landing, where a team asked for it: the user's own push, with their hooks."""

from __future__ import annotations

from gitswarm.git.as_user import spoken
from gitswarm.runner.landing.look import users_git
from gitswarm.runner.landing.plan import short
from gitswarm.runner.landing.refused import Refused
from gitswarm.runner.session import Session


def push_target(session: Session, target: str) -> str | Refused:
    """Where it was pushed to; pushing what is there already does nothing.

    :param target: full name of the branch.
    """
    users, name = users_git(session), short(target)
    remote, upstream = users.config(f"branch.{name}.remote"), users.config(f"branch.{name}.merge")
    if remote in (None, ".") or remote is None or upstream is None:
        return Refused(f"{name} is not pushed: it has no upstream", f"git push --set-upstream REMOTE {name}")
    done = users.run("push", remote, f"{target}:{upstream}")
    if done.returncode != 0:
        hint = f"git swarm land {session.layout.run_id}   (pushes again, once that is fixed)"
        return Refused(f"{name} is not pushed: {remote} or a hook refused", hint, said=spoken(done))
    return f"{remote} {short(upstream)}"
