"""`stations list|show|validate`: the roles that steps can be given."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import yaml

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import out, out_json, plural, table
from gitswarm.cli.here import library_here, problems_of
from gitswarm.cli.terminal import terminal_width
from gitswarm.errors import SpecError

_OVER = 16
"""PyYAML ends a line behind the word that is too much."""


def list_stations(as_json: Annotated[bool, Option("--json", help="One JSON document.")] = False) -> None:
    """Stations by id: bundled ones, and yours from .swarm/flows/stations."""
    library = library_here()
    found = []
    for name in library.station_ids:
        try:
            loaded = library.station(name)
        except SpecError:
            found.append((name, "?", "(not valid: git swarm stations validate)", "user"))
            continue
        found.append((name, loaded.station.category, loaded.station.title, loaded.origin))
    if as_json:
        out_json([{"id": name, "title": title, "source": origin} for name, _category, title, origin in found])
        return
    rows = [(name, category, origin, title) for name, category, title, origin in found]
    table(("station", "category", "from", "title"), rows)


def show(
    station: Annotated[str, Argument(help="The station's id.")],
    as_json: Annotated[bool, Option("--json", help="The whole station as JSON.")] = False,
) -> None:
    """A station's role, its rules, and what it reads and writes."""
    found = library_here().station(station).station
    content = found.model_dump(mode="json", exclude_defaults=not as_json)
    if as_json:
        out_json(content)
        return
    width = min(terminal_width(), 80) - _OVER
    out(yaml.safe_dump(content, width=width, allow_unicode=True, sort_keys=False).rstrip())


def validate(
    names: Annotated[list[str] | None, Argument(metavar="STATION", help="Stations to check; else all.")] = None,
) -> None:
    """Check stations; every problem with file and line."""
    library = library_here()
    chosen = names or library.station_ids
    problems = problems_of(partial(library.station, name) for name in chosen)
    if problems:
        raise SpecError(problems, hint="fix the lines above, then: git swarm stations validate")
    out(f"{plural(len(chosen), 'station')} fine")
