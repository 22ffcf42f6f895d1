"""Texts of changed files, before and after."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.evidence.test_count import CaseCounts, TextChange, compare_cases
from gitswarm.git.objects import Objects
from gitswarm.records.evidence import DiffSummary


def cases_between(objects: Objects, before: str, after: str, diff: DiffSummary) -> CaseCounts:
    """Declared test cases of the files in `diff`, which is the difference of these two trees."""
    return compare_cases(text_changes(objects, before, after, diff))


def text_changes(objects: Objects, before: str, after: str, diff: DiffSummary) -> Iterator[TextChange]:
    """Binary files are left out."""
    for changed in diff.files:
        if changed.insertions is not None:
            old = text_of(objects, before, changed.old_path or changed.path)
            yield TextChange(changed.path, old, text_of(objects, after, changed.path), changed.old_path)


def text_of(objects: Objects, tree: str, path: str) -> str | None:
    """None: there is no such file."""
    content = objects.file(tree, path)
    return content.decode(errors="replace") if content is not None else None
