"""Git commands that change files: judged by the paths that they name."""

from __future__ import annotations

from collections.abc import Sequence

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.options import Options, Parsed, parse_options
from gitswarm.safety.policy.paths import first, write_problem
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.values import Command, Word

CHANGES_FILES = frozenset(
    {"rm", "mv", "restore", "checkout", "reset", "clean", "apply", "format-patch", "archive", "diff-output", "checkout-index"}
    | {"read-tree", "interpret-trailers", "merge-file", "mailinfo", "mailsplit", "bugreport", "diagnose"}
)
_VALUES = {
    "restore": Options("sU", frozenset({"--source", "--conflict", "--pathspec-from-file", "--unified"})),
    "checkout": Options("bB", frozenset({"--orphan", "--conflict", "--pathspec-from-file"})),
    "reset": Options("U", frozenset({"--pathspec-from-file", "--unified"})),
    "clean": Options("e", frozenset({"--exclude"})),
    "apply": Options("pC", frozenset({"--exclude", "--include", "--directory", "--whitespace", "--build-fake-ancestor"})),
    "format-patch": Options("ovN", frozenset({"--output-directory", "--output", "--start-number", "--subject-prefix", "--base"})),
    "archive": Options("o", frozenset({"--output", "--format", "--prefix", "--add-file", "--add-virtual-file", "--remote", "--exec"})),
    "rm": Options("", frozenset({"--pathspec-from-file"})),
}
_HARMLESS_RESET = frozenset({"-q", "--quiet", "-N", "--intent-to-add", "--no-refresh", "--refresh", "--mixed"})
_BRANCHING = ("-b", "-B", "--orphan", "--detach", "-d", "-t", "--track", "-l", "-m", "--merge", "--guess")


def change_problem(name: str, words: Sequence[Word], command: Command, scope: Scope) -> Deny | None:
    parsed = parse_options(words, _VALUES.get(name, Options()))
    shown = " ".join(["git", name, *(word.shown for word in words)])
    if parsed.has("--pathspec-from-file"):
        return deny("unknown-target", shown)
    if name == "reset":
        return _reset_problem(parsed, shown)
    if name == "checkout":
        return _checkout_problem(parsed, command, scope, shown)
    if name == "clean":
        return _clean_problem(parsed, command, scope, shown)
    if name == "restore":
        staged_only = parsed.has("--staged", "-S") and not parsed.has("--worktree", "-W")
        return None if staged_only else _each(parsed.rest, command, scope, deletes=parsed.has("-s", "--source"))
    if name in ("rm", "mv"):
        kept = name == "rm" and (parsed.has("--cached", "--dry-run", "-n"))
        return None if kept else _each(parsed.rest, command, scope, deletes=True)
    if name == "apply":
        return _apply_problem(parsed, command, scope)
    if name in ("format-patch", "archive"):
        return _output_problem(name, parsed, command, scope, shown)
    return deny("git-commit", shown)


def _each(words: Sequence[Word], command: Command, scope: Scope, *, deletes: bool) -> Deny | None:
    return first(_pathspec_problem(word, command, scope, deletes=deletes) for word in words)


def _pathspec_problem(word: Word, command: Command, scope: Scope, *, deletes: bool) -> Deny | None:
    text = word.text
    if text is not None and text.startswith(":") and text not in (":/", ":"):
        return None if text.startswith((":!", ":^", ":(exclude")) else deny("unknown-target", text)
    if text in (":/", ":"):
        word = Word(str(scope.worktree))
    elif text is not None and any(sign in text for sign in "*?["):
        word = Word(text, pattern=True)  # git expands what the shell did not
    return write_problem(word, command.folders, scope, deletes=deletes)


def _reset_problem(parsed: Parsed, shown: str) -> Deny | None:
    """Only the index is reset: to HEAD as a whole, or the entries of paths."""
    if parsed.lost or any(option not in _HARMLESS_RESET for option, _value in parsed.given):
        return deny("git-reset", shown)
    before, paths = parsed.rest, parsed.rest
    if parsed.dashed is not None:
        before, paths = parsed.rest[: parsed.dashed], parsed.rest[parsed.dashed :]
    if not before or before[0].known in ("HEAD", "@"):
        return None
    return None if parsed.dashed is not None and paths else deny("git-reset", shown)


def _checkout_problem(parsed: Parsed, command: Command, scope: Scope, shown: str) -> Deny | None:
    """Files are checked out when paths follow `--`, follow a revision, or can be nothing else."""
    if parsed.lost or parsed.has(*_BRANCHING):
        return deny("git-refs", shown)
    before = parsed.rest if parsed.dashed is None else parsed.rest[: parsed.dashed]
    paths = parsed.rest[1:] if parsed.dashed is None else parsed.rest[parsed.dashed :]
    if parsed.dashed is None and before and (before[0].known or "").startswith((".", "/")):
        before, paths = (), parsed.rest
    if not paths:
        return deny("git-refs", shown, "git restore PATH, or git checkout -- PATH, for files; git show REV:PATH to read")
    return _each(paths, command, scope, deletes=bool(before))


def _clean_problem(parsed: Parsed, command: Command, scope: Scope, shown: str) -> Deny | None:
    if parsed.has("-n", "--dry-run"):
        return None
    if parsed.has("-x", "-X", "-i", "--interactive") or not parsed.rest or parsed.lost:
        return deny("git-clean", shown)
    return _each(parsed.rest, command, scope, deletes=True)


def _apply_problem(parsed: Parsed, command: Command, scope: Scope) -> Deny | None:
    """A patch may touch any file in the worktree; git itself keeps it in there."""
    looks = parsed.has("--check", "--stat", "--numstat", "--summary", "--cached") and not parsed.has("--apply")
    if looks:
        return None
    if parsed.has("--unsafe-paths"):
        return deny("outside-write", "git apply --unsafe-paths")
    folder = parsed.value("--directory")
    target = folder[0] if folder else Word(str(scope.worktree))
    return write_problem(target, command.folders, scope)


def _output_problem(name: str, parsed: Parsed, command: Command, scope: Scope, shown: str) -> Deny | None:
    """Patches and archives go where `-o` says; patches else into the folder."""
    if parsed.has("--remote", "--exec"):
        return deny("git-network", shown)
    if parsed.has("--stdout"):
        return None
    targets = parsed.value("-o", "--output", "--output-directory")
    if not targets and name == "format-patch":
        targets = [Word(".")]
    return first(write_problem(target, command.folders, scope) for target in targets)
