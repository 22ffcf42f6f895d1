"""Programs that start other programs, and their options that take a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.options import Options

SHELLS = listed("""
    sh bash dash zsh ksh mksh ash fish rbash yash pwsh csh tcsh
""")


@dataclass(frozen=True, slots=True)
class Prefix:
    """A program that runs the rest of its arguments. `skipped`: arguments before the program's name."""

    options: Options = field(default_factory=Options)
    skipped: int = 0


PREFIXES = {
    "nohup": Prefix(),
    "setsid": Prefix(),
    "builtin": Prefix(),
    "coproc": Prefix(),
    "noglob": Prefix(),
    "nocorrect": Prefix(),
    "chronic": Prefix(),
    "unbuffer": Prefix(),
    "caffeinate": Prefix(Options("tw")),
    "fakeroot": Prefix(Options("lfisb")),
    "proot": Prefix(Options("rbqwkv")),
    "exec": Prefix(Options("a")),
    "command": Prefix(),
    "nice": Prefix(Options("n", frozenset({"--adjustment"}))),
    "ionice": Prefix(Options("cnpPu", frozenset({"--class", "--classdata"}))),
    "chrt": Prefix(Options("TPD"), 1),
    "taskset": Prefix(Options(), 1),
    "time": Prefix(Options("fo", frozenset({"--format", "--output"}))),
    "gtime": Prefix(Options("fo", frozenset({"--format", "--output"}))),
    "timeout": Prefix(Options("ks", frozenset({"--kill-after", "--signal"})), 1),
    "gtimeout": Prefix(Options("ks", frozenset({"--kill-after", "--signal"})), 1),
    "stdbuf": Prefix(Options("ioe", frozenset({"--input", "--output", "--error"}))),
    "strace": Prefix(Options("abeEIoOpPsSuUX", frozenset({"--trace", "--output"}))),
    "ltrace": Prefix(Options("aAdeDFlnopsuwxX", frozenset({"--output"}))),
    "valgrind": Prefix(),
    "rlwrap": Prefix(Options("bcdfHlmNopPqsSwz")),
    "catchsegv": Prefix(),
    "xvfb-run": Prefix(Options("efnpsw", frozenset({"--server-args", "--error-file"}))),
    "dbus-run-session": Prefix(),
    "ssh-agent": Prefix(Options("aEtPO")),
    "busybox": Prefix(),
    "toybox": Prefix(),
    "ccache": Prefix(),
    "distcc": Prefix(),
    "direnv": Prefix(Options(), 2),
    "!": Prefix(),
    "linux32": Prefix(),
    "linux64": Prefix(),
    "setarch": Prefix(Options(), 1),
    "arch": Prefix(),
    "prlimit": Prefix(),
    "unshare": Prefix(Options("SGRw")),
    "dotenv": Prefix(Options("fe")),
}
ENV = Options("uCS", frozenset({"--unset", "--chdir", "--split-string"}))
XARGS = Options(
    "aEILnPsd",
    frozenset({"--arg-file", "--delimiter", "--replace", "--max-lines", "--max-args", "--max-procs", "--max-chars"}),
)
SHELL = Options("oO", frozenset({"--rcfile", "--init-file"}))
JOINING = {
    "watch": Options("n", frozenset({"--interval"})),
    "entr": Options(),
    "parallel": Options(
        "jPnNLISdCaE", frozenset({"--jobs", "--joblog", "--colsep", "--results", "--timeout", "--workdir", "--delay"})
    ),
    "concurrently": Options(
        "ncptlms", frozenset({"--names", "--prefix-colors", "--prefix", "--timestamp-format", "--success"})
    ),
    "hyperfine": Options(
        "wmMrspcSinNL",
        frozenset({"--warmup", "--runs", "--min-runs", "--max-runs", "--export-json", "--export-markdown"}),
    ),
}
SCRIPT_OPTIONS: dict[str, tuple[str, ...]] = {
    "script": ("-c", "--command"),
    "flock": ("-c", "--command"),
    "nix-shell": ("--run", "--command"),
    "hyperfine": ("-p", "--prepare", "-s", "--setup", "-c", "--cleanup"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "tar": (
        "-I",
        "--use-compress-program",
        "--to-command",
        "--checkpoint-action",
        "-F",
        "--info-script",
        "--rsh-command",
    ),
    "gtar": ("-I", "--use-compress-program", "--to-command", "--checkpoint-action", "-F", "--info-script"),
    "zip": ("-TT", "--unzip-command"),
    "split": ("--filter",),
    "sort": ("--compress-program",),
    "man": ("-P", "--pager"),
    "make": ("--eval",),
    "gmake": ("--eval",),
    "npm": ("--script-shell",),
    "rg": ("--pre", "--hostname-bin"),
    "nodemon": ("-x", "--exec"),
    "just": ("-c", "--command"),
}
RUNNERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("npx", "pnpx", "bunx", "uvx", "cross-env", "env-cmd", "dumb-init", "tini", "gdb", "lldb", "rr"), ()
    ),
    **dict.fromkeys(("nodemon", "watchexec", "flock", "script", "firejail", "bwrap", "numactl", "choom"), ()),
    **dict.fromkeys(
        ("poetry", "pipenv", "pdm", "rye", "hatch", "conda", "mamba", "micromamba", "pixi", "devbox"), ("run",)
    ),
    **dict.fromkeys(
        ("bundle", "asdf", "rbenv", "pyenv", "nodenv", "aws-vault", "chamber", "tox", "mise", "rtx", "lerna"),
        ("exec",),
    ),
    **dict.fromkeys(("uv", "pipx", "rustup", "doppler", "op", "dotenvx", "foreman", "honcho"), ("run",)),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("exec", "x", "dlx", "run")),
}
"""Programs that run another one, and the words in front of it; their own options are not known."""
LAUNCHERS = listed("perf heaptrack cargo go nix nox expect concurrently systemd-inhibit make cmake ninja just")
"""Programs that may run another one somewhere in their arguments."""
HEADS = SHELLS | listed("git rm dd eval env xargs find gh hub glab twine sudo doas rmdir shred ssh scp")
"""Programs that are worth looking for in the arguments of another."""
