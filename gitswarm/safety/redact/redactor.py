"""Takes secrets out of what is about to be stored, and finds those in code. Built once per process and run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from gitswarm.records.globs import gitignore
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.safety import SecretFound, SecretRules, Suspect
from gitswarm.safety.redact.assignments import ASSIGNMENTS, KEYS, is_secret_name, is_secret_under
from gitswarm.safety.redact.finder import Finder
from gitswarm.safety.redact.known import EXAMPLES, OwnKeys, is_example_path, known_rule, secret_values, shapes
from gitswarm.safety.redact.plausible import is_placeholder
from gitswarm.safety.redact.rule import Rule, Span

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
                found.append(Suspect(SecretFound(path=self.scrub(path), line=line, kind=span.kind), secret))
        return found

    def _is_example(self, path: str, kind: str, secret: str) -> bool:
        """Whether it is a key that tests or documentation show; a key of this machine is none anywhere."""
        return kind in EXAMPLES and is_example_path(path) and not self._own_keys.has(secret)

    def _is_allowed(self, path: str) -> bool:
        return bool(self._allow_paths) and gitignore(*self._allow_paths).match_file(path)


def _own_rule(name: str, pattern: str) -> Rule:
    """A pattern of the team; it says no keyword."""
    kind = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "own"
    return Rule(kind, (), lambda: (re.compile(pattern),))


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
