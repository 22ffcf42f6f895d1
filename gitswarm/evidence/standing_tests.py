"""Tests that are gone from a Python file, and stand word for word in one beside it that nobody touched.

The same words do the same only among the same others: what the file imports and defines besides tests has to stand
there too. Methods are left out, for what they do is also their class's.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from gitswarm.evidence.declarations import DeclaredTest
from gitswarm.evidence.declared_tests import read_tests
from gitswarm.evidence.source_text import parse


class GoneTest(Struct, frozen=True):
    """
    :ivar path: of its file.
    :ivar text: that the file had.
    """

    path: str
    text: str
    test: DeclaredTest


def find_standing(
    gone: Iterable[GoneTest], untouched: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, DeclaredTest]]:
    """By file and name of a test that is gone: where it stands, each place for one of them.

    :param untouched: paths and texts of test files; not looked at where nothing is gone.
    """
    waiting: defaultdict[tuple[str, str], list[GoneTest]] = defaultdict(list)
    for each in gone:
        if each.path.endswith(".py") and "::" not in each.test.name:
            waiting[_folder(each.path), each.test.body].append(each)
    found: dict[tuple[str, str], tuple[str, DeclaredTest]] = {}
    for path, text in untouched if waiting else ():
        for test in read_tests(path, text).tests:
            candidates = waiting.get((_folder(path), test.body), [])
            for each in candidates if "::" not in test.name else ():
                if each.test.mark == test.mark and _stands_among(each.text, text):
                    found[each.path, each.test.name] = (path, test)
                    candidates.remove(each)
                    break
    return found


def _folder(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()


def _stands_among(before: str, text: str) -> bool:
    old, new = parse(before), parse(text)
    return old is not None and new is not None and set(_besides_tests(old)) <= set(_besides_tests(new))


def _besides_tests(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            of = ast.dump(ast.ImportFrom(getattr(statement, "module", None), [], getattr(statement, "level", 0)))
            yield from (f"{type(statement).__name__} {of} {ast.dump(alias)}" for alias in statement.names)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not statement.name.lower().startswith("test"):
                yield ast.dump(statement)
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield ast.dump(statement)
