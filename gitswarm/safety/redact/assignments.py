"""Secrets known by what stands before them (`password=…`, headers, URLs), blocks of keys and signed tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time

from gitswarm.records.lazy_re import lazy_re
from gitswarm.safety.redact.plausible import is_chosen, is_name, is_placeholder, is_plausible, is_strong, is_words
from gitswarm.safety.redact.rule import Rule

_QUOTE = r"""(?:\\{0,3}["'`])"""
_END_OF_NAME = rf"[\w.-]{{0,40}}{_QUOTE}?\]?"
_SIGN = r"[ \t]{0,4}(?:=>|:=|=(?!=)|:(?!:))[ \t]{0,4}"
_SAYS = rf"{_QUOTE}?\]?{_SIGN}"
_IS = rf"{_QUOTE}?\]?[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_QUOTE}?"
_LETTER = r"""[^\s"'`,;&|<>(){}\[\]\\]"""
# Not `a=1&b=2`, and not `a=1 && make`.
_BARE = rf"(?:{_LETTER}|&(?![&\s]|amp;|[\w.%\[\]-]{{1,40}}=|$)){{6,400}}(?![(\[{{])"
# To its closing quote; inside of one that is escaped, one that is escaped twice is a letter.
_FIRST = r"""(?![\s"'`,;:+(){}\[\]<>\\])"""
_QUOTED = r"""(?:(?!(?P=quote))(?:(?(escape)\\{2,3}["'`]|(?!))|\\[^\n]|[^\n\\])){6,400}(?=(?P=quote))"""
_OPENED = rf"(?P<quote>(?P<escape>\\{{1,3}})?[\"'`])(?={_FIRST}{_QUOTED})"
_VALUE = rf"(?:{_OPENED}|(?P<open>{_QUOTE})|(?<=[:=> \t]))(?P<value>(?(quote){_QUOTED}|{_BARE}))"
_CRUMB = r"""[^\s=;,"']{1,80}"""

_WORDS = "password passwd passphrase pwd secret token api_key apikey api-key access_key accesskey access-key"
_MORE_WORDS = "private_key privatekey auth_key authkey credential encryption_key signing_key account_key client_key"
_OPTIONS = "--password --token --secret --api-key --passphrase --pass -passwd"

_OF_A_PASSWORD = lazy_re(r"(?:password|passwd|passphrase|pwd)\d{0,2}$", re.IGNORECASE)
_OF_A_THING = lazy_re(
    r"(?:name|ref|reference|header|template|hashers?|url|uri|arn|class|type|path|file|field|prefix|suffix|label|env"
    r"|algorithm|regex|pattern|format|provider|store|endpoint|topic|alias|izer|source|validators?|policy|service)s?$",
    re.IGNORECASE,
)

# Hosts without a dot are those of a compose file; the others are reserved (RFC 2606, 6761).
_LOCAL_HOST = lazy_re(
    r"(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1\]|[a-z][\w-]*|[\w.-]*\.?example\.(?:com|org|net)"
    r"|[\w.-]*\.(?:example|test|invalid|localhost|local))(?:[^\w.-]|$)"
)
_TEMPLATE = lazy_re(r"[{}<>$%]")
_EXPRESSION = lazy_re(r"[\w$\[({]|\.\w")
"""What follows a value that was cut out of an expression of a program."""


def _is_value(match: re.Match[str]) -> bool:
    value = match["value"]
    groups = match.groupdict()
    if "open" in groups and not (groups["quote"] or groups["open"]) and _is_prose(match, value):
        return False
    name = groups.get("name")
    # Of a sentence in quotes, the first word counts, or one that is random.
    first = value.split(maxsplit=1)[0]
    is_meant = is_plausible(first) if name is None else is_secret_under(name, first)
    return is_meant or (first != value and is_strong(value))


def is_secret_under(name: str, value: str) -> bool:
    """Whether a value under this name is a secret, in a text: names of things are none, but may be passwords."""
    if not is_plausible(value):
        return False
    if _OF_A_THING.search(name):
        return is_strong(value) or not is_name(value)
    return _OF_A_PASSWORD.search(name) is not None or not is_words(value)


def _is_prose(match: re.Match[str], value: str) -> bool:
    """A label in a sentence (`the token: see …`) has a blank before its value and no quotes; a setting rarely."""
    return match.string[match.start("value") - 1].isspace() and not re.search(r"[0-9]|[^\w.-]", value)


def _is_strong_value(match: re.Match[str]) -> bool:
    if "name" in match.re.groupindex and _OF_A_THING.search(match["name"]):
        return False
    is_quoted = any(match.groupdict().get(name) for name in ("quote", "open"))
    return is_strong(match["value"]) and (is_quoted or not _EXPRESSION.match(match.string, match.end("value")))


def _is_password(match: re.Match[str]) -> bool:
    """Whether the password of a URL is one, and not a name for one."""
    value = match["value"]
    return not is_placeholder(value) and not value.startswith(("$", "%24"))


def _is_remote_password(match: re.Match[str]) -> bool:
    """In code, `postgres:postgres@localhost` is everybody's, and a short or guessed one an example."""
    rest, value = match.string[match.end() : match.end() + 100], match["value"]
    is_example = value == match["user"] or _TEMPLATE.search(value) or _LOCAL_HOST.match(rest)
    return not is_example and _is_password(match) and is_chosen(value)


def _behind_keyword(kind: str, keywords: str, pattern: str, *, in_code: bool = True) -> Rule:
    """What stands behind one of the keywords; in code only where it is strong."""
    return Rule(
        kind,
        tuple(keywords.split()),
        lazy_re(pattern, re.IGNORECASE),
        folds=True,
        accept=_is_value,
        accept_in_code=_is_strong_value if in_code else lambda _match: False,
    )


def _any_of(words: str) -> str:
    return f"(?:{'|'.join(re.escape(word) for word in words.split())})"


ASSIGNMENTS: tuple[Rule, ...] = (
    Rule(
        "url-password",
        ("://",),
        # Bounded: each of them is read once per `://`.
        lazy_re(r"://(?P<user>[^\s:/@\"'<>\\]{0,200}):(?P<value>[^\s/@\"'<>\\]{3,200})@"),
        accept=_is_password,
        accept_in_code=_is_remote_password,
    ),
    _behind_keyword(
        "authorization",
        "authorization",
        rf"authorization{_IS}(?:(?:bearer|basic|token|bot|apikey|digest)[ \t]+)?(?P<value>[\w.~+/=:-]{{8,}})",
    ),
    _behind_keyword("authorization", "bearer", r"bearer[ \t]+(?P<value>[\w.~+/=-]{16,})"),
    _behind_keyword(
        "cookie",
        "cookie",
        rf"cookie{_IS}(?P<value>{_CRUMB}=[^\s;,\"']{{12,4000}}(?:;[ \t]?{_CRUMB}=[^\s;,\"']{{1,4000}}){{0,40}})",
        in_code=False,
    ),
    Rule(
        "netrc-password",
        ("login",),
        lazy_re(
            r"(?:machine[ \t]+\S{1,200}|default)\s{1,20}login\s{1,20}\S{1,200}\s{1,20}"
            r"(?:password|passwd|account)\s{1,20}(?P<value>[^\s\"'\\]{3,200})",
            re.IGNORECASE,
        ),
        back=230,
        folds=True,
        accept=_is_password,
    ),
    _behind_keyword("npmrc-password", "_authtoken _auth _password", rf"_(?:authtoken|auth|password){_SIGN}{_VALUE}"),
    _behind_keyword(
        "docker-auth", "auth", rf"auth{_QUOTE}[ \t]{{0,4}}:[ \t]{{0,4}}{_QUOTE}(?P<value>[A-Za-z0-9+/]{{12,}}=*)"
    ),
    _behind_keyword("option-password", _OPTIONS, rf"{_any_of(_OPTIONS)}[ \t=]{{1,4}}{_VALUE}"),
    _behind_keyword(
        "option-password",
        "curl",
        r"curl[^\n|;]{0,200}?[ \t](?:-u|--user)[ \t=]{0,4}[\"']?[^\s:\"']{1,60}:(?P<value>[^\s\"'\\]{4,200})",
    ),
    _behind_keyword("option-password", "sshpass", r"sshpass[ \t]+-p[ \t]*[\"']?(?P<value>[^\s\"'\\]{4,200})"),
    _behind_keyword(
        "cloud-secret",
        "secret_access_key secret_accesskey secretaccess_key secretaccesskey session_token sessiontoken",
        rf"(?:secret_?access_?key|session_?token){_END_OF_NAME}{_SIGN}{_QUOTE}?(?P<value>[A-Za-z0-9+/=]{{16,2000}})",
    ),
    _behind_keyword("password", _WORDS, rf"(?P<name>{_any_of(_WORDS)}[\w.-]{{0,40}}){_SAYS}{_VALUE}"),
    _behind_keyword("password", _MORE_WORDS, rf"(?P<name>{_any_of(_MORE_WORDS)}[\w.-]{{0,40}}){_SAYS}{_VALUE}"),
)

_NAME = lazy_re(rf"{_any_of(f'{_WORDS} {_MORE_WORDS}')}(?:[-_]?\w{{0,20}})?$|^auth$|authorization$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether a key of JSON with this name may hold a secret."""
    return len(name) < 100 and _NAME.search(name) is not None


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
_PUTTY_KEY = r"PuTTY-User-Key-File-\d(?:[^\n]*\n){1,60}?Private-MAC: ?[0-9a-f]+"
_LEAST_KEY = 64
"""Letters of base64 in the shortest key (Ed25519 in PKCS #8); fewer are a placeholder."""

# With none of its letters before it: who starts in the middle of a run would scan the same run again and again. A
# letter behind a backslash is an escape of JSON, no letter. Literal text is first: `re` looks for that much faster.
_JWT = (
    rf"eyJ(?:(?<!{_BODY}eyJ)|(?<=\\[nrt]eyJ))"
    rf"{_BODY}{{8,}}\.{_BODY}{{8,}}={{0,2}}(?:\.[A-Za-z0-9_=-]*)?"
)
_JWT_IO = b"a-string-secret-at-least-256-bits-long"
_EXAMPLE_KEYS = (b"", b"secret", b"key", b"hello", b"test", b"your-256-bit-secret", _JWT_IO)
"""What tokens of documentation are signed with: everybody can sign such a token."""

_DIGESTS = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}
_SOMEBODY = lazy_re(
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
    header, about = _token_part(head), _token_part(body)
    if header is None or about is None:
        return True  # encrypted, or compressed
    expiry = about.get("exp")
    is_over = isinstance(expiry, (int, float)) and expiry < time.time()
    return not is_over and any(map(_SOMEBODY.fullmatch, about)) and not _is_example(header, head, body, signature)


def _is_example(header: dict[str, object], head: str, body: str, signature: str) -> bool:
    if header.get("alg") == "none" or not signature:
        return True
    digest = _DIGESTS.get(str(header.get("alg")))
    signed = f"{head}.{body}".encode()
    made = (hmac.new(key, signed, digest).digest() for key in _EXAMPLE_KEYS) if digest else ()
    return any(base64.urlsafe_b64encode(one).decode().rstrip("=") == signature.rstrip("=") for one in made)


def _token_part(part: str) -> dict[str, object] | None:
    bare = part.rstrip("=")
    try:
        found = json.loads(base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4)))
    except (binascii.Error, ValueError):
        return None
    return found if isinstance(found, dict) else None


KEYS: tuple[Rule, ...] = (
    Rule("private-key", ("PRIVATE",), lazy_re(_PRIVATE_KEY), back=80, accept_in_code=_is_key),
    Rule("private-key", ("[REDACTED:private-key]",), lazy_re(_REST_OF_KEY)),
    Rule(
        "putty-key",
        ("PuTTY-User-Key-File-",),
        lazy_re(_PUTTY_KEY),
    ),
    Rule("jwt", ("eyJ",), lazy_re(_JWT), accept=_is_token, accept_in_code=_opens_something),
)
"""Expressions of Python: each looks around itself, and reads what it found once."""
