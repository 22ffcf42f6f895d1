"""One-liners in other languages: Python is read, in the others only what starts programs is looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.options import Options, parse_options
from gitswarm.safety.policy.python_code import python_code
from gitswarm.safety.policy.values import UNKNOWN, Command, Input, Refused, Word
from gitswarm.safety.policy.wrappers import Inner

_PYTHON_CODE = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*([cm])(.*)", re.DOTALL)
_PYTHON = re.compile(r"(python|pypy)[\d.]*|ipython3?|python[\d.]*-dbg")
_CODE_OPTIONS = {
    "node": ("-e", "-p", "--eval", "--print", "-pe", "-ep"),
    "nodejs": ("-e", "-p", "--eval", "--print"),
    "deno": ("eval",),
    "bun": ("-e", "--eval", "-p", "--print"),
    "perl": ("-e", "-E"),
    "ruby": ("-e",),
    "php": ("-r", "-B", "-R", "-E"),
    "lua": ("-e",),
    "luajit": ("-e",),
    "Rscript": ("-e",),
    "R": ("-e",),
    "osascript": ("-e",),
    "tclsh": (),
    "emacs": ("--eval", "-eval", "--execute"),
    "vim": ("-c", "--cmd"),
    "nvim": ("-c", "--cmd"),
    "vi": ("-c",),
    "ex": ("-c",),
    "gdb": ("-ex", "-eval-command", "--eval-command", "-iex"),
    "psql": ("-c", "--command"),
    "sqlite3": ("-cmd",),
    "julia": ("-e", "-E"),
    "elixir": ("-e",),
}
_STARTS_PROGRAMS = re.compile(
    r"child_process|\bDeno\.(run|Command)|\bBun\.spawn|\bsystem\b|\bexec\w*\s*[(\s'\"]|\bspawn\w*|\bpopen|\bqx\b|%x"
    r"|\bpassthru|\bshell_exec|\bproc_open|\bos\.execute|\bio\.popen|\bOpen3|\bfork\b|\bpipe\b|do shell script"
    r"|start-process|shell-command|call-process|:!|^!|^shell\b|\\!|TO PROGRAM|\bsyscall\b|\bIO\.popen|\bKernel\b"
    r"|open\s*\(?[^)]*\|"
)
_WRITES_FILES = re.compile(
    r"writeFile|appendFile|unlink|rmSync|rmdirSync|renameSync|FileUtils|File\.(write|open|delete|unlink)"
    r"|file_put_contents|open\s*\(?[^)]*[\"']\s*>"
)
_BACKQUOTED = frozenset({"perl", "ruby", "php"})
"""Languages whose backquotes start a program."""
_NODES = listed("""
    node nodejs perl ruby php lua luajit tclsh bun deno julia Rscript
""")
_AWK = re.compile(r"\bsystem\s*\(|\|\s*(&\s*)?getline|\|\s*\"|\"\s*\|\s*getline|>\s*\"|>>|@load|\|&")
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_SED_STARTS = re.compile(r"(?:^|[;{}\n]|[0-9$/!,])\s*(e|w|W)(?:\s+\S|\s*$|\s*;)")
_SED_FLAGS = re.compile(r"s([^\w\s\\])(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1[gpiImM0-9]*[ew]", re.DOTALL)


def one_liner(command: Command) -> Iterator[Inner]:
    """What code in an argument or on standard input starts; Refused when that cannot be said."""
    name = command.name or ""
    if _PYTHON.fullmatch(name):
        yield from _python(command)
    elif name in _AWKS:
        yield from _awk(command)
    elif name in ("sed", "gsed"):
        yield from _sed(command)
    elif name in _CODE_OPTIONS:
        yield from _other(command, _CODE_OPTIONS[name])


def _python(command: Command) -> Iterator[Inner]:
    words = command.arguments
    at = 0
    while at < len(words) and (words[at].known or "").startswith("-") and words[at].known != "-":
        text = words[at].known or ""
        given = _PYTHON_CODE.fullmatch(text)
        if given is not None:
            rest = (Word(given[2]), *words[at + 1 :]) if given[2] else words[at + 1 :]
            yield from (_module(rest, command) if given[1] == "m" else python_code((*rest, UNKNOWN)[0], command))
            return
        at += 2 if text in ("-W", "-X", "--check-hash-based-pycs") else 1
    file = words[at].text if at < len(words) else "-"
    if file is None:
        yield Refused("unknown-command", f"{command.name} {words[at].shown}")
    elif file == "-" or file.startswith(("/dev/fd/", "/dev/stdin")):
        yield from _on_input(command, file)


def _module(words: Sequence[Word], command: Command) -> Iterator[Inner]:
    """`python -m twine` is twine; timeit runs its arguments."""
    yield command.running(tuple(words) or (UNKNOWN,))
    if words and words[0].known == "timeit":
        for word in words[1:]:
            yield from () if word.shown.startswith("-") else python_code(word, command)


def _on_input(command: Command, file: str) -> Iterator[Inner]:
    if command.input is Input.PIPED or file != "-" or (command.input is Input.TEXT and command.text is None):
        yield Refused("pipe-to-shell", f"a pipe into {command.name}")
    elif command.input is Input.TEXT:
        yield from python_code(Word(command.text), command)


def _awk(command: Command) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, Options("Ffvi"), mixed=False)
    if parsed.has("-f"):
        return
    program = parsed.rest[0] if parsed.rest else UNKNOWN
    if program.text is None or _AWK.search(program.text):
        yield Refused("hidden-code", f"{command.name} {program.shown}")


def _sed(command: Command) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, Options("efl", frozenset({"--expression", "--file"})))
    scripts = parsed.value("-e", "--expression")
    if not scripts and not parsed.has("-f", "--file"):
        scripts = list(parsed.rest[:1])
    for script in scripts:
        text = script.text if script.text is not None else script.start
        if _SED_STARTS.search(text) or _SED_FLAGS.search(text):
            yield Refused("hidden-code", f"sed {script.shown}")


def _other(command: Command, names: Sequence[str]) -> Iterator[Inner]:
    short = "".join(name[1] for name in names if len(name) == 2 and name[0] == "-")
    words = command.arguments
    codes = [words[at + 1] for at, word in enumerate(words[:-1]) if word.known in names]
    parsed = parse_options(words, Options(short))
    codes += parsed.value(*(name for name in names if len(name) == 2))
    codes += [
        Word(word.shown[1:])
        for word in words
        if word.shown.startswith("+") and command.name in ("vim", "nvim", "vi", "ex")
    ]
    for code in codes:
        starts = _STARTS_PROGRAMS.search(code.known or "") or (command.name in _BACKQUOTED and "`" in code.shown)
        if code.known is None or starts:
            yield Refused("hidden-code", f"{command.name} {code.shown}")
        elif _WRITES_FILES.search(code.known):
            yield command.running((Word("tee"), UNKNOWN))
    reads_input = (
        command.name in _NODES and not codes and (not parsed.rest or parsed.rest[0].known in ("-", "/dev/stdin"))
    )
    asks = any(word.known in ("-v", "--version", "-h", "--help", "-V", "-i", "-m") for word in words)
    if command.name in ("ed", "ex"):
        reads_input = True
    if reads_input and not asks and command.input in (Input.PIPED, Input.TEXT):
        yield Refused("pipe-to-shell", f"a pipe into {command.name}")
