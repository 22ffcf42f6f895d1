"""Budgets as people write them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from gitswarm.records.base import WrittenSection
from gitswarm.records.budget import BudgetLimits, seconds


def _seconds(value: object) -> object:
    """`4h` for people, seconds where it is stored."""
    if not isinstance(value, str):
        return value
    try:
        return seconds(value)
    except ValueError as error:
        raise ValueError(f"'{value}' is not a duration: 90s, 45m, 4h, 1h30m") from error


_Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class BudgetRules(WrittenSection):
    """Limits of a run, a flow, or one execution of a step; None: no limit. `max_time`: seconds, or as `45m` and
    `4h`, in which something is executed; a run that waits for a person takes none."""

    max_cost_usd: _Amount | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    max_time: Annotated[_Amount | None, BeforeValidator(_seconds, float | str | None)] = None

    @property
    def limits(self) -> BudgetLimits:
        return BudgetLimits(self.max_cost_usd, self.max_tokens, self.max_time)

    @classmethod
    def of(cls, limits: BudgetLimits) -> BudgetRules:
        return cls(max_cost_usd=limits.cost_usd, max_tokens=limits.tokens, max_time=limits.time_s)

    @classmethod
    def smaller(cls, key: str, one: object, other: object) -> object:
        """Of two values for a key; one that is no limit loses.

        :raises ValidationError: one is no value for it.
        """
        both = [getattr(cls.model_validate({key: each}), key) for each in (one, other)]
        return min((each for each in both if each is not None), default=None)
