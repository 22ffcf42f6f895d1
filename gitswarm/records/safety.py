"""What safety answers, about tool calls and about secrets, for engines to obey and receipts to keep; and the rules
that a team adds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, TypeVar

from msgspec import Struct

from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import Mistake, MistakesError
from gitswarm.records.record import Record, form, short_form


def plain_switch(value: object) -> object:
    """`off` is a boolean to YAML."""
    return "off" if value is False else value


R = TypeVar("R", bound=Record)

SandboxRule = Literal["off", "auto", "require"]
"""From the loosest to the strictest."""

NetworkRule = Literal["allow", "engine", "none"]
"""The same."""

_HOST = r"((\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"


class PolicyRules(Record):
    """What a team or a person forbids on top of the built-in rules. A person only ever tightens.

    `deny`: beginnings of commands (`npm publish`, `terraform *`), compared word by word, with globs.
    `protected_paths`: globs from the top of the worktree (`infra/**`) that no agent may change.
    `env`: names of environment variables, with globs, that agents and the project's commands get too.
    `sandbox`: whether agents and commands are confined by the operating system: where that works, always, never.
    `sandbox_binds`: folders and files that they may read besides (`/srv/data`, `~/.m2`).
    `network`: what they reach from the sandbox: everything; the model's provider and `allow_hosts`; nothing.
    `allow_hosts`: `host`, `host:port` or `*.host`; without a port every one of them.
    """

    deny: tuple[str, ...] = ()
    protected_paths: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    sandbox: Annotated[SandboxRule, short_form(plain_switch)] = "auto"
    sandbox_binds: tuple[Annotated[str, form("(/|~/).*", "'{given}' is no path that begins with / or ~/")], ...] = ()
    network: NetworkRule = "engine"
    allow_hosts: tuple[Annotated[str, form(_HOST, "'{given}' is no host: host, host:port or *.host")], ...] = ()


class Allow(Struct, frozen=True):
    """`contained`: what the call does when it is carried out was not read; only the sandbox limits it."""

    contained: bool = False


class Deny(Struct, frozen=True):
    """`rule`: id of the class of the refusal (`git-push`). `instead`: what to do in its place, for the agent."""

    rule: str
    reason: str
    instead: str

    @property
    def message(self) -> str:
        """What the agent reads in place of a result."""
        return f"denied ({self.rule}): {self.reason}\n{self.instead}\n"


class Rewrite(Struct, frozen=True):
    """The call is carried out with another input."""

    input: Mapping[str, JsonValue]
    reason: str


Verdict = Allow | Deny | Rewrite

Decide = Callable[[str, Mapping[str, JsonValue]], Verdict]
"""Answers for one tool call: name of the tool, its input."""


Scrub = Callable[[str], str]
"""Returns the text with every secret in it replaced by `[REDACTED:<kind>]`."""


class Scrubber(Protocol):
    """Replaces every secret by `[REDACTED:<kind>]`; twice is the same as once."""

    def scrub(self, text: str) -> str: ...

    def scrub_json(self, value: JsonValue) -> JsonValue:
        """Every string inside; the same object when there is nothing to replace."""


def scrubbed_record(record: R, scrubber: Scrubber) -> R:
    """The same record when there is no secret in it."""
    plain: JsonValue = record.to_plain()
    clean = scrubber.scrub_json(plain)
    return record if clean is plain else type(record).from_plain(clean)


class SecretRules(Record):
    """`patterns`: name → regular expression whose form match is a secret. `allow_paths`: globs of files in the code
    whose secrets are known to be none (fixtures); the team's alone."""

    patterns: dict[str, str] = {}
    allow_paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, pattern in self.patterns.items():
            try:
                re.compile(pattern)
            except re.error as error:
                what = Mistake(("patterns", name), f"not a regular expression: {error}")
                raise MistakesError([what]) from error


class SecretFound(Record):
    """A secret in a file of the code; never its value, in the path neither. `line` counts from 1; 0: in its name."""

    path: str
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A secret in code that may be an old one. `value` is never stored."""

    found: SecretFound
    value: str = field(repr=False)


FindSecrets = Callable[[str, bytes], Sequence[Suspect]]
"""Looks through a file of the code: its path from the top of the worktree, its bytes."""
