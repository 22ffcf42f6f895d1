"""Programs that list files of the worktree: which names come out of them, for `xargs` and `$(…)`."""

from __future__ import annotations

from collections.abc import Sequence

from gitswarm.safety.policy.finding import found_path, starting_points
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.options import Options, Parsed, parse_options
from gitswarm.safety.policy.values import UNKNOWN, Command, Word

_ANY = Word("*", pattern=True)
_TOPS = frozenset({".", "./", ""})
_FILTERS = frozenset({"sort", "uniq", "head", "tail"})
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg"})
_LISTS = ("-l", "--files-with-matches", "--name-only")
_SEARCH = Options("eg", frozenset({"--include", "--exclude", "--exclude-dir", "--regexp", "--glob"}))
_SEARCH_OPTIONS = listed("""
    -r -R -l -n -i -I -w -E -F -P -z -Z -s -v -x -e -g --include --exclude --exclude-dir --regexp --glob --null
    --files-with-matches --name-only --recursive --ignore-case --word-regexp --fixed-strings --untracked --cached
""")
_GIT_OPTIONS = {
    "ls-files": listed("-z -m -d -o -c --modified --deleted --others --cached --exclude-standard"),
    "diff": listed("-z --name-only --cached --staged --diff-filter --relative"),
}
_OTHER_OUTPUT = ("-printf", "-fprint", "-fls", "-exec", "-ok", "-ls", "-delete", "-files0-from", "-follow")


def names_out_of(command: Command, incoming: Sequence[Word]) -> tuple[Word, ...]:
    """Names that `command` writes, as patterns relative to where it stands; nothing: they may be any text.

    :param incoming: the names that come in by a pipe.
    """
    name, words = command.name or "", command.arguments
    if any(word.text is None for word in words):
        return ()
    if name in _FILTERS and all((word.known or "").lstrip("-+n").isalnum() for word in words):
        return tuple(incoming)
    if name in _SEARCHES:
        return _search(name, parse_options(words, _SEARCH), incoming)
    return {"git": _git, "find": _find}.get(name, _nothing)(words)


def _nothing(_words: Sequence[Word]) -> tuple[Word, ...]:
    return ()


def _search(name: str, parsed: Parsed, incoming: Sequence[Word]) -> tuple[Word, ...]:
    if _plain(parsed, frozenset({"-v", "-E", "-F", "-i", "-z", "-e"})) and not _paths(parsed):
        return tuple(incoming)
    return _searched(parsed, by_default=(_ANY,) if name == "rg" else ())


def _plain(parsed: Parsed, known: frozenset[str]) -> bool:
    return not parsed.lost and all(option in known for option, _value in parsed.given)


def _paths(parsed: Parsed) -> Sequence[Word]:
    """What stands behind the expression that is looked for."""
    return parsed.rest if parsed.has("-e", "--regexp") else parsed.rest[1:]


def _searched(parsed: Parsed, *, by_default: tuple[Word, ...]) -> tuple[Word, ...]:
    if not _plain(parsed, _SEARCH_OPTIONS) or not parsed.has(*_LISTS):
        return ()
    paths = _paths(parsed)
    if any(word.text in _TOPS for word in paths):
        included = parsed.value("--include")
        return tuple(Word(word.text, pattern=True) for word in included) if len(paths) == 1 else ()
    return _below(paths) if paths else by_default


def _git(words: Sequence[Word]) -> tuple[Word, ...]:
    subcommand = words[0].known or "" if words else ""
    if subcommand == "grep":
        return _searched(parse_options(words[1:], _SEARCH), by_default=(_ANY,))
    parsed = parse_options(words[1:], Options())
    if not _plain(parsed, _GIT_OPTIONS.get(subcommand, frozenset())) or subcommand not in _GIT_OPTIONS:
        return ()
    if subcommand == "diff":
        named = parsed.rest[parsed.dashed :] if parsed.dashed is not None else ()
        return (_below(named) if named else (_ANY,)) if parsed.has("--name-only") else ()
    return _below(parsed.rest) if parsed.rest else (_ANY,)


def _find(words: Sequence[Word]) -> tuple[Word, ...]:
    if any(word.shown.startswith(_OTHER_OUTPUT) for word in words):
        return ()
    found = found_path(words)
    everything = any(start.text in _TOPS for start in starting_points(words)) and (found.text or "").endswith("/*")
    return () if found == UNKNOWN or everything else (found,)


def _below(paths: Sequence[Word]) -> tuple[Word, ...]:
    """The files that these paths are, or that lie below them."""
    found: list[Word] = []
    for word in paths:
        text = word.text or ""
        if text.startswith(":") or ".." in text.split("/") or any(sign in text for sign in " \t\n"):
            return ()
        globs = any(sign in text for sign in "*?[")
        found += [Word(text, globs)] if globs else [Word(text), Word(f"{text.rstrip('/')}/*", pattern=True)]
    return tuple(found)
