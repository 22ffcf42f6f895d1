"""Secrets known by their value, from the environment; and made-up ones that tests and documentation show."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import quote, quote_plus

import re2

from gitswarm.records.lazy_re import lazy_re
from gitswarm.safety.redact.assignments import ASSIGNMENTS, letters_of_key
from gitswarm.safety.redact.plausible import entropy, is_common, is_name, is_words
from gitswarm.safety.redact.rule import Rule, Span, linear, options

_NAME = lazy_re(
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

_PASSWORD_IN_URL = lazy_re(r"[A-Za-z][\w+.-]*://[^\s:/@]*:([^\s/@]+)@")
_ORDINARY = lazy_re(
    r"""~?\.{0,2}/[^:@]*(?::/.*)? | [A-Za-z]:\\.* | -?[\d.,_]+[a-zA-Z]{0,2} | https?://[^@]*
    | run-\d{8}-\d{6}-[0-9a-f]{6}""",
    re.VERBOSE,
)
_WORDS = lazy_re(r"[a-z]+(?:[-_.][a-z]+)*|[A-Z]+(?:_[A-Z]+)*")
_SHORTEST = 8

EXAMPLES = frozenset(
    {"private-key", "putty-key", "jwt", *(rule.kind for rule in ASSIGNMENTS)},
)
"""Kinds of which tests make their own: keys, and what only its name makes a secret. What a provider issued, or the
environment holds, opens something wherever it stands."""

_PATH = lazy_re(
    r"(?:^|/)(?:[\w.-]*[_.-])?(?:t|unit|tests?|testing|testdata|test[_-]?data|fixtures?|specs?|__tests__|mocks?|docs?|demos?"
    r"|docs?_src|tutorials?|examples?|samples?|vectors|benchmarks?)(?:[_.-][\w.-]*)?/"
    r"|(?:^|/)(?:tests?|tests?_[^/]*|conftest|[^/]*[_.-](?:tests?|spec))\.\w+$|(?:^|/)(?:readme|changelog|changes|history|news)[^/]*$",
    re.IGNORECASE,
)
_BIGGEST = 100_000
_FOLDER = Path(__file__).parent / "rules"
_BEGIN = r"(?:^|[^A-Za-z0-9]|\\[nrt])"
"""A letter behind a backslash is an escape of JSON, no letter."""

_SHORT = 50_000
"""Below, the rules whose keywords were seen are tried one by one; all at once is worth its 80 ms above."""


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
        stripped = value.strip()
        if (
            _NAME.search(name)
            and len(stripped) >= _SHORTEST
            and not is_common(stripped)
            and not _ORDINARY.fullmatch(stripped)
        ):
            yield stripped


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
    """A rule for known values: as they are, in JSON, URL-encoded and in base64; None when there are none."""
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


def is_example_path(path: str) -> bool:
    """Whether tests or documentation lie at a path, by the names that they commonly have."""
    return _PATH.search(path) is not None


class OwnKeys:
    """Private keys in `~/.ssh` of whoever started git-swarm, read when a key in tests is to be compared with them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._home = env.get("HOME")

    def has(self, block: str) -> bool:
        letters = letters_of_key(block)
        return any(own in letters or letters in own for own in self._letters if letters)

    @cached_property
    def _letters(self) -> tuple[str, ...]:
        return tuple(found for found in map(letters_of_key, self._contents()) if len(found) >= 64)

    def _contents(self) -> Iterator[str]:
        folder = Path(self._home, ".ssh") if self._home else None
        with contextlib.suppress(OSError):
            for path in sorted(folder.iterdir()) if folder is not None else ():
                if path.is_file() and path.stat().st_size < _BIGGEST:
                    text = path.read_text("utf-8", errors="replace")
                    yield from (text,) if "PRIVATE" in text else ()


@dataclass(frozen=True, eq=False)
class Shape:
    """`least`: bits per letter (Shannon) that a value has."""

    kind: str
    keywords: tuple[str, ...]
    pattern: str
    least: float = 0.0

    @cached_property
    def _compiled(self) -> re2._Regexp:
        """The first group is the value."""
        has_group = linear(self.pattern).groups > 0
        return linear(f"{_BEGIN}(?:{self.pattern})" if has_group else f"{_BEGIN}({self.pattern})")

    def spans(self, text: str, raw: bytes) -> Iterator[Span]:
        """
        :param raw: `text` in ASCII, letter by letter.
        """
        for match in self._compiled.finditer(raw):
            start, end = match.span(1)
            if not text[end : end + 1].isalnum() and self._counts(text[start:end]):
                yield Span(start, end, self.kind)

    def _counts(self, value: str) -> bool:
        """Not a name that begins like a token: `tss_update_all_rows`."""
        folded = value.lower()
        begin = next((folded.index(word) + len(word) for word in self.keywords if word in folded), 0)
        body = value[begin:]
        is_named = is_words(body) or (is_name(body) and not any(map(str.isdigit, body)))
        return not is_named and (not self.least or entropy(value) > self.least)


class Shapes:
    """All rules for secrets of a known shape, in order."""

    def __init__(self, rules: Sequence[Shape]) -> None:
        self.rules = rules

    @cached_property
    def _all(self) -> re2.Set:
        found = re2.Set.SearchSet(options())
        for rule in self.rules:
            found.Add(f"{_BEGIN}(?:{rule.pattern})")
        found.Compile()
        return found

    def spans(self, text: str, raw: bytes, seen: Sequence[Shape]) -> Iterator[Span]:
        """
        :param seen: the rules of which a keyword stands in the text.
        """
        for rule in seen if len(raw) < _SHORT else (self.rules[number] for number in self._all.Match(raw) or ()):
            yield from rule.spans(text, raw)


@cache
def shapes() -> Shapes:
    """Rules for secrets of a known shape, ours first: of two that find the same, the first names it."""
    ours, theirs = ((_FOLDER / f"{name}.rules").read_text("utf-8").splitlines() for name in ("own", "betterleaks"))
    rules = [_own(*line.split(None, 2)) for line in ours if not line.startswith("#")]
    rules += [_theirs(*line.split(None, 3)) for line in theirs if not line.startswith("#")]
    return Shapes(rules)


def _own(kind: str, keywords: str, pattern: str, least: str = "0") -> Shape:
    return Shape(kind, tuple(keywords.split(",")), pattern, float(least))


def _theirs(kind: str, keywords: str, least: str, pattern: str) -> Shape:
    return _own(kind, keywords, pattern, least)
