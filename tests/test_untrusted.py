"""What an agent may leave behind neither stops git-swarm nor ends it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gitswarm.runner.step.request import package_scripts
from gitswarm.safety.sandbox.mounts import virtual_environment
from gitswarm.untrusted import LIMIT_BYTES, files_below, read_file, remove_tree
from tests.conftest import Project

DEPTH = 1500
FLOW = (
    "id: work\nsteps:\n  - {id: write, station: code-implementer}\n  - {id: test, engine: command, command: test}\n"
)


def deep(folder: Path) -> None:
    """Folders in folders, as deep as no path may name."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        for _ in range(DEPTH):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.fchdir(before)
        os.close(before)


def odd(path: Path, kind: str) -> None:
    """Makes something in the place of a file."""
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path.name)
        case "folder":
            path.mkdir()
        case "large":
            path.write_bytes(b"[" * (LIMIT_BYTES + 1))


ODD = ["fifo", "device", "loop", "folder", "large"]


@pytest.mark.parametrize("kind", ODD)
def test_only_a_small_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    odd(tmp_path / "pyvenv.cfg", kind)
    odd(tmp_path / "package.json", kind)
    with pytest.raises(OSError, match=r"package\.json|small|loop"):  # of the system, or ours
        read_file(tmp_path / "package.json")
    assert package_scripts(tmp_path) == {}
    assert list(virtual_environment(tmp_path)) == []


def test_a_document_that_is_too_deep_has_no_scripts(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("[" * 200_000, encoding="utf-8")
    assert package_scripts(tmp_path) == {}


@pytest.mark.parametrize("home", ["/" + "a" * 300 + "/bin", "/nul\0l/bin", "relative"])
def test_an_environment_that_leads_nowhere_shows_itself_alone(tmp_path: Path, home: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("python")
    (tmp_path / "pyvenv.cfg").write_text(f"home = {home}\n", encoding="utf-8")
    assert tmp_path in list(virtual_environment(tmp_path))


def test_deep_folders_are_listed_to_a_depth_and_removed_whole(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("x", encoding="utf-8")
    (folder / "link").symlink_to(tmp_path)
    odd(folder / "fifo", "fifo")
    deep(folder)
    assert [path.name for path, _about in files_below(folder)] == ["file"]
    remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "lines",
    [
        "mkdir v && mkfifo v/pyvenv.cfg package.json",
        "mkdir v && ln -s /dev/zero v/pyvenv.cfg && ln -s /dev/zero package.json",
        "mkdir -p v/bin && echo home = /usr/bin > v/pyvenv.cfg && ln -s python v/bin/python",
    ],
)
def test_a_run_goes_on_whatever_an_agent_leaves(project: Project, lines: str) -> None:
    project.commit({".swarm/flows/work.yaml": FLOW, ".swarm/config.yaml": "commands: {test: 'true'}\n"})
    script = json.dumps({"steps": {"write": {"write": {"x.sh": f"{lines}\n"}, "run": ["sh x.sh"]}}})
    done = project.swarm_process("start", "work", "--script", project.script(script))
    assert "succeeded" in done.stdout
