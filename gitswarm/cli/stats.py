"""`stats`: how well the runs of a repository went, answered from the projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import out, out_json, plural, table
from gitswarm.cli.db import cells, plain, plain_rows, tell_notes
from gitswarm.cli.opened import JsonFlag, reader_here
from gitswarm.cli.status import not_older
from gitswarm.errors import UsageError
from gitswarm.ledger.finding import find_run
from gitswarm.projection.database import Ask, Projection, QueryResult
from gitswarm.projection.rows import sources
from gitswarm.projection.schema import LISTS, SHARES

if TYPE_CHECKING:
    from pydantic import JsonValue

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
            _show(ask, count)
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
    return [layout.run_id for layout in not_older(repository, layouts, since)]


def _show(ask: Ask, count: int) -> None:
    out(plural(count, "run"))
    for title, query in SHARES.values():
        met, of = _numbers(ask(query))
        if of:
            out(f"{100 * met / of:5.1f} %  {met} of {of} {title}")
    for title, query in LISTS.values():
        answer = ask(query)
        if answer.rows:
            out(f"\n{title}" + (f" ({_SHOWN} of {len(answer.rows)})" if len(answer.rows) > _SHOWN else ""))
            table(answer.names, cells(answer.rows[:_SHOWN]))


def _share(answer: QueryResult) -> dict[str, JsonValue]:
    met, of = _numbers(answer)
    return {"met": met, "of": of, "share": round(met / of, 4) if of else None}


def _numbers(answer: QueryResult) -> list[int]:
    """Of the one row; a sum of nothing is 0."""
    return [int(str(each or 0)) for each in answer.rows[0]]
