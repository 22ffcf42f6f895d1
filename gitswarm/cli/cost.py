"""`cost`: what a run cost, or all runs: per step, flow, station, engine, model, run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import advise, duration, err, money, out, out_json, table
from gitswarm.cli.runs import JsonFlag, RunArgument, reader_here
from gitswarm.cli.terminal import terminal_width
from gitswarm.errors import NotFoundError, SwarmError, UsageError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import all_runs, find_run
from gitswarm.ledger.state import replay
from gitswarm.ledger.work import Bill, Sum, bills, total
from gitswarm.records.json_value import JsonValue

_Paid = tuple[str, Bill]
"""The run, and what it paid for."""

_STEP, _RUN = "step", "run"
_BY: dict[str, Callable[[_Paid], tuple[str, ...]]] = {
    _STEP: lambda paid: (_step(paid[1]), paid[1].station, paid[1].engine, paid[1].model),
    "flow": lambda paid: (paid[1].flow or paid[1].step,),
    "station": lambda paid: (_or_what(paid[1], paid[1].station),),
    "engine": lambda paid: (_or_what(paid[1], paid[1].engine),),
    "model": lambda paid: (_or_what(paid[1], paid[1].model),),
    _RUN: lambda paid: (paid[0],),
}
_ROOM = ((100, 4), (72, 2))
_HEADINGS = {_STEP: (_STEP, "station", "engine", "model")}


def cost(
    run: RunArgument = None,
    every: Annotated[bool, Option("--all", help="Of all runs of this repository.")] = False,
    by: Annotated[
        str | None,
        Option("--by", metavar="WHAT", help="step, flow, station, engine, model or run; else step, or run."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """What a run cost, or all runs: executions, time, tokens, dollars."""
    if every and run is not None:
        raise UsageError("--all is about every run: it takes no RUN", hint="git swarm cost --all --by model")
    by = by or (_RUN if every else _STEP)
    if by not in _BY:
        raise UsageError(f"--by {by}: {', '.join(_BY)}", hint="git swarm cost --by model")
    repository = reader_here()
    paid = list(_of_all(repository) if every else _of_one(repository, run))
    wide = len(_headings(by)) if as_json else _columns()
    lines = _summed(paid, lambda each: _BY[by](each)[:wide])
    whole = total("total", (bill for _run, bill in paid))
    if as_json:
        listed = [{**dict(zip(_headings(by), name, strict=True)), **_plain(line)} for name, line in lines]
        out_json({"by": by, "lines": [*listed], "total": _plain(whole)})
        return
    if not lines:
        out("nothing has been spent yet")
        return
    headings = _headings(by)[:wide]
    rows = [(*name, *_cells(line)) for name, line in lines]
    rows.append(("total", *("" for _ in headings[1:]), *_cells(whole)))
    table((*headings, "times", "time", "tokens", "cost"), rows, stretch=0)


def _columns() -> int:
    """How many words of a step there is room for, without cutting an amount."""
    return next((count for least, count in _ROOM if terminal_width() >= least), 1)


def _headings(by: str) -> tuple[str, ...]:
    return _HEADINGS.get(by, (by,))


def _of_one(repository: RepositoryReader, run: str | None) -> Iterator[_Paid]:
    layout = find_run(repository, run)
    for bill in bills(repository, replay(repository, layout)):
        yield layout.run_id, bill


def _of_all(repository: RepositoryReader) -> Iterator[_Paid]:
    """Newest run first; what cannot be read is named on stderr."""
    for layout in all_runs(repository):
        try:
            found = bills(repository, replay(repository, layout))
        except NotFoundError:
            continue  # deleted while we were reading
        except SwarmError as error:
            err(f"unreadable: {error.message}")
            advise(error.hint)
            continue
        for bill in found:
            yield layout.run_id, bill


def _summed(paid: list[_Paid], name: Callable[[_Paid], tuple[str, ...]]) -> list[tuple[tuple[str, ...], Sum]]:
    """The sum for each name, in the order of its first bill."""
    found: dict[tuple[str, ...], list[Bill]] = {}
    for each in paid:
        found.setdefault(name(each), []).append(each[1])
    return [(key, total(key[0], each)) for key, each in found.items()]


def _step(bill: Bill) -> str:
    return f"{bill.flow}/{bill.step}" if bill.is_step else bill.step


def _or_what(bill: Bill, name: str) -> str:
    """What is beside the steps has no station, engine or model that is known."""
    return name if bill.is_step else bill.step


def _cells(line: Sum) -> tuple[str, ...]:
    return str(line.count), duration(line.duration_ms), str(line.used.tokens), money(line.used.cost_usd)


def _plain(line: Sum) -> dict[str, JsonValue]:
    return {
        "executions": line.count,
        "duration_ms": line.duration_ms,
        "tokens": line.used.tokens,
        "cost_usd": line.used.cost_usd,
    }
