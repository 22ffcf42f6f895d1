"""Variables that change what programs are or do."""

from __future__ import annotations

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.state import SYSTEM_PATH
from gitswarm.safety.policy.values import Command, Word
from gitswarm.safety.policy.wrappers import Script

_HARMLESS_GIT = frozenset(
    {"GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"}
    | {"GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "GIT_MERGE_AUTOEDIT", "GIT_TRACE", "GIT_PS1_SHOWDIRTYSTATE"}
    | {"GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_COMMIT", "GIT_SHA", "GIT_REVISION", "GIT_BRANCH", "GIT_TAG", "GIT_VERSION"}
)
_PRELOADS = frozenset(
    {"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "PERL5OPT", "PERL5DB"}
    | {"PYTHONSTARTUP", "PYTHONBREAKPOINT", "BASH_FUNC_git%%", "CDPATH", "GLOBIGNORE", "EXECIGNORE", "SUDO_ASKPASS", "SSH_ASKPASS", "ZDOTDIR"}
    | {"GCONV_PATH", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "RIPGREP_CONFIG_PATH", "LESSOPEN", "LESSCLOSE", "TAR_OPTIONS", "INPUTRC"}
)
_CARRIED_OUT = frozenset({"PAGER", "GIT_PAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "MANPAGER", "BROWSER", "SYSTEMD_PAGER"})
_REQUIRING = {"NODE_OPTIONS": ("--require", "-r", "--import", "--loader", "--experimental-loader"), "RUBYOPT": ("-r", "-e"), "JAVA_TOOL_OPTIONS": ("-javaagent", "-agent")}
_HISTORY = frozenset({"HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTIGNORE"})


def environment_problem(command: Command, scope: Scope) -> Deny | Script | None:
    """What an assignment of the command does to programs; a script when its value is one."""
    for name, value in command.assigned:
        shown = f"{name}={value.shown}"
        if name in _CARRIED_OUT:
            if value.known is None:
                return deny("hidden-code", shown)
            if value.known:
                return Script(value.known, command)
        elif name.startswith("GIT_") and name not in _HARMLESS_GIT:
            return deny("git-environment", shown)
        elif name in _PRELOADS or (name == "HOME" and not command.words) or name.startswith("BASH_FUNC_"):
            return deny("hidden-code", shown)
        elif name == "HOME" and command.name in ("git", "env", "sh", "bash", "gh"):
            return deny("git-environment", shown)
        elif name == "PATH" and not _is_longer_path(value, scope):
            return deny("hidden-code", shown, "add folders with their full name: PATH=\"$PWD/bin:$PATH\"")
        elif name in _REQUIRING and (value.text is None or value.text.startswith(_REQUIRING[name]) or any(f" {sign}" in value.text for sign in _REQUIRING[name])):
            return deny("hidden-code", shown)
        elif name in _HISTORY:
            return deny("history", shown)
    if command.name == "unset":
        for word in command.arguments:
            if word.text is None or word.text.startswith("GIT_"):
                return deny("git-environment", f"unset {word.shown}")
            if word.text in _HISTORY:
                return deny("history", f"unset {word.shown}")
    return None


def _is_longer_path(value: Word, scope: Scope) -> bool:
    """The PATH that was there, with folders that are absolute and not open to everybody."""
    text = value.text if value.text is not None else value.start
    if SYSTEM_PATH not in text:
        return False
    before = text.partition(SYSTEM_PATH)[0]
    folders = [folder for folder in before.split(":") if folder] if before else []
    empty = before.startswith(":") or "::" in before
    open_to_all = [str(folder) for folder in scope.temp if not scope.worktree.is_relative_to(folder)]
    return not empty and all(folder.startswith("/") and not folder.startswith(tuple(open_to_all) or ("\0",)) for folder in folders)
