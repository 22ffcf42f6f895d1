"""Files as a recorded step left them: content, mode, link, or gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from gitswarm.engines.base import StepRequest
from gitswarm.engines.recorder import Recorder, ToolOutcome
from gitswarm.specs.script import LeftFile

_RUN_BASE = "RUN_BASE/"


def leave(files: Mapping[str, LeftFile | None], request: StepRequest, recorder: Recorder) -> None:
    """Makes these paths what they were after the recorded step, each as a tool call that the policy is not asked
    about: it was then, and a shell line may have made what no tool may."""
    for name, file in _in_order(files):
        call = recorder.begin("Delete" if file is None else "Write", {"file_path": name})
        _put(request.worktree, placed(name, request), file)
        recorder.end(call, ToolOutcome())


def put_files(worktree: Path, files: Mapping[str, LeftFile | None]) -> None:
    """The same without a step: what a person did by hand."""
    for name, file in _in_order(files):
        _put(worktree, worktree / name, file)


def placed(name: str, request: StepRequest) -> Path:
    if name.startswith(_RUN_BASE):
        return request.run_base / name.removeprefix(_RUN_BASE)
    return request.worktree / name


def _in_order(files: Mapping[str, LeftFile | None]) -> list[tuple[str, LeftFile | None]]:
    """What goes first: a folder may stand in its place then, or it in that of a folder."""
    return sorted(files.items(), key=lambda each: each[1] is not None)


def _put(worktree: Path, path: Path, file: LeftFile | None) -> None:
    """Follows no link: what lies behind one is another path."""
    above = [folder for folder in path.parents if folder != worktree and folder.is_relative_to(worktree)]
    in_the_way = [folder for folder in above if folder.is_symlink() or (folder.exists() and not folder.is_dir())]
    if file is None:
        if not in_the_way and (path.is_symlink() or path.is_file()):
            path.unlink()
        return
    for each in in_the_way:
        each.unlink()
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.link is not None:
        path.symlink_to(file.link)
        return
    with path.open("wb") as written:
        written.write(file.content)
        # Not by its name: another branch of a fork may just put its own there.
        os.fchmod(written.fileno(), 0o755 if file.executable else 0o644)
