"""Fetches the source distributions that tests/test_real_projects.py runs on: python tests/fetch_sdists.py FOLDER.

The only part of the test run that needs a network; `make test` calls it once.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

SDISTS = {
    "ansible-core/ansible_core-2.17.0.tar.gz": "bd16e30ecac405dac594de3e1b1b4d9cc6fa1a9f7a01a6a8d4c471b20660716d",
    "django/Django-5.1.tar.gz": "848a5980e8efb76eea70872fb0e4bc5e371619c70fffbe48e3e1b50b2c09455d",
    "docutils/docutils-0.21.2.tar.gz": "3a6b18732edf182daa3cd12775bbb338cf5691468f91eeeb109deff6ebfa986f",
    "pyparsing/pyparsing-3.1.4.tar.gz": "f86ec8d1a83f11977c9a6ea7598e8c27fc5cddfa5b07ea2241edbbde1d7bc032",
    "chardet/chardet-5.2.0.tar.gz": "1b3b6ff479a8c414bc3fa2c0852995695c4a026dcd6d0633b2dd092ca39c1cf7",
}
"""Project and file on the package index → SHA-256: many files, programs, CRLF; binaries; links; odd encodings."""


def fetch(name: str, digest: str, folder: Path) -> None:
    """Puts one verified sdist into `folder`, unless it is there."""
    project, _slash, file = name.partition("/")
    target = folder / file
    if target.exists() and _sha256(target.read_bytes()) == digest:
        return
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    page = f"{index}/{project}/"
    listing = _get(page).decode()
    match = re.search(rf'href="([^"]*/{re.escape(file)}[^"]*)"', listing)
    if match is None:
        sys.exit(f"{page} does not list {file}")
    content = _get(urljoin(page, match[1]))
    if _sha256(content) != digest:
        sys.exit(f"{file}: the index serves something else than {digest}")
    target.write_bytes(content)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=180) as answer:  # noqa: S310 - https, from the line above
        content: bytes = answer.read()
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for wanted, checksum in SDISTS.items():
        fetch(wanted, checksum, place)
