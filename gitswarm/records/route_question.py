"""What a navigator is asked, and what it answers: routing asks, an engine answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from pydantic import JsonValue

from gitswarm.records.receipt import Tokens


class RouteQuestion(Struct, frozen=True):
    """What a navigator is asked. `schema` is the JSON schema of its answer."""

    prompt: str
    schema: Mapping[str, JsonValue]
    timeout_s: float


class RouteAnswer(Struct, frozen=True):
    """`value`: JSON, or the text that came instead; None: nothing to say. `cost_usd` in US dollars, None: unknown.
    `problem`: why there is no answer, where one was asked for."""

    value: JsonValue = None
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = 0.0
    problem: str | None = None


Ask = Callable[[RouteQuestion], RouteAnswer]
"""Asks a navigator.

:raises TimeoutError: there was no answer in time.
"""
