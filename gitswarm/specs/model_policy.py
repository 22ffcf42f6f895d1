"""Which model executes which station: one file, and the rule that decided."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gitswarm.records.record import Count, Record
from gitswarm.specs.station import Category, Station, Tier

DEFAULT_WINDOW = 200_000


class ModelFacts(Record):
    """`window` in tokens; prices in US dollars per million tokens, None: not known."""

    window: Annotated[int, Meta(ge=1000)] = DEFAULT_WINDOW
    input: Annotated[float, Meta(ge=0)] | None = None
    output: Annotated[float, Meta(ge=0)] | None = None


class TurnSize(Record):
    """Tokens that one turn of a session takes at most."""

    input: Count = 30_000
    output: Count = 2_000


class ModelPolicy(Record):
    """`flows/policy/models.yaml`. `stations` and `steps` (`flow/step`) name a tier or a model id."""

    categories: dict[Category, Tier]
    engines: dict[str, dict[Tier, str]]
    economy: Tier = "economy"
    stations: dict[str, str] = {}
    steps: dict[str, str] = {}
    models: dict[str, ModelFacts] = {}
    turn: TurnSize = TurnSize()

    def __post_init__(self) -> None:
        for engine, tiers in self.engines.items():
            if self.economy not in tiers:
                raise ValueError(
                    f"engines.{engine} has no model for the tier '{self.economy}', which --economy takes"
                )

    def facts(self, model: str) -> ModelFacts:
        return self.models.get(model, ModelFacts())

    def named(self, engine: str) -> dict[str, tuple[str, ...]]:
        """Models that an engine may be asked for, each with its tiers and own choices (`steps.…`, `stations.…`)."""
        tiers = self.engines.get(engine, {})
        own = [("steps", self.steps), ("stations", self.stations)]
        chosen = [
            (f"{name}.{key}", value) for name, table in own for key, value in table.items() if value not in tiers
        ]
        found: dict[str, tuple[str, ...]] = {}
        for name, model in [*tiers.items(), *chosen]:
            found[model] = (*found.get(model, ()), name)
        return found


class ModelRequest(Struct, frozen=True):
    """What was asked for when the run was started. `model` decides everything; `economy` the tier."""

    model: str | None = None
    economy: bool = False


class ModelChoice(Struct, frozen=True):
    """`rule` says in a few words which entry of the policy decided; it stands in the receipt."""

    model: str
    rule: str


def choose_model(policy: ModelPolicy, engine: str, step: str, station: Station, request: ModelRequest) -> ModelChoice:
    """
    :param step: `flow/step`.
    """
    if request.model is not None:
        return ModelChoice(request.model, "--model")
    tiers = policy.engines.get(engine, {})
    for name, table, key in (("steps", policy.steps, step), ("stations", policy.stations, station.id)):
        if key in table:
            return _named(policy, tiers, table[key], f"{name}.{key}", request)
    if station.tier is not None:
        return _of_tier(policy, tiers, station.tier, f"station {station.id}", request)
    return _of_tier(policy, tiers, policy.categories.get(station.category, "primary"), station.category, request)


def navigator_model(policy: ModelPolicy, engine: str, request: ModelRequest) -> str:
    """The navigator's model: of the economy tier."""
    if request.model is not None:
        return request.model
    return _of_tier(policy, policy.engines.get(engine, {}), policy.economy, "navigator", request).model


def _named(policy: ModelPolicy, tiers: dict[Tier, str], value: str, rule: str, request: ModelRequest) -> ModelChoice:
    """An own choice: one of the engine's tiers, else the id of a model, which --economy does not replace."""
    tier = next((tier for tier in tiers if tier == value), None)
    return ModelChoice(value, rule) if tier is None else _of_tier(policy, tiers, tier, rule, request)


def _of_tier(
    policy: ModelPolicy, tiers: dict[Tier, str], tier: Tier, rule: str, request: ModelRequest
) -> ModelChoice:
    taken: Tier = policy.economy if request.economy else tier
    model = tiers.get(taken)
    if model is None:
        return ModelChoice("default", f"{rule}: no model for tier {taken}")
    return ModelChoice(model, f"{rule}: {tier}" + (f", --economy: {taken}" if request.economy else ""))
