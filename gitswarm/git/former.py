"""Whether a value stands in a tree already, however its lines are broken, indented or quoted there."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence

from gitswarm.git.objects import Objects
from gitswarm.git.process import Git

_CODE = (":(top)", ":(exclude,top,glob)[.]swarm/runs/**")
_JOINT = re.compile(r"""["'`]\s*[+\\,]?\s*[bBrRuU]{0,2}["'`]""")
"""Between two literals that are one string."""

_ESCAPE = re.compile(r"\\+[nrt]")
_LABEL = re.compile(r"-----(?:BEGIN|END)[A-Z0-9 ]*-----")
_RUN = re.compile(r"[A-Za-z0-9]+")
_ENOUGH = 16
"""So many letters and digits in a row are no accident."""


class Former:
    """Trees that hold what is not new. Nothing is read before it is asked."""

    def __init__(self, git: Git, objects: Objects, trees: Sequence[str]) -> None:
        self._git, self._objects, self._trees = git, objects, tuple(dict.fromkeys(trees))

    def held(self, values: Collection[str]) -> set[str]:
        """Those of the values that stand in a file of the trees, or in the name of one."""
        left = {value: _letters(value) for value in values}
        found: set[str] = set()
        for text in self._texts({needle for value in values for needle in _needles(value)}):
            letters = _letters(text)
            found |= {
                value for value, own in left.items() if value in text or (len(own) >= _ENOUGH and own in letters)
            }
            left = {value: own for value, own in left.items() if value not in found}
            if not left:
                break
        return found

    def _texts(self, needles: Collection[str]) -> Iterator[str]:
        """The files that may hold something; git looks for them, in parallel."""
        listed = "\n".join(sorted(needles)).encode("utf-8", "surrogateescape")
        if not needles or not self._trees:
            return
        grep = ("grep", "-l", "-z", "-a", "-F", "--full-name", "-f", "-", *self._trees, "--", *_CODE)
        for name in self._git.run(*grep, stdin=listed).stdout.split(b"\0"):
            tree, _colon, path = os.fsdecode(name).partition(":")
            content = self._objects.file(tree, path) if path else None
            if content is not None:
                yield content.decode("utf-8", errors="replace")
        for tree in self._trees:
            yield os.fsdecode(self._git.output("ls-tree", "-r", "-z", "--name-only", tree))


def _needles(value: str) -> list[str]:
    """Pieces of a value that no break of a line divides, in at least one of its files."""
    runs = sorted(_RUN.findall(_LABEL.sub(" ", _ESCAPE.sub(" ", value))), key=len, reverse=True)
    if not runs or len(runs[0]) < 4:
        return [value] if "\n" not in value else []
    ends = (piece for run in runs[:4] for piece in (run[:12], run[-12:]))
    return [*dict.fromkeys(piece for piece in ends if len(piece) >= min(4, len(runs[0])))]


def _letters(text: str) -> str:
    """Letters and digits alone: what stays of a key when it is moved, wrapped anew or put into a string."""
    return "".join(_RUN.findall(_JOINT.sub("", _ESCAPE.sub("\n", _LABEL.sub("\n", text)))))
