"""The classes of what is refused: what each stops, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass

from gitswarm.records.policy import Deny


@dataclass(frozen=True, slots=True)
class RuleClass:
    rule: str
    stops: str
    instead: str


CLASSES: tuple[RuleClass, ...] = tuple(
    RuleClass(*row)
    for row in (
        # What cannot be judged
        ("unparsed", "a command line that is no valid shell", "write it on several lines, in plain POSIX shell"),
        (
            "too-complex",
            "a command line that is too long or nested too deeply",
            "write a script to a file and run that",
        ),
        (
            "unknown-command",
            "a program whose name is known only when it runs",
            "write the name of the program itself",
        ),
        (
            "unknown-target",
            "a write or a delete whose place is known only when it runs",
            "write the path itself; for many files: find DIR -name X -exec … {} +, git grep -l X | xargs …",
        ),
        (
            "shadowing",
            "functions and aliases with the name of another command",
            "give the function a name of its own",
        ),
        ("tool", "a tool that the station was not given", "use one of the station's tools"),
        # Git
        ("git-push", "sending commits anywhere", "leave your work in the worktree; Deploy lands it after approval"),
        (
            "git-network",
            "asking or fetching from remotes",
            "work with what is here: git log, git show, git branch -r",
        ),
        (
            "git-commit",
            "making commits, merging, rebasing",
            "leave changes in the worktree: git-swarm commits each step",
        ),
        (
            "git-refs",
            "making, moving, deleting, checking out branches and tags",
            "read with git show REV:PATH; files: git restore",
        ),
        ("git-reset", "resets of more than the index", "git restore PATH for files, git reset -- PATH for the index"),
        ("git-stash", "the stash, which all worktrees share", "git diff > $TMPDIR/x.patch, later git apply"),
        (
            "git-config",
            "configuration, remotes and hooks",
            "git config --get NAME reads; say in the handoff what should change",
        ),
        ("git-environment", "variables that change what git does or may reach", "call git without them"),
        (
            "marker",
            "changing the variables by which git-swarm knows its processes (SWARM_SESSION …)",
            "call the program with the environment as it is",
        ),
        (
            "git-worktree",
            "repositories, worktrees and submodules being added",
            "work in this worktree; scratch repositories: $TMPDIR",
        ),
        ("git-maintenance", "rewriting or pruning the object store", "leave that to git-swarm"),
        ("git-clean", "git clean of everything or of ignored files", "git clean -n to look, rm PATH for a file"),
        (
            "unknown-git",
            "a git command that is neither git's nor a configured alias",
            "git help -a lists the commands",
        ),
        (
            "hosting",
            "changing pull requests, issues, releases on a forge",
            "write it into the handoff; Deploy does it",
        ),
        ("swarm-command", "git-swarm's commands that change a run", "git swarm status, log, show and diff read"),
        ("nested-agent", "starting other coding agents", "do the work in this session"),
        # Files
        ("outside-write", "writes and deletes outside of the worktree", "write in the worktree, or in $TMPDIR"),
        ("git-internals", "writes into .git", "use git's own commands"),
        ("swarm-files", "writes into .swarm but for the step's artifacts", "write your artifacts in $RUN_BASE"),
        (
            "protected-path",
            "writes to paths that the project protects",
            "say in the handoff what should change there",
        ),
        (
            "read-only",
            "changes of code by a station that only reads it",
            "write your finding into your artifact in $RUN_BASE",
        ),
        (
            "delete-everything",
            "deleting the whole worktree or its whole top level",
            "name what should go: rm -r build",
        ),
        ("key-file", "keys, credentials, password stores", "ask for what you need in the handoff"),
        ("shell-startup", "start-up files of shells and programs", "set variables in front of the command"),
        # Machine and net
        ("privileges", "sudo and its relatives", "work as the user you are; name missing packages in the handoff"),
        ("disk", "writing to devices, file systems, mounts", "work with files in the worktree"),
        ("processes", "ending processes that are not yours", "kill the id of a process that you started: kill $!"),
        (
            "machine",
            "shutting down, services, timers, users, owners of files",
            "say in the handoff what the machine needs",
        ),
        ("fork-bomb", "functions that call themselves", "write a loop"),
        ("pipe-to-shell", "text from a pipe or the net as a program", "save it to a file, read it, then run it"),
        ("hidden-code", "code in variables, options or one-liners that starts programs", "call the program itself"),
        ("remote-host", "shells, copies and tunnels to other hosts", "work on this machine"),
        ("reverse-shell", "network connections of the shell itself", "curl or the project's own client"),
        (
            "container",
            "containers that can leave their box",
            "docker run without --privileged, mounting only the worktree",
        ),
        (
            "publish",
            "publishing packages, images and sites",
            "build and check only: npm pack, twine check; Deploy publishes",
        ),
        ("history", "tampering with the shell's history and logs", "leave them"),
        ("user-rule", "what the project's own policy.deny forbids", "see policy.deny in .swarm/config.yaml"),
    )
)
_BY_RULE = {each.rule: each for each in CLASSES}


def deny(rule: str, what: str, instead: str | None = None) -> Deny:
    """
    :param what: the thing that was refused, as it stands in the call.
    """
    each = _BY_RULE[rule]
    shown = what if len(what) <= 200 else f"{what[:200]}…"
    return Deny(rule, f"{shown}: {each.stops} is not allowed here", instead or each.instead)
