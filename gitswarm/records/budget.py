"""What a run may spend, what it spent, and what is left: plain arithmetic, without a model or a repository."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.records.text import usd

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")

OPTIONS = {"cost_usd": "--max-cost", "tokens": "--max-tokens", "time_s": "--max-time"}
"""By the name of a limit in `BudgetLimits`."""

_REACHED, _GO_ON = "budget: ", "; continue with: git swarm resume "


def seconds(text: str) -> float:
    """The seconds of `90`, `45s`, `1h30m`, `2d`.

    :raises ValueError: it is not a duration.
    """
    if _DURATION.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    return float(text)


def time_words(given: float) -> str:
    """The shortest that `seconds` reads as the same number of whole seconds."""
    left, found = max(0, round(given)), ""
    for unit, size in reversed(_UNITS.items()):
        count, left = divmod(left, size)
        found += f"{count}{unit}" if count else ""
    return found or "0s"


class BudgetLimits(Struct, frozen=True):
    """US dollars, tokens, seconds; None: no limit."""

    cost_usd: float | None = None
    tokens: int | None = None
    time_s: float | None = None

    def __bool__(self) -> bool:
        return self != BudgetLimits()

    @classmethod
    def of(cls, limits: Mapping[str, object]) -> BudgetLimits:
        """The limits as stored: what is not a number is no limit."""
        cost, tokens, time_s = (limits.get(name) for name in cls.__struct_fields__)
        return cls(
            cost_usd=float(cost) if isinstance(cost, int | float) else None,
            tokens=int(tokens) if isinstance(tokens, int | float) else None,
            time_s=float(time_s) if isinstance(time_s, int | float) else None,
        )

    @property
    def plain(self) -> dict[str, float]:
        """The limits that there are, by name."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}

    def within(self, other: BudgetLimits) -> BudgetLimits:
        """The stricter of each."""
        return BudgetLimits.of({**other.plain, **{k: min(v, other.plain.get(k, v)) for k, v in self.plain.items()}})

    def over(self, limits: Mapping[str, float | None]) -> BudgetLimits:
        """These with the changes of a person over them; None there takes a limit away."""
        return BudgetLimits.of({**self.plain, **limits})

    def without(self, names: Iterable[str]) -> BudgetLimits:
        return self.over(dict.fromkeys(names))

    def shared_by(self, count: int) -> BudgetLimits:
        """What each of `count` executions at the same time may use; time they have at the same time."""
        cost = None if self.cost_usd is None else math.floor(self.cost_usd / count * 1e6) / 1e6
        return replace(self, cost_usd=cost, tokens=None if self.tokens is None else self.tokens // count)


UNLIMITED = BudgetLimits()


class Use(Struct, frozen=True):
    """One execution, or one question to a navigator (`flow` ""). `cost_usd` None: unknown. `allowed`: the limits that
    it was executed under. `in_flight`: it was interrupted and may have used more than was reported. `begun`, `ended`:
    seconds since 1970, equal where nobody knows."""

    name: str
    flow: str
    tokens: int
    cost_usd: float | None
    allowed: BudgetLimits = UNLIMITED
    in_flight: bool = False
    begun: float = 0.0
    ended: float = 0.0


class Total(Struct, frozen=True):
    """`cost_usd` and `tokens`: what is known. `reserved`: what may have been used in addition, at worst. `unbounded`:
    executions whose worst nobody knows, as no limit held when they were executed; by name of the limit.
    `time_s`: in which anything was executed; what was executed at the same time counts once."""

    cost_usd: float = 0.0
    tokens: int = 0
    time_s: float = 0.0
    reserved_usd: float = 0.0
    reserved_tokens: int = 0
    doubtful: tuple[str, ...] = ()
    unbounded: Mapping[str, tuple[str, ...]] | None = None

    @property
    def counted(self) -> dict[str, float]:
        """All that has to be taken as used, by name of the limit."""
        cost = usd(self.cost_usd, self.reserved_usd) or 0.0
        known = {"cost_usd": cost, "tokens": self.tokens + self.reserved_tokens, "time_s": self.time_s}
        return known | dict.fromkeys(self.unbounded or {}, math.inf)


def total(uses: Iterable[Use]) -> Total:
    """What is not known is counted at its worst: as all that the execution was allowed."""
    found = list(uses)
    cost = reserved_usd = 0.0
    tokens = reserved_tokens = 0
    doubtful: list[str] = []
    unbounded: dict[str, list[str]] = {}
    for use in found:
        known = use.cost_usd or 0.0
        cost, tokens = cost + known, tokens + use.tokens
        if use.cost_usd is None or use.in_flight:
            doubtful.append(use.name)
            if use.allowed.cost_usd is None:
                unbounded.setdefault("cost_usd", []).append(use.name)
            else:
                reserved_usd += max(0.0, use.allowed.cost_usd - known)
        if use.in_flight:
            if use.allowed.tokens is None:
                unbounded.setdefault("tokens", []).append(use.name)
            else:
                reserved_tokens += max(0, use.allowed.tokens - use.tokens)
    return Total(
        cost_usd=usd(cost) or 0.0,
        tokens=tokens,
        time_s=_covered(found),
        reserved_usd=usd(reserved_usd) or 0.0,
        reserved_tokens=reserved_tokens,
        doubtful=tuple(doubtful),
        unbounded={name: tuple(names) for name, names in unbounded.items()} or None,
    )


def _covered(uses: Iterable[Use]) -> float:
    covered, until = 0.0, 0.0
    for begun, ended in sorted((use.begun, use.ended) for use in uses):
        covered += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return round(covered, 3)


def left(limits: BudgetLimits, used: Total) -> BudgetLimits:
    """What is left of each limit, never below 0."""
    counted = used.counted
    return BudgetLimits.of({name: max(0.0, round(limit - counted[name], 6)) for name, limit in limits.plain.items()})


class Reached(Struct, frozen=True):
    """A limit that leaves nothing. `option`: with which `resume` continues, and has as much again."""

    what: str
    option: str

    @property
    def reason(self) -> str:
        """The reason of the decision to pause."""
        return f"{_REACHED}{self.what}{_GO_ON}{self.option}"


def option_in(reason: str) -> str:
    """The option that `Reached.reason` names; "" in any other reason."""
    return reason.partition(_GO_ON)[2] if reason.startswith(_REACHED) else ""


def reached(limits: BudgetLimits, used: Total, whose: str, *, whole: Total | None = None) -> Reached | None:
    """
    :param whose: `the run`, or `the flow build`.
    :param whole: what the run used, where `used` is a part of that: what the option says is about the run.
    """
    counted = used.counted
    for name, limit in limits.plain.items():
        if counted[name] < limit:
            continue
        more = (whole or used).counted[name] + limit
        option = f"{OPTIONS[name]} {'none' if math.isinf(more) else _option(name, more)}"
        return Reached(f"{whose} {_spent(name, limit, used)}{_why(name, used)}", option)
    return None


def _option(name: str, amount: float) -> str:
    if name == "time_s":
        return time_words(math.ceil(amount / 60) * 60 if amount > 60 else math.ceil(amount))
    if name == "tokens":
        return str(math.ceil(amount))
    return f"{math.ceil(amount)}" if amount > 1 else f"{math.ceil(amount * 100) / 100:.2f}"


def _why(name: str, used: Total) -> str:
    missing = (used.unbounded or {}).get(name)
    if missing:
        what = "cost" if name == "cost_usd" else "tokens"
        return f", and the {what} of {missing[0]} is not known (no limit applied when it was executed)"
    reserved = {"cost_usd": f"${used.reserved_usd:.2f}" if used.reserved_usd else "", "tokens": ""}
    if used.reserved_tokens:
        reserved["tokens"] = f"{used.reserved_tokens:,} tokens"
    return f", and {', '.join(used.doubtful)} may have used {reserved[name]} more" if reserved.get(name) else ""


def _spent(name: str, limit: float, used: Total) -> str:
    if name == "cost_usd":
        return f"spent ${used.cost_usd:.2f} of {limit_words(name, limit)}"
    if name == "tokens":
        return f"used {used.tokens:,} of {limit_words(name, limit)}"
    return f"took {time_words(used.time_s)} of {limit_words(name, limit)}"


def limit_words(name: str, limit: float) -> str:
    if name == "cost_usd":
        return f"${limit:.2f}"
    return f"{int(limit):,} tokens" if name == "tokens" else time_words(limit)


def spent_words(limits: BudgetLimits, used: Total) -> str:
    """`spent $1.20 of $5.00, took 3m of 4h`."""
    return ", ".join(f"{_spent(name, limit, used)}{_why(name, used)}" for name, limit in limits.plain.items())
