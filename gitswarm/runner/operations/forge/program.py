"""Starts a forge's command line as the user would."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from gitswarm.errors import SwarmError
from gitswarm.records.json_value import JsonValue


class ForgeError(SwarmError):
    """The forge, its command line or git's way to it failed. `http`: the forge's own status, where it said one."""

    def __init__(self, message: str, *, hint: str = "", http: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.http = http

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(text for text in (self.message, self.hint) if text)


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
    def program(self) -> ForgeCli: ...

    def account(self) -> str:
        """Whose account the command line uses; "" when the forge does not tell."""

    def find(self, branch: str) -> PullRequest | None:
        """The newest request of a branch, open or closed."""

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


CALL_TIMEOUT_S = 60.0
_HTTP = re.compile(r"\(HTTP (\d{3})\)|\bHTTP (\d{3})\b")
_SAID_LINES = 3
# Whatever the user has set: nobody is asked, nothing is shown in colour or with a pager.
_QUIET = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "NO_PROMPT": "1",
    "GLAB_CHECK_UPDATE": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GH_PAGER": "cat",
    "PAGER": "cat",
    "NO_COLOR": "1",
}
_HTTP_UNKNOWN = frozenset({404, 422})
"""What forges answer about a commit that they do not have."""


class ForgeCli(Struct, frozen=True):
    """`host`: of the forge; `env`: the user's own environment; `folder`: where it is started, the main checkout."""

    name: str
    host: str
    env: Mapping[str, str]
    folder: Path

    def run(self, *arguments: str, stdin: str = "") -> str:
        """What it prints.

        :raises ForgeError: it is not there, took longer than a minute, or ended non-zero.
        """
        # Of a call of the interface its address, else the command: options may hold whole texts.
        asked = arguments[-1].partition("?")[0] if arguments[0] == "api" else arguments[1]
        words = f"{self.name} {arguments[0]} {asked}"
        try:
            done = subprocess.run(
                [self.name, *arguments],
                input=stdin.encode(),
                capture_output=True,
                check=False,
                cwd=self.folder,
                env={**self.env, **_QUIET},
                timeout=CALL_TIMEOUT_S,
                start_new_session=True,  # a Ctrl-C is for us: the step is finished
            )
        except subprocess.TimeoutExpired as error:
            raise ForgeError(
                f"{words} took longer than {CALL_TIMEOUT_S:g} s", hint=f"{self.name} auth status"
            ) from error
        except (OSError, ValueError) as error:
            raise ForgeError(
                f"cannot start {self.name}: {error}", hint=f"install {self.name}, then: {self.name} auth login"
            ) from error
        if done.returncode != 0:
            raise self._failure(words, done)
        return done.stdout.decode(errors="replace")

    def _failure(self, words: str, done: subprocess.CompletedProcess[bytes]) -> ForgeError:
        output = done.stderr.decode(errors="replace").strip()
        found = _HTTP.search(output)
        lines = " ".join(output.splitlines()[:_SAID_LINES]) or f"exit code {done.returncode}"
        http = int(found[1] or found[2]) if found else None
        return ForgeError(f"{words} failed: {lines}", hint=f"{self.name} auth status", http=http)

    def api(self, path: str, method: str = "GET", payload: Mapping[str, JsonValue] | None = None) -> str:
        """One call of the forge's own interface; of a GET every page, one JSON document after the other."""
        words = ["api", "--hostname", self.host, "--method", method]
        if payload is None:
            return self.run(*words, *(["--paginate"] if method == "GET" else []), path)
        head = ("--header", "Content-Type: application/json", "--input", "-")
        return self.run(*words, *head, path, stdin=json.dumps(dict(payload)))

    def lists(self, path: str, key: str | None = None) -> list[Fields]:
        """The objects that a GET lists.

        :param key: where the list stands, when each page is an object.
        :raises ForgeError: as `run`; or that is no such list.
        """
        found: list[Fields] = []
        for document in self._documents(self.api(path), path):
            page = document.get(key) if key is not None and isinstance(document, dict) else document
            if not isinstance(page, list):
                raise ForgeError(f"{self.name} api {path} is not a list", hint=f"{self.name} api {path}")
            found.extend(Fields(item) for item in page if isinstance(item, dict))
        return found

    def one(self, path: str) -> Fields:
        """The object that a GET answers."""
        for document in self._documents(self.api(path), path):
            if isinstance(document, dict):
                return Fields(document)
        raise ForgeError(f"{self.name} api {path} is not an object", hint=f"{self.name} api {path}")

    def known(self, path: str, key: str | None = None) -> list[Fields] | None:
        """As `lists`; None: what the path is about is not there."""
        try:
            return self.lists(path, key)
        except ForgeError as error:
            if error.http in _HTTP_UNKNOWN:
                return None
            raise

    def _documents(self, text: str, path: str) -> list[JsonValue]:
        decoder, found, at = json.JSONDecoder(), [], 0
        try:
            while text[at:].strip():
                at += len(text[at:]) - len(text[at:].lstrip())
                document, at = decoder.raw_decode(text, at)
                found.append(document)
        except (ValueError, RecursionError) as error:
            raise ForgeError(
                f"{self.name} api {path} is not JSON: {error}", hint=f"{self.name} api {path}"
            ) from error
        return found


class Fields(Struct, frozen=True):
    """A JSON object of somebody else's: what is not as expected reads as empty."""

    given: Mapping[str, JsonValue]

    def text(self, name: str) -> str:
        found = self.given.get(name)
        return found if isinstance(found, str) else ""

    def number(self, name: str) -> int | None:
        found = self.given.get(name)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def flag(self, name: str) -> bool:
        return self.given.get(name) is True

    def inner(self, name: str) -> Fields:
        found = self.given.get(name)
        return Fields(found if isinstance(found, dict) else {})

    def each(self, name: str) -> list[Fields]:
        found = self.given.get(name)
        return [Fields(item) for item in found if isinstance(item, dict)] if isinstance(found, list) else []
