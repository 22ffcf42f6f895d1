"""Whether a session ran one of the project's commands itself, as its tool calls show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gitswarm.evidence.test_command import read_command
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.receipt import ToolCall

EDITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "Delete"})
_OPERATOR = lazy_re(r"&&|\|\||[;|\n]")
_REDIRECTION = lazy_re(r"[0-9&]?>{1,2}\s*&?[\w./-]+")
_BEFORE_PROGRAM = lazy_re(r"(?:^|[;&|(\n]) *(?:\w+=\S* +|(?:env|time|nice|timeout \S+) +)*$")
_ASSIGNMENT = lazy_re(r"[A-Za-z_]\w*=")
_AROUND = frozenset({"timeout", "time", "nice", "nohup", "exec", "command", "then", "do", "if"})
_NARROWING = frozenset({"-k", "-m", "-t", "-run", "--lf", "--last-failed", "--grep", "--testNamePattern"})


class Observation(Struct, frozen=True):
    """`ran`: in whole or in part, after the last edit of the code; `green`: as a whole, and it ended well."""

    ran: bool = False
    green: bool = False


def observe_command(calls: Sequence[ToolCall], command: str) -> Observation:
    """
    :param calls: of the session, in their order.
    :param command: the shell line of the project's command.
    """
    seen = Observation()
    for call in calls:
        if call.blocked:
            continue
        if _edits_code(call):
            seen = Observation()
            continue
        found = _find(str((call.executed_input or call.input).get("command", "")), command)
        if found is not None:
            rest, is_narrowed = found
            seen = Observation(ran=True, green=not is_narrowed and _ended_well(call, rest))
    return seen


def _edits_code(call: ToolCall) -> bool:
    path = str(call.input.get("file_path") or call.input.get("notebook_path") or "")
    return call.tool_name in EDITING_TOOLS and not path.startswith("RUN_BASE/") and f"{RUNS_FOLDER}/" not in path


def _ended_well(call: ToolCall, rest: str) -> bool:
    """Whether a command passed: by its exit code where that is the line's own, else by the report that it printed."""
    if not _OPERATOR.search(rest.replace("&&", "")):
        return call.success
    from gitswarm.evidence.test_report import read_run  # noqa: PLC0415 - where tests ran

    run = read_run(call.output, {})
    return run is not None and run.report.failed == 0 and run.report.passed > 0


def _find(line: str, command: str) -> tuple[str, bool] | None:
    """The command word for word, else a call of the same known test runner: what stands behind it, and whether it was
    narrowed."""
    plain, wanted = re.sub(r"[ \t]+", " ", line), " ".join(command.split())
    for word_for_word in re.finditer(re.escape(wanted), plain):
        before, rest = plain[: word_for_word.start()], plain[word_for_word.end() :]
        if _BEFORE_PROGRAM.search(before) and not rest[:1].strip(" \n;|&>)"):
            return rest, any(map(_narrows, _words(_OPERATOR.split(rest)[0])))
    runner = read_command(wanted, {})
    for words, behind in _simple_commands(line):
        given = read_command(_from_program(words), {})
        if runner is not None and given is not None and given.runner == runner.runner:
            more = [word for word in given.arguments if word not in runner.arguments]
            return behind, any(map(_narrows, more))
    return None


def _simple_commands(line: str) -> Iterator[tuple[list[str], str]]:
    """The words of each part between operators, and what stands behind it."""
    start = 0
    for end in (*(match.start() for match in _OPERATOR.finditer(line)), len(line)):
        words = _words(_OPERATOR.sub("", line[start:end], count=1))
        if words:
            yield words, line[end:]
        start = end


def _from_program(words: Sequence[str]) -> Sequence[str]:
    """Without the variables that are set for a program, and what only bounds it or stands before it in a loop."""
    at = 0
    while at < len(words) and (_ASSIGNMENT.match(words[at]) or words[at] in _AROUND):
        if words[at] == "timeout":
            at += 1
            while at < len(words) and words[at].startswith("-"):
                at += 1 + (words[at] in ("-k", "-s"))
        at += 1
    return words[at:]


def _words(text: str) -> list[str]:
    """The words of a line without redirections; none where quotes are left open."""
    try:
        return shlex.split(_REDIRECTION.sub("", text))
    except ValueError:
        return []


def _narrows(word: str) -> bool:
    """Whether an argument leaves only some tests of a suite: a selection, a path or the id of a test."""
    return word.partition("=")[0] in _NARROWING or (
        not word.startswith("-") and bool(re.search(r"/|::|\.\w+$", word))
    )
