"""How many files of released projects are taken for secrets: as new code, moved, copied and with other lines.

python -m benchmarks.false_secrets [--folder FOLDER] [--show]: fetches the source distributions into FOLDER first.
What is in them is public, so every finding is wrong. New: nothing of the project is there yet; else it is the base.
Other lines: CRLF, indented, blocks of keys wrapped at 76 letters. Quoted: each file as a string of Python.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gitswarm.git.incoming import EarlierContent
from gitswarm.git.repository import open_repository
from gitswarm.records.safety import SecretRules
from gitswarm.safety.redact.redactor import Redactor
from tests.fetch_sdists import SDISTS, fetch

PROJECTS = SDISTS | {
    "requests/requests-2.32.3.tar.gz": "55365417734eb18255590a9ff9eb97e9e1da868d4ccd6402399eaf68af20a760",
    "flask/flask-3.0.3.tar.gz": "ceb27b0af3823ea2737928a4d99d125a06175b8512c445cbd9a9ce200ef76842",
    "fastapi/fastapi-0.115.0.tar.gz": "f93b4ca3529a8ebc6fc3fcf710e5efa8de3df9b41570958abf1d97d843138004",
    "pyjwt/pyjwt-2.9.0.tar.gz": "7e1e5b56cc735432a7369cbfa0efe50fa113ebecdc04ae6922deba8b84582d0c",
    "paramiko/paramiko-3.5.0.tar.gz": "ad11e540da4f55cedda52931f1a3f812a8238a7af7f62a60de538cd80bb28124",
    "pydantic/pydantic-2.9.2.tar.gz": "d155cef71265d1e9807ed1c32b4c8deec042a44a50a4188b25ac67ecd81a9c0f",
    "attrs/attrs-24.2.0.tar.gz": "5cfb1b9148b5b086569baec03f20d7b6bf3bcacc9a42bebf87ffaaca362f6346",
    "black/black-24.10.0.tar.gz": "846ea64c97afe3bc677b761787993be4991810ecc7a4a937816dd6bddedc4875",
    "starlette/starlette-0.38.6.tar.gz": "863a1588f5574e70a821dadefb41e4881ea451a47a3cd1b4df359d4ffefe5ead",
    "httpx/httpx-0.27.2.tar.gz": "f7c2be1d2f3c3c3160d441802406b206c2b76f5947b11115e6df10c6c65e66c2",
    "aiohttp/aiohttp-3.10.10.tar.gz": "0631dd7c9f0822cc61c88586ca76d5b5ada26538097d0f1df510b082bad3411a",
    "sqlalchemy/sqlalchemy-2.0.35.tar.gz": "e11d7ea4d24f0a262bccf9a7cd6284c976c5369dac21db237cff59586045ab9f",
    "werkzeug/werkzeug-3.0.4.tar.gz": "34f2371506b250df4d4f84bfe7b0921e4762525762bbd936614909fe25cd7306",
    "urllib3/urllib3-2.2.3.tar.gz": "e7d814a81dad81e6caf2ec9fdedb284ecc9c73076b62654547cc64ccdcae26e9",
    "jinja2/jinja2-3.1.4.tar.gz": "4a3aee7acbbe7303aede8e9648d13b8bf88a429282aa6122a993f0ac800cb369",
    "celery/celery-5.4.0.tar.gz": "504a19140e8d3029d5acad88330c541d4c3f64c789d85f94756762d8bca7e706",
    "tornado/tornado-6.4.1.tar.gz": "92d3ab53183d8c50f8204a51e6f91d18a15d5ef261e84d452800d4ff6fc504e9",
    "twisted/twisted-24.7.0.tar.gz": "5a60147f044187a127ec7da96d170d49bcce50c6fd36f594e60f4587eff4d394",
    "scrapy/scrapy-2.11.2.tar.gz": "dfbd565384fc3fffeba121f5a3a2d0899ac1f756d41432ca0879933fbfb3401d",
    "authlib/authlib-1.3.2.tar.gz": "4b16130117f9eb82aa6eec97f6dd4673c3f960ac0283ccdae2897ee4bc030ba2",
    "cryptography/cryptography-43.0.1.tar.gz": "203e92a75716d8cfb491dc47c79e17d0d9207ccffcbcb35f598fbe463ae3444d",
    "pymongo/pymongo-4.10.1.tar.gz": "a9de02be53b6bb98efe0b9eda84ffa1ec027fcb23a2de62c4f941d9a2f2f3330",
    "django-allauth/django_allauth-65.0.2.tar.gz": "6b5b3a7a65b1c28078b6eb0dd234310b58a44e8addfd187dc30437b0b2bc41a5",
    "sentry-sdk/sentry_sdk-2.15.0.tar.gz": "a599e7d3400787d6f43327b973e55a087b931ba2c592a7a7afa691f8eb5e75e2",
    "docker/docker-7.1.0.tar.gz": "ad8c70e6e3f8926cb8a92619b832b4ea5299e2831c14284663184e200546fa6c",
    "asyncssh/asyncssh-2.17.0.tar.gz": "3b159c105aa388c1e2245c4faf483f540ada8cad99402281119100166e5edb3c",
}
"""Project and file on the package index → SHA-256."""

_BODY = re.compile(r"(-----BEGIN [A-Z ]*-----)\r?\n(.*?)(-----END [A-Z ]*-----)", re.DOTALL)
Files = dict[str, bytes]


@dataclass
class Count:
    files: int = 0
    blocked: dict[str, list[str]] = field(default_factory=dict)


def files_of(archive: Path) -> Files:
    with tarfile.open(archive) as tar:
        members = [(item.name.partition("/")[2], tar.extractfile(item)) for item in tar if item.isfile()]
        # A tree of git cannot hold `.git`.
        return {name: file.read() for name, file in members if file and name and ".git" not in name.split("/")}


def wrapped(content: bytes) -> bytes:
    """With CRLF and indented; keys at another width."""
    if b"\0" in content:
        return content
    text = content.decode("utf-8", errors="surrogateescape")
    text = _BODY.sub(lambda found: f"{found[1]}\n{_at_76(found[2])}{found[3]}", text)
    lines = (f"  {line}" for line in text.splitlines())
    return "\r\n".join(lines).encode("utf-8", errors="surrogateescape")


def _at_76(body: str) -> str:
    if ":" in body:
        return body
    letters = "".join(body.split())
    return "".join(f"{letters[at : at + 76]}\n" for at in range(0, len(letters), 76))


def quoted(content: bytes) -> bytes:
    return f"VALUE = {content.decode('utf-8', errors='replace')!r}\n".encode()


def unchanged(content: bytes) -> bytes:
    return content


WAYS: dict[str, tuple[Callable[[str], str], Callable[[bytes], bytes], bool]] = {
    "new": (lambda path: path, unchanged, False),
    "moved": (lambda path: f"src/lib/{Path(path).name}", unchanged, True),
    "copied": (lambda path: f"other/{path}", unchanged, True),
    "other lines": (lambda path: path, wrapped, True),
    "quoted": (lambda path: f"src/{path}.py", quoted, True),
}
"""Where each file goes, what becomes of it, and whether the base has it."""


def suspicious(files: Files, redactor: Redactor) -> Files:
    """Those in which something is found where no tests lie: none of the others is blocked while it stays as it is."""
    return {path: content for path, content in files.items() if redactor.find_in_code("src/module", content)}


def blocked(files: Files, way: str, redactor: Redactor, former: EarlierContent) -> Iterator[str]:
    where, become, is_known = WAYS[way]
    found = {path: redactor.find_in_code(where(path), become(content)) for path, content in files.items()}
    values = {suspect.value for each in found.values() for suspect in each}
    held = former.held(values) if is_known and values else set()
    for path, each in found.items():
        left = [suspect.found for suspect in each if suspect.value not in held]
        if left:
            yield f"{path}:{left[0].line} {left[0].kind}"


def as_repository(files: Files, folder: Path) -> EarlierContent:
    import pygit2  # noqa: PLC0415 - nothing else here needs it

    pygit2.init_repository(str(folder), bare=True)
    repository = open_repository(folder, os.environ)
    ids = {path: repository.objects.write_blob(content) for path, content in files.items()}
    return EarlierContent(repository.git, repository.objects, (repository.objects.with_files(None, ids),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(sys.executable).parent.parent / "sdists")
    parser.add_argument("--show", action="store_true", help="each finding")
    arguments = parser.parse_args()
    redactor = Redactor(SecretRules(), {})
    total = Count(blocked={way: [] for way in WAYS})
    print(f"| project | files | {' | '.join(WAYS)} | s |\n|---|{'---:|' * (len(WAYS) + 2)}")
    for name, digest in PROJECTS.items():
        fetch(name, digest, arguments.folder)
        files = files_of(arguments.folder / name.rpartition("/")[2])
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            former = as_repository(files, Path(folder))
            few = suspicious(files, redactor)
            here = {
                way: list(blocked(few if WAYS[way][1] is unchanged else files, way, redactor, former)) for way in WAYS
            }
        total.files += len(files)
        for way, found in here.items():
            total.blocked[way] += (f"{way}: {name.partition('/')[0]}/{each}" for each in found)
        print(_row(name.rpartition("/")[2].removesuffix(".tar.gz"), len(files), here), end="")
        print(f" {time.perf_counter() - started:.1f} |", flush=True)
    print(_row("**sum**", total.files, total.blocked), "|")
    shares = (f"{100 * len(found) / total.files:.3f} %" for found in total.blocked.values())
    print(f"| share | | {' | '.join(shares)} | |")
    if arguments.show:
        print("\n".join(each for found in total.blocked.values() for each in found))


def _row(name: str, files: int, found: dict[str, list[str]]) -> str:
    return f"| {name} | {files:,} | {' | '.join(str(len(each)) for each in found.values())} |"


if __name__ == "__main__":
    main()
