"""A handoff within its bounds: what is unknown is dropped, what is too long is cut, and both are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue, ValidationError

from gitswarm.records.engine_outcome import EngineOutcome
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Status
from gitswarm.specs.context import cut

_SUMMARY_CHARS = 10_000
_MOST_ITEMS = 100
_ITEM_CHARS = 2_000
_NAME_CHARS = 80
_ENDED_EARLY = ("max_turns", "denied")


def read_handoff(said: JsonValue) -> Handoff | str:
    """What was handed over, or why it cannot be used."""
    kept, losses = bounded(said) if isinstance(said, dict) else (said, ())
    try:
        handoff = Handoff.model_validate(kept)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "handoff"
        return f"it is not valid: {place}: {first['msg']}"
    return handoff.model_copy(update={"concerns": (*handoff.concerns, *losses)}) if losses else handoff


def early_handoff(handoff: Handoff, outcome: EngineOutcome) -> Handoff:
    """What a session can have handed over that `outcome` ended before its work was over: PARTIAL at best."""
    if outcome.kind not in _ENDED_EARLY or handoff.status not in (Status.VERIFIED, Status.UNVERIFIED):
        return handoff
    why = f"the session ended early ({outcome.kind}): {outcome.detail}"
    return handoff.model_copy(update={"status": Status.PARTIAL, "concerns": (*handoff.concerns, why)})


def bounded(said: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """The handoff's fields, and concerns about what was taken away."""
    kept = {name: _cut_field(value) for name, value in said.items() if name in Handoff.model_fields}
    return kept, tuple(_losses(said))[:_MOST_ITEMS]


def _losses(said: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, value in said.items():
        if name not in Handoff.model_fields:
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
