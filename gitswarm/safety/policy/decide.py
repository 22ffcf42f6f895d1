"""The verdict on one tool call. A shell line is judged by its commands, by the programs that those start, and by
where its output goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import PurePosixPath

from msgspec import Struct

from gitswarm.records.json_value import JsonValue
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.safety import Allow, Deny, Rewrite, Verdict
from gitswarm.safety.policy import table
from gitswarm.safety.policy.git_rules import is_reading, judge_git, no_options
from gitswarm.safety.policy.paths import Scope, first, holds_keys, read_problem, resolved_paths, write_problem
from gitswarm.safety.policy.shell_words import ShellWord, SimpleCommand, read_line
from gitswarm.safety.policy.table import deny, listed

SHELLS = listed("sh bash dash zsh ksh mksh ash fish")
_PREFIXES: Mapping[str, str] = {
    name: letters
    for letters, names in {
        "": "nohup setsid command builtin chronic unbuffer busybox coproc ! { do then else elif if while until",
        "uCghp": "env sudo doas",
        "ks": "timeout gtimeout",
        "aEILnPsd": "xargs",
        "n": "nice watch",
        "cnp": "ionice",
        "ioe": "stdbuf",
        "fo": "time",
        "a": "exec",
        "wE": "flock",
        "efnpsw": "xvfb-run",
    }.items()
    for name in names.split()
}
"""What runs the rest of its arguments, reserved words too: the letters of options with a value."""
_RUNNERS: Mapping[str, str] = {
    name: verbs
    for verbs, names in {
        "": "npx pnpx bunx uvx cross-env dotenv",
        "run": "poetry pipenv pdm rye hatch conda uv pipx pixi rustup",
        "exec x dlx": "npm pnpm yarn bun bundle mise lerna",
    }.items()
    for name in names.split()
}
"""The same, behind a verb of their own."""
_TAKING_ONE = frozenset({"timeout", "gtimeout", "flock"})
_LONG_OPTIONS = listed("--package --with --from --python --group --extra --env-file")
MARKERS = frozenset({"SWARM_SESSION", "SWARM_STEP_OF", "SWARM_SIBLING"})
"""Every process that works for a run carries them; what lost them would outlive its session."""
_MOST_PATHS = 200
_DEEPEST = 6
_HARMLESS_GIT = lazy_re(
    r"GIT_((SEQUENCE_)?EDITOR|PAGER|TERMINAL_PROMPT|OPTIONAL_LOCKS|(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|MERGE_AUTOEDIT"
    r"|TRACE\w*|PS1\w*|\w*_PATHSPECS|COMMIT|SHA|REVISION|BRANCH|TAG|VERSION|DEPTH|HASH|REF|URL)"
)
_ADDRESS = lazy_re(r"(?:\S*=)?https?://", re.IGNORECASE)
_NAMING = listed("env unset read wait")
"""Commands that change the variables that they name."""
_SENDING = ("-X", "--method", "-f", "-F", "--field", "--raw-field", "--input")
_BUILDS = listed("mvn mvnw gradle gradlew sbt lein")
_PUBLISHING = listed("publish deploy publishPlugins uploadArchives")


class Judge(Struct):
    """One decision. `contained`: what something in the line does when it runs was not read."""

    scope: Scope
    contained: bool = False

    def line(self, text: str) -> Allow | Deny:
        """A whole command line, as an agent gives it."""
        return first(self._script(text, _DEEPEST)) or Allow(contained=self.contained)

    def _script(self, text: str, deeper: int) -> Iterator[Deny | None]:
        scope = self.scope
        top = str(scope.worktree)
        known = {"HOME": str(scope.home), "RUN_BASE": f"{top}/{scope.run_base}"}
        line = read_line(text, {"TMPDIR": str([*scope.temp, "/tmp"][0]), **scope.variables, **known})  # noqa: S108
        folders = None if line.moves else frozenset({top})
        self.contained |= line.moves or bool(line.assigned) or not line.is_whole
        for name, value in line.assigned:
            yield _variable_problem(name, f"{name}={value.shown}")
        for command in line.commands:
            yield from self._command(command, folders, deeper)
        for operator, target in line.redirects:
            yield self._written(target, folders) if ">" in operator else read_problem(target, folders, self.scope)

    def _command(self, command: SimpleCommand, folders: frozenset[str] | None, deeper: int) -> Iterator[Deny | None]:
        """What speaks against a command, the most telling first."""
        name, scope = command.name, self.scope
        self.contained |= name is None or any(word.text is None for word in command.words)
        yield _user_problem(command, scope)
        if name is None or deeper == 0:
            self.contained = True
            return
        inner: list[Deny | SimpleCommand | str] = [*_started_by(command)]
        yield _named_problem(command)
        yield _table_problem(command)
        if name in ("git", "gitswarm") or name.startswith("git-"):
            judged = judge_git(command, folders, scope)
            inner += [judged] if judged is not None else []
        for each in inner:
            if isinstance(each, Deny):
                yield each
            elif isinstance(each, SimpleCommand):
                yield from self._command(each, folders, deeper - 1)
            else:
                yield from self._script(each, deeper - 1)
        yield from self._files(command, folders)
        is_read = (
            (inner and name != "xargs")
            or command.words[0].known in table.PLAIN
            or (name == "git" and is_reading(command))
        )
        self.contained |= not is_read

    def _written(self, word: ShellWord, folders: frozenset[str] | None, *, deletes: bool = False) -> Deny | None:
        """Judges a path that the line writes to; one that is not known is left to the sandbox."""
        text = word.text
        if text is None or (folders is None and not text.startswith("/")):
            self.contained = True
            return None
        return write_problem(word, folders, self.scope, deletes=deletes)

    def _files(self, command: SimpleCommand, folders: frozenset[str] | None) -> Iterator[Deny | None]:
        """No argument names a key; what `rm` and `tee` name is judged like the target of a redirect."""
        paths = [each for word in command.arguments for each in _paths_in(word)]
        for word in paths[:_MOST_PATHS] if command.name not in ("echo", "printf") else ():
            named = resolved_paths(word, folders, self.scope) or ()
            self.contained |= any(holds_keys(path, self.scope) for path in named)
            yield read_problem(word, folders, self.scope)
        if command.name in ("rm", "tee"):
            deletes = command.name == "rm"
            targets = [word for word in command.arguments if not word.shown.startswith("-")]
            yield from (self._written(word, folders, deletes=deletes) for word in targets)


def _started_by(command: SimpleCommand) -> Iterator[SimpleCommand | str]:
    """What `command` starts in its turn: programs, or the text of a shell script."""
    name, words = command.name or "", command.arguments
    if name in SHELLS:
        yield from _shell_script(words)
    elif name == "find":
        yield from _find_exec(words)
    elif name in ("eval", "trap") and all(word.known is not None for word in words):
        yield " ".join(word.known or "" for word in (words if name == "eval" else words[:1]))
    else:
        wrapped = _wrapped(name, words)
        begin = next((at for at, word in enumerate(wrapped) if "=" not in word.shown), len(wrapped))
        if wrapped[begin:]:
            yield SimpleCommand(tuple(wrapped[begin:]))


def _wrapped(name: str, words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """The part of the arguments that is a command again, perhaps behind assignments; nothing: there is none."""
    if name in _PREFIXES:
        only_looks_up = name == "command" and words[:1] and words[0].known in ("-v", "-V")
        return () if only_looks_up else _behind_options(words, _PREFIXES[name])[name in _TAKING_ONE :]
    if name in _RUNNERS:
        verbs = _RUNNERS[name].split()
        at = next((at for at, word in enumerate(words) if word.known in verbs), -1)
        return _behind_options(words[at + 1 :], "pn") if not verbs or at >= 0 else ()
    if name.startswith(("python", "pypy")):
        at = next((at for at, word in enumerate(words) if word.known == "-m"), len(words))
        return words[at + 1 :]
    return ()


def _behind_options(words: Sequence[ShellWord], letters: str) -> Sequence[ShellWord]:
    at = 0
    while at < len(words) and words[at].shown.startswith("-"):
        option = words[at].known or ""
        at += 1
        if option == "--":
            break
        at += option in _LONG_OPTIONS or (len(option) == 2 and option[1] in letters)
    return words[at:]


def _shell_script(words: Sequence[ShellWord]) -> Iterator[str]:
    """The text behind `-c`, also as a letter among others."""
    texts = [text for option, text in pairwise(words) if re.fullmatch(r"-\w*c\w*", option.known or "")]
    yield from (text.known for text in texts[:1] if text.known is not None)


def _find_exec(words: Sequence[ShellWord]) -> Iterator[SimpleCommand]:
    at = 0
    while at < len(words):
        begin = at + 1
        if words[at].known in ("-exec", "-execdir", "-ok", "-okdir"):
            at = next((end for end in range(begin, len(words)) if words[end].known in (";", "+")), len(words))
            yield SimpleCommand(tuple(words[begin:at]))
        at += 1


def _variable_problem(name: str, shown: str) -> Deny | None:
    if name in MARKERS:
        return deny("marker", shown)
    return deny("git-environment", shown) if name.startswith("GIT_") and not _HARMLESS_GIT.fullmatch(name) else None


def _named_problem(command: SimpleCommand) -> Deny | None:
    """`unset GIT_X`, `env -u GIT_X`, `env GIT_X=`: what they name they change."""
    if command.name not in _NAMING:
        return None
    names = [re.sub(r"^(--unset=|-u)|=.*", "", word.shown) for word in command.arguments]
    return first(_variable_problem(name, f"{command.name} {name}") for name in names)


def _table_problem(command: SimpleCommand) -> Deny | None:
    name, shown = command.name or "", command.shown
    texts = [word.shown for word in command.arguments]
    is_trial = "--dry-run" in texts and "publish" in texts
    if (len(texts) == 1 and texts[0] in table.TELLS) or (is_trial and not {"false", "--no-dry-run"} & set(texts)):
        return None
    if name in table.FORGES:
        return _forge_problem(command)
    plain = _plain(command, table.OPTIONS_WITH_VALUE)
    for words in (plain, _plain(command), [name, *texts]):
        for many in range(min(table.LONGEST, len(words)), 0, -1):
            rule = table.REFUSED.get(" ".join(words[:many]))
            if rule is not None:
                return deny(rule, shown)
    goals = {text.rpartition(":")[2] for text in plain[1:]}
    publishes = (
        (name in _BUILDS and goals & _PUBLISHING)
        or ("setup.py" in texts and {"upload", "register"} & set(texts))
        or (name in ("docker", "podman") and "--push" in texts)
    )
    return deny("publish", shown) if publishes else None


def _plain(command: SimpleCommand, values: frozenset[str] = frozenset()) -> list[str]:
    """The name and the arguments that are no options and no options' values."""
    return [command.name or "", *(word.shown for word in no_options(command.arguments, values))]


def _forge_problem(command: SimpleCommand) -> Deny | None:
    """gh, hub, glab, tea: what only reads."""
    plain = _plain(command, table.OPTIONS_WITH_VALUE)[1:]
    texts = [word.shown for word in command.arguments]
    if not plain or table.TELLS & set(texts) or plain[0] in ("help", "version", "status", "search"):
        return None
    reads = plain[1:2] != [] and plain[1] in table.FORGE_READING
    if plain[0] == "api":
        reads = "graphql" not in plain and not any(text.startswith(_SENDING) for text in texts)
    return None if reads else deny("hosting", command.shown)


def _user_problem(command: SimpleCommand, scope: Scope) -> Deny | None:
    """What the project forbids on top: beginnings of commands, with and without their options."""
    named = (ShellWord(command.name), *command.arguments) if command.name is not None else command.words
    plain = tuple(word for word in named if not word.shown.startswith("-"))
    for beginning in scope.rules.deny:
        if any(_begins(words, beginning.split()) for words in (command.words, named, plain)):
            return deny("user-rule", command.shown, f"the rule is: {beginning}")
    return None


def _begins(words: Sequence[ShellWord], patterns: Sequence[str]) -> bool:
    """Each word fits its pattern; of one that is not known what it begins with."""
    pairs = [(word.text or word.start, word.pattern, each) for word, each in zip(words, patterns, strict=False)]
    fits = all(fnmatchcase(text, each) or (globs and fnmatchcase(each, text)) for text, globs, each in pairs)
    return fits and 0 < len(patterns) == len(pairs)


def _paths_in(word: ShellWord) -> Iterator[ShellWord]:
    """An argument, and what stands behind its `=` or `@`, where that may lead out of the worktree."""
    text = word.text if word.text is not None else word.start
    signs = ("=", "@") if _ADDRESS.match(text) else ("=", "@", ":")
    for value in (text, *(text.partition(sign)[2] for sign in signs)):
        if value.startswith("/") or ".." in value:
            yield ShellWord(value, word.pattern)


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
    searched = resolved_paths(ShellWord(folder), frozenset({str(scope.worktree)}), scope) if tool == "Grep" else None
    return deny("key-file", folder) if any(holds_keys(path, scope) for path in searched or ()) else None


def _real(path: str, scope: Scope) -> str:
    inside = path.removeprefix(f"{scope.worktree}/")  # Claude asks with absolute paths, whatever its agent wrote
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
