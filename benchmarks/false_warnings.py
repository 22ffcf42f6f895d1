"""How often honest work is taken for one of the three subtle ways: the changes from one release to the next.

    python -m benchmarks.false_warnings FOLDER

The source distributions are fetched into FOLDER, unless they are there. Every warning is printed.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urljoin

from gitswarm.evidence.declarations import TextChange, is_test_file
from gitswarm.evidence.suspicious_code import find_suspicious_code

MOST_WARNINGS = 5
PAIRS = {
    "arrow": ("1.3.0", "1.4.0"),
    "attrs": ("25.4.0", "26.1.0"),
    "babel": ("2.17.0", "2.18.0"),
    "boltons": ("26.1.0", "26.2.0"),
    "cachetools": ("7.3.2", "8.0.1"),
    "click": ("8.5.0", "8.5.1"),
    "filelock": ("4.2.10", "4.2.11"),
    "flask": ("3.1.2", "3.1.3"),
    "httpx": ("0.28.0", "0.28.1"),
    "humanize": ("4.16.0", "4.17.0"),
    "idna": ("3.19", "3.20"),
    "inflect": ("7.5.0", "7.6.0"),
    "itsdangerous": ("2.1.2", "2.2.0"),
    "jinja2": ("3.1.5", "3.1.6"),
    "jsonschema": ("4.25.1", "4.26.0"),
    "markdown": ("3.11.2", "3.11.3"),
    "marshmallow": ("4.3.1", "4.4.0"),
    "more-itertools": ("11.2.0", "11.2.1"),
    "packaging": ("26.2", "26.3"),
    "parso": ("0.8.6", "0.8.7"),
    "platformdirs": ("4.14.6", "4.14.7"),
    "pluggy": ("1.6.0", "1.7.0"),
    "pytest": ("9.1.1", "9.2.0"),
    "requests": ("2.34.1", "2.34.2"),
    "rich": ("14.3.4", "15.0.0"),
    "sqlparse": ("0.6.0", "0.6.1"),
    "starlette": ("1.9.0", "1.10.0"),
    "structlog": ("25.5.0", "26.1.0"),
    "tenacity": ("9.1.4", "9.2.1"),
    "tomlkit": ("0.15.1", "0.15.2"),
    "toolz": ("1.1.0", "1.2.0"),
    "urllib3": ("2.7.0", "2.8.0"),
    "werkzeug": ("3.1.8", "3.1.9"),
}
"""Project on the package index → two of its releases that follow each other."""


def fetch(project: str, versions: Sequence[str], folder: Path) -> list[Path]:
    """Source distributions, in `folder`."""
    wanted = [f"{project.replace('-', '_')}-{version}.tar.gz" for version in versions]
    missing = [name for name in wanted if not (folder / name).exists()]
    if missing:
        index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
        page = f"{index}/{project}/"
        accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
        listed = json.loads(_get(urllib.request.Request(page, headers=accept)))["files"]  # noqa: S310 - https
        urls = {each["filename"].replace("-", "_"): each["url"] for each in listed}
        for name in missing:
            url = urljoin(page, urls[name.replace("-", "_")])
            (folder / name).write_bytes(_get(urllib.request.Request(url)))  # noqa: S310 - https
    return [folder / name for name in wanted]


def _get(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=180) as answer:  # noqa: S310 - https
        content: bytes = answer.read()
    return content


def texts(sdist: Path) -> dict[str, str]:
    """Python files of a source distribution by their path below its one folder."""
    found = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            if content is not None:
                found[member.name.partition("/")[2]] = content.read().decode(errors="replace")
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings = files = 0
    for project, versions in PAIRS.items():
        before, after = (texts(sdist) for sdist in fetch(project, versions, folder))
        changed = [
            TextChange(path, before.get(path), text) for path, text in after.items() if text != before.get(path)
        ]
        files += len(changed)
        tests = [text for path, text in after.items() if is_test_file(path)]
        found = find_suspicious_code(changed, tests)
        warnings += len(found)
        for each in found:
            print(f"{project} {versions[1]}: {each.fact}")
    print(f"{warnings} warnings in {len(PAIRS)} changes of {files} files; at most {MOST_WARNINGS}")
    sys.exit(warnings > MOST_WARNINGS)


if __name__ == "__main__":
    main()
