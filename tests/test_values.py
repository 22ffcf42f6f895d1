"""What only shows when it is used: types of records are looked at and patterns compiled when they are needed first,
and a struct takes any object as a default, that of another library too."""

from __future__ import annotations

import dataclasses
import gc
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import TypeVar

import msgspec
from msgspec import Struct

import gitswarm
from gitswarm.records.lazy_re import _LazyPattern
from gitswarm.records.record import Record

T = TypeVar("T")


def _ours(base: type[T]) -> Iterator[type[T]]:
    for each in base.__subclasses__():
        if each.__module__.startswith("gitswarm."):
            yield each
        yield from _ours(each)


def test_every_model_can_be_built_and_no_default_is_a_marker() -> None:
    for module in pkgutil.walk_packages(gitswarm.__path__, "gitswarm."):
        import_module(module.name)
    structs = list(_ours(Struct))
    models = [each for each in structs if issubclass(each, Record)]
    for model in models:
        msgspec.json.Decoder(model)
    defaults = [(each, default) for each in structs for default in each.__struct_defaults__]
    assert [each for each, default in defaults if isinstance(default, dataclasses.Field)] == []
    assert min(len(models), len(structs)) > 100


def test_every_pattern_can_be_compiled() -> None:
    for module in pkgutil.walk_packages(gitswarm.__path__, "gitswarm."):
        import_module(module.name)
    patterns = [each for each in gc.get_objects() if isinstance(each, _LazyPattern)]
    assert [each for each in patterns if not callable(each.search)] == []
    assert len(patterns) > 100
