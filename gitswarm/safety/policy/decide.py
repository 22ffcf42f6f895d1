"""The verdict on one tool call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from pydantic import JsonValue

from gitswarm.records.policy import Allow, Deny, Rewrite, Verdict
from gitswarm.safety.policy.command_line import Judge
from gitswarm.safety.policy.paths import Scope, first, holds_keys, places, read_problem, write_problem
from gitswarm.safety.policy.shell_words import ShellWord
from gitswarm.safety.policy.table import deny, listed

_RUN_BASE = "RUN_BASE/"
_WRITING = {"Write": "Write", "Edit": "Edit", "MultiEdit": "Edit", "NotebookEdit": "Edit", "Delete": "Write"}
"""Tools that change files, and the station's tool that each counts as."""
_READING = frozenset({"Read", "Glob", "Grep", "LS", "NotebookRead"})
_ALWAYS = frozenset({"TodoWrite", "TodoRead", "ExitPlanMode", "BashOutput", "KillShell", "KillBash", "Skill"})
"""Tools that touch nothing but the session itself."""
_NAMES: Mapping[str, str] = dict(
    pair.split("=")
    for pair in listed("""
        write_file=Write replace=Edit read_file=Read read_many_files=Read glob=Glob search_file_content=Grep
        list_directory=LS run_shell_command=Bash web_fetch=WebFetch google_web_search=WebSearch Task=Agent
    """)
)
"""Gemini's names of the same tools, and what older versions of Claude Code call the tool that starts a subagent."""
_PATH_KEYS = listed("""
    file_path notebook_path path absolute_path filename file dir_path directory target destination source paths
    files
""")
_READS = ("read", "get", "list", "search", "find", "view", "query", "fetch", "describe", "show", "grep", "glob")


def decide(tool: str, given: Mapping[str, JsonValue], scope: Scope) -> Verdict:
    """Never raises: what cannot be judged is denied."""
    name = _NAMES.get(tool, tool)
    if scope.tools and not _is_given(name, scope.tools):
        return deny("tool", tool, f"the station's tools: {', '.join(scope.tools)}")
    if name == "Bash":
        command = given.get("command")
        if not isinstance(command, str):
            return deny("tool", f"{tool} without a command")
        return Judge(scope).line(command)
    searched = _searched(name, given, scope)
    if searched is not None:
        return searched
    writes = name in _WRITING or not (name in _READING or _seems_to_read(name))
    return _judge_paths(given, scope, writes=writes, deletes=name == "Delete")


def _is_given(name: str, tools: tuple[str, ...]) -> bool:
    """LS belongs to Glob; a station's `mcp__server` gives every tool of that server."""
    tools = tuple(_NAMES.get(each, each) for each in tools)
    wanted = _WRITING.get(name, {"LS": "Glob", "NotebookRead": "Read"}.get(name, name))
    return name in _ALWAYS or wanted in tools or name in tools or any(name.startswith(f"{each}__") for each in tools)


def _seems_to_read(name: str) -> bool:
    """An MCP tool whose name begins with a verb of reading; built-in ones of the net name no path."""
    last = name.rpartition("__")[2].lower()
    return last.startswith(_READS) or name in _ALWAYS or name in ("WebFetch", "WebSearch", "Agent")


def _judge_paths(given: Mapping[str, JsonValue], scope: Scope, *, writes: bool, deletes: bool) -> Verdict:
    top = frozenset({str(scope.worktree)})
    changed: dict[str, JsonValue] = {}
    problems: list[Deny | None] = []
    for key, path in _paths(given):
        real = _real(path, scope)
        if real != path and given.get(key) == path:
            changed[key] = real
        word = ShellWord(_at_home(real, scope))
        problems.append(
            write_problem(word, top, scope, deletes=deletes) if writes else read_problem(word, top, scope)
        )
    problem = first(problems)
    if problem is not None:
        return problem
    return Rewrite({**given, **changed}, "RUN_BASE is the folder of the run") if changed else Allow()


def _at_home(path: str, scope: Scope) -> str:
    """Tools expand `~` by themselves."""
    return str(scope.home / path.removeprefix("~").lstrip("/")) if path == "~" or path.startswith("~/") else path


def _searched(tool: str, given: Mapping[str, JsonValue], scope: Scope) -> Deny | None:
    """What Glob's pattern names, and a search through the whole home."""
    path, pattern = (given.get(name) for name in ("path", "pattern"))
    folder = _at_home(path, scope) if isinstance(path, str) else str(scope.worktree)
    start = frozenset({str(scope.worktree / folder)})
    if tool == "Glob" and isinstance(pattern, str):
        return read_problem(ShellWord(_at_home(pattern, scope), pattern=True), start, scope)
    found = places(ShellWord(folder), frozenset({str(scope.worktree)}), scope) if tool == "Grep" else None
    return deny("key-file", folder) if any(holds_keys(place, scope) for place in found or ()) else None


def _real(path: str, scope: Scope) -> str:
    inside = path.removeprefix(f"{scope.worktree}/")  # Claude asks with absolute paths, whatever its agent said
    if inside.startswith(_RUN_BASE):
        return str(scope.worktree / scope.run_base / PurePosixPath(inside.removeprefix(_RUN_BASE)))
    return path


def _paths(given: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """Every path that an input names, with the key that it stands under."""
    for key, value in given.items():
        if key not in _PATH_KEYS:
            continue
        if isinstance(value, str) and "://" not in value:
            yield key, value
        elif isinstance(value, list):
            yield from ((key, each) for each in value if isinstance(each, str))
