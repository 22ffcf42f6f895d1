"""Takes secrets out of what is about to be stored, and finds those in code: by rules, and by the values that the
environment holds. What tests and documentation show is left. Built once per process and run.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, quote_plus

from gitswarm.records.globs import gitignore
from gitswarm.records.json_value import JsonValue
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.record import readable
from gitswarm.records.safety import SecretFound, SecretRules, Suspect
from gitswarm.safety.redact.assignments import ASSIGNMENTS, KEYS, is_secret_name, is_secret_under, letters_of_key
from gitswarm.safety.redact.finder import Finder
from gitswarm.safety.redact.plausible import is_common, is_placeholder
from gitswarm.safety.redact.rule import Rule, Span, shapes

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
    return Rule("environment", tuple(forms), lazy_re(pattern))


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


_MARK_CHARS = 80
_MARK = lazy_re(r"\[REDACTED:[a-z0-9-]+\]")
_ROUNDS = 4
"""A secret that is gone may have hidden another one. Each round is rarer than the one before."""

_APART = "\n\0\n"


class Redactor:
    """`env`: what the agents and commands of a run are given; the values of its secret-looking variables count.
    `profiles`: the engines' own environments."""

    def __init__(
        self, rules: SecretRules, env: Mapping[str, str], profiles: Sequence[Mapping[str, str]] = ()
    ) -> None:
        """
        :raises re.error: a pattern of the team is none; settings refuse it before.
        """
        known = known_rule(secret_values(env, profiles))
        own = [_own_rule(name, pattern) for name, pattern in rules.patterns.items()]
        self._finder = Finder([*([known] if known else []), *own, *KEYS, *ASSIGNMENTS], shapes())
        self._allow_paths = rules.allow_paths
        self._own_keys = OwnKeys(env)

    def scrub(self, text: str) -> str:
        """The text with `[REDACTED:<kind>]` for every secret; applied twice it is the same."""
        for _round in range(_ROUNDS):
            spans = [span for span in self._finder.in_text(text) if _is_new(text, span)]
            if not spans:
                return text
            text = _replaced(text, spans)
        return text

    def scrub_json(self, value: JsonValue) -> JsonValue:
        """As `scrub` for every string inside, keys too; the same object when there is nothing to replace."""
        joined = _APART.join(_strings(value))
        if not any(_is_new(joined, span) for span in self._finder.in_text(joined)):
            return value
        return self._scrubbed(value)

    def _scrubbed(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.scrub(value)
        if isinstance(value, list):
            return [self._scrubbed(item) for item in value]
        if isinstance(value, dict):
            return {self.scrub(name): self._scrubbed_item(name, item) for name, item in value.items()}
        return value

    def _scrubbed_item(self, name: str, item: JsonValue) -> JsonValue:
        scrubbed = self._scrubbed(item)
        is_bare = isinstance(item, str) and scrubbed == item and " " not in item and is_secret_name(name)
        return "[REDACTED:password]" if is_bare and is_secret_under(name, str(item)) else scrubbed

    def allow(self, paths: Iterable[str]) -> None:
        """A person's word that what stands in these files is no secret: as `allow_paths`."""
        self._allow_paths += tuple(path for path in paths if path not in self._allow_paths)

    def find_in_code(self, path: str, content: bytes) -> list[Suspect]:
        """What looks like a secret in a file of the code, in the order of its lines."""
        if self._is_allowed(path):
            return []
        text = content.decode("utf-8", errors="replace")
        found = []
        for span in self._finder.in_code(text):
            secret = text[span.start : span.end]
            if not is_placeholder(secret) and not self._is_example(path, span.kind, secret):
                line = text.count("\n", 0, span.start) + 1
                found.append(Suspect(SecretFound(path=readable(self.scrub(path)), line=line, kind=span.kind), secret))
        return found

    def _is_example(self, path: str, kind: str, secret: str) -> bool:
        """Whether it is a key that tests or documentation show; a key of this machine is none anywhere."""
        return kind in EXAMPLES and is_example_path(path) and not self._own_keys.has(secret)

    def _is_allowed(self, path: str) -> bool:
        return bool(self._allow_paths) and gitignore(*self._allow_paths).match_file(path)


def _own_rule(name: str, pattern: str) -> Rule:
    """A pattern of the team; it says no keyword."""
    kind = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "own"
    return Rule(kind, (), lazy_re(pattern))


def _is_new(text: str, span: Span) -> bool:
    """Whether there is more in it than what was replaced before; a view may end in the middle of that."""
    start, end = span.start, span.end
    for mark in _MARK.finditer(text, max(0, start - _MARK_CHARS), end + _MARK_CHARS):
        if mark.start() < end and start < mark.end():
            start, end = min(start, mark.start()), max(end, mark.end())
    return _MARK.sub("", text[start:end]).strip("\"'\\ \t\r\n=:;,") != ""


def _replaced(text: str, spans: list[Span]) -> str:
    parts = []
    done = 0
    for span in spans:
        parts += [text[done : span.start], f"[REDACTED:{span.kind}]"]
        done = span.end
    return "".join([*parts, text[done:]])


def _strings(value: JsonValue) -> Iterator[str]:
    """Every string inside; that of a key stands behind it, as in an assignment."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str):
                yield f"{name}: {item}"
            else:
                yield name
                yield from _strings(item)
