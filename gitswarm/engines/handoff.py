"""What a model gave, made such that it can be stored: a handoff, read and bounded, and the input of tool calls; and
how a program without structured output is asked for its handoff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields, replace

from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.receipt import EngineOutcome
from gitswarm.specs.context import cut

_SUMMARY_CHARS = 10_000
_MOST_ITEMS = 100
_ITEM_CHARS = 2_000
_NAME_CHARS = 80
_ENDED_EARLY = ("max_turns", "denied")


def read_handoff(value: JsonValue) -> Handoff | str:
    """What was handed over, or why it cannot be used."""
    kept, losses = bounded(value) if isinstance(value, dict) else (value, ())
    try:
        handoff = Handoff.from_plain(kept)
    except MistakesError as error:
        return f"it is not valid: {error.mistakes[0].text}"
    return replace(handoff, concerns=(*handoff.concerns, *losses)) if losses else handoff


def early_handoff(handoff: Handoff, outcome: EngineOutcome) -> Handoff:
    """What a session can have handed over that `outcome` ended before its work was over: PARTIAL at best."""
    if outcome.kind not in _ENDED_EARLY or handoff.status not in (Status.VERIFIED, Status.UNVERIFIED):
        return handoff
    why = f"the session ended early ({outcome.kind}): {outcome.detail}"
    return replace(handoff, status=Status.PARTIAL, concerns=(*handoff.concerns, why))


def bounded(fields: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """The handoff's fields, and concerns about what was taken away."""
    kept = {name: _cut_field(value) for name, value in fields.items() if name in Handoff.__struct_fields__}
    return kept, tuple(_losses(fields))[:_MOST_ITEMS]


def _losses(fields: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, value in fields.items():
        if name not in Handoff.__struct_fields__:
            yield f"handoff field '{cut(name, _NAME_CHARS)}' is unknown and was dropped"
        elif isinstance(value, list) and len(value) > _MOST_ITEMS:
            yield f"handoff field '{name}' has {len(value):,} items, of which the first {_MOST_ITEMS} are kept"


def _cut_field(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_cut_item(item) for item in value[:_MOST_ITEMS]]
    return cut(value, _SUMMARY_CHARS) if isinstance(value, str) else value


def _cut_item(item: JsonValue) -> JsonValue:
    if isinstance(item, dict):
        return {name: _cut_item(value) for name, value in item.items()}
    return cut(item, _ITEM_CHARS) if isinstance(item, str) else item


MOST_ASKED = 3
"""How often a handoff is asked for again, with what is wrong with the last one."""

_FENCES = ("```", "```json")


class LastMessage(Struct, frozen=True):
    """What a session said last: `text` is for people; `handoff` None: there is none, and `problem` says why."""

    text: str
    handoff: Handoff | None = None
    problem: str = ""


def handoff_request(schema: Mapping[str, JsonValue]) -> str:
    """The end of a prompt: the form of the handoff."""
    return f"When the work is over, your last message is the handoff and nothing else. {_form(schema)}"


def repeated_request(problem: str, schema: Mapping[str, JsonValue]) -> str:
    return (
        f"The work of this step is over, and no tools are left. Your last message is no handoff: {problem}. Hand "
        "over now: from what you did and saw in this session, by the rules that you were given for its status. What "
        f"you did not check you did not verify. {_form(schema)}"
    )


def read_last_message(message: str) -> LastMessage:
    """A JSON object alone, or in a code block that ends the message: nothing is read out of prose."""
    text, body = _last_block(message) or ("", message)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return LastMessage(message, problem="it is not one JSON object alone" if message.strip() else "it is empty")
    if not isinstance(found, dict) or "status" not in found:
        return LastMessage(message, problem="it has no status")
    handoff = read_handoff(encodable_input(found))
    return LastMessage(message, problem=handoff) if isinstance(handoff, str) else LastMessage(text, handoff)


def _last_block(message: str) -> tuple[str, str] | None:
    """What stands before the code block that ends a message, and what stands in it; None: none does."""
    lines = message.strip().split("\n")
    begin = next((at for at in reversed(range(len(lines) - 1)) if lines[at].rstrip(" \t") in _FENCES), None)
    if begin is None or lines[-1] != "```":
        return None
    return "\n".join(lines[:begin]).strip(), "\n".join(lines[begin + 1 : -1])


def _form(schema: Mapping[str, JsonValue]) -> str:
    return f"It is one JSON object that keeps this JSON schema:\n\n{json.dumps(schema, ensure_ascii=False)}"


_MOST_LEVELS = 50
_TOO_DEEP = f"[… nested more than {_MOST_LEVELS} levels deep …]"


Value = TypeVar("Value", bound=Struct)


def encodable(message: Value) -> Value:
    """`message` with U+FFFD for each half of a character (JavaScript cuts strings there, and JSON passes them on),
    and with a note for what is nested too deeply."""
    found: dict[str, Any] = {
        field.name: _whole(getattr(message, field.name), _MOST_LEVELS) for field in fields(message)
    }
    return replace(message, **found)


def encodable_input(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The same of the input of a tool call."""
    whole: Any = _whole(given, _MOST_LEVELS)
    return dict(whole)


def as_input(value: object) -> Mapping[str, JsonValue]:
    """The input of a tool call as a model gave it; what is not an object stands under `input`."""
    found: Any = value if isinstance(value, dict) else {"input": value}
    return dict(found)


def as_text(value: object) -> str:
    """A text that a program gave; what is none is empty."""
    return value if isinstance(value, str) else ""


def _whole(value: object, levels: int) -> object:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not isinstance(value, Mapping | list | tuple):
        return value
    if levels == 0:
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return {_whole(name, levels): _whole(item, levels - 1) for name, item in value.items()}
    return type(value)(_whole(item, levels - 1) for item in value)
