"""What a run changed, and where a reviewer looks first."""

from __future__ import annotations

from gitswarm.cli.opened import Opened
from gitswarm.cli.reports.model import ReportedChanges, ReportedFile
from gitswarm.ledger.reading import StepFiles, run_spec
from gitswarm.ledger.work import CountedFile, changed_files
from gitswarm.records.globs import AGENTS, CI, LOCK_FILES, MANIFESTS, gitignore, is_named

_BIGGEST = 3
_MOST_OF = 0.2
"""A file with that part of all changed lines is a big one."""


def changes_of(opened: Opened, steps: list[StepFiles]) -> ReportedChanges:
    """Files with more reasons to look at them come first, then those with more changed lines."""
    files = changed_files(opened.repository, opened.state.base, opened.state.tip)
    configured = run_spec(opened.repository, opened.state).settings.policy.protected_paths
    specs = {
        "continuous integration": gitignore(*CI),
        "instructions of agents": gitignore(*AGENTS),
        "protected path": gitignore("/.swarm/**", *configured),
    }
    concerned = _concerned(opened, steps)
    big = _biggest(files)
    found = []
    for file in files:
        reasons = [name for name, spec in specs.items() if spec.match_file(file.path)]
        name = file.path.rpartition("/")[2]
        if is_named(name, (*LOCK_FILES, *MANIFESTS)):
            reasons.append("dependencies")
        reasons += [concern for concern, names in concerned.items() if file.path in names]
        if file.path in big:
            reasons.append("most changed lines")
        found.append(ReportedFile(file.path, file.change, file.insertions, file.deletions, tuple(reasons)))
    found.sort(key=lambda file: (-len(file.reasons), -_lines(file), file.path))
    inserted = sum(file.insertions or 0 for file in files)
    return ReportedChanges(inserted, sum(file.deletions or 0 for file in files), tuple(found))


def _concerned(opened: Opened, steps: list[StepFiles]) -> dict[str, frozenset[str]]:
    """Paths that open concerns are about, by `open: <id>`; of a test, its file."""
    still = {concern.id for concern in opened.state.concerns}
    opening = [concern for each in steps if each.evidence for concern in each.evidence.opened]
    return {
        f"open: {concern.id}": frozenset(name.partition("::")[0] for name in concern.names)
        for concern in opening
        if concern.id in still
    }


def _biggest(files: list[CountedFile]) -> set[str]:
    if len(files) <= _BIGGEST:
        return set()
    whole = sum(map(_lines, files))
    ranked = sorted(files, key=_lines, reverse=True)[:_BIGGEST]
    return {file.path for file in ranked if _lines(file) > whole * _MOST_OF}


def _lines(file: CountedFile | ReportedFile) -> int:
    return (file.insertions or 0) + (file.deletions or 0)
