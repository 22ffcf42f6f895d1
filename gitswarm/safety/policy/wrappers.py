"""Programs that start other programs: what a command really runs."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gitswarm.safety.policy.options import Options, parse_options
from gitswarm.safety.policy.state import follow
from gitswarm.safety.policy.values import UNKNOWN, Command, Input, Refused, Word


@dataclass(frozen=True, slots=True)
class Script:
    """Shell text that a command runs, and the command for its circumstances."""

    text: str
    command: Command


Inner = Command | Script | Refused

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash", "pwsh", "csh", "tcsh"})
INTERPRETERS = frozenset({"python", "python2", "python3", "pypy", "pypy3", "node", "nodejs", "deno", "bun", "perl", "ruby", "php", "lua", "tclsh"})


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A program that runs the rest of its arguments. `skipped`: arguments before the program's name."""

    options: Options = Options()
    skipped: int = 0


_PREFIXES = {
    "nohup": _Prefix(),
    "setsid": _Prefix(),
    "builtin": _Prefix(),
    "coproc": _Prefix(),
    "noglob": _Prefix(),
    "nocorrect": _Prefix(),
    "chronic": _Prefix(),
    "unbuffer": _Prefix(),
    "caffeinate": _Prefix(Options("tw")),
    "fakeroot": _Prefix(Options("lfisb")),
    "proot": _Prefix(Options("rbqwkv")),
    "exec": _Prefix(Options("a")),
    "command": _Prefix(),
    "nice": _Prefix(Options("n", frozenset({"--adjustment"}))),
    "ionice": _Prefix(Options("cnpPu", frozenset({"--class", "--classdata"}))),
    "chrt": _Prefix(Options("TPD"), 1),
    "taskset": _Prefix(Options(), 1),
    "time": _Prefix(Options("fo", frozenset({"--format", "--output"}))),
    "gtime": _Prefix(Options("fo", frozenset({"--format", "--output"}))),
    "timeout": _Prefix(Options("ks", frozenset({"--kill-after", "--signal"})), 1),
    "gtimeout": _Prefix(Options("ks", frozenset({"--kill-after", "--signal"})), 1),
    "stdbuf": _Prefix(Options("ioe", frozenset({"--input", "--output", "--error"}))),
    "strace": _Prefix(Options("abeEIoOpPsSuUX", frozenset({"--trace", "--output"}))),
    "ltrace": _Prefix(Options("aAdeDFlnopsuwxX", frozenset({"--output"}))),
    "valgrind": _Prefix(),
    "rlwrap": _Prefix(Options("bcdfHlmNopPqsSwz")),
    "catchsegv": _Prefix(),
    "xvfb-run": _Prefix(Options("efnpsw", frozenset({"--server-args", "--error-file"}))),
    "dbus-run-session": _Prefix(),
    "ssh-agent": _Prefix(Options("aEtPO")),
    "busybox": _Prefix(),
    "toybox": _Prefix(),
    "ccache": _Prefix(),
    "distcc": _Prefix(),
    "direnv": _Prefix(Options(), 2),
    "!": _Prefix(),
    "linux32": _Prefix(),
    "linux64": _Prefix(),
    "setarch": _Prefix(Options(), 1),
    "arch": _Prefix(),
    "prlimit": _Prefix(),
    "unshare": _Prefix(Options("SGRw")),
    "dotenv": _Prefix(Options("fe")),
}
_ENV = Options("uCS", frozenset({"--unset", "--chdir", "--split-string"}))
_XARGS = Options("aEILnPsd", frozenset({"--arg-file", "--delimiter", "--replace", "--max-lines", "--max-args", "--max-procs", "--max-chars"}))
_SHELL = Options("oO", frozenset({"--rcfile", "--init-file"}))
_JOINING = {
    "watch": Options("n", frozenset({"--interval"})),
    "entr": Options(),
    "parallel": Options("jPnNLISdCaE", frozenset({"--jobs", "--joblog", "--colsep", "--results", "--timeout", "--workdir", "--delay"})),
    "hyperfine": Options("wmMrspcSinNL", frozenset({"--warmup", "--runs", "--min-runs", "--max-runs", "--export-json", "--export-markdown"})),
}
_SCRIPT_OPTIONS: dict[str, tuple[str, ...]] = {
    "script": ("-c", "--command"),
    "flock": ("-c", "--command"),
    "nix-shell": ("--run", "--command"),
    "hyperfine": ("-p", "--prepare", "-s", "--setup", "-c", "--cleanup"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "tar": ("-I", "--use-compress-program", "--to-command", "--checkpoint-action", "-F", "--info-script", "--rsh-command"),
    "gtar": ("-I", "--use-compress-program", "--to-command", "--checkpoint-action", "-F", "--info-script"),
    "zip": ("-TT", "--unzip-command"),
    "split": ("--filter",),
    "sort": ("--compress-program",),
    "man": ("-P", "--pager"),
    "make": ("--eval",),
    "gmake": ("--eval",),
    "npm": ("--script-shell",),
    "rg": ("--pre", "--hostname-bin"),
}
_RUNNERS = frozenset(
    {"npx", "pnpx", "bunx", "uvx", "pipx", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "pipenv", "pdm", "rye", "hatch", "conda"}
    | {"mamba", "micromamba", "bundle", "mise", "rtx", "asdf", "nix", "rbenv", "pyenv", "nodenv", "rustup", "cargo", "go", "tox", "nox"}
    | {"gdb", "lldb", "perf", "rr", "heaptrack", "doppler", "op", "dotenvx", "cross-env", "concurrently", "nodemon", "watchexec"}
    | {"foreman", "honcho", "flox", "devbox", "pixi", "scl", "choom", "flock", "script", "xdg-run", "firejail", "bwrap", "systemd-inhibit"}
    | {"env-cmd", "dumb-init", "tini", "su-exec", "gosu", "runuser", "sg", "expect", "multitime", "perflock", "aws-vault", "chamber"}
    | {"with-contenv", "cgexec", "numactl", "softlimit", "envdir", "envchain", "daemonize", "start-stop-daemon", "parallel", "moreutils-parallel"}
)
_HEADS = SHELLS | {"git", "rm", "dd", "eval", "env", "xargs", "find", "gh", "hub", "glab", "twine", "sudo", "doas", "rmdir", "shred", "ssh", "scp"}
_MOST_INNER = 64


def inside(command: Command) -> Iterator[Inner]:
    """What `command` runs in its turn; nothing for a program that runs no other."""
    name, words = command.name, command.arguments
    if name in SHELLS:
        yield from _shell(command)
    elif name == "env":
        yield from _env(command)
    elif name == "xargs":
        yield from _xargs(command)
    elif name in ("find", "gfind", "fd", "fdfind"):
        yield from _find(command)
    elif name == "trap" and words:
        yield _script([word for word in words if word.known != "--"][:1], command)
    elif name in _PREFIXES:
        yield from _prefixed(command, _PREFIXES[name])
    elif name in _JOINING:
        yield from _joining(command, _JOINING[name])
    yield from _options(command)
    if name in _RUNNERS:
        yield from _suffixes(command)


def _prefixed(command: Command, prefix: _Prefix) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, prefix.options, mixed=False)
    if command.name == "command" and parsed.has("-v", "-V"):
        return
    if parsed.lost or (parsed.given and command.name not in ("command", "exec", "time", "nice", "builtin")):
        yield from _suffixes(command)
    if command.name == "busybox" and len(parsed.rest) > 1 and parsed.rest[0].known == "busybox":
        return
    words = parsed.rest[prefix.skipped :]
    if words:
        yield command.running(words)


def _env(command: Command) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, _ENV, mixed=False)
    if parsed.has("-i", "--ignore-environment", "-") or any(word.known == "-" for word in parsed.rest[:1]):
        yield Refused("git-environment", "env -i")
    for word in parsed.value("-u", "--unset"):
        if word.known is None or word.known.startswith("GIT_"):
            yield Refused("git-environment", f"env -u {word.shown}")
    folders = command.folders
    for word in parsed.value("-C", "--chdir"):
        folders = follow(folders, word.known) if word.known is not None else None
    words = list(parsed.rest)
    for word in parsed.value("-S", "--split-string"):
        if word.known is None:
            yield Refused("unknown-command", f"env -S {word.shown}")
            return
        words = [*_split(word.known), *words]
    assigned = []
    while words and "=" in words[0].shown:
        name, _sign, value = words.pop(0).shown.partition("=")
        assigned.append((name, Word(value)))
    yield replace(command, words=tuple(words), assigned=tuple(assigned), redirects=(), folders=folders)


def _split(text: str) -> list[Word]:
    try:
        return [Word(part) if "$" not in part else UNKNOWN for part in shlex.split(text)]
    except ValueError:
        return [UNKNOWN]


def _xargs(command: Command) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, _XARGS, mixed=False)
    marks = [word.known or "{}" for word in parsed.value("-I", "--replace")]
    if parsed.has("-i"):
        marks.append("{}")
    if not parsed.rest:
        return
    words = tuple(_replaced(word, marks) for word in parsed.rest)
    yield replace(command.running(words if marks else (*words, UNKNOWN)), input=Input.PIPED, text=None)


def _replaced(word: Word, marks: Sequence[str]) -> Word:
    found = [word.shown.find(mark) for mark in marks if mark in word.shown]
    return Word(None, start=word.shown[: min(found)]) if found else word


def _find(command: Command) -> Iterator[Inner]:
    words = command.arguments
    execs = ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")
    at = 0
    while at < len(words):
        if words[at].known not in execs:
            at += 1
            continue
        end = next((i for i in range(at + 1, len(words)) if words[i].known in (";", "+")), len(words))
        inner = [word for word in words[at + 1 : end] if word.known != ";"]
        start = _start_of_find(command)
        folders = None if words[at].known in ("-execdir", "-okdir") else command.folders
        if inner:
            found = tuple(_replaced_path(word, start) for word in inner)
            yield replace(command.running(found), folders=folders)
        at = end + 1


def _start_of_find(command: Command) -> Word:
    """A path that find may find, when it starts at one place only."""
    if command.name in ("fd", "fdfind"):
        return UNKNOWN
    starts = []
    for word in command.arguments:
        if word.shown.startswith(("-", "(", "!")):
            break
        starts.append(word)
    if len(starts) > 1 or any(word.known is None for word in starts):
        return UNKNOWN
    return Word(os.path.join(starts[0].shown if starts else ".", "*"), pattern=True)  # noqa: PTH118 - text


def _replaced_path(word: Word, path: Word) -> Word:
    if word.known == "{}":
        return path
    return Word(None, start=word.shown.partition("{}")[0]) if "{}" in word.shown else word


def _shell(command: Command) -> Iterator[Inner]:
    words = command.arguments
    parsed = parse_options(words, _SHELL, mixed=False)
    startup = parsed.value("--rcfile", "--init-file")
    if parsed.lost or startup:
        yield Refused("unknown-command", f"{command.name} with options that are not known")
        return
    if parsed.has("-c", "--command") or any(option == "-c" for option, _ in parsed.given):
        yield _script(parsed.rest[:1], command)
        return
    file = parsed.rest[0] if parsed.rest and not parsed.has("-s") else None
    if file is not None:
        yield from _file_of_shell(file, command)
    elif command.input is Input.PIPED or (command.input is Input.TEXT and command.text is None):
        yield Refused("pipe-to-shell", f"a pipe into {command.name}")
    elif command.input is Input.TEXT:
        yield Script(command.text or "", command)


def _file_of_shell(file: Word, command: Command) -> Iterator[Inner]:
    if file.text is None:
        yield Refused("unknown-command", f"{command.name} {file.shown}")
    elif file.text.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd")):
        yield Refused("pipe-to-shell", f"{command.name} of a pipe")


def _script(words: Sequence[Word], command: Command) -> Inner:
    text = words[0].known if words else ""
    return Refused("unknown-command", f"{command.name} of text that is not known") if text is None else Script(text, command)


def _joining(command: Command, options: Options) -> Iterator[Inner]:
    """Programs that hand their arguments to a shell, in one line or each by itself."""
    parsed = parse_options(command.arguments, options, mixed=False)
    texts: list[str] = []
    for word in parsed.rest:
        if word.shown.startswith(":::"):
            break
        if word.known is None:
            yield Refused("unknown-command", f"{command.name} {word.shown}")
            return
        texts.append(word.known)
    if command.name in ("hyperfine",):
        yield from (Script(text, command) for text in texts)
    elif texts:
        joined = " ".join(texts)
        unknown = command.name == "parallel"
        yield Script(f'{joined.replace("{}", "$_")} "$_"' if unknown else joined, command)
    elif command.name == "parallel":
        yield Refused("pipe-to-shell", "parallel without a command")


def _options(command: Command) -> Iterator[Inner]:
    """Options whose value is run."""
    names = _SCRIPT_OPTIONS.get(command.name or "", ())
    short = "".join(name[1] for name in names if len(name) == 2)
    parsed = parse_options(command.arguments, Options(short, frozenset(name for name in names if len(name) > 2)))
    for word in parsed.value(*names) if names else ():
        text = word.known
        if text is None:
            yield Refused("hidden-code", f"{command.name} {word.shown}")
        else:
            yield Script(text.removeprefix("exec=").removeprefix("!"), command)


def _suffixes(command: Command) -> Iterator[Inner]:
    """Every place where another program may begin: what the options before it mean does not matter."""
    for at, word in enumerate(command.arguments[:_MOST_INNER]):
        text = word.known
        if text is not None and text.rpartition("/")[2] in _HEADS:
            yield command.running(command.arguments[at:])
        elif text is not None and command.arguments[at - 1].known in ("-c", "--command", "-C", "--call") and at:
            yield Script(text, command)
