"""What agents may do with git: read everything, change files and the index, move nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.safety import Deny
from gitswarm.safety.policy.paths import Scope, resolved_paths
from gitswarm.safety.policy.shell_words import ShellWord, SimpleCommand
from gitswarm.safety.policy.table import SWARM_READING, deny, listed

READING = listed("""
    annotate blame branch cat-file check-attr check-ignore check-ref-format cherry count-objects describe diff
    diff-files diff-index diff-tree for-each-ref grep help log ls-files ls-tree merge-base name-rev patch-id
    range-diff reflog rev-list rev-parse shortlog show show-branch show-ref status stripspace tag var verify-commit
    version whatchanged
""")
_VERBS: Mapping[str, str] = {
    verb: rule
    for rule, verbs in {
        "git-push": "push send-pack http-push remote-http remote-https remote-ext receive-pack",
        "git-network": """
            fetch pull ls-remote fetch-pack http-fetch upload-pack daemon http-backend upload-archive instaweb
            imap-send send-email request-pull svn p4 cvsimport cvsserver shell
        """,
        "git-commit": """
            commit merge rebase cherry-pick revert am commit-tree filter-branch filter-repo fast-import quiltimport
            citool gui mergetool difftool merge-index merge-one-file rerere replay history
        """,
        "git-refs": "update-ref switch replace mktag refs",
        "git-maintenance": """
            gc prune pack-refs repack prune-packed maintenance pack-objects unpack-objects index-pack
            multi-pack-index read-tree checkout-index commit-graph pack-redundant update-server-info fast-export
            bundle
        """,
        "git-config": "hook credential credential-store credential-cache sparse-checkout fsmonitor--daemon scalar",
    }.items()
    for verb in verbs.split()
}
_GLOBAL_VALUES = listed("-C -c --git-dir --work-tree --namespace --config-env --super-prefix --attr-source")
_ELSEWHERE = ("--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path=")
_SETTING = lazy_re(
    r"(alias|credential|filter|gpg|http|include|includeif|protocol|push|receive|remote|submodule|uploadpack|url)\..*"
    r"|core\.(askpass|attributesfile|excludesfile|fsmonitor|gitproxy|hookspath|sshcommand|worktree)"
    r"|.*\.(cmd|command|driver|external|helper|process|program|textconv)",
    re.IGNORECASE,
)
"""Keys that make git run something, reach something, or send it elsewhere."""
_LISTING = listed("-l --list --contains --no-contains --merged --no-merged --points-at -v --verify")
_LIST_VALUES = listed("--sort --format --contains --no-contains --points-at --merged --no-merged -n --abbrev --color")
_MOVES_REF = lazy_re(
    r"-[dDmMcCftTuFes].*|--(delete|move|copy|force|track|set-upstream-to|unset-upstream|edit-description|annotate|sign"
    r"|message|file|create-reflog|no-track)(=.*)?"
)
_CONFIG_WRITES = lazy_re(r"-e|--(add|unset|unset-all|replace-all|rename-section|remove-section|edit)(=.*)?")
_CONFIG_VALUES = listed("-f --file --default --type --blob --url --value")
_RESETS = lazy_re(r"--(hard?|ha|soft?|so|merge?|keep?)")
_BRANCHING = lazy_re(r"-[bBdtlm].*|--(orphan|detach|track|merge|guess)(=.*)?")


def judge_git(
    command: SimpleCommand, folders: frozenset[str] | None, scope: Scope
) -> Deny | SimpleCommand | str | None:
    """Why `git …` is refused; what an alias of it runs, to be judged in its place; None: it is fine.

    `git-push`, as it lies in git's own folder, is `git push`; so is git-swarm `git swarm`.
    """
    words = list(command.arguments)
    if command.name != "git":
        words.insert(0, ShellWord((command.name or "").removeprefix("git").lstrip("-")))
    while words and words[0].shown.startswith("-"):
        option = words.pop(0)
        value = words.pop(0) if option.known in _GLOBAL_VALUES and words else None
        if option.shown.startswith(_ELSEWHERE):
            return deny("git-environment", f"git {option.shown}")
        if option.known == "-c" and value is not None and _SETTING.fullmatch(value.shown.partition("=")[0]):
            return deny("git-config", f"git -c {value.shown}")
        folders = None if option.known == "-C" else folders
    verb = words[0].known if words else None
    if verb is None:
        return None
    if verb == "swarm":
        return _swarm_problem(words[1:])
    rule = _VERBS.get(verb) or (_CHECKS[verb](words[1:]) if verb in _CHECKS else None)
    if verb in ("init", "clone"):
        rule = _new_repository(verb, words[1:], folders, scope)
    if rule is not None:
        return deny(rule, command.shown)
    alias = next((text for name, text in scope.aliases.items() if name.lower() == verb.lower()), None)
    return _aliased(alias, words[1:]) if alias is not None and verb not in READING and verb not in _CHECKS else None


def _swarm_problem(words: Sequence[ShellWord]) -> Deny | None:
    """`git swarm …`: a run is not changed from inside of it."""
    verb, *named = [word.known for word in no_options(words)] or ["help"]
    changes = (
        (verb == "config" and (len(named) > 1 or ShellWord("--unset") in words))
        or (verb == "wisdom" and named[:1] not in ([], ["list"], ["show"]))
        or (verb == "doctor" and ShellWord("--fix") in words)
    )
    if verb in SWARM_READING and not changes:
        return None
    return deny("swarm-command", SimpleCommand((ShellWord("git"), ShellWord("swarm"), *words)).shown)


def is_reading(command: SimpleCommand) -> bool:
    writes = any(word.shown.startswith(("--o", "-O", "--ext")) for word in command.arguments)
    return not writes and any(word.known in READING for word in no_options(command.arguments, _GLOBAL_VALUES)[:1])


def _aliased(value: str, words: Sequence[ShellWord]) -> SimpleCommand | str | None:
    if value.startswith("!"):
        return " ".join([value[1:], *(shlex.quote(word.known) for word in words if word.known is not None)])
    try:
        return SimpleCommand((ShellWord("git"), *(ShellWord(part) for part in shlex.split(value)), *words))
    except ValueError:
        return None


def no_options(words: Sequence[ShellWord], values: frozenset[str] = frozenset()) -> list[ShellWord]:
    """What is no option and no option's value."""
    before = ["", *(word.shown for word in words)]
    return [word for word, last in zip(words, before, strict=False) if word.shown[:1] != "-" and last not in values]


def _has(words: Sequence[ShellWord], pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(word.shown) for word in words)


def _names(words: Sequence[ShellWord]) -> str | None:
    """The rule for branches and tags that are made, moved or deleted; None where they are listed."""
    asks = any(re.fullmatch(r"-n\d*", word.shown) or word.shown.partition("=")[0] in _LISTING for word in words)
    after = ["", *(word.shown for word in words)]
    options = [word for word, last in zip(words, after, strict=False) if last not in ("--sort", "--format")]
    moves = _has(options, _MOVES_REF) or (no_options(words, _LIST_VALUES) and not asks)
    return "git-refs" if moves else None


def _only(
    rule: str, *verbs: str, bare: bool = False, values: frozenset[str] = frozenset()
) -> Callable[[Sequence[ShellWord]], str | None]:
    """`rule`, but when the next word is one of `verbs`; `bare`: or there is none."""

    def check(words: Sequence[ShellWord]) -> str | None:
        arguments = no_options(words, values)
        return None if (arguments[0].known in verbs if arguments else bare) else rule

    return check


def _by_verb(**rules: str) -> Callable[[Sequence[ShellWord]], str | None]:
    return lambda words: rules.get((words[0].known or "") if words else "")


def _config(words: Sequence[ShellWord]) -> str | None:
    named = no_options(words, _CONFIG_VALUES)
    verb = named[0].known if named else None
    asks = verb in ("get", "list") or any(word.shown.startswith(("--get", "-l", "--list")) for word in words)
    writes = verb in ("set", "unset", "edit") or len(named) > 1 or _has(words, _CONFIG_WRITES)
    return "git-config" if writes and not asks else None


def _checkout(words: Sequence[ShellWord]) -> str | None:
    """Files are checked out when paths follow `--`, follow a revision, or can be nothing else."""
    texts = [word.shown for word in words]
    before = texts[: texts.index("--")] if "--" in texts else texts
    if _has(words[: len(before)], _BRANCHING):
        return "git-refs"
    named = [text for text in before if not text.startswith("-")]
    files = texts[len(before) + 1 :] or named[1:] or [text for text in named if text.startswith((".", "/", ":"))]
    return None if files or "--patch" in texts or "-p" in texts else "git-refs"


def _reset(words: Sequence[ShellWord]) -> str | None:
    """The rule for a reset; None where only the index is reset, to HEAD as a whole, or the entries of paths."""
    named = no_options(words)
    moves = named and named[0].known not in ("HEAD", "@") and all(word.known != "--" for word in words)
    return "git-reset" if moves or _has(words, _RESETS) else None


def _clean(words: Sequence[ShellWord]) -> str | None:
    letters = {letter for word in words if re.match(r"-\w", word.shown) for letter in word.shown}
    is_named = no_options(words, listed("-e --exclude")) and not letters & set("xXi")
    return None if is_named or "n" in letters or ShellWord("--dry-run") in words else "git-clean"


def _new_repository(
    verb: str, words: Sequence[ShellWord], folders: frozenset[str] | None, scope: Scope
) -> str | None:
    """New repositories are for folders of temporary files, and copies of what is here."""
    named = no_options(words, listed("-b -o --initial-branch --branch --depth --origin --template"))
    if verb == "clone" and named and ":" in named.pop(0).shown:
        return "git-network"
    found = resolved_paths([*named, ShellWord(".")][0], folders, scope) or []
    return "git-worktree" if any(resolved.path.is_relative_to(scope.worktree) for resolved in found) else None


_CHECKS: Mapping[str, Callable[[Sequence[ShellWord]], str | None]] = {
    "branch": _names,
    "tag": _names,
    "symbolic-ref": lambda words: "git-refs" if len(no_options(words)) > 1 else None,
    "notes": _only("git-refs", "list", "show", bare=True, values=frozenset({"--ref"})),
    "bisect": _only("git-refs", "log", "view", "help"),
    "reflog": _by_verb(expire="git-maintenance", delete="git-maintenance", drop="git-maintenance"),
    "stash": _only("git-stash", "list", "show"),
    "config": _config,
    "remote": _only("git-config", "get-url", bare=True),
    "worktree": _only("git-worktree", "list", bare=True),
    "submodule": _only("git-worktree", "status", "summary", bare=True),
    "lfs": _by_verb(push="git-push", pull="git-network", fetch="git-network", install="git-config"),
    "checkout": _checkout,
    "reset": _reset,
    "clean": _clean,
}
