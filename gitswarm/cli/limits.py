"""`--max-cost`, `--max-tokens`, `--max-time`: what a run may spend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.errors import UsageError
from gitswarm.records.budget import OPTIONS, seconds

MaxCostOption = Annotated[str | None, Option("--max-cost", metavar="USD", help="What the run may cost; or none.")]
MaxTokensOption = Annotated[
    str | None, Option("--max-tokens", metavar="NUMBER", help="How many tokens the run may use; or none.")
]
MaxTimeOption = Annotated[
    str | None, Option("--max-time", metavar="DURATION", help="How long steps may take in all: 45m, 4h; or none.")
]

_READ: Mapping[str, tuple[Callable[[str], float], str]] = {
    "cost_usd": (lambda text: float(text.removeprefix("$")), "5"),
    "tokens": (lambda text: int(text.replace(",", "").replace("_", "")), "200000"),
    "time_s": (seconds, "4h"),
}
"""By name of the limit: how it is read, and an example."""


def said_budget(cost: str | None, tokens: str | None, time: str | None) -> dict[str, float | None]:
    """The limits that were given, by name; None: there is to be none.

    :raises UsageError: one is no amount above 0.
    """
    given = {"cost_usd": cost, "tokens": tokens, "time_s": time}
    return {name: _amount(name, text) for name, text in given.items() if text is not None}


def _amount(name: str, text: str) -> float | None:
    if text == "none":
        return None
    read, example = _READ[name]
    try:
        amount = read(text.strip())
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount > 0):
        raise UsageError(f"{OPTIONS[name]} {text}: no amount above 0", hint=f"{OPTIONS[name]} {example}")
    return amount
