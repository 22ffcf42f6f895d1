"""The keys of the files that people write, as the models know them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel


def keys_of(*models: type[BaseModel]) -> set[str]:
    """`Model.key` of every key in files of these kinds, spelt as in the file.

    Left out: sections, which are what their keys are, and keys with one possible value (`kind: fork`), which say in
    which kind of thing they stand.
    """
    found: set[str] = set()
    seen: set[type[BaseModel]] = set()
    waiting = [*models]
    while waiting:
        model = waiting.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            waiting.extend(_models_in(field.annotation))
            if not _is_section(field.annotation) and len(_choices(field.annotation)) != 1:
                found.add(f"{model.__name__}.{field.alias or name}")
    return found


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _choices(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if _is_section(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
