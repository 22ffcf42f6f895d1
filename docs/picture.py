"""A terminal of 80 columns as an SVG, from a run of the demo: python -m docs.picture FILE, as `make picture` does."""
# ruff: noqa: INP001

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 80
SHOWN = (
    ("git swarm log", slice(None)),
    ("git swarm why slugline/__init__.py:19", slice(None)),
)
"""Command lines, and which lines of what they print."""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "slugline"
        home = Path(folder) / "home"
        home.mkdir()
        env = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "LC_ALL": "C.UTF-8",
            "GIT_PAGER": "cat",
        }
        subprocess.run(["git", "swarm", "demo", str(project)], env=env, check=True, capture_output=True)
        (run,) = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname:short)", "refs/heads/shadow"],
            cwd=project, env=env, check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        worktree = project.parent / "slugline.swarm" / run.removeprefix("shadow/")
        console = Console(width=COLUMNS, record=True, file=open(os.devnull, "w"), force_terminal=True)  # noqa: PTH123, SIM115
        for line, shown in SHOWN:
            console.print(Text.assemble(("$ ", "green"), (line, "bold")))
            for printed in on_terminal(line, worktree, env)[shown]:
                console.print(Text.from_ansi(printed), no_wrap=True)
            console.print()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(console.export_svg(title="git swarm", font_aspect_ratio=0.61), encoding="utf-8")


def on_terminal(line: str, folder: Path, env: dict[str, str]) -> list[str]:
    """The lines that a command prints to a terminal, colours and all."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("sh", ["sh", "-c", line], env)  # noqa: S606
    seen = b""
    while True:
        try:
            more = os.read(terminal, 65_536)
        except OSError:
            break
        if not more:
            break
        seen += more
    os.close(terminal)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        sys.exit(f"{line}:\n{seen.decode()}")
    return seen.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
