"""Whether what stands where a secret may stand is one: no reference, placeholder or word; random, if it is long."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from itertools import pairwise

from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import words

_PIECE = lazy_re(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""`PasswordResetV2` is `Password`, `Reset`, `V`, `2`."""

_SPLIT = lazy_re(r"\d[a-z]")
"""In names, a number ends a word."""

_PART = lazy_re(r"[A-Za-z]+\d{0,4}|\d{1,4}")
_SEPARATOR = lazy_re(r"[-_./: ]")

_FOLLOW = words("""
    abcdgilmnprst baeil caehiklort daeio eacdefglmnoprstvx fafio ger haeio iabcdefglmnoprstvz ke laeilosuy maeiop
    nacdefgiost ocdglmnoprstuw paeiloprty qu racdeimorst sacehiopstu taehiorstuy ublmnrst vaei waei yp ze
""")
_PAIRS = frozenset(each[0] + second for each in _FOLLOW for second in each[1:])
"""The 164 pairs of letters that are four fifths of all in the words of code; of random letters they are a fourth."""

_PRETENDED = lazy_re(
    r"(?:(?:my|some|a|the)[-_ ]?)?(?:test|dummy|example|sample|fake|mock|stub|changeme|placeholder|foobar)",
    re.IGNORECASE,
)
_LEET = str.maketrans("013457@$", "oieastas")
_GUESSED = lazy_re(r"password|passwd|passwort|secret|letmein|qwerty|welcome|admin")
_BASE64 = lazy_re(r"[A-Za-z0-9+/_-]{12,}={0,2}")

_COMMON = frozenset(
    words("""
    true false yes no none null nil undefined default enabled disabled required optional string text password
    passwd secret token changeme change_me placeholder example sample dummy redacted hidden production development
    staging localhost keyring prompt input stdin ignore always never unknown invalid missing bearer basic
""")
)
_PLACEHOLDER = lazy_re(
    r"\[REDACTED:|\*{3}|\.{3}|…|x{4,}|X{4,}|<(?!\d)[^>]*>|\$\{|\$\(|\{\{|%\(|%s|\{\}"
    r"|EXAMPLE|[Yy]our[-_ ]|YOUR_|change[-_]?me|eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lI"
    r"|2YotnFZFEjr1zCsicMWpAA|tGzv3JOkF0XG5Qx2TlKWIA|mF_9\.B5f-4\.1JqM|czZCaGRSa3F0MzpnWDFmQmF0M2JW"
)
"""The last ones are the John Doe of jwt.io and the tokens of RFC 6749 and 6750."""

_REFERENCE = lazy_re(
    r"""\$\w+ | @\w+ | %\w+%                                     # of a shell, a template
    | [A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+ | [A-Za-z_][\w.]*[(\[].*  # of a program
    | [a-z]+(?:[-_./:,][a-z]+)* | [A-Z]+(?:_[A-Z]+)* | [A-Z]?[a-z]+(?:[A-Z][a-z]+)* # names and words
    | [A-Z][a-z]+(?:[-_][A-Za-z][a-z]*)*
    | ~?\.{0,2}/.* | [A-Za-z]:\\.* | https?://[^@]*                # places
    | v?\d+(?:[.,:_-]\d+)* | 0x[0-9a-fA-F]{1,8} """,
    re.VERBOSE,
)
_DIGEST = lazy_re(
    r"\$(?:2[abxy]?|5|6|1|apr1|y|7|gy|argon2(?:i|d|id)|scrypt|pbkdf2[\w-]*|bcrypt[\w-]*|md5)\$.* | \{S?SHA\d*\}.*"
    r"| (?:pbkdf2|bcrypt|argon2|scrypt|md5|sha1|crypt|unsalted)\w*\$.*"
    r"| (?:sha(?:1|224|256|384|512)|md5|h1|integrity)[-:=].* | run-\d{8}-\d{6}-[0-9a-f]{6} | \d{4}-\d\d-\d\d[T ].*",
    re.VERBOSE | re.IGNORECASE,
)
_UUID = lazy_re(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BETWEEN = lazy_re(r"[\s(){}\[\]<>\\,;|&\"'`]+")
"""Between the pieces of an expression, a template or a sentence."""
_CLASSES = (lazy_re(r"[a-z]"), lazy_re(r"[A-Z]"), lazy_re(r"\d"), lazy_re(r"[^A-Za-z0-9]"))


def is_name(value: str) -> bool:
    """Whether a value is built as names are: of pieces that are long for words of dice, or parts as `sha256_v2`."""
    pieces = _PIECE.findall(value)
    read = [piece for piece in pieces if not piece.isdigit()]
    letters = sum(map(len, read))
    if not read or letters < sum(map(len, pieces)) * 0.5:
        return False
    parts = _SEPARATOR.split(value)
    is_parts = len(parts) > 1 and all(_PART.fullmatch(part) for part in parts) and len(pieces) <= 2.5 * len(parts)
    is_long = letters >= 3 * len(read) and _readability(read) >= 0.4
    return is_long or (is_parts and letters >= 2 * len(read) and not _is_mixed(value))


def is_words(value: str) -> bool:
    """Whether a value is a name of at least two pieces that can be read: what may stay in a text."""
    pieces = _PIECE.findall(value)
    # Not `XSRF`, which nobody can read.
    read = [each for each in pieces if len(each) > 2 and each.isalpha() and not (each.isupper() and len(each) < 5)]
    letters = sum(letter.isalpha() for letter in value)
    is_readable = len(read) > 1 and _readability(read) >= 0.6 and sum(map(len, read)) >= 0.6 * letters
    is_split = _SPLIT.search(value) is not None or (len(value) - letters) * 3 > len(value)
    return is_readable and not is_split and is_name(value)


def _readability(pieces: list[str]) -> float:
    """How many of the pairs of letters are those of words, from 0 to 1; a fourth for random letters."""
    pairs = [first + second for piece in pieces for first, second in pairwise(piece.lower())]
    return sum(pair in _PAIRS for pair in pairs) / max(1, len(pairs))


def is_pretended(value: str) -> bool:
    """Whether a value says itself that it is no secret: `testpassword123`, `dummy-secret`."""
    return _PRETENDED.match(value) is not None and is_name(value)


def is_guessed(value: str) -> bool:
    """`P@ssw0rd123!`: the first that anybody would try, and what tests log in with."""
    rest, count = _GUESSED.subn("", value.lower().translate(_LEET))
    return count > 0 and len(rest) < 8


def is_sequence(value: str) -> bool:
    """`abc123def456`, `1a2b3c4d`, an alphabet."""
    codes = [ord(letter) for letter in value]
    near = sum(second - first == 1 for first, second in pairwise(codes))
    next_but_one = sum(second - first == 1 for first, second in zip(codes, codes[2:], strict=False))
    return max(near, next_but_one) >= 0.5 * (len(codes) - 1)


def decoded(value: str) -> str | None:
    """What a value in base64 says, if that is text."""
    bare = value.rstrip("=")
    if _BASE64.fullmatch(value) is None or len(bare) % 4 == 1:
        return None
    try:
        text = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_" if set("-_") & set(bare) else None)
    except (binascii.Error, ValueError):
        return None
    return text.decode("ascii") if text.isascii() and text.decode("ascii").isprintable() else None


def _is_mixed(value: str) -> bool:
    """Whether small and capital letters stand in one part in another order than in names."""
    parts = _SEPARATOR.split(value)
    return not all(part.islower() or part.isupper() or part.istitle() or part.isdigit() for part in parts)


def is_common(value: str) -> bool:
    return value.lower() in _COMMON


def is_placeholder(value: str) -> bool:
    """Whether a value only shows where a secret would stand, as in documentation."""
    return _PLACEHOLDER.search(value) is not None or len(set(value)) < 4


def is_plausible(value: str) -> bool:
    """Whether the value of something that is named like a secret can be one."""
    if len(value) < 6 or is_common(value) or is_placeholder(value) or is_pretended(value):
        return False
    # Where a page ends, in base64: what stands in it is looked at as well.
    is_json = value.startswith("eyJ") and (decoded(value) or "").startswith("{")
    return not is_json and _REFERENCE.fullmatch(value) is None and _DIGEST.fullmatch(value) is None


def is_chosen(value: str) -> bool:
    """Whether somebody made a value up to be kept: 8 letters at least, no name, nothing that anybody would guess."""
    is_open = is_guessed(value) or is_sequence(value) or is_name(value) or not is_plausible(value)
    return len(value) >= 8 and not is_open


def is_strong(value: str) -> bool:
    """`is_plausible` for code: a piece of the value is random, as nobody writes it for anything else."""
    return is_plausible(value) and any(_is_dice(piece) for piece in _BETWEEN.split(value))


def _is_dice(value: str) -> bool:
    kinds = sum(1 for letters in _CLASSES if letters.search(value))
    if len(value) < 12 or kinds < 3 or _changes(value) < 0.25 or entropy(value) < 2.8:
        return False
    if is_name(value) or is_guessed(value) or is_sequence(value) or _UUID.fullmatch(value) or not is_plausible(value):
        return False
    plain = decoded(value)
    # `user:password`, of a header.
    return plain is None or _is_dice(plain) or any(_is_dice(piece) for piece in plain.split(":")[1:])


def is_random(value: str) -> bool:
    """Whether a token of at least 32 letters is no name: letters and digits change as in dice, not as in words."""
    if not all(kind.search(value) for kind in _CLASSES[:3]) or sum(map(str.isdigit, value)) < 3:
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
