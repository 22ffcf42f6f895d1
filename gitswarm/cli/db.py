"""`db rebuild|refresh|query|path`: the projection of all runs, to ask in SQL."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import advise, err, hanging, out, out_bytes, out_json, out_lines, table
from gitswarm.cli.opened import JsonFlag, reader_here
from gitswarm.cli.terminal import terminal_width
from gitswarm.projection.database import Projection, QueryResult

if TYPE_CHECKING:
    from pydantic import JsonValue

LiveFlag = Annotated[
    bool, Option("--live", help="Also what the steps that run now have written, with `committed` false.")
]


def rebuild(
    to: Annotated[
        str | None, Option("--out", metavar="FILE", help="Write this file, not the one that `db path` names.")
    ] = None,
) -> None:
    """Rebuild the projection from git, from scratch."""
    projection = Projection(reader_here())
    projection.rebuild(Path(to) if to else None)
    tell_notes(projection)
    out_bytes(f"{to or projection.path}\n".encode(errors="surrogateescape"))


def refresh() -> None:
    """Bring the projection up to date; the other db commands do so themselves."""
    path()


def path() -> None:
    """The projection's file, brought up to date: duckdb "$(git swarm db path)"."""
    projection = Projection(reader_here())
    projection.refresh()
    tell_notes(projection)
    out_bytes(f"{projection.path}\n".encode(errors="surrogateescape"))


def query(
    sql: Annotated[str, Argument(metavar="SQL", help="The query; `-` reads standard input.")],
    live: LiveFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Query all runs in SQL; the projection is brought up to date first."""
    projection = Projection(reader_here())
    with projection.opened(live=live) as ask:
        answer = ask(sys.stdin.read() if sql == "-" else sql)
    tell_notes(projection)
    if as_json:
        out_json(plain_rows(answer))
    elif answer.rows:
        _show(answer.names, cells(answer.rows))
    else:
        out("no rows")


def _show(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; where it would be cut, each row as lines of its own."""
    widths = [max(len(each) for each in column) for column in zip(names, *rows, strict=True)]
    if sum(widths) + 2 * len(widths) <= terminal_width() + 2:
        table(names, rows)
        return
    for number, row in enumerate(rows):
        out_lines([""] * (number > 0))
        for name, text in zip(names, row, strict=True):
            out_lines(hanging(f"{name:<{max(map(len, names))}}  ", text))


def tell_notes(projection: Projection) -> None:
    for message, hint in projection.notes:
        err(message)
        advise(hint)


def plain_rows(answer: QueryResult) -> list[dict[str, JsonValue]]:
    """As JSON has them: an amount is a number, a moment text."""
    return [
        {name: plain(value, kind) for (name, kind), value in zip(answer.columns, row, strict=True)}
        for row in answer.rows
    ]


def plain(value: object, kind: str = "") -> JsonValue:
    found: JsonValue = str(value)
    match value:
        case str() if kind == "JSON":
            found = json.loads(value)
        case None | bool() | int() | float():
            found = value
        case Decimal():
            found = float(value)
        case datetime():
            found = value.isoformat(timespec="milliseconds") + "Z"
        case list() | tuple():
            found = [plain(each) for each in value]
        case dict():
            found = {str(name): plain(each) for name, each in value.items()}
    return found


def cells(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    """As text."""
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float() | Decimal():
            return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, Decimal) else f"{value:g}"
        case list() | dict():
            return json.dumps(plain(value), ensure_ascii=False)
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds")
    return " ".join(str(value).split("\n"))
