"""Where the secrets in a text are, also behind colour codes, `%41` and base64; positions lead back to the text as it
stands.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

import re2
from msgspec import Struct

from gitswarm.records.lazy_re import lazy_re
from gitswarm.safety.redact.plausible import is_placeholder, is_random
from gitswarm.safety.redact.rule import Rule, Shape, Shapes, Span, any_of, in_ascii, linear, options

ESCAPE_SIGNS = ("\x1b", "\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "\\e[")
_COLOUR = r"\[[0-9;:?]*[A-Za-z]"
_ESCAPE = (
    rf"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033)(?:{_COLOUR}|\][^\x07\x1b\\\n]{{0,300}}(?:\x07|\x1b\\)?|[()][A-Z0-9])"
    rf"|\\e{_COLOUR}"
)
_PERCENT = r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*"
_NEAR = 400
_LINE = 300
"""A decoded view holds what stands near something to decode: from the begin of its line, or this much before it."""

_RUN = r"[A-Za-z0-9+/_-]{16,}={0,2}"
_WRAP = lazy_re(r"\\r\\n|\\n|\r?\n")
_LAST_LINE = lazy_re(r"[A-Za-z0-9+/]{1,15}={0,2}")
_WRAPPED_AT = 40  # shorter lines are no base64 that was wrapped, but one token each
_NOT_ASCII = bytes(range(128, 256))
_URL_ALPHABET = bytes.maketrans(b"-_", b"+/")
GAP = "\n\0\n"
_LONGEST_RUN = 400_000

_SHORTEST_TOKEN, _LONGEST_TOKEN = 32, 100
"""Longer ones are pictures, certificates and scripts in one line."""

_HARMLESS_BEFORE = lazy_re(
    r"(?:sha\d{1,3}[-:=]|h\d:|md5[-:=]|base64,|ssh-\w{3,12} |(?:integrity|checksum|digest|hash|fingerprint)\W{1,4}"
    r"|IkpvaG4gRG9lI[\w-]{20,60}\.)$",
    re.IGNORECASE,
)
_HARMLESS = lazy_re(
    r"(?:eyJhbGciOi|AAAA[BCE]3NzaC1|AAAAE2VjZHNh|toolu_|msg_|req_|call_|chatcmpl-|resp_|sha\d{1,3}-|iVBORw0KGgo|R0lGOD|/9j/|MI[IG])"
)
_BLOB = lazy_re(r"[A-Za-z0-9+/]{40,}={0,2}$")


Range = tuple[int, int]
"""Where something begins and ends."""


class Piece(Struct, frozen=True):
    """A part of a view, from `position` on: of the text from `origin` to `end`; letter by letter, or as a `whole`."""

    position: int
    origin: int
    end: int
    whole: bool


class View:
    """Another reading of a text, written piece by piece."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.pieces: list[Piece] = []

    def add(self, part: str, origin: int, end: int, *, whole: bool) -> None:
        if part:
            self._parts.append(part)
            self.pieces.append(Piece(self._length, origin, end, whole))
            self._length += len(part)

    @cached_property
    def text(self) -> str:
        return "".join(self._parts)

    def start(self, position: int) -> int:
        """Where a position comes from in the text."""
        piece = self._piece(position)
        return piece.origin if piece.whole else piece.origin + position - piece.position

    def end(self, position: int) -> int:
        """Where what ends before `position` ends in the text."""
        piece = self._piece(position - 1)
        return piece.end if piece.whole else piece.origin + position - piece.position

    def _piece(self, position: int) -> Piece:
        return self.pieces[max(0, bisect_right(self.pieces, position, key=lambda piece: piece.position) - 1)]


def _spans_of(pattern: str, raw: bytes) -> list[Range]:
    return [match.span() for match in linear(pattern).finditer(raw)]


def runs_of(raw: bytes) -> list[Range]:
    """Where at least 16 letters of base64 stand together, with the `=` behind them.

    :param raw: the text in ASCII, letter by letter.
    """
    return _spans_of(_RUN, raw)


def views(text: str, raw: bytes, runs: Sequence[Range]) -> Iterator[View]:
    """Every other reading of a text; none for most texts.

    :param runs: see `runs_of`.
    """
    if any(sign in text for sign in ESCAPE_SIGNS) and (codes := _spans_of(_ESCAPE, raw)):
        # A code may stand in the middle of a secret, or before its first letter.
        yield _rewritten(text, codes, lambda _code: "")
        yield _rewritten(text, codes, lambda _code: " ")
    if "%" in text and (quoted := _spans_of(_PERCENT, raw)):
        yield _rewritten(text, quoted, _unquoted)
    yield from _decoded(text, raw, runs)


def _unquoted(quoted: str) -> str:
    return bytes.fromhex(quoted.replace("%", "")).decode("latin-1")


def _rewritten(text: str, ranges: Sequence[Range], become: Callable[[str], str]) -> View:
    """The lines in which these ranges lie, with something else in them."""
    view = View()
    done: int | None = None
    for start, end in ranges:
        if done is None or start > done + _NEAR:
            _add_rest(view, text, done)
            done = max(done or 0, _begin_of_line(text, start))
            view.add(GAP, done, done, whole=True)
        view.add(text[done:start], done, start, whole=False)
        view.add(become(text[start:end]), start, end, whole=True)
        done = end
    _add_rest(view, text, done)
    return view


def _add_rest(view: View, text: str, done: int | None) -> None:
    """What stands behind the last match of some lines that belong together."""
    if done is not None:
        end = min(len(text), done + _NEAR)
        view.add(text[done:end], done, end, whole=False)


def _begin_of_line(text: str, position: int) -> int:
    start = max(0, position - _LINE)
    return max(text.rfind("\n", start, position) + 1, start)


def _decoded(text: str, raw: bytes, runs: Sequence[Range]) -> Iterator[View]:
    """What runs of base64 hold, one behind the other. Where a run begins is not known when a path or a name stands
    before it: each of the four ways to read it counts."""
    view = View()
    for start, end in _unwrapped(text, runs):
        run = raw[start:end] if end - start < _LONGEST_RUN else b""
        if b"\n" in run or b"\\" in run:
            run = _WRAP.sub("", text[start:end]).encode()
        run = run.translate(_URL_ALPHABET)
        # Hashes, paths and names in small letters: a text in base64 has capitals.
        for shift in range(4) if not run.islower() else ():
            plain = _plain(run[shift:])
            if plain is not None:
                view.add(plain + GAP, start, end, whole=True)
    if view.pieces:
        yield view


def _unwrapped(text: str, runs: Sequence[Range]) -> Iterator[Range]:
    """The runs; lines that were one before they were wrapped as one."""
    start = end = width = 0
    for begin, stop in runs:
        wrap = _WRAP.match(text, end) if end - start >= _WRAPPED_AT and begin - end <= 4 else None
        if wrap is not None and wrap.end() == begin and stop - begin <= width:
            end = stop
            continue
        if end:
            yield start, _with_last_line(text, start, end)
        start, end, width = begin, stop, stop - begin
    if end:
        yield start, _with_last_line(text, start, end)


def _with_last_line(text: str, start: int, end: int) -> int:
    """The last line of wrapped base64 may be short."""
    wrap = _WRAP.match(text, end) if end - start >= _WRAPPED_AT else None
    last = _LAST_LINE.match(text, wrap.end()) if wrap else None
    is_whole = last is not None and (
        last.end() == len(text) or not (text[last.end()].isalnum() or text[last.end()] == " ")
    )
    return last.end() if last is not None and is_whole else end


def _plain(run: bytes) -> str | None:
    """What a run holds, if that is text for the most part."""
    bare = run.rstrip(b"=")
    try:
        held = binascii.a2b_base64(bare + b"=" * (-len(bare) % 4))
    except (binascii.Error, ValueError):
        return None
    ascii_bytes = len(held.translate(None, _NOT_ASCII))
    return held.decode("latin-1") if ascii_bytes * 4 >= len(held) * 3 and len(held) >= 8 else None


@lru_cache(maxsize=4)
def _keyword_set(keywords: tuple[tuple[str, ...], ...]) -> re2.Set:
    """Compiled once per process: most runs have the same."""
    found = re2.Set.SearchSet(options())
    for words in keywords:
        found.Add(any_of(words, folds=True))
    found.Compile()
    return found


class Finder:
    """Applies rules to a text and to every other reading of it. Linear in the length of the text."""

    def __init__(self, rules: Sequence[Rule], shapes: Shapes) -> None:
        self._always = [rule for rule in rules if not rule.keywords]
        self._shapes = shapes
        self._seen: list[Rule | Shape] = [*(rule for rule in rules if rule.keywords), *shapes.rules]
        self._keywords = _keyword_set(tuple(rule.keywords for rule in self._seen))

    def in_text(self, text: str) -> list[Span]:
        """The spans in order and without overlaps; what random letters look like counts too."""
        raw = in_ascii(text)
        runs = runs_of(raw)
        known = _merged(list(self._spans(text, raw, runs, is_code=False)))
        # A token that looks random because of a secret in it, as the path of a file, is looked at again without it.
        return _merged([*known, *_apart_from(known, _random_tokens(text, runs))])

    def in_code(self, text: str) -> list[Span]:
        """As `in_text`, but only what is no accident in code."""
        raw = in_ascii(text)
        return _merged(list(self._spans(text, raw, runs_of(raw), is_code=True)))

    def _spans(self, text: str, raw: bytes, runs: Sequence[Range], *, is_code: bool) -> Iterator[Span]:
        yield from self._direct(text, raw, is_code=is_code)
        for view in views(text, raw, runs):
            for span in self._direct(view.text, in_ascii(view.text), is_code=is_code):
                # What lies on both sides of a gap does not belong together.
                gap = view.text.find(GAP, span.start, span.end)
                start, end = view.start(span.start), view.end(span.end if gap < 0 else gap)
                if start < end:
                    yield Span(start, end, span.kind)

    def _direct(self, text: str, raw: bytes, *, is_code: bool) -> Iterator[Span]:
        # Most rules are out because none of their words occurs: all of them are looked for at once.
        seen = [self._seen[number] for number in sorted(self._keywords.Match(raw) or ())]
        for rule in (*self._always, *(rule for rule in seen if isinstance(rule, Rule))):
            yield from rule.spans(text, raw, is_code=is_code)
        yield from self._shapes.spans(text, raw, [rule for rule in seen if isinstance(rule, Shape)])


def _apart_from(known: Sequence[Span], spans: Iterable[Span]) -> Iterator[Span]:
    """The spans that overlap none of the known ones, which are in order."""
    ends = [span.end for span in known]
    for span in spans:
        index = bisect_right(ends, span.start)
        if index == len(known) or known[index].start >= span.end:
            yield span


def _merged(spans: list[Span]) -> list[Span]:
    """Overlapping ones become one; it has the kind of the longest."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
            continue
        longest = max(last, span, key=lambda one: one.end - one.start)
        merged[-1] = Span(last.start, max(last.end, span.end), longest.kind)
    return merged


def _random_tokens(text: str, runs: Iterable[Range]) -> Iterator[Span]:
    for start, stop in runs:
        if stop - start >= _SHORTEST_TOKEN:
            core = len(text[start:stop].rstrip("="))
            following = text[stop : stop + 1]  # `=` before a name is no padding
            end = max(start + core, stop - 1) if following.isascii() and following.isalnum() else stop
            if core >= _SHORTEST_TOKEN and end - start <= _LONGEST_TOKEN and not _is_harmless(text, start, end):
                yield Span(start, end, "entropy")


def _is_harmless(text: str, start: int, end: int) -> bool:
    token = text[start:end]
    if not is_random(token) or _HARMLESS.match(token) or is_placeholder(token) or _is_path(token):
        return True
    before = text[max(0, start - 80) : start]
    return _HARMLESS_BEFORE.search(before) is not None or _is_part_of_blob(text, start, end)


def _is_path(token: str) -> bool:
    """Whether its parts are names: of a file, or words with hyphens; a random token has slashes by chance."""
    parts = [part for part in re.split(r"[/_-]", token.rstrip("=")) if part]
    return len(parts) > 1 and all(len(part) < 20 or not is_random(part) for part in parts) and "/" in token


def _is_part_of_blob(text: str, begin: int, stop: int) -> bool:
    """Whether it is one of several lines of base64: a certificate, a picture, a mail."""
    start, end = text.rfind("\n", 0, begin) + 1, text.find("\n", stop)
    if text[start:begin].strip():
        return False
    following = text[end + 1 : end + 200].split("\n", 1)[0].strip() if end >= 0 else ""
    preceding = text[max(0, start - 200) : max(0, start - 1)].rsplit("\n", 1)[-1].strip()
    return any(_BLOB.match(line) for line in (following, preceding))
