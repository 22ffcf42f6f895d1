"""Gives everything that works for a run its place in the sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

from msgspec.structs import replace

from gitswarm.containment import REFUSED, Containment
from gitswarm.errors import UsageError
from gitswarm.git.repository import Repository
from gitswarm.records.safety import PolicyRules
from gitswarm.records.text import words
from gitswarm.runner.run_session import Session
from gitswarm.safety.sandbox.backends import INSTALL, Bubblewrap, Sandbox, Seatbelt, find_sandbox, join_empty_keyring
from gitswarm.safety.sandbox.gateway import Gateway, Upstream
from gitswarm.safety.sandbox.mounts import (
    Mount,
    RepositoryView,
    covered,
    identity_config,
    is_python,
    shown,
    virtual_environment,
    writable,
)
from gitswarm.untrusted import remove_tree
from gitswarm.worktree.shadow import Shadow

CACHES = "caches"
"""Below the local files of a repository: what package tools of a run keep, by run; what they keep as they set up the
base lies apart, where no agent can write."""

REGISTRIES = words("""
    pypi.org files.pythonhosted.org registry.npmjs.org registry.yarnpkg.com crates.io index.crates.io static.crates.io
    proxy.golang.org sum.golang.org rubygems.org index.rubygems.org repo.maven.apache.org repo1.maven.org
    plugins.gradle.org repo.packagist.org api.nuget.org
""")
"""Hosts that `worktree.setup` reaches where an agent changed what it sets up."""

_CONFIG = ".swarm/config.yaml"
_SHOWN = 3
_IDENTITY = ("git-swarm agent", "agent@git-swarm.invalid")
_TMP = "/tmp"  # noqa: S108 - the sandbox has one of its own


def sandbox_for(policy: PolicyRules, env: Mapping[str, str]) -> Sandbox:
    """What confines the agents of a run on this machine.

    :raises UsageError: nothing does, and the policy requires it.
    """
    if policy.sandbox == "off":
        found = Sandbox()
    else:
        found = find_sandbox(env, _home(env), isolated=policy.network != "allow")
    if found.backend is None and policy.sandbox == "require":
        why = f"policy.sandbox is require, and there is no sandbox: {found.reason}"
        raise UsageError(why, hint=INSTALL.partition(": ")[2])
    if not found.isolates and (policy.network == "none" or (found.leak and policy.sandbox == "require")):
        why = found.leak or found.reason or "policy.sandbox is off"
        what = f"policy.network is {policy.network}, and nothing here keeps programs from the network: {why}"
        raise UsageError(what, hint=f"policy.network: allow in {_CONFIG}, if that is acceptable")
    return replace(found, network=_reach(policy)) if found.isolates else found


def _reach(policy: PolicyRules) -> str:
    """What agents reach, for people."""
    if policy.network == "none":
        return "none"
    first, more = policy.allow_hosts[:_SHOWN], len(policy.allow_hosts) - _SHOWN
    return ", ".join(("the model's provider", *first, *([f"{more} more"] if more > 0 else [])))


def mention_sandbox(session: Session) -> None:
    if session.sandbox.line:
        session.context.observer.notice(session.sandbox.line)


def contained(
    session: Session, shadow: Shadow, name: str, provider: Sequence[str] | None = (), *, agents: bool = True
) -> Containment:
    """The containment of what works in a worktree, started by the thread that calls this. Its git writes to copies,
    which are made anew here.

    :param name: of the copies' folder; who works at the same time needs another one.
    :param provider: hosts that it may reach beside those of the policy; None: every host.
    :param agents: an agent had a hand in what is executed.
    """
    backend = session.sandbox.backend
    if backend is None:
        return session.sandbox.containment
    join_empty_keyring()
    own = _copies(session, name)
    view = RepositoryView(shadow.path, session.repository.common_dir, shadow.git_dir, own)
    mounts = [*view.mounts(session.repository.git), *_shared(session, agents=agents), *_interpreters(shadow.path)]
    home = _home(session.context.env)
    if home is not None:
        (own / "gitconfig").write_text(identity_config(*_IDENTITY), encoding="utf-8")
        mounts.append(covered(home / ".gitconfig", own / "gitconfig"))
    backend = _grouped(session, backend.showing(*mounts), name)
    return backend if provider is None else _cut_off(session, backend, provider, own / "network", kept=True)


def contained_alone(session: Session, name: str, provider: Sequence[str]) -> Containment:
    """The containment of what works in no worktree, started by the thread that calls this."""
    backend = session.sandbox.backend
    if backend is None:
        return session.sandbox.containment
    join_empty_keyring()
    backend = _grouped(session, backend.showing(*_shared(session)), name)
    return _cut_off(session, backend, provider, session.scratch / f"{name}.net")


def _grouped(session: Session, backend: Bubblewrap | Seatbelt, name: str) -> Bubblewrap | Seatbelt:
    return backend.grouped(f"{session.layout.run_id}.{name}") if isinstance(backend, Bubblewrap) else backend


def _cut_off(
    session: Session, backend: Bubblewrap | Seatbelt, provider: Sequence[str], folder: Path, *, kept: bool = False
) -> Containment:
    """The sandbox cut off from the network, but for those hosts and the policy's, where that is wanted and possible.

    :param folder: for the gateway.
    :param kept: it goes with what is around it.
    """
    policy = session.spec.settings.policy
    if not (session.sandbox.isolates and isinstance(backend, Bubblewrap)):
        return backend
    rules = () if policy.network == "none" else (*provider, *policy.allow_hosts)
    env = dict(session.context.env)
    for access in session.context.access.values():
        env |= access.env
    return backend.through(Gateway(folder, rules, Upstream.of(env), kept=kept))


def mention_refused(session: Session, containment: Containment) -> None:
    """Tells what a step asked the network for in vain."""
    for refusal in containment.refused[:_SHOWN]:
        place = f" (the place for it is {_CONFIG})" if refusal.startswith(REFUSED) else ""
        session.context.observer.notice(f"{refusal}{place}")


def remove_copies(session: Session, name: str) -> None:
    """Removes the copies that `contained` made; nobody has read them. Some file systems take long for a folder: the
    next step does not wait for it, the end of the run does."""
    own = _copies(session, name)
    gone = own.with_name(f"{own.name}.{len(session.removing)}")
    with suppress(OSError):  # there were none
        own.rename(gone)
        thread = Thread(target=remove_tree, args=(gone,))
        session.removing.append(thread)
        thread.start()


def contained_environment(session: Session, *, agents: bool = True) -> dict[str, str]:
    """What programs in the sandbox are told besides; nothing without one."""
    if session.sandbox.backend is None:
        return {}
    caches = _caches(session, agents=agents)
    home = {} if _home(session.context.env) else {"HOME": _TMP}
    return home | {
        "TMPDIR": _TMP,
        "XDG_CACHE_HOME": str(caches),
        "PIP_CACHE_DIR": str(caches / "pip"),
        "npm_config_cache": str(caches / "npm"),
    }


def caches_of(repository: Repository, run_id: str) -> Path:
    return repository.swarm_dir / CACHES / run_id


def _copies(session: Session, name: str) -> Path:
    return session.scratch / f"{name}.git"


def _caches(session: Session, *, agents: bool) -> Path:
    return caches_of(session.repository, session.layout.run_id) / ("agents" if agents else "base")


def _shared(session: Session, *, agents: bool = True) -> Iterator[Mount]:
    """The mounts of everything that works for the run."""
    caches = _caches(session, agents=agents)
    caches.mkdir(parents=True, exist_ok=True)
    yield writable(caches)
    home = _home(session.context.env)
    for bind in session.spec.settings.policy.sandbox_binds:
        if bind.startswith("/") or home is not None:
            yield shown(home / bind[2:] if home is not None and bind.startswith("~/") else Path(bind))


def _interpreters(worktree: Path) -> Iterator[Mount]:
    """What the virtual environments of a worktree come from. An agent may have written these: what they name is shown
    only if it is a Python, which opens nothing."""
    for configured in (*worktree.glob("*/pyvenv.cfg"), *worktree.glob(".*/pyvenv.cfg")):
        for folder in {Path(os.path.realpath(named)) for named in virtual_environment(configured.parent)}:
            if not folder.is_relative_to(worktree.resolve()) and is_python(folder):
                yield shown(folder)


def _home(env: Mapping[str, str]) -> Path | None:
    return Path(env["HOME"]) if env.get("HOME", "").startswith("/") else None
