"""Makes the corpus of ordinary commands: python -m tests.safety.policy.extract FOLDER-OF-SDISTS > …/projects.jsonl.

The sdists are those of `pip download --no-binary :all: --no-deps PROJECT`; a command line is what a contributor guide
shows, a recipe of a Makefile, a command of tox, or a whole `run:` of a workflow.
"""

from __future__ import annotations

import configparser
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from random import Random

import yaml

PROJECTS, LINES = 20, 500
_SHELLS = r"(bash|sh|shell|console|shell-session)?"
_FENCED = re.compile(rf"^ *``` ?{_SHELLS}\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_RST = re.compile(rf"^( *).*:: ?{_SHELLS}\n\n((?:\1 +.*\n|\n)+)", re.MULTILINE)
_PROMPT = re.compile(r" *(?:\([\w.-]+\) *)?\$ +(.*)")
_NO_COMMAND = re.compile(r"[#<>|+\-=*@]|\W*$|.*\.\.\.$|[A-Z][a-z]+ ")
_SAYING = re.compile(r"echo\b(?!.*(\||&&|> ))|#|\w+ :=")
"""What says something only: Makefiles are full of it."""
_MADE = re.compile(r"^(\w+) *[:?]?= *(.*)$", re.MULTILINE)


def commands(path: str, text: str) -> Iterator[str]:
    """The command lines of one file of a project; `path` is relative to the project's top."""
    name = PurePosixPath(path).name.lower()
    if path.startswith(".github/workflows/") or name == ".gitlab-ci.yml":
        yield from _workflow(yaml.safe_load(text))
    elif name == "makefile":
        yield from _makefile(text)
    elif name == "tox.ini":
        yield from _tox(text)
    elif re.match(r"(contributing|hacking|development)\b.*\.(md|rst|txt)$", name):
        blocks = [found.groups() for found in _FENCED.finditer(text)]
        for language, block in blocks + [found.groups()[1:] for found in _RST.finditer(text)]:
            yield from _guide(block, is_shell=language is not None)


def _guide(block: str, *, is_shell: bool) -> Iterator[str]:
    """In a block of no stated language only what stands behind a prompt."""
    lines = block.replace("\\\n", "").splitlines()
    asked = [found[1] for found in map(_PROMPT.fullmatch, lines) if found]
    others = [line.strip() for line in lines if not _NO_COMMAND.match(line.strip())]
    yield from asked or (others if is_shell else ())


def _workflow(node: object) -> Iterator[str]:
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == "run" and isinstance(value, str):
            yield re.sub(r"\$\{\{.*?\}\}", "value", value).strip()
        yield from _workflow(value)
    for each in node if isinstance(node, list) else ():
        yield from _workflow(each)


def _makefile(text: str) -> Iterator[str]:
    made = dict(_MADE.findall(text))
    for line in text.replace("\\\n", "").splitlines():
        recipe = line.removeprefix("\t").lstrip("@-+ ") if line.startswith("\t") else ""
        for _ in range(4):
            recipe = re.sub(r"(?<!\$)\$[({](\w+)[)}]", lambda found: made.get(found[1], found[0]), recipe)
        if recipe and not re.search(r"(?<!\$)\$[^$]", recipe):
            yield recipe.replace("$$", "$").strip()


def _tox(text: str) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    for section in parser.sections():
        for line in parser.get(section, "commands", fallback="").replace("\\\n", " ").splitlines():
            command = re.sub(r"\{posargs:?([^{}]*)\}", r"\1", re.sub(r"^[\w,{}.!-]+: +|^- *", "", line))
            command = re.sub(r"\{(toxinidir|envtmpdir|envdir|tox_root|envsitepackagesdir)\}", ".", command)
            if command.strip() and "{" not in command:
                yield command.strip()


def _of_sdist(path: Path) -> list[str]:
    found: dict[str, None] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            inner = member.name.partition("/")[2]
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and not re.search(r"(^|/)(tests?|vendor\w*|_vendor|node_modules)/", inner):
                text = file.read().decode(errors="replace") if member.size < 300_000 else ""
                found |= dict.fromkeys(each for each in commands(inner, text) if not _SAYING.match(each))
    return list(found)


def main(folder: Path) -> None:
    found = {path.name.removesuffix(".tar.gz"): _of_sdist(path) for path in sorted(folder.glob("*.tar.gz"))}
    chosen = sorted(sorted(found, key=lambda project: -len(found[project]))[:PROJECTS])
    chance = Random(20261122)
    left = LINES
    seen: set[str] = set()
    for many, project in enumerate(sorted(chosen, key=lambda project: len(found[project])), start=-PROJECTS):
        lines = [line for line in found[project] if line not in seen]
        seen |= set(lines)
        picked = chance.sample(range(len(lines)), min(len(lines), left // -many))
        left -= len(picked)
        for at in sorted(picked):
            sys.stdout.write(json.dumps([project, lines[at]], ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
