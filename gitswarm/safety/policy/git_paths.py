"""Git commands that change files: judged by the paths that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.options import Options, Parsed, parse_options
from gitswarm.safety.policy.paths import first, write_problem
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.values import Command, Word

_VALUES = {
    "restore": Options("sU", frozenset({"--source", "--conflict", "--pathspec-from-file", "--unified"})),
    "checkout": Options("bB", frozenset({"--orphan", "--conflict", "--pathspec-from-file"})),
    "reset": Options("U", frozenset({"--pathspec-from-file", "--unified"})),
    "clean": Options("e", frozenset({"--exclude"})),
    "apply": Options(
        "pC", frozenset({"--exclude", "--include", "--directory", "--whitespace", "--build-fake-ancestor"})
    ),
    "format-patch": Options(
        "ovN", frozenset({"--output-directory", "--output", "--start-number", "--subject-prefix", "--base"})
    ),
    "archive": Options(
        "o", frozenset({"--output", "--format", "--prefix", "--add-file", "--add-virtual-file", "--remote", "--exec"})
    ),
    "rm": Options("", frozenset({"--pathspec-from-file"})),
}
_HARMLESS_RESET = frozenset({"-q", "--quiet", "-N", "--intent-to-add", "--no-refresh", "--refresh", "--mixed"})
_BRANCHING = ("-b", "-B", "--orphan", "--detach", "-d", "-t", "--track", "-l", "-m", "--merge", "--guess")


def change_problem(name: str, words: Sequence[Word], command: Command, scope: Scope) -> Deny | None:
    call = _Call(parse_options(words, _VALUES.get(name, Options())), command, scope, _shown(name, words))
    if call.parsed.has("--pathspec-from-file"):
        return deny("unknown-target", call.shown)
    return _CHANGES[name](call)


@dataclass(frozen=True, slots=True)
class _Call:
    parsed: Parsed
    command: Command
    scope: Scope
    shown: str

    def each(self, words: Sequence[Word], *, deletes: bool) -> Deny | None:
        return first(_pathspec_problem(word, self.command, self.scope, deletes=deletes) for word in words)

    def write(self, target: Word) -> Deny | None:
        return write_problem(target, self.command.folders, self.scope)


def _shown(name: str, words: Sequence[Word]) -> str:
    return " ".join(["git", name, *(word.shown for word in words)])


def _restore_problem(call: _Call) -> Deny | None:
    staged_only = call.parsed.has("--staged", "-S") and not call.parsed.has("--worktree", "-W")
    return None if staged_only else call.each(call.parsed.rest, deletes=call.parsed.has("-s", "--source"))


def _rm_problem(call: _Call) -> Deny | None:
    return None if call.parsed.has("--cached", "--dry-run", "-n") else call.each(call.parsed.rest, deletes=True)


def _pathspec_problem(word: Word, command: Command, scope: Scope, *, deletes: bool) -> Deny | None:
    text = word.text
    if text is not None and text.startswith(":") and text not in (":/", ":"):
        return None if text.startswith((":!", ":^", ":(exclude")) else deny("unknown-target", text)
    if text in (":/", ":"):
        word = Word(str(scope.worktree))
    elif text is not None and any(sign in text for sign in "*?["):
        word = Word(text, pattern=True)  # git expands what the shell did not
    return write_problem(word, command.folders, scope, deletes=deletes)


def _reset_problem(call: _Call) -> Deny | None:
    """Only the index is reset: to HEAD as a whole, or the entries of paths."""
    if call.parsed.lost or any(option not in _HARMLESS_RESET for option, _value in call.parsed.given):
        return deny("git-reset", call.shown)
    before, paths = call.parsed.rest, call.parsed.rest
    if call.parsed.dashed is not None:
        before, paths = call.parsed.rest[: call.parsed.dashed], call.parsed.rest[call.parsed.dashed :]
    if not before or before[0].known in ("HEAD", "@"):
        return None
    return None if call.parsed.dashed is not None and paths else deny("git-reset", call.shown)


def _checkout_problem(call: _Call) -> Deny | None:
    """Files are checked out when paths follow `--`, follow a revision, or can be nothing else."""
    if call.parsed.lost or call.parsed.has(*_BRANCHING):
        return deny("git-refs", call.shown)
    before = call.parsed.rest if call.parsed.dashed is None else call.parsed.rest[: call.parsed.dashed]
    paths = call.parsed.rest[1:] if call.parsed.dashed is None else call.parsed.rest[call.parsed.dashed :]
    if call.parsed.dashed is None and before and (before[0].known or "").startswith((".", "/")):
        before, paths = (), call.parsed.rest
    if not paths:
        return deny(
            "git-refs", call.shown, "git restore PATH, or git checkout -- PATH, for files; git show REV:PATH to read"
        )
    return call.each(paths, deletes=bool(before))


def _clean_problem(call: _Call) -> Deny | None:
    if call.parsed.has("-n", "--dry-run"):
        return None
    if call.parsed.has("-x", "-X", "-i", "--interactive") or not call.parsed.rest or call.parsed.lost:
        return deny("git-clean", call.shown)
    return call.each(call.parsed.rest, deletes=True)


def _apply_problem(call: _Call) -> Deny | None:
    """A patch may touch any file in the worktree; git itself keeps it in there."""
    looks = call.parsed.has("--check", "--stat", "--numstat", "--summary", "--cached") and not call.parsed.has(
        "--apply"
    )
    if looks:
        return None
    if call.parsed.has("--unsafe-paths"):
        return deny("outside-write", "git apply --unsafe-paths")
    folder = call.parsed.value("--directory")
    target = folder[0] if folder else Word(str(call.scope.worktree))
    return call.write(target)


def _output_problem(call: _Call) -> Deny | None:
    """Patches and archives go where `-o` says; patches else into the folder."""
    if call.parsed.has("--remote", "--exec"):
        return deny("git-network", call.shown)
    if call.parsed.has("--stdout"):
        return None
    targets = call.parsed.value("-o", "--output", "--output-directory")
    if not targets and call.shown.startswith("git format-patch"):
        targets = [Word(".")]
    return first(call.write(target) for target in targets)


_CHANGES: Mapping[str, Callable[[_Call], Deny | None]] = {
    "reset": _reset_problem,
    "checkout": _checkout_problem,
    "clean": _clean_problem,
    "restore": _restore_problem,
    "rm": _rm_problem,
    "mv": lambda call: call.each(call.parsed.rest, deletes=True),
    "apply": _apply_problem,
    "format-patch": _output_problem,
    "archive": _output_problem,
    "clang-format": lambda call: call.write(Word(str(call.scope.worktree))),
    "interpret-trailers": lambda call: call.each(
        call.parsed.rest if call.parsed.has("--in-place") else (), deletes=False
    ),
    "merge-file": lambda call: call.each(call.parsed.rest[:1], deletes=False),
}
CHANGES_FILES = frozenset(_CHANGES)
