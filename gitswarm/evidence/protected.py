"""Paths that no agent changes without a person's word: what tests the work, and what agents are told."""

from __future__ import annotations

from collections.abc import Iterable

from gitswarm.records.globs import gitignore
from gitswarm.records.sensitive_paths import PROTECTED


def protected_paths(changed: Iterable[str], configured: Iterable[str]) -> tuple[str, ...]:
    """Those of the changed paths that are protected, always or by `policy.protected_paths`; each once.

    :param configured: globs from the top of the worktree, as in `.gitignore`.
    """
    spec = gitignore(*PROTECTED, *configured)
    return tuple(path for path in dict.fromkeys(changed) if spec.match_file(path))
