"""The script that the stub plays (design section 6), so that every path can be driven without a model."""

from __future__ import annotations

import base64
import binascii
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from gitswarm.records.envelope import YesNo
from gitswarm.records.execution import Status
from gitswarm.records.receipt import EngineOutcome
from gitswarm.records.record import Record
from gitswarm.records.routing import RoutingSignal


class ScriptTokens(Record):
    prompt: int = Field(default=0, ge=0)
    completion: int = Field(default=0, ge=0)


_CODED = "data:;base64,"
"""Before each content: where the script is frozen, 32 bytes of a picture look like a password without it."""
_TAKEN_OUT = "[REDACTED:"


def _coded(content: str) -> str:
    bare = content.removeprefix(_CODED)
    if not bare.startswith(_TAKEN_OUT):
        try:
            base64.b64decode(bare, validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from error
    return _CODED + bare


class LeftFile(Record):
    """A file as a step left it: a text, other content, or the target of a symbolic link."""

    text: str | None = None
    base64: Annotated[str, AfterValidator(_coded)] | None = None
    link: Annotated[str, Field(pattern=r"^[^\x00]+$")] | None = None
    executable: bool = False

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if sum(each is not None for each in (self.text, self.base64, self.link)) != 1:
            raise ValueError("give one of text, base64 and link")
        return self

    @property
    def content(self) -> bytes:
        """Of a file that is no link. A secret that was taken out is gone, also from what was base64."""
        if self.text is not None:
            return self.text.encode()
        bare = (self.base64 or "").removeprefix(_CODED)
        return bare.encode() if bare.startswith(_TAKEN_OUT) else base64.b64decode(bare)


def _in_worktree(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or any(part.lower() == ".git" for part in parts):
        raise ValueError("not a path in the worktree")
    if len(parts) == 1 and path != parts[0] == "RUN_BASE":
        raise ValueError("not a path of a file")
    return path


def _as_file(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


class ScriptEntry(Record):
    """What one execution of a step does.

    Order of effects: `delay_ms`, `hang`, `write`, `delete`, `run`, `files`, then `fail` or the handoff.
    `files`: how the step leaves these paths, as a recorded step did (null: not there). The policy is not asked, as it
    was when that was recorded. `outcome`: how the session ended, where that is not by itself.
    `tokens` and `cost_usd` are used from the begin; a cost that is null is unknown.
    What the step's station promises and the entry does not write is filled in, but for what it `leaves_out`.
    `route` is a navigator's answer after the step, given `route_delay_ms` late; `routing` the agent's own wish.
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
    files: dict[
        Annotated[str, AfterValidator(_in_worktree)],
        Annotated[LeftFile | None, BeforeValidator(_as_file, str | LeftFile | None)],
    ] = {}
    outcome: EngineOutcome | None = None
    delay_ms: int = Field(default=0, ge=0)
    hang: bool = False
    fail: str | None = None
    output: str | None = None
    envelope: dict[str, JsonValue] | None = None
    route: dict[str, JsonValue] | str | None = None
    route_delay_ms: int = Field(default=0, ge=0)
    routing: RoutingSignal | None = None
    tokens: ScriptTokens = ScriptTokens()
    cost_usd: float | None = Field(default=0.0, ge=0)

    def over(self, default: ScriptEntry) -> ScriptEntry:
        """This entry, with what it does not say taken from `default`."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return default.model_copy(update=given)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, dict) else value


Entries = Annotated[tuple[ScriptEntry, ...], BeforeValidator(_as_list), Field(min_length=1)]


class Script(Record):
    default: ScriptEntry = ScriptEntry(status=Status.VERIFIED, summary="ok")
    steps: dict[str, Entries] = {}

    def entry(self, flow: str, step: str, execution: int) -> ScriptEntry:
        """What the `execution`-th (from 0) committed execution of a step plays.

        Executions that were interrupted before their commit do not use up an entry.
        """
        entries = self.steps.get(f"{flow}/{step}") or self.steps.get(step)
        if not entries:
            return self.default
        return entries[min(execution, len(entries) - 1)].over(self.default)
