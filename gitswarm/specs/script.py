"""The script that the stub plays (design section 6), so that every path can be driven without a model."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Annotated, Self

from msgspec import Meta
from msgspec.structs import force_setattr

from gitswarm.records.envelope import YesNo
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import Mistake, MistakesError, parsed_json
from gitswarm.records.receipt import EngineOutcome
from gitswarm.records.record import Count, Record, short_form, without_defaults
from gitswarm.records.routing import RoutingSignal


class ScriptTokens(Record):
    prompt: Count = 0
    completion: Count = 0


_CODED = "data:;base64,"
"""Before each content: where the script is frozen, 32 bytes of a picture look like a password without it."""
_TAKEN_OUT = "[REDACTED:"


def _coded(content: str) -> str:
    """
    :raises MistakesError: it is no base64.
    """
    bare = content.removeprefix(_CODED)
    if not bare.startswith(_TAKEN_OUT):
        try:
            base64.b64decode(bare, validate=True)
        except binascii.Error as error:
            raise MistakesError([Mistake(("base64",), str(error))]) from error
    return _CODED + bare


class LeftFile(Record):
    """A file as a step left it: a text, other content, or the target of a symbolic link."""

    text: str | None = None
    base64: str | None = None
    link: Annotated[str, Meta(pattern=r"^[^\x00]+$")] | None = None
    executable: bool = False

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.text, self.base64, self.link)) != 1:
            raise ValueError("give one of text, base64 and link")
        if self.base64 is not None:
            force_setattr(self, "base64", _coded(self.base64))

    @property
    def content(self) -> bytes:
        """The content of a file that is no link. A secret that was taken out is gone, also from what was base64."""
        if self.text is not None:
            return self.text.encode()
        bare = (self.base64 or "").removeprefix(_CODED)
        return bare.encode() if bare.startswith(_TAKEN_OUT) else base64.b64decode(bare)


def _wrong_with(path: str) -> str:
    """Why it is no path of a file in the worktree; "": it is one."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or any(part.lower() == ".git" for part in parts):
        return "not a path in the worktree"
    return "not a path of a file" if len(parts) == 1 and path != parts[0] == "RUN_BASE" else ""


def _as_file(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


_Delay = Annotated[int, Meta(ge=0, le=86_400_000)]
"""Milliseconds, a day at most."""


class ScriptEntry(Record):
    """What one execution of a step does.

    Order of effects: `delay_ms`, `hang`, `write`, `delete`, `run`, `files`, then `fail` or the handoff.
    `files`: how the step leaves these paths, as a recorded step did (null: not there). The policy is not asked, as it
    was when that was recorded. `outcome`: how the session ended, where that is not by itself.
    `tokens` and `cost_usd` are used from the begin; a cost that is null is unknown.
    What the step's station promises and the entry does not write is filled in, but for what it `leaves_out`.
    `route` is a navigator's answer after the step, given `route_delay_ms` late; `routing` the agent's own signal.
    A path that starts with `RUN_BASE/` lies in the run's evidence folder, any other in the worktree.
    """

    status: Status | None = None
    summary: str | None = None
    can_further_iteration_help: YesNo | None = None
    concerns: tuple[str, ...] | None = None
    blockers: tuple[str, ...] | None = None
    write: dict[str, str] = {}
    delete: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    files: dict[str, Annotated[LeftFile | None, short_form(_as_file, {"type": "string"})]] = {}
    outcome: EngineOutcome | None = None
    delay_ms: _Delay = 0
    hang: bool = False
    fail: str | None = None
    output: str | None = None
    envelope: dict[str, JsonValue] | None = None
    route: dict[str, JsonValue] | str | None = None
    route_delay_ms: _Delay = 0
    routing: RoutingSignal | None = None
    tokens: ScriptTokens = ScriptTokens()
    cost_usd: Annotated[float, Meta(ge=0)] | None = 0.0

    def __post_init__(self) -> None:
        wrong = [Mistake(("files", path), what) for path in self.files if (what := _wrong_with(path))]
        if wrong:
            raise MistakesError(wrong)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, dict) else value


Entries = Annotated[tuple[ScriptEntry, ...], short_form(_as_list, {"$ref": "#/$defs/ScriptEntry"}, min_length=1)]

_USUAL = ScriptEntry(status=Status.VERIFIED, summary="ok")


class Script(Record):
    """What the steps of a run play. What an entry does not say is as in `default`."""

    default: ScriptEntry = _USUAL
    steps: dict[str, Entries] = {}

    @classmethod
    def from_plain(cls, value: object) -> Self:
        return super().from_plain(_laid_over_default(value))

    @classmethod
    def from_json(cls, content: bytes | str) -> Self:
        return cls.from_plain(parsed_json(content))

    def to_plain(self, exclude: Collection[str] = ()) -> dict[str, JsonValue]:
        """The script as plain JSON values; of each entry what differs from `default`."""
        plain: dict[str, JsonValue] = {"default": without_defaults(self.default)} if self.default != _USUAL else {}
        plain["steps"] = {
            name: [_said(each, self.default) for each in entries] for name, entries in self.steps.items()
        }
        return {name: value for name, value in plain.items() if name not in exclude}

    def entry(self, flow: str, step: str, execution: int) -> ScriptEntry:
        """What the `execution`-th (from 0) committed execution of a step plays.

        Executions that were interrupted before their commit do not use up an entry.
        """
        entries = self.steps.get(f"{flow}/{step}") or self.steps.get(step)
        return entries[min(execution, len(entries) - 1)] if entries else self.default


def _laid_over_default(script: object) -> object:
    """A script whose entries say all; unchanged where its `default` is no entry."""
    steps = script.get("steps") if isinstance(script, dict) else None
    if not isinstance(script, dict) or not isinstance(steps, dict):
        return script
    default = script.get("default", without_defaults(_USUAL))
    try:
        ScriptEntry.from_plain(default)
    except MistakesError:
        return script
    return {**script, "steps": {name: _over(default, entries) for name, entries in steps.items()}}


def _over(default: dict[str, JsonValue], entries: object) -> object:
    if isinstance(entries, list | tuple):
        return [_over(default, each) for each in entries]
    return {**default, **entries} if isinstance(entries, dict) else entries


def _said(entry: ScriptEntry, default: ScriptEntry) -> dict[str, JsonValue]:
    """What an entry says otherwise than the default."""
    usual, short = default.to_plain(), without_defaults(entry)
    return {name: short.get(name, value) for name, value in entry.to_plain().items() if value != usual[name]}
