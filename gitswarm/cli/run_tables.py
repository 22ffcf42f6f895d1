"""`db rebuild|refresh|query|path`: the projection of all runs, to ask in SQL. `stats`: what it answers most often."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import advise, err, hanging, out, out_bytes, out_json, out_lines, plural, table
from gitswarm.cli.runs import JsonFlag, not_older, reader_here
from gitswarm.cli.terminal import terminal_width
from gitswarm.errors import UsageError
from gitswarm.ledger.finding import find_run
from gitswarm.projection.database import Ask, Projection, QueryResult
from gitswarm.projection.rows import sources
from gitswarm.projection.schema import LISTS, SHARES
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import columns

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
    text = sys.stdin.read() if sql == "-" else sql
    if not text.strip("; \t\n"):
        raise UsageError("the query is empty", hint='git swarm db query "show tables"   (columns: "describe steps")')
    projection = Projection(reader_here())
    with projection.opened(live=live) as ask:
        answer = ask(text)
    tell_notes(projection)
    if as_json:
        out_json(plain_rows(answer))
    elif answer.rows:
        _show(answer.names, cells(answer.rows))
    else:
        out("no rows")


def _show(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; where it would be cut, each row as lines of its own."""
    widths = [max(map(columns, column)) for column in zip(names, *rows, strict=True)]
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
    """The rows as JSON values: an amount is a number, a moment text."""
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


def cells(rows: Sequence[Sequence[object]], nothing: str = "NULL") -> list[list[str]]:
    """The rows as text.

    :param nothing: in the place of a value that is not there.
    """
    return [[nothing if value is None else _cell(value) for value in row] for row in rows]


def _cell(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float() | Decimal():
            return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, Decimal) else f"{value:.12g}"
        case list() | dict():
            return json.dumps(plain(value), ensure_ascii=False)
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds")
    return " ".join(str(value).split("\n"))


_SHOWN = 10
"""Lines of a list at most; `--json` has all."""


def stats(
    run: Annotated[
        str | None, Option("-p", "--run", metavar="RUN", help="Only this run: an id or a part of it.")
    ] = None,
    since: Annotated[
        str | None,
        Option(
            "--since", metavar="TIME", help="Only runs not older than this: 2h, 3d, or any date that git understands."
        ),
    ] = None,
    sql: Annotated[bool, Option("--sql", help="The queries, for `git swarm db query`.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Statistics of all runs: first pass, loops, detours, cost and time, waiting, reward hacking."""
    if sql:
        if as_json or run is not None or since is not None:
            raise UsageError("--sql only prints the queries: it stands alone", hint="git swarm stats --sql")
        for name, (title, query) in {**SHARES, **LISTS}.items():
            out(f"-- {name}: {title}")
            out(f"{query};\n")
        return
    projection = Projection(reader_here())
    wanted = _wanted(run, since)
    with projection.opened(wanted) as ask:
        count = _numbers(ask("select count(*) from runs"))[0]
        if as_json:
            shares: dict[str, JsonValue] = {name: _share(ask(query)) for name, (_, query) in SHARES.items()}
            lists = {name: plain(plain_rows(ask(query))) for name, (_, query) in LISTS.items()}
            out_json({"runs": count, "shares": shares, **lists})
        elif count:
            _show_statistics(ask, count)
        else:
            out("no runs yet" if wanted is None else "no such runs")
    tell_notes(projection)


def _wanted(run: str | None, since: str | None) -> list[str] | None:
    """Ids of the runs that are asked about; None: all."""
    if run is not None and since is not None:
        raise UsageError("--since is about several runs: not with --run", hint="git swarm stats --since 3d")
    repository = reader_here()
    if run is not None:
        return [find_run(repository, run).run_id]
    if since is None:
        return None
    layouts = [source.layout for source in sources(repository).values()]
    return [layout.run_id for layout in not_older(repository, layouts, since, "stats")]


def _show_statistics(ask: Ask, count: int) -> None:
    out(plural(count, "run"))
    for title, query in SHARES.values():
        met, of = _numbers(ask(query))
        if of:
            out(f"{100 * met / of:5.1f} %  {met} of {of} {title}")
    for title, query in LISTS.values():
        answer = ask(query)
        if answer.rows:
            out(f"\n{title}" + (f" ({_SHOWN} of {len(answer.rows)})" if len(answer.rows) > _SHOWN else ""))
            table(answer.names, cells(answer.rows[:_SHOWN], nothing="-"))


def _share(answer: QueryResult) -> dict[str, JsonValue]:
    met, of = _numbers(answer)
    return {"met": met, "of": of, "share": round(met / of, 4) if of else None}


def _numbers(answer: QueryResult) -> list[int]:
    """The values of the one row; a sum of nothing is 0."""
    return [int(str(each or 0)) for each in answer.rows[0]]
