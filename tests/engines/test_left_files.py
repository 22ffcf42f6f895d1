"""Files as a recorded step left them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitswarm.engines.stub import put_files
from gitswarm.specs.script import LeftFile


def test_two_branches_of_a_fork_may_put_the_same_file_at_once(tmp_path: Path) -> None:
    file = LeftFile(text="stub\n", executable=True)
    with ThreadPoolExecutor(4) as branches:
        for put in [branches.submit(put_files, tmp_path, {"f/manifest.json": file}) for _ in range(400)]:
            put.result()
    left = tmp_path / "f" / "manifest.json"
    assert (left.read_text(encoding="utf-8"), left.stat().st_mode & 0o777) == ("stub\n", 0o755)


def test_who_looks_while_a_file_is_put_sees_it_whole_or_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two branches of a fork share a worktree: half a promised file would be called missing."""
    place = tmp_path / "promised.json"
    place.write_text("before")
    seen = []
    change = os.fchmod

    def look(handle: int, mode: int) -> None:
        seen.append(place.read_text())
        change(handle, mode)

    monkeypatch.setattr("os.fchmod", look)
    put_files(tmp_path, {place.name: LeftFile(text="after")})
    assert (seen, place.read_text(), sorted(tmp_path.iterdir())) == (["before"], "after", [place])
