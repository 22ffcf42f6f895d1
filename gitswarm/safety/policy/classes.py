"""The classes of what is refused: what each stops, and what to do instead."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.records.policy import Deny


class RuleClass(Struct, frozen=True):
    rule: str
    stops: str
    instead: str


_ROWS = """
tool | a tool that the station was not given; a shell without a command | use one of the station's tools
git-push | sending commits anywhere | leave your work in the worktree; Deploy lands it after approval
git-network | asking or fetching from remotes | work with what is here: git log, git show, git branch -r
git-commit | making commits, merging, rebasing | commit nothing: every step is committed for you
git-refs | making, moving, deleting, checking out branches and tags | read with git show REV:PATH; files: git restore
git-reset | resets of more than the index | git restore PATH for files, git reset -- PATH for the index
git-stash | the stash, which all worktrees share | git diff > $TMPDIR/x.patch, later git apply
git-config | configuration, remotes and hooks | git config --get NAME reads; say in the handoff what should change
git-environment | variables that change what git does or may reach | call git without them
marker | changing SWARM_SESSION and the like | call the program with the environment as it is
git-worktree | adding repositories, worktrees and submodules | work in this worktree; scratch repositories: $TMPDIR
git-maintenance | rewriting or pruning the object store | leave that to git-swarm
git-clean | git clean of everything or of ignored files | git clean -n to look, rm PATH for a file
hosting | changing pull requests, issues, releases on a forge | write it into the handoff; Deploy does it
swarm-command | git-swarm's commands that change a run | git swarm status, log, show and diff read
nested-agent | starting other coding agents | do the work in this session
outside-write | writes and deletes outside of the worktree | write in the worktree, or in $TMPDIR
git-internals | writes into .git | use git's own commands
swarm-files | writes into .swarm but for the step's artifacts | write your artifacts in $RUN_BASE
protected-path | writes to paths that the project protects | say in the handoff what should change there
read-only | changes of code by a station that only reads it | write your finding into your artifact in $RUN_BASE
delete-everything | deleting the whole worktree or its whole top level | name what should go: rm -r build
key-file | keys, credentials, password stores | ask for what you need in the handoff
shell-startup | start-up files of shells and programs | set variables in front of the command
privileges | sudo and its relatives | work as the user you are; name missing packages in the handoff
disk | writing to devices, file systems, mounts | work with files in the worktree
processes | ending processes that are not yours | kill the id of a process that you started: kill $!
machine | shutting down, services, timers, users, owners of files | say in the handoff what the machine needs
remote-host | shells, copies and tunnels to other hosts | work on this machine
reverse-shell | network connections of the shell itself | curl or the project's own client
publish | publishing packages, images and sites | build and check only: npm pack, twine check; Deploy publishes
user-rule | what the project's own policy.deny forbids | see policy.deny in .swarm/config.yaml
"""
CLASSES: tuple[RuleClass, ...] = tuple(RuleClass(*row.split(" | ")) for row in _ROWS.strip().splitlines())
_BY_RULE = {each.rule: each for each in CLASSES}


def deny(rule: str, what: str, instead: str | None = None) -> Deny:
    """`what`: the thing that was refused, as it stands in the call."""
    each = _BY_RULE[rule]
    shown = what if len(what) <= 200 else f"{what[:200]}…"
    return Deny(rule, f"{shown}: {each.stops} is not allowed here", instead or each.instead)
