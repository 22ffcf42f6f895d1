"""Values of commits, as git stores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class NewCommit:
    tree: str
    parents: tuple[str, ...]
    message: str
    author: Person
    committer: Person
    when: datetime


@dataclass(frozen=True, slots=True)
class Commit:
    """A stored commit. Ids are 40 hex digits."""

    id: str
    tree: str
    parents: tuple[str, ...]
    message: str
