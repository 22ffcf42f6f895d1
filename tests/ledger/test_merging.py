"""What a copy of a run's commit holds where upstream and the run are in conflict."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gitswarm.git.merge import merge_trees
from gitswarm.git.repository import open_repository
from gitswarm.ledger.merging import settled_for
from tests.conftest import Project


@pytest.mark.parametrize(
    ("base", "upstream", "own", "settled"),
    [
        ({"a": "1\n"}, {"a": "2\n", "b": "up"}, {"a": "3\n"}, {"a": "3\n", "b": "up"}),
        ({"a/b": "1\n"}, {"a/b": "2\n", "c": "up"}, {"a": "file"}, {"a": "file", "c": "up"}),
        ({"c": "1"}, {"c": "1", "a/x": "up"}, {"c": "1", "a": "file"}, {"c": "1", "a": "file"}),
        ({"c": "1"}, {"c": "1", "a": "up"}, {"c": "1", "a/x": "own"}, {"c": "1", "a/x": "own"}),
        ({"a/b": "1\n"}, {"a": "up"}, {"a/b": "2\n"}, {"a/b": "2\n"}),
        ({"d/a": "1\n"}, {"d": "up"}, {"d/a": "2\n", "d/e~x": "own"}, {"d/a": "2\n", "d/e~x": "own"}),
    ],
)
def test_what_is_in_conflict_is_the_runs_own(
    project: Project,
    base: Mapping[str, str],
    upstream: Mapping[str, str],
    own: Mapping[str, str],
    settled: Mapping[str, str],
) -> None:
    repository = open_repository(project.root, project.env)
    objects = repository.objects

    def tree(files: Mapping[str, str]) -> str:
        return objects.with_files(None, {path: objects.write_blob(text.encode()) for path, text in files.items()})

    merged = merge_trees(repository, tree(base), tree(upstream), tree(own))
    assert merged.conflicts
    assert settled_for(objects, merged, tree(own)) == tree(settled)
