"""Globs of paths, compiled once per process, and paths whose change matters more than its size."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from gitswarm.records.instructions import INSTRUCTION_FILES

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@lru_cache(maxsize=64)
def gitignore(*lines: str) -> GitIgnoreSpec:
    """
    :raises ValueError: a line is no pattern.
    """
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - 10 ms that most commands need not wait for

    return GitIgnoreSpec.from_lines(lines)


def is_named(name: str, globs: tuple[str, ...]) -> bool:
    """Whether a name fits one of the globs, upper and lower case told apart."""
    return _one_of(globs).match(name) is not None


@lru_cache(maxsize=64)
def _one_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")


CI = (
    "/.github/workflows/**",
    "/.github/actions/**",
    "/.gitlab-ci.yml",
    "/.gitlab/ci/**",
    "/.circleci/**",
    "/.buildkite/**",
    "/.travis.yml",
    "/.drone.yml",
    "/.ci/**",
    "/appveyor.yml",
    "/azure-pipelines.yml",
    "/bitbucket-pipelines.yml",
    "/Jenkinsfile",
)
"""Continuous integration."""

AGENTS = (
    *INSTRUCTION_FILES,
    "CLAUDE.local.md",
    "/.claude/**",
    "/.codex/**",
    "/.cursor/**",
    "/.gemini/**",
    "/.mcp.json",
)
"""Instructions and settings of agents."""

PROTECTED = ("/.swarm/**", *CI, *AGENTS)
"""What no agent changes without a person's word."""

LOCK_FILES = (
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "pixi.lock",
    "Pipfile.lock",
    "Cargo.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    "mix.lock",
    "flake.lock",
    "Podfile.lock",
    "packages.lock.json",
    "gradle.lockfile",
    "pubspec.lock",
    "deno.lock",
)

MANIFESTS = (
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "requirements*.txt",
    "constraints*.txt",
    "Pipfile",
    "environment.yml",
    "package.json",
    "go.mod",
    "Cargo.toml",
    "Gemfile",
    "composer.json",
    "pom.xml",
    "build.gradle*",
    "*.csproj",
    "mix.exs",
    "Dockerfile*",
    ".gitmodules",
)
"""Where a project says what it is built of."""
