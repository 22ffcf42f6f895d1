"""What lies in a run's worktree that no commit has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitswarm.git.repository import open_repository
from gitswarm.worktree.provisioning import copy_leftovers, made_since_setup
from gitswarm.worktree.shadow import Shadow, find_shadow
from tests.conftest import Project

ONE = "id: one\nsteps:\n  - {id: work, station: code-implementer}\n"
CONFIG = "worktree: {copy: [.env], setup: 'mkdir gen && echo 1 >gen/made.py'}\n"


@pytest.fixture
def shadow(project: Project) -> Shadow:
    """The worktree of a run, set up."""
    files = {".swarm/flows/one.yaml": ONE, ".swarm/config.yaml": CONFIG, ".gitignore": ".env\ngen/\nlib/\n*.so\n"}
    project.commit(files)
    project.write({".env": "KEY=1\n"})
    project.swarm("start", "one", "--mode", "stub")
    (run,) = project.json("list")
    found = find_shadow(open_repository(project.root, project.env), f"refs/heads/{run['branch']}")
    assert found is not None
    return found


def put(shadow: Shadow, *names: str) -> tuple[str, ...]:
    for name in names:
        path = shadow.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n", encoding="utf-8")
    return made_since_setup(shadow)


def test_what_setup_made_and_copied_is_none_and_what_is_changed_since_is(shadow: Shadow) -> None:
    assert made_since_setup(shadow) == ()
    assert put(shadow, ".env") == (".env",)
    os.utime(shadow.path / ".env", (0, 0))
    assert put(shadow, "gen/made.py") == (".env", "gen/")
    assert put(shadow, "src/fast.so", "lib/deep/a.py") == (".env", "gen/", "lib/", "src/fast.so")


def test_caches_and_reports_are_none(shadow: Shadow) -> None:
    put(shadow, "lib/__pycache__/a.pyc", "lib/build.log", "gen/.cache/x/y")
    assert put(shadow, "lib/node_modules/left/index.js") == ()


def test_links_count_and_are_copied_as_links(shadow: Shadow, tmp_path: Path) -> None:
    (shadow.path / "lib").mkdir()
    (shadow.path / "lib" / "up").symlink_to("../src")
    (shadow.path / "at.so").symlink_to("/dev/zero")
    names = put(shadow, "lib/a b/*.py", "a?.so")
    assert names == ("a?.so", "at.so", "lib/")
    copy_leftovers(shadow.path, tmp_path, names)
    assert (tmp_path / "lib/a b/*.py").read_text(encoding="utf-8") == "x\n"
    assert (tmp_path / "lib/up").readlink() == Path("../src")
    assert (tmp_path / "at.so").readlink() == Path("/dev/zero")


def test_a_link_in_the_checkout_leads_no_copy_out_of_it(shadow: Shadow, tmp_path: Path) -> None:
    target, outside = tmp_path / "target", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (target / "src").symlink_to(outside)
    with pytest.raises(OSError, match="out of the worktree"):
        copy_leftovers(shadow.path, target, put(shadow, "src/fast.so"))
    assert list(outside.iterdir()) == []


def test_a_copy_over_a_file_of_the_checkout_s_setup_takes_its_place(shadow: Shadow, tmp_path: Path) -> None:
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen/made.py").write_text("1\n", encoding="utf-8")
    copy_leftovers(shadow.path, tmp_path, put(shadow, "gen/made.py"))
    assert (tmp_path / "gen/made.py").read_text(encoding="utf-8") == "x\n"
    with pytest.raises(OSError, match="could not be copied"):
        copy_leftovers(shadow.path, tmp_path, ("none.so",))
