"""Globs are told without pathspec and `fnmatch` where that is the same."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from gitswarm.records.globs import gitignore, is_named

_NAMES = ("a", "ab", ".x", "aab", "b-c", "a ", "#a", "!a")
_WILD = ("*", "a*", "*b", "a*b", "**", "?", "a?", "[ab]", "\\a", "")
paths = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4).map("/".join)
lines = st.tuples(
    st.sampled_from(("", "/", "!")),
    st.lists(st.sampled_from((*_NAMES, *_WILD)), min_size=1, max_size=3).map("/".join),
    st.sampled_from(("", "/")),
).map("".join)


@given(patterns=st.lists(lines, min_size=1, max_size=3), path=paths)
def test_patterns_of_gitignore_match_what_pathspec_says(patterns: list[str], path: str) -> None:
    def answered(*asked: str) -> object:
        try:
            return gitignore(*asked).match_file(path)
        except ValueError:
            return ValueError

    def expected(*asked: str) -> object:
        try:
            return GitIgnoreSpec.from_lines(asked).match_file(path)
        except ValueError:
            return ValueError

    assert answered(*patterns) == expected(*patterns)


@given(globs=st.lists(st.sampled_from((*_NAMES, *_WILD)), max_size=4), name=st.sampled_from(_NAMES))
def test_names_fit_the_globs_that_fnmatch_says(globs: list[str], name: str) -> None:
    assert is_named(name, tuple(globs)) == any(fnmatchcase(name, glob) for glob in globs)
