"""Paths whose change matters more than its size: what tests the work, what agents read, what is installed."""

from __future__ import annotations

from gitswarm.records.instructions import INSTRUCTION_FILES

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

AGENTS = (*INSTRUCTION_FILES, "CLAUDE.local.md", "/.cursor/**", "/.claude/**", "/.mcp.json")
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
