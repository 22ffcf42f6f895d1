"""The keys of the files that people write, as the records know them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from msgspec.structs import fields

from gitswarm.records.record import Record


def keys_of(*models: type[Record]) -> set[str]:
    """`Model.key` of every key in files of these kinds, spelt as in the file.

    Left out: sections, which are what their keys are, and tags (`kind: fork`), which say in which kind of thing they
    stand.
    """
    found: set[str] = set()
    seen: set[type[Record]] = set()
    waiting = [*models]
    while waiting:
        model = waiting.pop()
        if model in seen:
            continue
        seen.add(model)
        for field in fields(model):
            waiting.extend(_models_in(field.type))
            if not _is_section(field.type):
                found.add(f"{model.__name__}.{field.encode_name}")
    return found


def _is_section(annotation: Any) -> bool:
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return isinstance(inner, type) and issubclass(inner, Record)


def _models_in(annotation: Any) -> Iterator[type[Record]]:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
