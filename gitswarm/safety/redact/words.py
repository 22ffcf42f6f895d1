"""Whether a value is made of words, as names are, or of dice, as secrets are."""

from __future__ import annotations

import base64
import binascii
import re
from itertools import pairwise

_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""`PasswordResetV2` is `Password`, `Reset`, `V`, `2`."""

_SPLIT = re.compile(r"\d[a-z]")
"""In names, a number ends a word."""

_PART = re.compile(r"[A-Za-z]+\d{0,4}|\d{1,4}")
_SEPARATOR = re.compile(r"[-_./: ]")

_FOLLOW = (
    "abcdgilmnprst baeil caehiklort daeio eacdefglmnoprstvx fafio ger haeio iabcdefglmnoprstvz ke laeilosuy "
    "maeiop nacdefgiost ocdglmnoprstuw paeiloprty qu racdeimorst sacehiopstu taehiorstuy ublmnrst vaei waei yp "
    "ze"
)
_PAIRS = frozenset(each[0] + second for each in _FOLLOW.split() for second in each[1:])
"""The 164 pairs of letters that are four fifths of all in the words of code; of random letters they are a fourth."""

_PRETENDED = re.compile(
    r"(?:(?:my|some|a|the)[-_ ]?)?(?:test|dummy|example|sample|fake|mock|stub|changeme|placeholder|foobar)",
    re.IGNORECASE,
)
_LEET = str.maketrans("013457@$", "oieastas")
_GUESSED = re.compile(r"password|passwd|passwort|secret|letmein|qwerty|welcome|admin")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")


def is_name(value: str) -> bool:
    """Whether it is built as names are: of pieces that are long for words of dice, or parts as `sha256_v2`."""
    pieces = _PIECE.findall(value)
    words = [piece for piece in pieces if not piece.isdigit()]
    letters = sum(map(len, words))
    if not words or letters < sum(map(len, pieces)) * 0.5:
        return False
    parts = _SEPARATOR.split(value)
    is_parts = len(parts) > 1 and all(_PART.fullmatch(part) for part in parts) and len(pieces) <= 2.5 * len(parts)
    is_long = letters >= 3 * len(words) and _read(words) >= 0.4
    return is_long or (is_parts and letters >= 2 * len(words) and not _is_mixed(value))


def is_words(value: str) -> bool:
    """As `is_name`, and at least two pieces of it can be read: what may stay in a text."""
    pieces = _PIECE.findall(value)
    # Not `XSRF`, which nobody can read.
    words = [
        piece for piece in pieces if len(piece) > 2 and piece.isalpha() and not (piece.isupper() and len(piece) < 5)
    ]
    letters = sum(letter.isalpha() for letter in value)
    is_readable = len(words) > 1 and _read(words) >= 0.6 and sum(map(len, words)) >= 0.6 * letters
    is_split = _SPLIT.search(value) is not None or (len(value) - letters) * 3 > len(value)
    return is_readable and not is_split and is_name(value)


def _read(words: list[str]) -> float:
    """How many of the pairs of letters are those of words, from 0 to 1; a fourth for random letters."""
    pairs = [first + second for word in words for first, second in pairwise(word.lower())]
    return sum(pair in _PAIRS for pair in pairs) / max(1, len(pairs))


def is_pretended(value: str) -> bool:
    """`testpassword123`, `dummy-secret`: it says itself that it is none."""
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
    return any(
        not (part.islower() or part.isupper() or part.istitle() or part.isdigit()) for part in _SEPARATOR.split(value)
    )
