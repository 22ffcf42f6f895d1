"""What agents wrote, as it may stand on a forge; and the marks by which git-swarm knows its own words again."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gitswarm.records.secrets import Scrub
from gitswarm.runner.operations.forge.port import Remark

_MOST_BODY = 60_000  # GitHub takes 65,536 characters
_MOST_TITLE = 200
_COMMAND = re.compile(r"^([ \t]*)/(?=[A-Za-z])", re.MULTILINE)
_CUT = "\n\n[… cut]"


def harmless(text: str, scrub: Scrub) -> str:
    """The text without secrets, and without lines that a forge or its bots would carry out (`/merge`)."""
    plain = _COMMAND.sub(r"\1\\/", scrub(text.replace("\r\n", "\n"))).replace("\0", "").strip()
    return plain if len(plain) <= _MOST_BODY else plain[:_MOST_BODY] + _CUT


class RequestText(Struct, frozen=True):
    """Title and text of a request."""

    title: str
    body: str

    @classmethod
    def of(cls, page: str, scrub: Scrub) -> RequestText | None:
        """The first line with something on it is the title; None: there is none."""
        lines = page.strip().splitlines()
        title = scrub(lines[0].lstrip("#").strip())[:_MOST_TITLE].strip() if lines else ""
        return cls(title, harmless("\n".join(lines[1:]), scrub)) if title else None


class Mark(Struct, frozen=True):
    """An invisible last line of a comment. `about`: the report, or the id of what the comment answers."""

    run: str
    about: str = "report"

    @property
    def line(self) -> str:
        return f"<!-- git-swarm {self.run} {self.about} -->"

    def under(self, text: str) -> str:
        return f"{text}\n\n{self.line}"

    def found_in(self, remarks: Iterable[Remark]) -> Remark | None:
        """The first that ends with it; what quotes it does not."""
        return next((each for each in remarks if last_line(each.text) == self.line), None)


def last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].rstrip("\r")


def is_ours(remark: Remark, run: str) -> bool:
    """Whether a remark says that git-swarm made it for this run."""
    return last_line(remark.text).startswith(f"<!-- git-swarm {run} ")
