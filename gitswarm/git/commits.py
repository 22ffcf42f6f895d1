"""Values of commits, as git stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitswarm.records.value import value

if TYPE_CHECKING:
    from datetime import datetime

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@value
class Person:
    name: str
    email: str


@value
class NewCommit:
    tree: str
    parents: tuple[str, ...]
    message: str
    author: Person
    committer: Person
    when: datetime


@value
class Commit:
    """A stored commit. Ids are 40 hex digits."""

    id: str
    tree: str
    parents: tuple[str, ...]
    message: str
