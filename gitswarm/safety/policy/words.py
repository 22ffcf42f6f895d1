"""Quoting, expansion and splitting of shell words, from the text that stands in the command line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gitswarm.safety.policy.values import UNKNOWN, Word

MOST_WORDS = 256
MOST_BRACES = 16
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_CODE = re.compile(r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)", re.DOTALL)
_SEQUENCE = re.compile(r"(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])(?:\.\.(-?\d+))?")
_STARTS_EXPANSION = re.compile(r"[A-Za-z0-9_({@*#?$!-]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word. `word`: the value of an expansion; else `text` is literal, one letter when not quoted."""

    text: str = ""
    quoted: bool = False
    word: Word | None = None


@dataclass(frozen=True, slots=True)
class Expansion:
    """A `$…`, backquotes or a process substitution in a word: byte offsets in the source, and its value."""

    end: int
    value: Word


@dataclass(frozen=True, slots=True)
class Reading:
    """How words are read. `expansions` by the offset where they begin; `splits`: IFS is the usual one."""

    source: bytes
    expansions: Mapping[int, Expansion]
    home: Word
    splits: bool = True


def read_word(reading: Reading, start: int, end: int) -> list[Word]:
    """The arguments that the bytes from `start` to `end` become: none, one, or many."""
    pieces = list(_pieces(reading, start, end))
    expands = any(piece.word is not None and not piece.quoted for piece in pieces)
    if expands and any(piece.text == "$" and not piece.quoted for piece in pieces):
        return [UNKNOWN]  # bash 5.2 does not split `$X$`
    braces = sum(piece.text == "{" and not piece.quoted for piece in pieces)
    if braces > MOST_BRACES:
        return [UNKNOWN]
    if not braces:
        return _joined(_home(pieces, reading.home), splits=reading.splits)
    spread = list(itertools.islice(_braces(pieces), MOST_WORDS + 1))
    # `$X{a,b}` is `$Xa $Xb` to bash: braces come before variables.
    if (expands and len(spread) > 1) or len(spread) > MOST_WORDS:
        return [UNKNOWN]
    return [word for each in spread for word in _joined(_home(each, reading.home), splits=reading.splits)]


def read_value(reading: Reading, start: int, end: int) -> Word:
    """The value of an assignment: neither split nor globbed."""
    pieces = [
        Piece(piece.text, quoted=True) if piece.word is None and piece.text != "~" else piece
        for piece in _pieces(reading, start, end)
    ]
    whole = [Piece(quoted=True), *_home(pieces, reading.home)]
    quoted = [Piece(piece.text, quoted=True, word=piece.word) for piece in whole]
    return _joined(quoted, splits=True)[0]


def _pieces(reading: Reading, start: int, end: int) -> Iterator[Piece]:
    at, in_double = start, False
    while at < end:
        found = reading.expansions.get(at)
        if found is not None:
            yield Piece(quoted=in_double, word=found.value)
            at = found.end
            continue
        at, piece, toggles = _piece(reading.source, at, end, in_double=in_double)
        in_double ^= toggles
        if piece is not None:
            yield piece


def _piece(source: bytes, at: int, end: int, *, in_double: bool) -> tuple[int, Piece | None, bool]:
    """The piece that begins at `at`: where it ends, what it is, whether it is a double quote."""
    letter = source[at : at + 1]
    after = source[at + 1 : min(at + 2, end)]
    if letter == b"\\":
        return (*_escaped(source, at, after, in_double=in_double), False)
    if letter == b'"':
        return at + 1, Piece(quoted=True), True
    if not in_double and (letter == b"'" or (letter == b"$" and after in (b"'", b'"'))):
        return (*_single(source, at, end), False)
    if letter == b"`" or (letter == b"$" and _STARTS_EXPANSION.match(_text(after))):
        return at + 1, Piece(quoted=in_double, word=UNKNOWN), False  # nobody said what it expands to
    width = _width(source, at)
    return at + width, Piece(_text(source[at : at + width]), quoted=in_double), False


def _escaped(source: bytes, at: int, after: bytes, *, in_double: bool) -> tuple[int, Piece | None]:
    if after == b"\n":
        return at + 2, None
    if in_double and after not in b'$`"\\':
        return at + 1, Piece("\\", quoted=True)
    width = _width(source, at + 1)
    return at + 1 + width, Piece(_text(source[at + 1 : at + 1 + width]), quoted=True)


def _single(source: bytes, at: int, end: int) -> tuple[int, Piece | None]:
    """`'…'` and `$'…'`; of `$"…"` the dollar sign, which means nothing."""
    if source[at : at + 2] == b'$"':
        return at + 1, None
    if source[at : at + 1] == b"$":
        close, text = _ansi(source, at + 2, end)
        return close, Piece(text, quoted=True)
    close = source.find(b"'", at + 1, end)
    close = end if close < 0 else close
    return close + 1, Piece(_text(source[at + 1 : close]), quoted=True)


def _width(source: bytes, at: int) -> int:
    """Bytes of the UTF-8 character at `at`."""
    first = source[at] if at < len(source) else 0
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _ansi(source: bytes, at: int, end: int) -> tuple[int, str]:
    r"""`$'…'` from behind its quote: the offset behind it, and what it means."""
    close = at
    while close < end and source[close : close + 1] != b"'":
        close += 2 if source[close : close + 1] == b"\\" else 1
    return close + 1, unescaped(_text(source[at:close]))


def unescaped(text: str) -> str:
    r"""`\n`, `\x41`, `\101`, `\u0041` as bash and printf mean them. What follows a NUL is lost, as in bash."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            out.append(text[at])
            at += 1
            continue
        code = _CODE.match(text, at + 1)
        if code is None:
            out.append(_ESCAPES.get(text[at + 1], f"\\{text[at + 1]}"))
            at += 2
            continue
        out.append(_coded(code))
        if out[-1] == "\0":
            return "".join(out[:-1])
        at = code.end()
    return "".join(out)


def _coded(code: re.Match[str]) -> str:
    if code[5]:
        return chr(ord(code[5].upper()) ^ 64) if ord(code[5]) < 128 else "\ufffd"
    number = int(code[4], 8) & 255 if code[4] else int(code[1] or code[2] or code[3], 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"


def _home(pieces: Sequence[Piece], home: Word) -> list[Piece]:
    """`~` and `~/…` at the beginning; of another user's home only that it lies elsewhere."""
    pieces = list(pieces)
    if not pieces or pieces[0].quoted or pieces[0].text != "~":
        return pieces
    if len(pieces) == 1 or (pieces[1].text == "/" and pieces[1].word is None):
        return [Piece(quoted=True, word=home), *pieces[1:]]
    return [Piece(quoted=True, word=Word("/home/*", pattern=True)), *pieces[1:]]


def _joined(pieces: Sequence[Piece], *, splits: bool) -> list[Word]:
    """Words out of pieces: unquoted values are split at blanks, what is empty and not quoted is no word."""
    words: list[Word] = []
    current = _Growing()
    for piece in pieces:
        if piece.word is None:
            current.add(piece.text, quoted=piece.quoted)
            continue
        text = piece.word.text
        if text is None or (not piece.quoted and not splits and not text.isalnum()):
            current.lose(piece.word.start)
            continue
        current.pattern |= piece.word.pattern
        for part in [text] if piece.quoted else re.split(r"([ \t\n]+)", text):
            if piece.quoted or part.strip(" \t\n"):
                current.add(part, quoted=piece.quoted)
            elif part:
                words += current.done()
                current = _Growing()
    return words + current.done()


class _Growing:
    """A word while its parts are put together."""

    def __init__(self) -> None:
        self.pattern = False
        self._letters: list[str] = []
        self._alive = False
        self._open = ""
        self._lost: str | None = None

    def add(self, text: str, *, quoted: bool) -> None:
        self._alive |= quoted or bool(text)
        self._letters.append(text)
        if not quoted:
            self._open += "".join(sign for sign in text if sign in "*?[]")

    def lose(self, start: str) -> None:
        """What follows is not known but for its beginning."""
        if self._lost is None:
            self._lost = "".join(self._letters) + start

    def done(self) -> list[Word]:
        if self._lost is not None:
            return [Word(None, start=self._lost)]
        globs = "*" in self._open or "?" in self._open or ("[" in self._open.partition("]")[0] and "]" in self._open)
        return [Word("".join(self._letters), self.pattern or globs)] if self._alive else []


def _braces(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Brace expansion: `a{b,c}` and `{1..3}`; braces without comma or sequence stay. Where bash is odd about a mix
    of both, nothing is known.
    """
    for open_at, piece in enumerate(pieces):
        if piece.quoted or piece.text != "{":
            continue
        inner = _inner(pieces, open_at)
        alternatives = _alternatives(pieces, open_at, *inner) if inner is not None else None
        if inner is None or alternatives is None:
            if _might_expand(pieces[open_at:]):
                yield [*pieces[:open_at], Piece(word=UNKNOWN)]
                return
            continue
        close = inner[0]
        tails = list(itertools.islice(_braces(pieces[close + 1 :]), MOST_WORDS + 1))
        for alternative in alternatives:
            for middle in _braces(alternative):
                for tail in tails:
                    yield [*pieces[:open_at], *middle, *tail]
        return
    yield list(pieces)


def _might_expand(pieces: Sequence[Piece]) -> bool:
    signs = "".join("" if piece.quoted else piece.text for piece in pieces)
    return "," in signs or ".." in signs


def _inner(pieces: Sequence[Piece], open_at: int) -> tuple[int, list[int]] | None:
    """Where the brace is closed, and the commas at its own depth."""
    depth = 0
    commas: list[int] = []
    for at in range(open_at, len(pieces)):
        sign = "" if pieces[at].quoted else pieces[at].text
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return at, commas
        if sign == "," and depth == 1:
            commas.append(at)
    return None


def _alternatives(pieces: Sequence[Piece], open_at: int, close: int, commas: list[int]) -> list[list[Piece]] | None:
    if commas:
        borders = [open_at, *commas, close]
        return [list(pieces[one + 1 : other]) for one, other in itertools.pairwise(borders)]
    sequence = _SEQUENCE.fullmatch("".join(piece.text for piece in pieces[open_at + 1 : close]))
    if sequence is None:
        return None
    first, last, step = sequence[1], sequence[2], abs(int(sequence[3] or 1)) or 1
    if first.isalpha() != last.isalpha() or len(first) > 9 or len(last) > 9:
        return [[Piece(word=UNKNOWN)]]
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    numbers = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    if len(numbers) > MOST_WORDS:
        return [[Piece(word=Word("*", pattern=True))]]
    texts = [chr(number) if first.isalpha() else str(number) for number in numbers]
    return [[Piece(text, quoted=True)] for text in texts]
