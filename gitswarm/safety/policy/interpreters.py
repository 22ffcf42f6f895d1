"""One-liners in other languages: Python is read, of the others only what is plain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from gitswarm.safety.policy.options import Options, parse_options
from gitswarm.safety.policy.values import UNKNOWN, Command, Input, Refused, Word
from gitswarm.safety.policy.wrappers import Inner, Script

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
    r"child_process|\bDeno\.(run|Command)|\bBun\.spawn|\bsystem\b|\bexec\w*\s*[(\s'\"]|\bspawn\w*|\bpopen|\bqx\b|`|%x|\bpassthru|\bshell_exec"
    r"|\bproc_open|\bos\.execute|\bio\.popen|\bOpen3|\bfork\b|\bpipe\b|do shell script|start-process|shell-command|call-process|:!|^!|^shell\b"
    r"|\\!|TO PROGRAM|\bsyscall\b|\bIO\.popen|\bKernel\b|open\s*\(?[^)]*\|"
)
_WRITES_FILES = re.compile(r"writeFile|appendFile|unlink|rmSync|rmdirSync|renameSync|FileUtils|File\.(write|open|delete|unlink)|file_put_contents|open\s*\(?[^)]*[\"']\s*>")
_NODES = frozenset({"node", "nodejs", "perl", "ruby", "php", "lua", "luajit", "tclsh", "bun", "deno", "julia", "Rscript"})
_AWK = re.compile(r"\bsystem\s*\(|\|\s*(&\s*)?getline|\|\s*\"|\"\s*\|\s*getline|>\s*\"|>>|@load|\|&")
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_SED_STARTS = re.compile(r"(?:^|[;{}\n]|[0-9$/!,])\s*(e|w|W)(?:\s+\S|\s*$|\s*;)")
_SED_FLAGS = re.compile(r"s([^\w\s\\])(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1[gpiImM0-9]*[ew]", re.DOTALL)
_RUNS = frozenset(
    {"system", "popen", "popen2", "popen3", "popen4", "Popen", "check_call", "check_output", "getoutput", "getstatusoutput", "startfile"}
    | {"execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe", "posix_spawn", "posix_spawnp"}
    | {"spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe", "create_subprocess_shell", "create_subprocess_exec"}
)
_FIRST_IS_MODE = frozenset(name for name in _RUNS if name.startswith("spawn"))
_DELETES = frozenset({"rmtree", "remove", "unlink", "rmdir", "removedirs"})
_WRITES = frozenset({"write_text", "write_bytes", "touch", "mkdir", "symlink_to", "rename", "replace"})


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
    while at < len(words):
        text = words[at].known
        if text is None:
            if words[at].text is None:
                yield Refused("unknown-command", f"{command.name} {words[at].shown}")
            return
        if text in ("-W", "-X", "--check-hash-based-pycs"):
            at += 2
            continue
        if text.startswith("-") and not text.startswith("--") and "c" in text[1:]:
            code = text.partition("c")[2]
            word = Word(code) if code else words[at + 1] if at + 1 < len(words) else Word("")
            yield from _code_of(word, command)
            return
        if text.startswith("-") and not text.startswith("--") and "m" in text[1:]:
            module = text.partition("m")[2]
            rest = (Word(module), *words[at + 1 :]) if module else words[at + 1 :]
            yield command.running(rest or (UNKNOWN,))
            return
        if text == "-" or not text.startswith("-"):
            break
        at += 1
    file = words[at].known if at < len(words) else "-"
    if file == "-" or (file or "").startswith(("/dev/fd/", "/dev/stdin")):
        yield from _on_input(command, file or "-")


def _on_input(command: Command, file: str) -> Iterator[Inner]:
    if command.input is Input.PIPED or file != "-" or (command.input is Input.TEXT and command.text is None):
        yield Refused("pipe-to-shell", f"a pipe into {command.name}")
    elif command.input is Input.TEXT:
        yield from _code_of(Word(command.text), command)


def _code_of(word: Word, command: Command) -> Iterator[Inner]:
    if word.known is None:
        yield Refused("hidden-code", f"{command.name} -c {word.shown}")
        return
    try:
        tree = ast.parse(word.known)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield Refused("hidden-code", f"{command.name} with code that does not parse")
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node, command)


def _call(node: ast.Call, command: Command) -> Iterator[Inner]:
    name, base = _called(node.func)
    if name in _RUNS or (name in ("run", "call") and (base in ("subprocess", "sp") or _starts(node.args[:1]))):
        yield _started(node, command, skipped=name in _FIRST_IS_MODE)
    elif name in ("exec", "eval", "compile") and base is None:
        code = _constant(node.args[0]) if node.args else None
        yield from _code_of(Word(code) if isinstance(code, str) else UNKNOWN, command)
    elif name == "spawn" and base == "pty":
        yield Refused("reverse-shell", "pty.spawn")
    elif name in ("getattr", "vars", "globals", "locals", "__builtins__") and isinstance(node.func, ast.Name):
        if name == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value not in _RUNS:
            return
        if name == "getattr":
            yield Refused("hidden-code", "getattr with a name that is not known")
    elif name in ("connect", "create_connection", "dup2"):
        yield Refused("reverse-shell", f"python {name}")
    elif name == "loads" and base in ("pickle", "marshal"):
        yield Refused("hidden-code", f"{base}.loads")
    else:
        yield from _files(node, name, base, command)


def _called(function: ast.expr) -> tuple[str | None, str | None]:
    """Name of a called function, and of what it belongs to."""
    if isinstance(function, ast.Name):
        return function.id, None
    if not isinstance(function, ast.Attribute):
        return None, None
    base = function.value
    if isinstance(base, ast.Call) and base.args and _called(base.func)[0] in ("__import__", "import_module"):
        imported = _constant(base.args[0])
        return function.attr, imported if isinstance(imported, str) else "subprocess"
    return function.attr, base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""


def _starts(arguments: Sequence[ast.expr]) -> bool:
    """A call of `run` whose first argument is a command line."""
    value = _constant(arguments[0]) if arguments else None
    return isinstance(value, (str, list)) and bool(value)


def _started(node: ast.Call, command: Command, *, skipped: bool) -> Inner:
    arguments = node.args[1:] if skipped else node.args
    value = _constant(arguments[0]) if arguments else None
    if isinstance(value, list) and value:
        return command.running(tuple(Word(part) for part in value))
    strings = [_constant(argument) for argument in arguments]
    if isinstance(value, str) and len(strings) > 1 and all(isinstance(part, str) for part in strings[1:]):
        return command.running(tuple(Word(str(part)) for part in (strings[1:] or strings)))
    if isinstance(value, str):
        return Script(value, command)
    return Refused("hidden-code", "a program that is started with arguments that are not known")


def _constant(node: ast.expr) -> str | list[str] | None:
    """Text or a list of texts, also put together with `+`, f-strings and join."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(raw)):
            return raw.decode(errors="replace")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = _constant(left), _constant(right)
            if isinstance(one, str) and isinstance(other, str):
                return one + other
            return [*one, *other] if isinstance(one, list) and isinstance(other, list) else None
        case ast.JoinedStr(values=values):
            parts = [_constant(part) for part in values]
            return "".join(str(part) for part in parts) if None not in parts else None
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            texts = [_constant(element) for element in elements]
            return [str(text) for text in texts] if all(isinstance(text, str) for text in texts) else None
        case ast.Call(func=ast.Attribute(value=value, attr="split"), args=[]):
            text = _constant(value)
            return text.split() if isinstance(text, str) else None
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(glue)), attr="join"), args=[argument]):
            inner = _constant(argument)
            return glue.join(inner) if isinstance(inner, list) else None
    return None


def _files(node: ast.Call, name: str | None, base: str | None, command: Command) -> Iterator[Inner]:
    """Writes and deletes, as the commands that do the same."""
    first = _constant(node.args[0]) if node.args else None
    path = Word(first) if isinstance(first, str) else UNKNOWN
    if name == "open" and base in (None, "io", "codecs"):
        modes = [_constant(each) for each in [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]]
        if any(not isinstance(mode, str) or set(mode) & set("wax+") for mode in modes):
            yield command.running((Word("tee"), path))
    elif name in _DELETES and base in ("os", "shutil"):
        yield command.running((Word("rm"), Word("-r"), path))
    elif name in (*_WRITES, "unlink", "rmdir", "open") and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Call) and _called(owner.func)[0] in ("Path", "PosixPath") and owner.args:
            target = _constant(owner.args[0])
            word = Word(target) if isinstance(target, str) else UNKNOWN
            reads = name == "open" and not (isinstance(first, str) and set(first) & set("wax+"))
            if not reads:
                yield command.running((Word("rm" if name in ("unlink", "rmdir") else "tee"), word))
    elif name in ("rename", "replace", "move", "copy", "copyfile", "copytree", "copy2", "symlink") and base in ("os", "shutil"):
        second = _constant(node.args[1]) if len(node.args) > 1 else None
        program = (Word("ln"), Word("-s")) if name == "symlink" else (Word("mv" if name in ("rename", "replace", "move") else "cp"),)
        yield command.running((*program, path, Word(second) if isinstance(second, str) else UNKNOWN))


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
    codes += [Word(word.shown[1:]) for word in words if word.shown.startswith("+") and command.name in ("vim", "nvim", "vi", "ex")]
    for code in codes:
        if code.known is None or _STARTS_PROGRAMS.search(code.known):
            yield Refused("hidden-code", f"{command.name} {code.shown}")
        elif _WRITES_FILES.search(code.known):
            yield command.running((Word("tee"), UNKNOWN))
    reads_input = command.name in _NODES and not codes and (not parsed.rest or parsed.rest[0].known in ("-", "/dev/stdin"))
    asks = any(word.known in ("-v", "--version", "-h", "--help", "-V", "-i", "-m") for word in words)
    if command.name in ("ed", "ex"):
        reads_input = True
    if reads_input and not asks and command.input in (Input.PIPED, Input.TEXT):
        yield Refused("pipe-to-shell", f"a pipe into {command.name}")
