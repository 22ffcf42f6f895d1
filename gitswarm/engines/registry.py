"""Which engines there are: the built-in ones, and those that installed distributions bring as entry points.

Nobody is imported before somebody asks for that engine, and a broken one is nobody's fault but its own.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from msgspec import Struct

from gitswarm.engines.adapter import EngineAdapter
from gitswarm.engines.base import LOCAL_WORK, Capabilities, Emit, StepRequest, StepResult, WithoutModel
from gitswarm.engines.names import BUILT_IN, GROUP, STUB, id_of, short_of
from gitswarm.errors import EngineMissingError, UsageError
from gitswarm.records.execution import Result
from gitswarm.records.receipt import EngineOutcome
from gitswarm.records.text import did_you_mean


@dataclass(frozen=True, slots=True)
class MissingEngine(WithoutModel):
    """Each step that asks it fails, and says why."""

    engine_id: str
    mode: str
    problem: str
    capabilities: Capabilities = LOCAL_WORK

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        del emit
        return StepResult(
            step_id=request.execution.step,
            status=Result.FAILED,
            output="",
            error=self.problem,
            outcome=EngineOutcome(kind="engine_missing", detail=self.problem),
        )


_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TAKEN = frozenset({"default", "flows", "steps", "command", "kernel", "human", "none", STUB})
"""Keys beside the sections of engines, and what else stands where an engine's name may stand."""
_OURS = "git-swarm"


class Source(Struct, frozen=True):
    """Where an engine comes from. `distribution`: name and version; `problem`: why it is not even tried."""

    name: str
    target: str
    distribution: str
    problem: str | None = None


class BrokenEngineError(EngineMissingError):
    """An installed engine cannot be used. `engine`: its short name."""

    def __init__(self, source: Source, why: str) -> None:
        package = source.distribution.partition(" ")[0]
        super().__init__(
            f"the engine '{source.name}' of {source.distribution} is broken: {why}",
            hint=f"pip install --upgrade {package}, or: pip uninstall {package}",
        )
        self.engine = source.name


def known_names() -> list[str]:
    """Short names of all engines, also of broken ones."""
    return [source.name for source in _sources(installed=True).values() if source.problem is None]


def is_known(name: str) -> bool:
    """
    :param name: full or short.
    """
    short = short_of(name)
    return short in BUILT_IN or short in known_names()


def unknown_engine(name: str) -> str:
    """What is said of a name that is none, with the one that was meant."""
    names = known_names()
    return f"unknown engine '{name}'{did_you_mean(name, [*names, *map(id_of, names)])}"


def adapter_of(name: str) -> EngineAdapter:
    """
    :param name: full or short.
    :raises UsageError: there is no such engine.
    :raises BrokenEngineError: it cannot be used.
    """
    short = short_of(name)
    source = _sources(installed=short not in BUILT_IN).get(short)
    if source is None:
        raise UsageError(unknown_engine(name), hint="git swarm engines")
    return _loaded(source)


def distribution_of(name: str) -> str:
    """Who brings an engine that there is, with the version.

    :param name: full or short.
    """
    return _sources(installed=True)[short_of(name)].distribution


def adapters() -> Iterator[EngineAdapter]:
    """All that can be used."""
    return (each for each in _tried() if isinstance(each, EngineAdapter))


def broken_engines() -> list[BrokenEngineError]:
    """All that are installed and cannot be used."""
    return [each for each in _tried() if isinstance(each, BrokenEngineError)]


def _tried() -> Iterator[EngineAdapter | BrokenEngineError]:
    for source in _sources(installed=True).values():
        try:
            yield _loaded(source)
        except BrokenEngineError as error:
            yield error


def _loaded(source: Source) -> EngineAdapter:
    if source.problem is not None:
        raise BrokenEngineError(source, source.problem)
    module, _colon, name = source.target.partition(":")
    try:
        adapter = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever a stranger's module does
        raise BrokenEngineError(source, f"{type(error).__name__}: {error}") from error
    if not isinstance(adapter, EngineAdapter):
        raise BrokenEngineError(source, f"{source.target} is not an EngineAdapter")
    if adapter.short_name != source.name:
        raise BrokenEngineError(source, f"its entry point is not called '{adapter.short_name}'")
    return adapter


def _sources(*, installed: bool) -> dict[str, Source]:
    found = {name: Source(name, each.target, _OURS) for name, each in BUILT_IN.items()}
    return found | (_installed(tuple(sys.path)) if installed else {})


@cache
def _installed(path: tuple[str, ...]) -> dict[str, Source]:
    """Installed adapters by name, without the built-in ones.

    :param path: `sys.path`.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - a tenth of a second

    del path
    found: dict[str, Source] = {}
    for entry in entry_points(group=GROUP):
        brings = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        source = Source(entry.name, entry.value, brings, _unusable(entry.name))
        if entry.name in found and found[entry.name] != source:
            others = found[entry.name].distribution
            source = Source(entry.name, entry.value, brings, f"{others} brings an engine of that name too")
        found[entry.name if entry.name not in BUILT_IN else f"{entry.name} of {brings}"] = source
    return found


def _unusable(name: str) -> str | None:
    if name in BUILT_IN:
        return f"{_OURS} has an engine of that name"
    return None if _NAME.fullmatch(name) and name not in _TAKEN else f"'{name}' is not a name for an engine"
