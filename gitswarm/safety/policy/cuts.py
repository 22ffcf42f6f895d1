"""`${name%pattern}` and `${name#pattern}`: the ends of a value cut off."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from gitswarm.safety.policy.values import UNKNOWN, Word

CUTS = frozenset({"#", "##", "%", "%%"})
_PLAIN = re.compile(r"[\w./*?-]*")
_EXTENSION = re.compile(r"\.(?:\*|\w[\w.-]*)")
_LONGEST = 512


def cut(value: Word, sign: str, pattern: str) -> Word:
    """
    :param sign: one of CUTS.
    :param pattern: as it is written; quotes, classes and expansions in it are not followed.
    """
    text = value.text
    if text is None or len(text) > _LONGEST or not _PLAIN.fullmatch(pattern):
        return UNKNOWN
    if value.pattern:
        return _cut_name(text, sign, pattern)
    places = range(len(text) + 1)
    if sign.startswith("#"):
        ends = [at for at in places if fnmatchcase(text[:at], pattern)]
        return Word(text[ends[-1 if sign == "##" else 0] :]) if ends else value
    starts = [at for at in places if fnmatchcase(text[at:], pattern)]
    return Word(text[: starts[0 if sign == "%%" else -1]]) if starts else value


def _cut_name(text: str, sign: str, pattern: str) -> Word:
    """Of a name that is known as a pattern: its folder or its extension."""
    if sign == "##" and pattern == "*/":
        return Word(text.rpartition("/")[2] or "*", pattern=True)
    if sign != "%" or not _EXTENSION.fullmatch(pattern):
        return UNKNOWN
    folder, slash, name = text.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    known = dot and stem.strip(".") and not set("*?[]") & set(extension)
    fits = known and pattern in (".*", f".{extension}")
    return Word(f"{folder}{slash}{stem}" if fits else text, pattern=True)
