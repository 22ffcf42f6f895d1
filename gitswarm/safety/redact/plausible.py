"""Whether what stands where a secret may stand is one: not a reference to it, a placeholder or an ordinary word."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

from gitswarm.safety.redact.words import decoded, is_guessed, is_name, is_pretended, is_sequence

_SAID = (
    "true false yes no none null nil undefined default enabled disabled required optional string text password "
    "passwd secret token changeme change_me placeholder example sample dummy redacted hidden production development "
    "staging localhost keyring prompt input stdin ignore always never unknown invalid missing bearer basic"
)
_COMMON = frozenset(_SAID.split())
_PLACEHOLDER = re.compile(
    r"\[REDACTED:|\*{3}|\.{3}|…|x{4,}|X{4,}|<(?!\d)[^>]*>|\$\{|\$\(|\{\{|%\(|%s|\{\}"
    r"|EXAMPLE|[Yy]our[-_ ]|YOUR_|change[-_]?me|eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lI"
    r"|2YotnFZFEjr1zCsicMWpAA|tGzv3JOkF0XG5Qx2TlKWIA|mF_9\.B5f-4\.1JqM|czZCaGRSa3F0MzpnWDFmQmF0M2JW"
)
"""The last ones are the John Doe of jwt.io and the tokens of RFC 6749 and 6750."""

_REFERENCE = re.compile(
    r"""\$\w+ | @\w+ | %\w+%                                     # of a shell, a template
    | [A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+ | [A-Za-z_][\w.]*[(\[].*  # of a program
    | [a-z]+(?:[-_./:,][a-z]+)* | [A-Z]+(?:_[A-Z]+)* | [A-Z]?[a-z]+(?:[A-Z][a-z]+)* # names and words
    | [A-Z][a-z]+(?:[-_][A-Za-z][a-z]*)*
    | ~?\.{0,2}/.* | [A-Za-z]:\\.* | https?://[^@]*                # places
    | v?\d+(?:[.,:_-]\d+)* | 0x[0-9a-fA-F]{1,8} """,
    re.VERBOSE,
)
_DIGEST = re.compile(
    r"\$(?:2[abxy]?|5|6|1|apr1|y|7|gy|argon2(?:i|d|id)|scrypt|pbkdf2[\w-]*|bcrypt[\w-]*|md5)\$.* | \{S?SHA\d*\}.*"
    r"| (?:pbkdf2|bcrypt|argon2|scrypt|md5|sha1|crypt|unsalted)\w*\$.*"
    r"| (?:sha(?:1|224|256|384|512)|md5|h1|integrity)[-:=].* | run-\d{8}-\d{6}-[0-9a-f]{6} | \d{4}-\d\d-\d\d[T ].*",
    re.VERBOSE | re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s(){}\[\]<>\\,;|&\"'`]+")
"""Between the pieces of an expression, a template or a sentence."""
_CLASSES = (re.compile(r"[a-z]"), re.compile(r"[A-Z]"), re.compile(r"\d"), re.compile(r"[^A-Za-z0-9]"))


def is_common(value: str) -> bool:
    return value.lower() in _COMMON


def is_placeholder(value: str) -> bool:
    """Whether it only shows where a secret would stand, as in documentation."""
    return _PLACEHOLDER.search(value) is not None or len(set(value)) < 4


def is_plausible(value: str) -> bool:
    """For a value in a place that is called like a secret."""
    if len(value) < 6 or is_common(value) or is_placeholder(value) or is_pretended(value):
        return False
    # Where a page ends, in base64: what stands in it is looked at as well.
    is_json = value.startswith("eyJ") and (decoded(value) or "").startswith("{")
    return not is_json and _REFERENCE.fullmatch(value) is None and _DIGEST.fullmatch(value) is None


def is_chosen(value: str) -> bool:
    """Whether somebody made it up to be kept: 8 letters at least, no name, nothing that anybody would guess."""
    is_open = is_guessed(value) or is_sequence(value) or is_name(value) or not is_plausible(value)
    return len(value) >= 8 and not is_open


def is_strong(value: str) -> bool:
    """As `is_plausible`, for code: a piece of it is random, as nobody writes it for anything else."""
    return is_plausible(value) and any(_is_dice(piece) for piece in _BETWEEN.split(value))


def _is_dice(value: str) -> bool:
    kinds = sum(1 for letters in _CLASSES if letters.search(value))
    if len(value) < 12 or kinds < 3 or _changes(value) < 0.25 or entropy(value) < 2.8:
        return False
    if is_name(value) or is_guessed(value) or is_sequence(value) or _UUID.fullmatch(value) or not is_plausible(value):
        return False
    said = decoded(value)
    # `user:password`, of a header.
    return said is None or _is_dice(said) or any(_is_dice(piece) for piece in said.split(":")[1:])


def is_random(value: str) -> bool:
    """Whether a token of at least 32 letters is no name: letters and digits change as in dice, not as in words."""
    if sum(letter.isdigit() for letter in value) < 3 or not all(kind.search(value) for kind in _CLASSES[:3]):
        return False
    return _changes(value) >= 0.4 and entropy(value) >= 0.82 * math.log2(min(len(value), 64))


def _changes(value: str) -> float:
    """How often neighbours are of different classes, from 0 to 1; 0.62 for random letters and digits."""
    classes = ["a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else "-" for c in value]
    return sum(a != b for a, b in pairwise(classes)) / max(1, len(value) - 1)


def entropy(value: str) -> float:
    """Bits per letter (Shannon)."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())
