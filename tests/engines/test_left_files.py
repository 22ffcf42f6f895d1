"""Files as a recorded step left them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gitswarm.engines.stub import put_files
from gitswarm.specs.script import LeftFile


def test_two_branches_of_a_fork_may_put_the_same_file_at_once(tmp_path: Path) -> None:
    file = LeftFile(text="stub\n", executable=True)
    with ThreadPoolExecutor(4) as branches:
        for put in [branches.submit(put_files, tmp_path, {"f/manifest.json": file}) for _ in range(400)]:
            put.result()
    left = tmp_path / "f" / "manifest.json"
    assert (left.read_text(encoding="utf-8"), left.stat().st_mode & 0o777) == ("stub\n", 0o755)
