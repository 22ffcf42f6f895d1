"""Fetches the JavaScript and CSS of others that `git swarm web` serves, by npm: python -m tests.fetch_web_files

By hand, when a version changes: the files are committed, so that neither the wheel nor CI needs node.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent.parent / "gitswarm" / "web" / "static"
PACKAGES = {
    "htmx.org@4.0.1": ("LICENSE", ("dist/htmx.min.js",)),
    "@dagrejs/dagre@3.1.3": ("LICENSE", ("dist/dagre.min.js",)),
    "diff2html@3.4.56": ("LICENSE.md", ("bundles/js/diff2html.min.js", "bundles/css/diff2html.min.css")),
}
"""Package → its licence text, and the files of it that are served."""


def main() -> None:
    listed = [entry for package in PACKAGES for entry in _fetched(package)]
    (STATIC / "VENDORED.json").write_text(f"{json.dumps(listed, indent=2)}\n", encoding="utf-8")


def _fetched(package: str) -> list[dict[str, Any]]:
    licence, wanted = PACKAGES[package]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (packed,) = Path(folder).iterdir()
        with tarfile.open(packed) as tar:
            files = {name: _content(tar, name) for name in ("package.json", licence, *wanted)}
    about = json.loads(files["package.json"])
    (STATIC / "LICENSES").mkdir(parents=True, exist_ok=True)
    (STATIC / "LICENSES" / f"{Path(wanted[0]).name.partition('.')[0]}.txt").write_bytes(files[licence])
    for name in wanted:
        (STATIC / Path(name).name).write_bytes(files[name])
    return [
        {
            "file": Path(name).name,
            "package": about["name"],
            "version": about["version"],
            "licence": about["license"],
            "sha256": hashlib.sha256(files[name]).hexdigest(),
        }
        for name in wanted
    ]


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    found = tar.extractfile(f"package/{name}")
    assert found is not None, name
    return found.read()


if __name__ == "__main__":
    main()
