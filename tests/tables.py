"""Tables as one test each: every row is tried, and every one that is wrong is reported on its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence

import pytest

_SUBTESTS = "subtests"


_Param = type(pytest.param())


def table(
    names: str | Sequence[str], rows: Collection[object], *, ids: Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, for rows that are too cheap and too many to be tests of their own.

    The rows share the fixtures of the test: none may change them.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    assert rows, "a table without rows shows nothing"
    labels: Sequence[str | None] = ids or [None] * len(rows)
    read = [_row(row, len(columns), label) for row, label in zip(rows, labels, strict=True)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def whole(*, subtests: pytest.Subtests, **fixtures: object) -> None:
            passed_on = fixtures | ({_SUBTESTS: subtests} if _SUBTESTS in signature.parameters else {})
            for label, values in read:
                try:
                    test(**dict(zip(columns, values, strict=True)), **passed_on)
                except (AssertionError, pytest.fail.Exception) as wrong:
                    with subtests.test(label):
                        raise wrong from wrong.__cause__
                except BaseException as error:
                    error.add_note(f"in the row {label}")
                    raise

        signature = inspect.signature(test)
        fixtures = [each for name, each in signature.parameters.items() if name not in (*columns, _SUBTESTS)]
        keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in fixtures]
        own = inspect.Parameter(_SUBTESTS, inspect.Parameter.KEYWORD_ONLY)
        whole.__signature__ = signature.replace(parameters=[own, *keyword])  # type: ignore[attr-defined]
        return whole

    return decorate


def _row(row: object, width: int, label: str | None) -> tuple[str, Sequence[object]]:
    values: object = row
    if isinstance(row, _Param):
        values = row.values if width > 1 else row.values[0]
        label = label or (str(row.id) if row.id else None)
    several = values if width > 1 else (values,)
    assert isinstance(several, Sequence)
    return label or repr(values)[:80], several
