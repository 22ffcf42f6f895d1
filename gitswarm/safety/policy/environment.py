"""Variables that change what programs are or do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.state import MARKERS, SYSTEM_PATH
from gitswarm.safety.policy.values import Command, Word
from gitswarm.safety.policy.wrappers import Script

_HARMLESS_GIT = listed("""
    GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL
    GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_MERGE_AUTOEDIT GIT_TRACE
    GIT_PS1_SHOWDIRTYSTATE GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_ICASE_PATHSPECS GIT_COMMIT GIT_SHA
    GIT_REVISION GIT_BRANCH GIT_TAG GIT_VERSION
""")
_PRELOADS = listed("""
    LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV PROMPT_COMMAND PS4 SHELLOPTS BASHOPTS PERL5OPT PERL5DB
    PYTHONSTARTUP PYTHONBREAKPOINT BASH_FUNC_git%% CDPATH GLOBIGNORE EXECIGNORE SUDO_ASKPASS SSH_ASKPASS ZDOTDIR
    GCONV_PATH XDG_CONFIG_HOME XDG_CONFIG_DIRS RIPGREP_CONFIG_PATH LESSOPEN LESSCLOSE TAR_OPTIONS INPUTRC
""")
_CARRIED_OUT = frozenset(
    {
        "PAGER",
        "GIT_PAGER",
        "EDITOR",
        "VISUAL",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "MANPAGER",
        "BROWSER",
        "SYSTEMD_PAGER",
    }
)
_REQUIRING = {
    "NODE_OPTIONS": ("--require", "-r", "--import", "--loader", "--experimental-loader"),
    "RUBYOPT": ("-r", "-e"),
    "JAVA_TOOL_OPTIONS": ("-javaagent", "-agent"),
}
_LONGER_PATH = 'add folders with their full name: PATH="$PWD/bin:$PATH"'
_NAMING = frozenset({"unset", "read", "mapfile", "readarray"})
_MARKING = _NAMING | listed("getopts let wait export declare typeset local readonly")
"""Commands of the shell that change the variables they name."""
_PASSING_ON = listed("make gmake cross-env dotenv dotenvx just")
"""Programs that put the assignments among their arguments into the environment of others."""
_READS_HOME = frozenset({"git", "env", "sh", "bash", "gh"})
_HISTORY = frozenset({"HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTIGNORE"})


def environment_problem(command: Command, scope: Scope) -> Deny | Script | None:
    """What an assignment of the command does to programs; a script when its value is one."""
    for name, value in command.assigned:
        shown = f"{name}={value.shown}"
        if name in _CARRIED_OUT and value.known != "":
            return Script(value.known, command) if value.known is not None else deny("hidden-code", shown)
        rule = _rule_for(name, value, command, scope)
        if rule is not None:
            return deny(rule, shown, _LONGER_PATH if name == "PATH" else None)
    marker = _named_marker(command)
    if marker is not None:
        return deny("marker", f"{command.name} {marker}")
    return _named_problem(command) if command.name in _NAMING or command.name == "printf" else None


def _rule_for(name: str, value: Word, command: Command, scope: Scope) -> str | None:
    """The rule against an assignment; None: it is harmless."""
    if name in MARKERS:
        return "marker"
    if name.startswith("GIT_"):
        return None if name in _HARMLESS_GIT else "git-environment"
    if name == "HOME":
        return "git-environment" if not command.words or command.name in _READS_HOME else None
    if name in _HISTORY:
        return "history"
    loads = name in _PRELOADS or name.startswith("BASH_FUNC_") or _requires(name, value)
    return "hidden-code" if loads or (name == "PATH" and not _is_longer_path(value, scope)) else None


def _requires(name: str, value: Word) -> bool:
    """Whether the options in a variable like NODE_OPTIONS load code."""
    options = _REQUIRING.get(name)
    return options is not None and any(word.startswith(options) for word in (value.text or options[0]).split())


def _named_problem(command: Command) -> Deny | None:
    """`unset GIT_X`, `read GIT_X`, `printf -v GIT_X`: what they name they change."""
    for word in _named(command):
        shown = f"{command.name} {word.shown}"
        if (word.text or word.start).startswith("GIT_") or (word.text is None and command.name == "unset"):
            return deny("git-environment", shown)
        if word.text in _HISTORY:
            return deny("history", shown)
    return None


def _named(command: Command) -> Sequence[Word]:
    """The arguments that may be names of variables; printf has one."""
    words = command.arguments
    if command.name != "printf":
        return words
    first = words[0].known or "" if words else ""
    return words[1:2] if first == "-v" else [Word(first[2:])] if first.startswith("-v") else ()


def _named_marker(command: Command) -> str | None:
    """The marker that a command changes by its name."""
    if command.name in _PASSING_ON:
        names = [word.shown.partition("=")[0] for word in command.arguments if "=" in word.shown]
    elif command.name in _MARKING or command.name == "printf":
        names = [part for word in _named(command) for part in re.split(r"\W+", word.shown)]
    else:
        return None
    return next((name for name in names if name in MARKERS), None)


def _is_longer_path(value: Word, scope: Scope) -> bool:
    """The PATH that was there, with folders that are absolute and not open to everybody."""
    text = value.text if value.text is not None else value.start
    if SYSTEM_PATH not in text:
        return False
    before = text.partition(SYSTEM_PATH)[0]
    folders = [folder for folder in before.split(":") if folder] if before else []
    empty = before.startswith(":") or "::" in before
    return not empty and all(folder.startswith("/") and not _is_temporary(folder, scope) for folder in folders)


def _is_temporary(folder: str, scope: Scope) -> bool:
    path = PurePosixPath(folder)
    own = path.is_relative_to(scope.worktree) or path.is_relative_to(scope.home)
    return not own and any(path.is_relative_to(each) for each in scope.temp)
