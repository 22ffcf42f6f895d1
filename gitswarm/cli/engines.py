"""`engines`: which engines there are, whether they can be used here, and what they can do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec.structs import asdict

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import complain, hanging, out_json, out_lines
from gitswarm.cli.here import config_here, library_here, surroundings
from gitswarm.cli.terminal import text_width
from gitswarm.engines.names import short_of
from gitswarm.engines.registry import adapters, broken_engines, distribution_of
from gitswarm.runner.run_engines import EngineHere, OfferedModel, survey_engines, survey_models
from gitswarm.runner.run_session import SilentObserver
from gitswarm.settings import CommandLine, freeze_settings

_GAP = "  "


def engines(
    verbose: Annotated[
        bool, Option("-v", "--verbose", help="Also where each comes from, and what it needs.")
    ] = False,
    models: Annotated[
        bool, Option("--models", help="Ask the provider for its models: one request, with the key of sessions.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="One JSON document.")] = False,
) -> None:
    """Engines and their modes: whether each can be used here, and what it can do."""
    config = config_here()
    settings = freeze_settings(config, os.environ, CommandLine(), scripted=False)
    around = surroundings(config, SilentObserver())
    if models:
        offered = list(survey_models(settings, library_here().policy(), around))
        if as_json:
            out_json([each.to_json() for each in offered])
        else:
            out_lines(_models(offered))
        return
    found = list(survey_engines(settings, around))
    for broken in broken_engines():
        complain(broken.message, broken.hint)
    if as_json:
        out_json([each.to_json() for each in found])
        return
    out_lines([*_usability(found), "", *capability_matrix(found)])
    if verbose:
        out_lines(_origins(found))


def _models(offered: Sequence[OfferedModel]) -> Iterator[str]:
    """A line per model. Its price is that of a million tokens, in and out."""
    prices = [f"${each.price[0]:g} ${each.price[1]:g}" if each.price else "$?" for each in offered]
    rows = [("engine", "model", "offered", "price")]
    rows += [
        (each.engine, each.model, "yes" if each.offered else "no", price)
        for each, price in zip(offered, prices, strict=True)
    ]
    named = ["models.yaml", *(", ".join(each.named) or "-" for each in offered)]
    for line, names in zip(_aligned(rows), named, strict=True):
        yield from hanging(f"{line}{_GAP}", names)


def _origins(found: Sequence[EngineHere]) -> Iterator[str]:
    """What each engine says about itself."""
    for adapter in adapters():
        name = adapter.short_name
        logins = [each.login for each in found if each.engine == adapter.engine_id and each.login]
        prices = [f"{model} ${paid[0]:g} in, ${paid[1]:g} out" for model, paid in sorted(adapter.prices.items())]
        yield ""
        yield f"{adapter.engine_id}, {name} for short"
        for what, value in (
            ("from", distribution_of(name)),
            ("tested with", ", ".join(f"{program} {version}" for program, version in adapter.tested.items())),
            ("providers", ", ".join(adapter.providers)),
            ("login", ", ".join(dict.fromkeys(logins))),
            ("prices", "; ".join([*prices, "of models.yaml, else unknown"])),
            ("keys", ", ".join(f"engines.{name}.{key}" for key in adapter.section.model_fields)),
            ("environment", "; ".join(f"{each}: {does}" for each, does in adapter.variables.items())),
        ):
            yield from hanging(f"  {what:<13}", value) if value else ()


def _usability(found: Sequence[EngineHere]) -> Iterator[str]:
    rows = [("engine", "mode", "here", "configured")]
    rows += [
        (each.engine, each.mode, "no" if each.problem else "yes", "yes" if each.is_configured else "-")
        for each in found
    ]
    first, *others = _aligned(rows)
    yield f"{first}{_GAP}by"
    for line, each in zip(others, found, strict=True):
        yield from hanging(f"{line}{_GAP}", _by(each))


def _by(each: EngineHere) -> str:
    """What it works with, or what is wrong and what to do about it."""
    if each.problem is not None:
        return each.problem
    program = each.program
    if program.path is None:
        return "git-swarm itself"
    library = f"{program.library}, " if program.library else ""
    login = f"; {each.login}" if each.login else ""
    return f"{library}{short_of(each.engine)} {program.version}, {program.path}{login}"


def capability_matrix(found: Sequence[EngineHere]) -> Iterator[str]:
    """A line per capability, a column per engine and mode; several times where they are wider than a terminal."""
    names = list(asdict(found[0].capabilities))
    first = max(map(len, names))
    wide = [max(len(each.engine), len(each.mode)) for each in found]
    while found:
        fitting = 1
        while fitting < len(found) and first + sum(len(_GAP) + each for each in wide[: fitting + 1]) <= text_width():
            fitting += 1
        columns = [asdict(each.capabilities) for each in found[:fitting]]
        rows = [("", *(each.engine for each in found[:fitting])), ("can", *(each.mode for each in found[:fitting]))]
        rows += [(name, *(_said(each[name]) for each in columns)) for name in names]
        yield from (line.rstrip() for line in _aligned(rows))
        found, wide = found[fitting:], wide[fitting:]
        yield from [""] if found else []


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "-"
    return f"{value:,}" if value else "-"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
