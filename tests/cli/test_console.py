"""Tables, laid out as rich lays them out."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gitswarm.cli.console import table

NARROW, ANY = "ab cé-…", "ab c日é🐝-…"


def tables(letters: str) -> st.SearchStrategy[tuple[list[str], list[list[str]], int, int]]:
    """Headings, rows, the column that stretches, the terminal's width."""
    cells = st.text(alphabet=letters, max_size=30)
    return st.integers(1, 6).flatmap(
        lambda width: st.tuples(
            st.lists(st.sampled_from(["#", "step", "outcome"]), min_size=width, max_size=width),
            st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=4),
            st.integers(-width, width - 1),
            st.integers(60, 120),
        )
    )


def with_rich(headings: list[str], rows: list[list[str]], stretch: int, width: int) -> str:
    console = Console(highlight=False, soft_wrap=False, width=width, file=io.StringIO())
    grid = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), expand=True)
    for index, heading in enumerate(headings):
        ratio = 1 if index == stretch % len(headings) else None
        grid.add_column(Text(heading), no_wrap=True, overflow="ellipsis", ratio=ratio)
    for row in rows:
        grid.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(grid)
    return captured.get()


def shown(headings: list[str], rows: list[list[str]], stretch: int, width: int) -> str:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as output:
        patch.setenv("COLUMNS", str(width))
        table(headings, rows, stretch=stretch)
    return output.getvalue()


@settings(max_examples=50, deadline=None)
@given(tables(NARROW))
def test_a_table_is_laid_out_as_rich_does(drawn: tuple[list[str], list[list[str]], int, int]) -> None:
    """But for blanks at the end of a line."""
    assert shown(*drawn).splitlines() == [line.rstrip() for line in with_rich(*drawn).splitlines()]


@settings(max_examples=50, deadline=None)
@given(tables(ANY))
def test_no_line_of_a_table_is_wider_than_the_terminal(drawn: tuple[list[str], list[list[str]], int, int]) -> None:
    assert [line for line in shown(*drawn).splitlines() if cell_len(line) > drawn[3] or line != line.rstrip()] == []
