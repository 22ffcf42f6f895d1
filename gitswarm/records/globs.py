"""Globs of paths, compiled once per process, and paths whose change matters more than its size."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import words

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_PLAIN = lazy_re(r"/?[\w.*-]+(?:/[\w.*-]+)*/?")
_WILD = lazy_re(r"[*?\[]")


class Ignore:
    """Patterns as in a `.gitignore`."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        """
        :raises ValueError: a line is no pattern.
        """
        self._lines = lines
        self._texts = [_text_of(line) for line in lines]
        if not all(map(_PLAIN.fullmatch, lines)):
            _ = self._spec  # which finds what is wrong; a plain line is a pattern

    def match_file(self, path: str) -> bool:
        return any(text in path for text in self._texts) and self._spec.match_file(path)

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - 20 ms, which most commands need not wait for

        return GitIgnoreSpec.from_lines(self._lines)


def _text_of(line: str) -> str:
    """A text in every path that the line matches: the longest one without a wildcard. An empty one is in any path."""
    return max(re.split(r"[^\w.-]+", line), key=len) if _PLAIN.fullmatch(line) else ""


@lru_cache(maxsize=64)
def gitignore(*lines: str) -> Ignore:
    """
    :raises ValueError: a line is no pattern.
    """
    return Ignore(lines)


def is_named(name: str, globs: tuple[str, ...]) -> bool:
    """Whether a name fits one of the globs, upper and lower case told apart."""
    exact, starts, ends, others = _sorted(globs)
    return name in exact or name.startswith(starts) or name.endswith(ends) or others.match(name) is not None


@lru_cache(maxsize=64)
def _sorted(globs: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...], re.Pattern[str]]:
    """Names, what names begin with, what they end with, and the few that only a pattern of `re` tells."""
    exact, starts, ends, others = list[str](), list[str](), list[str](), list[str]()
    for glob in globs:
        wild = _WILD.findall(glob)
        if not wild:
            exact.append(glob)
        elif wild == ["*"] and glob[-1] == "*":
            starts.append(glob[:-1])
        elif wild == ["*"] and glob[0] == "*":
            ends.append(glob[1:])
        else:
            others.append(glob)
    return frozenset(exact), tuple(starts), tuple(ends), lazy_re("|".join(map(translate, others)) or r"(?!)")


CI = words("""
    /.github/workflows/** /.github/actions/** /.gitlab-ci.yml /.gitlab/ci/** /.circleci/** /.buildkite/**
    /.travis.yml /.drone.yml /.ci/** /appveyor.yml /azure-pipelines.yml /bitbucket-pipelines.yml /Jenkinsfile
""")
"""Continuous integration."""

INSTRUCTION_FILES = words(
    "AGENTS.md CLAUDE.md .claude/CLAUDE.md GEMINI.md .github/copilot-instructions.md .cursorrules"
)
"""Files that coding agents read by themselves, the one first that is for all of them."""

AGENTS = (*INSTRUCTION_FILES, *words("CLAUDE.local.md /.claude/** /.codex/** /.cursor/** /.gemini/** /.mcp.json"))
"""Instructions and settings of agents."""

PROTECTED = ("/.swarm/**", *CI, *AGENTS)
"""What no agent changes without a person's word."""

LOCK_FILES = words("""
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb uv.lock poetry.lock pdm.lock
    pixi.lock Pipfile.lock Cargo.lock go.sum Gemfile.lock composer.lock mix.lock flake.lock Podfile.lock
    packages.lock.json gradle.lockfile pubspec.lock deno.lock
""")

MANIFESTS = words("""
    pyproject.toml setup.cfg setup.py requirements*.txt constraints*.txt Pipfile environment.yml package.json go.mod
    Cargo.toml Gemfile composer.json pom.xml build.gradle* *.csproj mix.exs Dockerfile* .gitmodules
""")
"""Where a project says what it is built of."""
