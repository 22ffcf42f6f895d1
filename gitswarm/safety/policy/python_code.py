"""Python code in an argument: which programs it starts, which files it changes, as far as constants say it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.values import UNKNOWN, Command, Refused, Word
from gitswarm.safety.policy.wrappers import Inner, Script

_RUNS = listed("""
    system popen popen2 popen3 popen4 Popen check_call check_output getoutput getstatusoutput startfile execl execle
    execlp execlpe execv execve execvp execvpe posix_spawn posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv
    spawnve spawnvp spawnvpe create_subprocess_shell create_subprocess_exec
""")
_FIRST_IS_MODE = frozenset(name for name in _RUNS if name.startswith("spawn"))
_DELETES = frozenset({"rmtree", "remove", "unlink", "rmdir", "removedirs"})
_MOVES = {
    **dict.fromkeys(("rename", "replace", "move"), "mv"),
    **dict.fromkeys(("copy", "copy2", "copyfile", "copytree"), "cp"),
    "symlink": "ln -s",
}
_PATH_METHODS = {
    **dict.fromkeys(
        ("write_text", "write_bytes", "touch", "mkdir", "symlink_to", "rename", "replace", "open"), "tee"
    ),
    **dict.fromkeys(("unlink", "rmdir"), "rm"),
}


def python_code(word: Word, command: Command) -> Iterator[Inner]:
    if word.known is None:
        yield Refused("hidden-code", f"{command.name} -c {word.shown}")
        return
    try:
        tree = ast.parse(word.known)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield Refused("hidden-code", f"{command.name} with code that does not parse")
        return
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node, command)
        elif _renames(node, called):
            yield Refused("hidden-code", "another name for what starts programs")


def _renames(node: ast.AST, called: set[int]) -> bool:
    """`f = os.system`, `from os import system as f`."""
    if isinstance(node, ast.ImportFrom):
        starts = _RUNS | {"run", "call"} if node.module == "subprocess" else _RUNS
        return any(each.name in starts and each.asname for each in node.names)
    if not isinstance(node, ast.Attribute) or id(node) in called:
        return False
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    return node.attr in _RUNS or (owner == "subprocess" and node.attr in ("run", "call"))


def _call(node: ast.Call, command: Command) -> Iterator[Inner]:
    name, base = _called(node.func)
    if name in _RUNS or (name in ("run", "call") and (base in ("subprocess", "sp") or _starts(node.args[:1]))):
        yield _started(node, command, skipped=name in _FIRST_IS_MODE)
    elif name in ("exec", "eval", "compile") and base is None:
        code = _constant(node.args[0]) if node.args else None
        yield from python_code(Word(code) if isinstance(code, str) else UNKNOWN, command)
    elif name in ("kill", "killpg") and "getppid" in ast.dump(node):
        yield Refused("processes", f"python {name} of the parent")
    elif name == "spawn" and base == "pty":
        yield Refused("reverse-shell", "pty.spawn")
    elif name in ("getattr", "vars", "globals", "locals", "__builtins__") and isinstance(node.func, ast.Name):
        if (
            name == "getattr"
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant)
            and node.args[1].value not in _RUNS
        ):
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
    return function.attr, base.id if isinstance(base, ast.Name) else base.attr if isinstance(
        base, ast.Attribute
    ) else ""


def _starts(arguments: Sequence[ast.expr]) -> bool:
    """A call of `run` whose first argument is a command line."""
    value = _constant(arguments[0]) if arguments else None
    return isinstance(value, (str, list)) and bool(value)


def _started(node: ast.Call, command: Command, *, skipped: bool) -> Inner:
    arguments = node.args[1:] if skipped else node.args
    values = [_constant(argument) for argument in arguments]
    listed = next((each for each in values if isinstance(each, list) and each), None)
    if listed is not None:
        return command.running(tuple(Word(part) for part in listed))
    texts = _texts(arguments) or []
    if len(texts) > 1:
        return command.running(tuple(Word(text) for text in texts[1:]))
    if values and isinstance(values[0], str):
        return Script(values[0], command)
    return Refused("hidden-code", "a program that is started with arguments that are not known")


def _constant(node: ast.expr) -> str | list[str] | None:
    """Text or a list of texts, also put together with `+`, f-strings, split and join."""
    found: str | list[str] | None = None
    match node:
        case ast.Constant(value=str(text)):
            found = text
        case ast.Constant(value=bytes(raw)):
            found = raw.decode(errors="replace")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            found = _added(_constant(left), _constant(right))
        case ast.JoinedStr(values=values):
            found = _glued("", _texts(values))
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            found = _texts(elements)
        case ast.Call(func=ast.Attribute(value=value, attr="split"), args=[]):
            whole = _constant(value)
            found = whole.split() if isinstance(whole, str) else None
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(glue)), attr="join"), args=[argument]):
            parts = _constant(argument)
            found = _glued(glue, parts if isinstance(parts, list) else None)
    return found


def _texts(nodes: Sequence[ast.expr]) -> list[str] | None:
    values = [_constant(node) for node in nodes]
    texts = [value for value in values if isinstance(value, str)]
    return texts if len(texts) == len(values) else None


def _glued(glue: str, parts: list[str] | None) -> str | None:
    return None if parts is None else glue.join(parts)


def _added(one: str | list[str] | None, other: str | list[str] | None) -> str | list[str] | None:
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else None


def _path(nodes: Sequence[ast.expr]) -> Word:
    """The first of these as a path."""
    text = _constant(nodes[0]) if nodes else None
    return Word(text) if isinstance(text, str) else UNKNOWN


def _files(node: ast.Call, name: str | None, base: str | None, command: Command) -> Iterator[Inner]:
    """Writes and deletes, as the commands that do the same."""
    path = _path(node.args)
    if name == "open" and base in (None, "io", "codecs"):
        if _opens_for_writing(node, node.args[1:2]):
            yield command.running((Word("tee"), path))
    elif base in ("os", "shutil") and name in _DELETES:
        yield command.running((Word("rm"), Word("-r"), path))
    elif base in ("os", "shutil") and name in _MOVES:
        program = tuple(Word(word) for word in _MOVES[name].split())
        yield command.running((*program, path, _path(node.args[1:2])))
    elif isinstance(node.func, ast.Attribute) and _is_path(node.func.value) and name in _PATH_METHODS:
        owner = node.func.value
        target = _path(owner.args if isinstance(owner, ast.Call) else ())
        if name != "open" or _opens_for_writing(node, node.args[:1]):
            yield command.running((Word(_PATH_METHODS[name]), target))


def _opens_for_writing(node: ast.Call, modes: Sequence[ast.expr]) -> bool:
    named = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    values = [_constant(mode) for mode in [*modes, *named]]
    return any(not isinstance(value, str) or set(value) & set("wax+") for value in values)


def _is_path(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and bool(node.args) and _called(node.func)[0] in ("Path", "PosixPath")
