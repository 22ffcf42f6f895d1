"""`demo`: a small project with an open acceptance criterion, and the flow `build` on it with a scripted stub."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import yaml

from gitswarm.cli.arguments import Argument
from gitswarm.cli.console import err, out
from gitswarm.cli.executing import finish
from gitswarm.cli.start import Asked, execute
from gitswarm.errors import SwarmError
from gitswarm.git.commits import Person
from gitswarm.git.create import create_repository
from gitswarm.git.repository import open_repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.outcome import RunStatus
from gitswarm.settings import CONFIG_FILE, CommandLine

_SOURCE = Path(__file__).with_name("demo_project")
_SCRIPT = ".swarm/script.yaml"
_AUTHOR = Person("git-swarm demo", "demo@git-swarm.invalid")


def demo(
    folder: Annotated[
        Path | None,
        Argument(metavar="FOLDER", help="Where to make it: new or empty. Else a temporary folder."),
    ] = None,
) -> None:
    """Make a small Python project and run the flow `build` on it, scripted, so that no model is needed."""
    _refuse_without_pytest()
    project = _empty_folder(folder)
    err(f"demo project {project}")
    _write_project(project)
    create_repository(project, os.environ, _AUTHOR, "slugline: titles into slugs")
    repository = open_repository(project, os.environ)
    done = execute(repository, _asked(project))
    if done.state.end is not RunStatus.SUCCEEDED:
        out(f"folder     {project}")
        finish(repository, done.state, stopped_by_hand=done.stopped_by_hand, as_json=False)
    _show_ways_in(project, done.state.layout)


def _refuse_without_pytest() -> None:
    if importlib.util.find_spec("pytest") is None:
        raise SwarmError(
            f"the demo really runs tests, and {sys.executable} has no pytest",
            hint=f"{shlex.quote(sys.executable)} -m pip install pytest",
        )


def _empty_folder(asked: Path | None) -> Path:
    """The folder of the project, absolute. A temporary one holds the run's worktree too."""
    try:
        project = asked.resolve() if asked else Path(tempfile.mkdtemp(prefix="git-swarm-demo-")) / "slugline"
        project.mkdir(parents=True, exist_ok=True)
        is_empty = next(project.iterdir(), None) is None
    except OSError as error:
        raise SwarmError(f"no folder for the demo: {error}", hint="git swarm demo SOME_NEW_FOLDER") from error
    if not is_empty:
        raise SwarmError(
            f"{project} is not empty, and the demo makes a project of its own",
            hint="git swarm demo   (in a temporary folder; or name a new one)",
        )
    return project


def _write_project(project: Path) -> None:
    """The project's files, its test command pinned to the interpreter that is known to have pytest."""
    python = shlex.quote(sys.executable)
    files: dict[str, str] = yaml.safe_load(_text("project.yaml"))
    config = {"commands": {"test": f"{python} -m pytest -q"}}
    files[CONFIG_FILE] = yaml.safe_dump(config, allow_unicode=True, width=sys.maxsize)
    files[_SCRIPT] = _text("script.yaml").replace("@PYTHON@", python)
    for name, content in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def _text(name: str) -> str:
    return (_SOURCE / name).read_text(encoding="utf-8")


def _asked(project: Path) -> Asked:
    return Asked(
        flows=("build",),
        task=(project / "ISSUE.md").read_text(encoding="utf-8"),
        base="HEAD",
        engines=CommandLine(),
        script=str(project / _SCRIPT),
        allow_stub=False,
    )


def _show_ways_in(project: Path, layout: RunLayout) -> None:
    """Where everything is, and five commands that can be copied as they stand."""
    branch = layout.branch.removeprefix("refs/heads/")
    notes = layout.routing_notes.removeprefix("refs/notes/")
    swarm = _our_name()
    out(f"folder     {project}")
    out(f"branch     {branch}")
    out("look around:")
    out(f"  cd {shlex.quote(str(project))}")
    out(f"  {swarm} log")
    out(f"  {swarm} show critique_code@1")
    out(f"  {swarm} diff")
    out(f"  git log --oneline --notes={notes} {branch}")


def _our_name() -> str:
    """How a shell starts this installation: git finds `git swarm` only if git-swarm is on PATH."""
    if shutil.which("git-swarm"):
        return "git swarm"
    beside = shutil.which("git-swarm", path=str(Path(sys.executable).parent))
    return shlex.quote(beside) if beside else f"{shlex.quote(sys.executable)} -m gitswarm"
