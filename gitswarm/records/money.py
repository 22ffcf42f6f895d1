"""What executions cost: tokens and US dollars. The one place where amounts are added up, and written and read in
messages of commits; `cli.console.money` shows them."""

from __future__ import annotations

from msgspec import Struct

_DIGITS = 6
"""Of an amount of US dollars that is stored: what the `Swarm-Cost-USD` trailer holds."""

_UNKNOWN = "unknown"


def usd(*amounts: float | None) -> float | None:
    """The sum of amounts of US dollars, to six digits; None as soon as one of them is unknown."""
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known), _DIGITS) if len(known) == len(amounts) else None


def written(amount: float | None) -> str:
    """An amount of US dollars as a trailer has it."""
    return _UNKNOWN if amount is None else f"{amount:.{_DIGITS}f}"


def read(trailer: str) -> float | None:
    """
    :raises ValueError: it is no amount.
    """
    return None if trailer == _UNKNOWN else float(trailer)


class Spent(Struct, frozen=True):
    """`cost_usd` in US dollars, None: a part of it is unknown."""

    tokens: int = 0
    cost_usd: float | None = 0.0

    def plus(self, other: Spent) -> Spent:
        return Spent(self.tokens + other.tokens, usd(self.cost_usd, other.cost_usd))
