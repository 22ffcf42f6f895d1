"""What agents may do with git: read everything, change files and the index, move nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.git_paths import CHANGES_FILES, change_problem
from gitswarm.safety.policy.listed import by_name, listed
from gitswarm.safety.policy.options import Options, Parsed, parse_options
from gitswarm.safety.policy.paths import first, places, write_problem
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.state import follow
from gitswarm.safety.policy.values import UNKNOWN, Command, Word
from gitswarm.safety.policy.wrappers import Script

READING = listed("""
    annotate blame cat-file check-attr check-ignore check-mailmap check-ref-format cherry count-objects describe
    diff diff-files diff-index diff-tree for-each-ref fsck get-tar-commit-id grep hash-object help log ls-files
    ls-tree merge-base merge-tree mktree name-rev patch-id range-diff rev-list rev-parse shortlog show show-branch
    show-index show-ref status stripspace var verify-commit verify-tag version whatchanged write-tree column
    diff-pairs
""")
_INDEX = listed("""
    add stage update-index
""")
_CLASSES: Mapping[str, str] = by_name(
    {
        "git-push": """
            push send-pack http-push remote-http remote-https remote-ext receive-pack
        """,
        "git-network": """
            fetch pull ls-remote fetch-pack http-fetch upload-pack daemon http-backend upload-archive instaweb
            imap-send send-email request-pull svn p4 cvsimport cvsserver shell
        """,
        "git-commit": """
            commit merge rebase cherry-pick revert am commit-tree filter-branch fast-import quiltimport
            merge-octopus merge-ours merge-recursive merge-resolve filter-repo citool gui mergetool mergetool--lib
            difftool merge-index merge-one-file rerere replay history
        """,
        "git-refs": """
            update-ref switch replace mktag refs
        """,
        "git-maintenance": """
            gc prune pack-refs repack prune-packed maintenance pack-objects unpack-objects index-pack
            multi-pack-index read-tree checkout-index commit-graph pack-redundant update-server-info fast-export
            bundle unpack-file
        """,
        "git-config": """
            hook credential credential-store credential-cache sparse-checkout init-db update-git-for-windows
            fsmonitor--daemon scalar
        """,
    }
)
_GLOBAL = Options(
    "Cc", frozenset({"--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"})
)
_HARMLESS_GLOBAL = listed("""
    -C -c -p --paginate -P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice
    --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --version -v --help -h --html-path
    --man-path --info-path --exec-path --list-cmds
""")
_HARMLESS_CONFIG = (
    "color.",
    "advice.",
    "log.",
    "column.",
    "i18n.",
    "blame.",
    "grep.",
    "status.",
    "apply.",
    "merge.conflictstyle",
)
_HARMLESS_KEYS = listed("""
    core.quotepath core.abbrev core.whitespace core.autocrlf core.eol diff.renames diff.renamelimit diff.algorithm
    diff.noprefix diff.mnemonicprefix diff.context diff.colormoved diff.wserrorhighlight diff.submodule
    diff.relative user.name user.email init.defaultbranch core.optionallocks
""")
_WRITING_OPTION = "--output"

Judged = Deny | Script | Command | None


def judge_git(command: Command, scope: Scope) -> Judged:
    """Why `git …` is refused; what an alias of it runs, to be judged in its place; None: it is fine."""
    parsed = parse_options(command.arguments, _GLOBAL, mixed=False)
    problem = _global_problem(parsed)
    if problem is not None:
        return problem
    folders = command.folders
    for word in parsed.value("-C"):
        folders = follow(folders, word.known) if word.known is not None else None
    if not parsed.rest:
        return deny("unknown-git", "git") if parsed.lost else None
    here = replace(command, folders=folders)
    name = parsed.rest[0].known
    if name is None or parsed.lost:
        return deny("unknown-git", f"git {parsed.rest[0].shown}")
    return _judge_subcommand(name, parsed.rest[1:], here, scope)


def _global_problem(parsed: Parsed) -> Deny | None:
    for option, value in parsed.given:
        if option == "-c":
            if value is None or not _harmless_setting(value):
                return deny("git-config", f"git -c {value.shown if value else ''}")
        elif option not in _HARMLESS_GLOBAL or (option == "--exec-path" and value is not None):
            return deny("git-environment", f"git {option}")
    return None


def _harmless_setting(setting: Word) -> bool:
    key, _sign, value = (setting.known or "").lower().partition("=")
    if key in (
        "core.pager",
        "pager.log",
        "pager.diff",
        "pager.show",
        "pager.branch",
        "core.editor",
        "sequence.editor",
    ):
        return value in ("", "cat", "less", "true", ":", "false", "off", "no", "0")
    return key in _HARMLESS_KEYS or (
        key.startswith(_HARMLESS_CONFIG) and not key.endswith(("cmd", "command", "program"))
    )


def _judge_subcommand(name: str, words: Sequence[Word], command: Command, scope: Scope) -> Judged:
    shown = " ".join(["git", name, *(word.shown for word in words)])
    if name in _CLASSES:
        return deny(_CLASSES[name], shown)
    if name in _LISTING:
        rule, harmless = _LISTING[name]
        if name == "lfs" and words and words[0].known in ("pull", "fetch", "clone"):
            rule = "git-network"
        return None if harmless(words) else deny(rule, shown)
    way = next((way for names, way in _WAYS if name in names), _alias)
    return way(name, words, command, scope)


def _reading_problem(name: str, words: Sequence[Word], command: Command, scope: Scope) -> Deny | None:
    """Reading commands with an option that writes or runs something."""
    for at, word in enumerate(words):
        text = word.known if word.known is not None else word.start
        if word.known == "--":
            break
        if (
            word.text is None
            and not word.start
            and name in ("diff", "log", "show", "grep", "shortlog", "range-diff", "whatchanged")
        ):
            return deny(
                "unknown-target", f"git {name} with an argument that may be an option", "write the revision itself"
            )
        option, sign, value = text.partition("=")
        if len(option) > 3 and _WRITING_OPTION.startswith(option):
            target = (
                Word(value) if sign and word.known is not None else words[at + 1] if at + 1 < len(words) else UNKNOWN
            )
            problem = write_problem(target, command.folders, scope)
            if problem is not None:
                return problem
        if name == "grep" and (
            option.startswith("-O") or (len(option) > 3 and "--open-files-in-pager".startswith(option))
        ):
            return deny("hidden-code", f"git grep {text}")
        if option in ("--ext-diff", "--upload-pack", "--exec"):
            return deny("hidden-code", f"git {name} {text}")
    if name == "help" and any(word.known in ("-w", "--web") for word in words):
        return deny("hidden-code", "git help --web")
    return None


def _alias(name: str, words: Sequence[Word], command: Command, scope: Scope) -> Judged:
    value = next((text for key, text in scope.aliases.items() if key.lower() == name.lower()), None)
    shown = " ".join(["git", name, *(word.shown for word in words)])
    if value is None:
        return deny("unknown-git", shown)
    if value.startswith("!"):
        rest = " ".join(shlex.quote(word.known) if word.known is not None else '"$1"' for word in words)
        return Script(f"{value[1:]} {rest}", replace(command, folders=frozenset({str(scope.worktree)})))
    try:
        parts = shlex.split(value)
    except ValueError:
        return deny("unknown-git", shown)
    fewer = {key: text for key, text in scope.aliases.items() if key.lower() != name.lower()}
    again = command.running((Word("git"), *(Word(part) for part in parts), *words))
    return judge_git(again, replace(scope, aliases=fewer))


def _only(words: Sequence[Word], *, flags: str, values: str = "", arguments: int = 0) -> bool:
    """Whether the words are options from these lists (names apart by blanks), and at most so many arguments."""
    allowed, taking = set(flags.split()), set(values.split())
    parsed = parse_options(words, Options("".join(v[1] for v in taking if len(v) == 2), frozenset(taking)))
    known = all(option in allowed or option in taking for option, _value in parsed.given)
    return known and not parsed.lost and len(parsed.rest) <= arguments


_LIST_OPTIONS = """
    -l --list -v -vv -a -r --all --remotes --verbose --show-current --color --no-color --column --no-column -i
    --ignore-case -q --merged --no-merged --contains --no-contains --points-at --omit-empty --abbrev --no-abbrev -n
"""
_LIST_VALUES = "--sort --format --contains --no-contains --points-at --merged --no-merged"
_ASKING = ("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")


def _branch(words: Sequence[Word]) -> bool:
    asks = any((word.known or "").partition("=")[0] in _ASKING for word in words)
    return _only(words, flags=_LIST_OPTIONS, values=_LIST_VALUES, arguments=20 if asks else 0)


def _tag(words: Sequence[Word]) -> bool:
    words = [word for word in words if not ((word.known or "")[:2] == "-n" and (word.known or "")[2:].isdigit())]
    asks = any((word.known or "").partition("=")[0] in (*_ASKING, "-n", "-v", "--verify") for word in words)
    flags = _LIST_OPTIONS + " --verify"
    return _only(words, flags=flags, values=_LIST_VALUES, arguments=20 if asks else 0)


def _first_is(*allowed: str, bare: bool = False) -> Callable[[Sequence[Word]], bool]:
    """The subcommand's own subcommand is one of these; `bare`: or there is none."""

    def harmless(words: Sequence[Word]) -> bool:
        return bare if not words else words[0].known in allowed

    return harmless


def _notes(words: Sequence[Word]) -> bool:
    """What a run routed and what happened in it are notes in refs of its own: they are read with `--ref`."""
    rest = list(words)
    while rest and (named := (rest[0].known or "").partition("="))[0] == "--ref":
        rest = rest[1 if named[1] else 2 :]
    return _first_is("list", "show", bare=True)(rest)


_CONFIG_OPTIONS = """
    --get --get-all --get-regexp --get-urlmatch -l --list --show-origin --show-scope --name-only -z --null --bool
    --int --path --global --local --system --worktree --includes --no-includes --bool-or-int --expiry-date --get-color
    --get-colorbool
"""


def _config(words: Sequence[Word]) -> bool:
    if words and words[0].known in ("list", "get"):
        return _only(
            words[1:],
            flags=_CONFIG_OPTIONS + " --all --regexp",
            values="-f --file --default --type --blob --url --value",
            arguments=2,
        )
    asks = any((word.known or "").startswith(("--get", "-l", "--list")) for word in words)
    return _only(words, flags=_CONFIG_OPTIONS, values="-f --file --default --type --blob", arguments=2 if asks else 1)


def _remote(words: Sequence[Word]) -> bool:
    rest = [word for word in words if word.known not in ("-v", "--verbose")]
    return not rest or rest[0].known == "get-url"


_LISTING: Mapping[str, tuple[str, Callable[[Sequence[Word]], bool]]] = {
    "branch": ("git-refs", _branch),
    "tag": ("git-refs", _tag),
    "symbolic-ref": ("git-refs", lambda words: _only(words, flags="-q --quiet --short --no-recurse", arguments=1)),
    "notes": ("git-refs", _notes),
    "reflog": ("git-maintenance", _first_is("show", "exists", "list", bare=True)),
    "stash": ("git-stash", _first_is("list", "show")),
    "config": ("git-config", _config),
    "remote": ("git-config", _remote),
    "worktree": ("git-worktree", _first_is("list")),
    "submodule": ("git-worktree", _first_is("status", "summary", bare=True)),
    "bisect": ("git-refs", _first_is("log", "help")),
    "lfs": ("git-push", _first_is("ls-files", "status", "env", "version", "help")),
}


_HARMLESS_CLONE = listed("-b -q --quiet --bare --initial-branch --branch --depth --single-branch -n --no-checkout")


def _repository_problem(name: str, words: Sequence[Word], command: Command, scope: Scope) -> Deny | None:
    """New repositories are for folders of temporary files, and copies of what is here."""
    options = Options("bo", frozenset({"--initial-branch", "--branch", "--depth", "--origin"}))
    parsed = parse_options(words, options)
    shown = " ".join(["git", name, *(word.shown for word in words)])
    targets = parsed.rest[1:] if name == "clone" else parsed.rest
    foreign = name == "clone" and parsed.rest and ":" in parsed.rest[0].shown
    if foreign or parsed.lost or any(option not in _HARMLESS_CLONE for option, _value in parsed.given):
        return deny("git-network" if foreign else "git-worktree", shown)
    for word in targets or (Word("."),):
        found = places(word, command.folders, scope)
        if found is None or any(place.path.is_relative_to(scope.worktree) for place in found):
            return deny("git-worktree", shown)
    return first(write_problem(word, command.folders, scope) for word in targets or (Word("."),))


_SWARM_READING = listed("""
    log show transcript diff status list path cost watch events report verify export flows stations engines policy
    why blame doctor schemas config completion wisdom
""")


def swarm_problem(words: Sequence[Word]) -> Deny | None:
    """`git swarm …`: a run is not changed from inside of it."""
    name = next((word.known for word in words if not (word.known or "").startswith("-")), "")
    repairs = any(word.known in ("--fix", "set", "--set", "add", "rm", "unset") for word in words)
    if not words or (name in _SWARM_READING and not repairs):
        return None
    return deny("swarm-command", " ".join(["git swarm", *(word.shown for word in words)]))


def _swarm(_name: str, words: Sequence[Word], _command: Command, _scope: Scope) -> Judged:
    return swarm_problem(words)


def _index(_name: str, _words: Sequence[Word], _command: Command, _scope: Scope) -> Judged:
    """The index is the worktree's own; what is staged in it, the next step's commit does not look at."""
    return None


_WAYS: tuple[tuple[frozenset[str], Callable[[str, Sequence[Word], Command, Scope], Judged]], ...] = (
    (READING, _reading_problem),
    (_INDEX, _index),
    (CHANGES_FILES, change_problem),
    (frozenset({"init", "clone"}), _repository_problem),
    (frozenset({"swarm"}), _swarm),
)
