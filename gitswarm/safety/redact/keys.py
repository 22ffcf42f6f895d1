"""Blocks of keys and signed tokens: what is known by its form, and not by letters of a provider."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time

from gitswarm.safety.redact.plausible import is_placeholder
from gitswarm.safety.redact.rule import Rule, begins, shaped

_BODY = r"[A-Za-z0-9_-]"
_KEY_NAME = r"(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_BETWEEN = r"""(?:\\{1,2}[nr]|[\s"',])*"""
_KEY_LINES = rf"(?:{_BETWEEN}[A-Z][A-Za-z-]{{2,30}}: [^\n\\]{{1,200}}){{0,6}}(?:{_BETWEEN}[A-Za-z0-9+/=]{{16,}})+"
# Without its end, only what looks like lines of a key belongs to it: texts mention how a key begins.
_PRIVATE_KEY = f"-----BEGIN {_KEY_NAME}(?:(?:[^-]|-(?!----)){{1,20000}}-----END {_KEY_NAME}|{_KEY_LINES})"
# Of a key with colour codes at its begin only that was read; the rest belongs to it.
_WRAP = r"(?:\\{1,2}[nr]|[\r\n\t])*"
_REST_OF_KEY = (
    rf"\[REDACTED:private-key\][A-Za-z0-9+/=]{{0,63}}(?:{_WRAP}[A-Za-z0-9+/=]{{16,}})+"
    rf"(?:(?:{_WRAP}[A-Za-z0-9+/=]{{1,15}})?{_WRAP}-----END {_KEY_NAME})?"
)
_LEAST_KEY = 64
"""Letters of base64 in the shortest key (Ed25519 in PKCS #8); fewer are a placeholder."""

_JWT = begins("eyJ") + rf"{_BODY}{{8,}}\.{_BODY}{{8,}}={{0,2}}(?:\.[A-Za-z0-9_=-]*)?"
_JWT_IO = b"a-string-secret-at-least-256-bits-long"
_EXAMPLE_KEYS = (b"", b"secret", b"key", b"hello", b"test", b"your-256-bit-secret", _JWT_IO)
"""What tokens of documentation are signed with: everybody can sign such a token."""

_DIGESTS = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}
_SOMEBODY = re.compile(
    r"sub|iss|aud|jti|azp|iat|email|scopes?|roles?|(?:user|client|tenant|account|org).*|uid|sid", re.IGNORECASE
)


def letters_of_key(block: str) -> str:
    """The base64 of a key, whatever its lines look like."""
    inner = re.sub(r"-----[A-Z0-9 ]*-----|[A-Z][A-Za-z-]{2,30}: [^\n\\]{1,200}|\\+[nrt]", "\n", block)
    return re.sub(r"[^A-Za-z0-9]", "", inner)


def _is_key(match: re.Match[str]) -> bool:
    return len(letters_of_key(match[0])) >= _LEAST_KEY


def _is_token(match: re.Match[str]) -> bool:
    return not is_placeholder(match[0])


def _opens_something(match: re.Match[str]) -> bool:
    """Not a token that everybody could have signed, that has expired, or that speaks of nobody."""
    head, _dot, rest = match[0].partition(".")
    body, _dot, signature = rest.partition(".")
    said, about = _said(head), _said(body)
    if said is None or about is None:
        return True  # encrypted, or compressed
    expiry = about.get("exp")
    is_over = isinstance(expiry, (int, float)) and expiry < time.time()
    return not is_over and any(map(_SOMEBODY.fullmatch, about)) and not _is_example(said, head, body, signature)


def _is_example(said: dict[str, object], head: str, body: str, signature: str) -> bool:
    if said.get("alg") == "none" or not signature:
        return True
    digest = _DIGESTS.get(str(said.get("alg")))
    signed = f"{head}.{body}".encode()
    made = (hmac.new(key, signed, digest).digest() for key in _EXAMPLE_KEYS) if digest else ()
    return any(base64.urlsafe_b64encode(one).decode().rstrip("=") == signature.rstrip("=") for one in made)


def _said(part: str) -> dict[str, object] | None:
    bare = part.rstrip("=")
    try:
        found = json.loads(base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4)))
    except (binascii.Error, ValueError):
        return None
    return found if isinstance(found, dict) else None


KEYS: tuple[Rule, ...] = (
    shaped("private-key", "PRIVATE", _PRIVATE_KEY, back=80, accept_in_code=_is_key),
    shaped("private-key", "[REDACTED:private-key]", _REST_OF_KEY),
    shaped("putty-key", "PuTTY-User-Key-File-", r"PuTTY-User-Key-File-\d(?:[^\n]*\n){1,60}?Private-MAC: ?[0-9a-f]+"),
    Rule("jwt", ("eyJ",), lambda: (re.compile(_JWT),), accept=_is_token, accept_in_code=_opens_something),
)
"""Expressions of Python: each looks around itself, and reads what it found once."""
