"""Secrets that are known by their value: what secret-looking variables of an environment hold."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, quote_plus

from gitswarm.safety.redact.plausible import is_common
from gitswarm.safety.redact.rule import Rule

_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(?<!MON)(?<!HOT)(?<!TUR)KEY(?!BOARD|MAP|RING|WORD)"
    r"|(?:^|_)(?:PASS|PWD|AUTH|PAT)$",
    re.IGNORECASE,
)
_VARIABLES = (
    "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_FOUNDRY_API_KEY AWS_BEARER_TOKEN_BEDROCK "
    "CLAUDE_CODE_OAUTH_TOKEN GEMINI_API_KEY GOOGLE_API_KEY OPENAI_API_KEY"
)
_KEYS_OF_ENGINES = frozenset(_VARIABLES.split())
"""What engines reach their providers with: a key whatever it looks like."""
_NO_SECRETS = frozenset({"GPG_KEY", "PWD", "OLDPWD", "SSH_AUTH_SOCK"})
"""`GPG_KEY` is a fingerprint, in every image of Python."""

_PASSWORD_IN_URL = re.compile(r"[A-Za-z][\w+.-]*://[^\s:/@]*:([^\s/@]+)@")
_ORDINARY = re.compile(
    r"""~?\.{0,2}/[^:@]*(?::/.*)? | [A-Za-z]:\\.* | -?[\d.,_]+[a-zA-Z]{0,2} | https?://[^@]*
    | run-\d{8}-\d{6}-[0-9a-f]{6}""",
    re.VERBOSE,
)
_WORDS = re.compile(r"[a-z]+(?:[-_.][a-z]+)*|[A-Z]+(?:_[A-Z]+)*")
_SHORTEST = 8


def secret_values(env: Mapping[str, str], profiles: Sequence[Mapping[str, str]] = ()) -> set[str]:
    """Values that must not appear anywhere. A path, a number, a flag or an ordinary word is none, unless it is the
    key of an engine.

    :param profiles: what the engines' own environments hold.
    """
    return {*_values(env), *_own_keys(env), *(value for own in profiles for value in {*_values(own), *_profile(own)})}


def _own_keys(env: Mapping[str, str]) -> Iterator[str]:
    keys = (env[name].strip() for name in _KEYS_OF_ENGINES & env.keys())
    return (key for key in keys if len(key) >= _SHORTEST and not is_common(key))


def _profile(own: Mapping[str, str]) -> Iterator[str]:
    """Whatever a profile calls a secret, numbers and paths left out (`MAX_THINKING_TOKENS`)."""
    yield from _own_keys(own)
    for name, value in own.items():
        said = value.strip()
        if _NAME.search(name) and len(said) >= _SHORTEST and not is_common(said) and not _ORDINARY.fullmatch(said):
            yield said


def _values(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        yield from (found for found in _PASSWORD_IN_URL.findall(value) if _is_secret(found))
        if name.upper() not in _NO_SECRETS and _NAME.search(name):
            lines = (value, *value.splitlines()) if "\n" in value else (value,)
            yield from (line.strip() for line in lines if _is_secret(line.strip()))


def _is_secret(value: str) -> bool:
    is_word = is_common(value) or (_WORDS.fullmatch(value) is not None and len(value) < 20)
    return len(value) >= _SHORTEST and not is_word and _ORDINARY.fullmatch(value) is None


def known_rule(values: set[str]) -> Rule | None:
    """Finds the values as they are, in JSON, URL-encoded and in base64; None when there are none."""
    forms = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
    if not forms:
        return None
    pattern = "|".join(re.escape(form) for form in forms)
    return Rule("environment", tuple(forms), lambda: (re.compile(pattern),))


def _forms(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
    yield quote_plus(value)
    raw = value.encode(errors="surrogateescape")
    for shift in range(3):
        # What stands before and behind it in the same base64 changes its first and its last letter.
        coded = base64.b64encode(b"\0" * shift + raw)
        whole = len(raw) + shift
        inner = coded[-(-shift * 8 // 6) : whole * 8 // 6].decode()
        yield inner
        yield inner.replace("+", "-").replace("/", "_")
