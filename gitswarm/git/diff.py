"""Differences between trees, without attributes, drivers or hooks of any checkout."""

from __future__ import annotations

from gitswarm.git.libgit2 import pygit2
from gitswarm.records.envelope import ChangeKind
from gitswarm.records.evidence import ChangedFile, DiffSummary

_CHANGES: dict[str, ChangeKind] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type_changed",
}
_RENAME_LIMIT = 400  # similarity is O(n²) in the files that came and went


class Diffs:
    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository

    def between(self, old_tree: str, new_tree: str) -> list[ChangedFile]:
        """What turns one tree into the other, in path order, renames found when there are not too many.

        Line counts are also None for a file that became a link or the like, and for blobs that are not here.
        """
        if old_tree == new_tree:
            return []
        old, new = self._tree(old_tree), self._tree(new_tree)
        diff = self._diff(old, new)
        if len(diff) <= _RENAME_LIMIT:
            try:
                diff.find_similar()
            except pygit2.GitError:
                diff = self._diff(old, new)  # a partial clone lacks what would be compared: no renames then
        found = [self._delta(diff, index, delta) for index, delta in enumerate(diff.deltas)]
        return sorted(found, key=lambda item: item.path)

    def summary(self, old_tree: str, new_tree: str) -> DiffSummary:
        """Of two trees that have the same `.swarm/runs`."""
        return DiffSummary.of(tuple(self.between(old_tree, new_tree)))

    def _diff(self, old: pygit2.Tree, new: pygit2.Tree) -> pygit2.Diff:
        return old.diff_to_tree(new, flags=pygit2.enums.DiffOption.INCLUDE_TYPECHANGE, context_lines=0)

    def _tree(self, tree_id: str) -> pygit2.Tree:
        tree = self._repository[tree_id]
        if not isinstance(tree, pygit2.Tree):
            raise KeyError(tree_id)
        return tree

    def _delta(self, diff: pygit2.Diff, index: int, delta: pygit2.DiffDelta) -> ChangedFile:
        letter = delta.status_char()
        old_path = _text(delta.old_file.raw_path) if letter in ("R", "C") else None
        path = _text(delta.old_file.raw_path if letter == "D" else delta.new_file.raw_path)
        insertions, deletions = (None, None) if letter == "T" else self._line_counts(diff, index)
        return ChangedFile(
            path=path,
            change=_CHANGES.get(letter, "modified"),
            old_path=old_path,
            insertions=insertions,
            deletions=deletions,
        )

    def _line_counts(self, diff: pygit2.Diff, index: int) -> tuple[int | None, int | None]:
        try:
            patch = diff[index]
        except (KeyError, pygit2.GitError):
            return None, None  # a partial clone may lack the old blob
        if patch is None or patch.delta.is_binary:
            return None, None
        _context, insertions, deletions = patch.line_stats
        return insertions, deletions


def _text(raw: bytes) -> str:
    """A path as text that can be stored as JSON; a name that is not UTF-8 loses what it cannot show."""
    return raw.decode(errors="replace")
