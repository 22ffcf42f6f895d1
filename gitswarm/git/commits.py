"""Values of commits, as git stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import datetime

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Person(Struct, frozen=True):
    name: str
    email: str


class NewCommit(Struct, frozen=True):
    tree: str
    parents: tuple[str, ...]
    message: str
    author: Person
    committer: Person
    when: datetime


class Commit(Struct, frozen=True):
    """A stored commit. Ids are 40 hex digits."""

    id: str
    tree: str
    parents: tuple[str, ...]
    message: str
