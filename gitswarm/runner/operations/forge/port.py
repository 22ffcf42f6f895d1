"""What git-swarm asks of a forge, whichever it is."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from gitswarm.errors import SwarmError


class ForgeError(SwarmError):
    """The forge, its command line or git's way to it failed. `http`: the forge's own status, where it said one."""

    def __init__(self, message: str, *, hint: str = "", http: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.http = http


class PullRequest(Struct, frozen=True):
    """A pull or merge request as it is now. `title`: without the forge's mark of a draft; `head`: the commit that it
    shows; `author`: name of the account."""

    number: int
    url: str
    is_open: bool
    is_draft: bool
    title: str
    body: str
    author: str
    head: str


class Remark(Struct, frozen=True):
    """Something that was said in a request. `id` is unique in it, and says of what kind it is; `number`: the forge's
    own id; `thread`: where an answer goes, "" when it goes beside it; `url`: its page, where there is one."""

    id: str
    number: int
    author: str
    text: str
    kind: str
    path: str | None = None
    line: int | None = None
    thread: str = ""
    url: str = ""


CheckState = Literal["passed", "failed", "pending", "skipped", "tolerated"]
"""`tolerated`: it failed, and the project says that it may."""


class CiCheck(Struct, frozen=True):
    """One check of a commit."""

    name: str
    state: CheckState
    url: str = ""


class Forge(Protocol):
    """Each method is one question or one change, asked anew: nothing is remembered between two of them.

    :raises ForgeError: from every method; what it was to do has perhaps been done all the same.
    """

    @property
    def name(self) -> str:
        """Of its command line."""

    def account(self) -> str:
        """Whose account the command line uses; "" when the forge does not tell."""

    def find(self, branch: str) -> PullRequest | None:
        """The newest request of a branch, whatever became of it."""

    def create(self, branch: str, target: str | None, title: str, body: str) -> None:
        """A draft. `target` None: the forge's default branch."""

    def edit(self, request: PullRequest, title: str, body: str, *, draft: bool) -> None:
        """Makes an open request say this; what is so already is left alone."""

    def remarks(self, request: PullRequest) -> list[Remark]:
        """All of them, our own among them, each kind with the oldest first."""

    def answer(self, request: PullRequest, remark: Remark, body: str) -> None:
        """Says something in the remark's thread, else beside it."""

    def comment(self, request: PullRequest, body: str) -> None: ...

    def rewrite(self, request: PullRequest, remark: Remark, body: str) -> None:
        """Gives a comment of our own another text."""

    def checks(self, commit: str) -> list[CiCheck] | None:
        """The newest result of each check; None: the forge does not know the commit."""
