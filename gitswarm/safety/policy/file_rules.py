"""Programs that write and delete files: which of their arguments are the files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.finding import found_by_name, starting_points
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.options import Options, Parsed, parse_options
from gitswarm.safety.policy.paths import first, holds_keys, places, read_problem, write_problem
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.values import UNKNOWN, Command, Word

_TAR = Options(
    "fCTXIFbgHVKN",
    frozenset({"--file", "--directory", "--exclude", "--files-from", "--transform", "--use-compress-program"}),
)
_CURL = Options(
    "oHdXuAbeFTKxmwrDcECyYzP",
    frozenset({"--output", "--header", "--data", "--request", "--user", "--url", "--output-dir", "--form"}),
)
_WGET = Options(
    "OPoaeitTwQ",
    frozenset({"--output-document", "--directory-prefix", "--output-file", "--header", "--timeout", "--tries"}),
)
_COPYING = Options("tSgmo", frozenset({"--target-directory", "--suffix", "--mode", "--owner", "--group"}))
_RSYNC = Options(
    "efTBM",
    frozenset({"--exclude", "--include", "--filter", "--rsh", "--files-from", "--exclude-from", "--out-format"}),
)
_SED = Options("efl", frozenset({"--expression", "--file", "--line-length"}))
_DEEP = listed("""
    cp tar zip rsync grep egrep rg ag ack scp 7z find fd
""")
_DATA = frozenset({"echo", "printf"})


@dataclass(frozen=True, slots=True)
class _Target:
    """A path that a program writes; `deletes`: with everything below it, or all that was in it."""

    word: Word
    deletes: bool = False


_Targets = Callable[[Parsed], Iterator[_Target]]


@dataclass(frozen=True, slots=True)
class _Writer:
    targets: _Targets
    options: Options = field(default_factory=Options)


_MODES = ("-r", "-w", "-x", "-X", "-s", "-t")
"""Modes of chmod that look like options."""


def _all(parsed: Parsed) -> Iterator[_Target]:
    return (_Target(word) for word in parsed.rest)


def _deleted(parsed: Parsed) -> Iterator[_Target]:
    return (_Target(word, deletes=True) for word in parsed.rest)


def _behind_first(parsed: Parsed) -> Iterator[_Target]:
    """chmod: the first argument is the mode."""
    deep = parsed.has("-R", "--recursive")
    return (_Target(word, deletes=deep) for word in parsed.rest[0 if parsed.has("--reference", *_MODES) else 1 :])


def _last(parsed: Parsed) -> Iterator[_Target]:
    named = parsed.value("-t", "--target-directory")
    return (_Target(word) for word in named or parsed.rest[-1:])


def _moved(parsed: Parsed) -> Iterator[_Target]:
    named = parsed.value("-t", "--target-directory")
    sources = parsed.rest if named else parsed.rest[:-1]
    yield from (_Target(word, deletes=True) for word in sources)
    yield from _last(parsed)


def _option(*names: str) -> _Targets:
    return lambda parsed: (_Target(word) for word in parsed.value(*names))


def _in_place(*names: str, behind: int = 0) -> _Targets:
    """Files that are changed where they are when one of these options is given."""
    return lambda parsed: (_Target(word) for word in (parsed.rest[behind:] if parsed.has(*names) else ()))


def _sed(parsed: Parsed) -> Iterator[_Target]:
    behind = 0 if parsed.has("-e", "--expression", "-f", "--file") else 1
    return (_Target(word) for word in (parsed.rest[behind:] if parsed.has("-i", "-I", "--in-place") else ()))


def _tar(parsed: Parsed) -> Iterator[_Target]:
    extracts = parsed.has("-x", "--extract", "--get")
    creates = parsed.has("-c", "-r", "-u", "--create")
    if parsed.has("-P", "--absolute-names"):
        yield _Target(Word("/"))
    if extracts:
        yield from (_Target(word) for word in parsed.value("-C", "--directory") or [Word(".")])
    if creates:
        yield from (_Target(word) for word in parsed.value("-f", "--file") if word.known != "-")


def _modern(words: Sequence[Word]) -> Sequence[Word]:
    """`tar xfC a.tar dir` as `tar -x -fa.tar -Cdir`."""
    letters = words[0].known if words else None
    if not letters or not letters.isalpha():
        return words
    rest = list(words[1:])
    options: list[Word] = []
    for letter in letters:
        options.append(Word(f"-{letter}"))
        if letter in _TAR.short and rest:
            options.append(rest.pop(0))
    return [*options, *rest]


def _unzip(parsed: Parsed) -> Iterator[_Target]:
    looks = parsed.has("-l", "-t", "-p", "-v", "-Z", "-z")
    return (_Target(word) for word in (() if looks else parsed.value("-d") or [Word(".")]))


def _curl(parsed: Parsed) -> Iterator[_Target]:
    yield from (
        _Target(word) for word in parsed.value("-o", "--output", "--output-dir", "-D", "-c") if word.known != "-"
    )
    if parsed.has("-O", "--remote-name") and not parsed.has("--output-dir"):
        yield _Target(Word("."))


def _wget(parsed: Parsed) -> Iterator[_Target]:
    named = parsed.value("-O", "--output-document")
    yield from (
        _Target(word) for word in [*named, *parsed.value("-P", "--directory-prefix", "-o")] if word.known != "-"
    )
    if not named and not parsed.has("-P", "--directory-prefix", "--spider", "--version", "--help"):
        yield _Target(Word("."))


def _dd(parsed: Parsed) -> Iterator[_Target]:
    for word in parsed.rest:
        if word.shown.startswith("of="):
            yield _Target(Word(word.shown[3:]) if word.text is not None else UNKNOWN)


def _here(_parsed: Parsed) -> Iterator[_Target]:
    yield _Target(Word("."))


_WRITERS: Mapping[str, _Writer] = {
    **dict.fromkeys(("rm", "rmdir", "unlink", "trash", "trash-put", "rimraf"), _Writer(_deleted)),
    **dict.fromkeys(
        ("touch", "mkfifo", "truncate"),
        _Writer(_all, Options("drtsm", frozenset({"--date", "--reference", "--size", "--mode"}))),
    ),
    "mkdir": _Writer(_all, Options("mZ", frozenset({"--mode"}))),
    "tee": _Writer(_all),
    **dict.fromkeys(("ed", "ex"), _Writer(_all, Options("ps"))),
    "sponge": _Writer(_all),
    "chmod": _Writer(_behind_first),
    **dict.fromkeys(("cp", "install", "ginstall"), _Writer(_last, _COPYING)),
    "mv": _Writer(_moved, _COPYING),
    "ln": _Writer(_last, _COPYING),
    "rsync": _Writer(_last, _RSYNC),
    "rename": _Writer(lambda parsed: (_Target(word) for word in parsed.rest[1:])),
    "sed": _Writer(_sed, _SED),
    "gsed": _Writer(_sed, _SED),
    **dict.fromkeys(("perl", "ruby"), _Writer(_in_place("-i"), Options("eEIMm"))),
    "patch": _Writer(_here, Options("pidoFrBzYDg")),
    "dd": _Writer(_dd),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _Writer(_tar, _TAR)),
    "unzip": _Writer(_unzip, Options("dxP")),
    "zip": _Writer(lambda parsed: (_Target(word) for word in parsed.rest[:1]), Options("bnsti")),
    **dict.fromkeys(
        ("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd"),
        _Writer(lambda parsed: iter(()) if parsed.has("-c", "-t", "-l", "--stdout") else _all(parsed)),
    ),
    "split": _Writer(lambda parsed: (_Target(word) for word in parsed.rest[1:2] or [Word("xaa")]), Options("abClnt")),
    "csplit": _Writer(_here),
    "sort": _Writer(_option("-o", "--output"), Options("okStT", frozenset({"--output", "--key"}))),
    "curl": _Writer(_curl, _CURL),
    "wget": _Writer(_wget, _WGET),
    "yq": _Writer(_in_place("-i", "--inplace", behind=1)),
    "gofmt": _Writer(_in_place("-w"), Options("r")),
    "gofumpt": _Writer(_in_place("-w")),
    "goimports": _Writer(_in_place("-w")),
    "shfmt": _Writer(_in_place("-w", "--write")),
    "prettier": _Writer(_in_place("-w", "--write")),
    "clang-format": _Writer(_in_place("-i")),
    "autopep8": _Writer(_in_place("-i", "--in-place")),
    "yapf": _Writer(_in_place("-i", "--in-place")),
}
_FORMATTERS: Mapping[str, tuple[str, ...]] = {
    "black": ("--check", "--diff"),
    "isort": ("--check", "--check-only", "-c", "--diff"),
    "rustfmt": ("--check",),
    "cargo fmt": ("--check", "--"),
    "ruff format": ("--check", "--diff"),
    "terraform fmt": ("-check",),
    "go fmt": (),
    "gofmt": ("-l", "-d"),
    "mix format": ("--check-formatted",),
    "dart format": ("--output=none", "-o"),
    "dotnet format": ("--verify-no-changes",),
    "standard-version": (),
}
"""Programs that change code unless one of these options is given."""
_FIXING = frozenset(
    {
        "--fix",
        "--fix-only",
        "--unsafe-fixes",
        "-A",
        "--auto-correct",
        "--autocorrect",
        "--autocorrect-all",
        "--write",
        "--apply",
    }
)
_LINTERS = listed("""
    ruff eslint stylelint rubocop biome standard xo markdownlint golangci-lint cargo tslint oxlint clang-tidy
    codespell
""")


def file_problem(command: Command, scope: Scope) -> Deny | None:
    """What a command's redirects, targets and arguments may not touch."""
    problems = (_redirects(command, scope), _targets(command, scope), _finds(command, scope), _keys(command, scope))
    return first(problems) or _code_changes(command, scope)


def _redirects(command: Command, scope: Scope) -> Deny | None:
    for redirect in command.redirects:
        target = redirect.target
        if target.shown.startswith(("/dev/tcp", "/dev/udp")):
            return deny("reverse-shell", target.shown)
        problem = (
            write_problem(target, command.folders, scope)
            if redirect.writes
            else read_problem(target, command.folders, scope)
        )
        if problem is not None:
            return problem
    return None


def _targets(command: Command, scope: Scope) -> Deny | None:
    name = command.name or ""
    writer = _WRITERS.get(name)
    if writer is None or {"--help", "--version"} & {word.known for word in command.arguments}:
        return None
    parsed = parse_options(_modern(command.arguments) if name.endswith("tar") else command.arguments, writer.options)
    if (
        name == "chmod"
        and parsed.has("-R")
        and parsed.rest
        and (parsed.rest[0].known or "").strip("0") in ("777", "a+rwx")
    ):
        return deny("machine", "chmod -R 777")
    if name == "ln":
        problem = _link_problem(parsed, command, scope)
        if problem is not None:
            return problem
    if name == "mkdir" and all(_leads_to_artifact(word, command, scope) for word in parsed.rest):
        return None
    targets = list(writer.targets(parsed))
    if name == "rsync" and parsed.has("--delete", "--del", "--delete-after", "--delete-before", "--delete-excluded"):
        targets = [_Target(target.word, deletes=True) for target in targets]
    return first(write_problem(each.word, command.folders, scope, deletes=each.deletes) for each in targets)


def _leads_to_artifact(word: Word, command: Command, scope: Scope) -> bool:
    """A folder that one of the step's artifacts lies in."""
    for place in places(word, command.folders, scope) or ():
        if not place.path.is_relative_to(scope.worktree):
            return False
        folder = str(place.whole.relative_to(scope.worktree))
        if not any(name.startswith(f"{folder}/") for name in scope.artifacts):
            return False
    return word.text is not None and command.folders is not None


def _link_problem(parsed: Parsed, command: Command, scope: Scope) -> Deny | None:
    """A link must not lead out of the worktree: later writes would go through it."""
    named = parsed.value("-t", "--target-directory")
    sources = parsed.rest if named or len(parsed.rest) == 1 else parsed.rest[:-1]
    place = named[0] if named else parsed.rest[-1] if len(parsed.rest) > 1 else Word(".")
    symbolic = parsed.has("-s", "--symbolic")
    for source in sources:
        text = source.text or ""
        folder = place.known if place.known is not None else ".."
        holders = [Word(posixpath.join(folder, text)), Word(posixpath.join(posixpath.dirname(folder) or ".", text))]
        checked = holders if symbolic and not text.startswith("/") else [source]
        if source.text is None:
            return deny("unknown-target", source.shown)
        for each in checked:
            found = places(each, command.folders, scope)
            if found is None or not all(one.path.is_relative_to(scope.worktree) for one in found):
                problem = write_problem(each, command.folders, scope)
                if problem is not None:
                    return deny("outside-write", f"a link to {source.shown}")
            elif any(".git" in one.path.relative_to(scope.worktree).parts for one in found):
                return deny("git-internals", f"a link to {source.shown}")
    return None


def _finds(command: Command, scope: Scope) -> Deny | None:
    """`find -delete` and its ways to write a file."""
    if command.name not in ("find", "gfind"):
        return None
    words = command.arguments
    problems: list[Deny | None] = []
    for word, after in zip(words, [*words[1:], UNKNOWN], strict=True):
        if word.known == "-delete":
            problems += [
                write_problem(each.word, command.folders, scope, deletes=each.deletes) for each in _found(words)
            ]
        elif word.known in ("-fprint", "-fprintf", "-fprint0", "-fls"):
            problems.append(write_problem(after, command.folders, scope))
    return first(problems)


def _found(words: Sequence[Word]) -> list[_Target]:
    named = found_by_name(words)
    if named is None:
        return [_Target(start, deletes=True) for start in starting_points(words)]
    return [_Target(word) for word in named]


def _keys(command: Command, scope: Scope) -> Deny | None:
    """No argument names a key; no copy or search goes through the whole home."""
    if command.name in _DATA:
        return None
    for word in command.arguments:
        for each in _paths_in(word):
            problem = read_problem(each, command.folders, scope)
            if problem is not None:
                return problem
    deep = command.name in _DEEP and (
        command.name not in ("grep", "egrep", "cp") or any(_is_deep(word) for word in command.arguments)
    )
    if deep and command.name not in ("find", "fd"):
        for word in command.arguments:
            if (word.text or "").startswith(("/", "..", ".")) and not word.shown.startswith("-"):
                found = places(word, command.folders, scope) or []
                if any(holds_keys(place, scope) and not place.rest for place in found):
                    return deny("key-file", f"{command.name} through {word.shown}")
    return None


def _is_deep(word: Word) -> bool:
    text = word.known or ""
    return text.startswith("--rec") or (
        text.startswith("-") and not text.startswith("--") and bool(set("rRa") & set(text))
    )


def _paths_in(word: Word) -> Iterator[Word]:
    """An argument, and what stands behind its `=` or `@`."""
    text = word.text if word.text is not None else word.start
    yield word
    for sign in ("=", "@", ":"):
        before, found, value = text.partition(sign)
        if found and value and len(before) < 64:
            yield Word(value, word.pattern)


def _code_changes(command: Command, scope: Scope) -> Deny | None:
    """Formatters and fixers, for stations that only read code."""
    if scope.writes_code or not command.words:
        return None
    texts = [word.known or "" for word in command.words]
    name = command.name or ""
    plain: Sequence[str] = [text for text in texts[1:] if not text.startswith("-")]
    unless = _FORMATTERS.get(name) if name in _FORMATTERS else _FORMATTERS.get(f"{name} {plain[0]}" if plain else "")
    changes = unless is not None and not any(text in unless for text in texts)
    fixes = name in _LINTERS and any(text in _FIXING or text == "fix" for text in texts[1:])
    return deny("read-only", " ".join(texts)) if changes or fixes else None
