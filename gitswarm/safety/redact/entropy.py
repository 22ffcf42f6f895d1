"""Secrets of no known shape: long tokens that look like dice. For texts only; in code they are too often none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitswarm.safety.redact.plausible import is_placeholder, is_random
from gitswarm.safety.redact.rule import Span

_TOKEN = re.compile(r"[A-Za-z0-9+/_-]{32,}(?:={1,2}(?![A-Za-z0-9]))?")
_LONGEST = 100
"""Longer ones are pictures, certificates and scripts in one line."""

_HARMLESS_BEFORE = re.compile(
    r"(?:sha\d{1,3}[-:=]|h\d:|md5[-:=]|base64,|ssh-\w{3,12} |(?:integrity|checksum|digest|hash|fingerprint)\W{1,4}"
    r"|IkpvaG4gRG9lI[\w-]{20,60}\.)$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(?:eyJhbGciOi|AAAA[BCE]3NzaC1|AAAAE2VjZHNh|toolu_|msg_|req_|call_|chatcmpl-|resp_|sha\d{1,3}-|iVBORw0KGgo|R0lGOD|/9j/|MI[IG])"
)
_BLOB = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}$")


def random_tokens(text: str) -> Iterator[Span]:
    for match in _TOKEN.finditer(text):
        if match.end() - match.start() <= _LONGEST and not _is_harmless(text, match):
            yield Span(match.start(), match.end(), "entropy")


def _is_harmless(text: str, match: re.Match[str]) -> bool:
    token = match[0]
    if not is_random(token) or _HARMLESS.match(token) or is_placeholder(token) or _is_path(token):
        return True
    before = text[max(0, match.start() - 80) : match.start()]
    return _HARMLESS_BEFORE.search(before) is not None or _is_part_of_blob(text, match)


def _is_path(token: str) -> bool:
    """Whether its parts are names: of a file, or words with hyphens; a random token has slashes by chance."""
    parts = [part for part in re.split(r"[/_-]", token.rstrip("=")) if part]
    return len(parts) > 1 and all(len(part) < 20 or not is_random(part) for part in parts) and "/" in token


def _is_part_of_blob(text: str, match: re.Match[str]) -> bool:
    """Whether it is one of several lines of base64: a certificate, a picture, a mail."""
    start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
    if text[start : match.start()].strip():
        return False
    following = text[end + 1 : end + 200].split("\n", 1)[0].strip() if end >= 0 else ""
    preceding = text[max(0, start - 200) : max(0, start - 1)].rsplit("\n", 1)[-1].strip()
    return any(_BLOB.match(line) for line in (following, preceding))
