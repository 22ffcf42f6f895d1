"""A test as its file declares it."""

from __future__ import annotations

import hashlib
from typing import Literal

from msgspec import Struct

Mark = Literal["", "skip", "skipif", "xfail"]
"""`skipif`: under a condition that the text does not decide."""


class TestShape(Struct, frozen=True):
    """What a test is made of, where a parser has read it. `form` is equal for tests that differ in identifiers only,
    `names` are those in order; `statements` are digests of the statements that are reached, one after the other."""

    __test__ = False

    form: str = ""
    names: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()

    def holds(self, other: TestShape) -> bool:
        """Whether every statement of the other is one of its own, in the same order."""
        mine = iter(self.statements)
        return bool(other.statements) and all(each in mine for each in other.statements)


class DeclaredTest(Struct, frozen=True):
    """`name` is qualified inside of its file (`TestX::test_y`). `body` is equal for tests that do the same, whatever
    they are called, marked and laid out. `line` counts from 1."""

    name: str
    line: int
    body: str
    compares: bool
    mark: Mark = ""
    shape: TestShape = TestShape()


class TestSource(Struct, frozen=True):
    """`by_syntax`: read by a parser, not by patterns."""

    __test__ = False

    tests: tuple[DeclaredTest, ...] = ()
    by_syntax: bool = False

    @property
    def compares(self) -> bool:
        return any(test.compares for test in self.tests)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
