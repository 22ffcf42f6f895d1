"""`start --dry-run`: what would be executed, by whom, and what it could cost at worst."""

from __future__ import annotations

from dataclasses import asdict

from gitswarm.cli.console import money, out, out_json, table
from gitswarm.runner.begin import NewRun
from gitswarm.runner.prompts import StepForecast, forecast
from gitswarm.specs.model_policy import ModelWish


def show_forecast(new: NewRun, *, as_json: bool) -> None:
    """Every step of the run, its loops at their maximum and its sessions at all of their turns."""
    settings = new.spec.settings
    wish = ModelWish(settings.model, settings.economy)
    engine = settings.default_engine
    steps = [
        step
        for flow in new.specs.flows.values()
        for step in forecast(new.specs, flow, engine.engine, wish, new.spec.task)
    ]
    if as_json:
        out_json([asdict(step) for step in steps])
        return
    table(
        ("step", "model", "times", "prompt", "hash", "at worst"),
        [_row(step) for step in steps],
        stretch=1,
    )
    turn = new.specs.policy.turn
    costs = [step.cost_usd for step in steps]
    total = None if None in costs else sum(cost or 0 for cost in costs)
    out(f"at worst   {sum(step.tokens for step in steps):,} tokens, {money(total)}")
    out(f"counted    every loop to its maximum, every turn {turn.input:,} tokens in and {turn.output:,} out")
    if engine.mode == "stub":
        out("in fact    $0.00: mode stub asks no model")


def _row(step: StepForecast) -> tuple[str, str, str, str, str, str]:
    if step.model is None:
        return (f"{step.flow}/{step.step}", "(command)", str(step.executions), "", "", "")
    size = f"{step.prompt_chars:,}"
    cost = money(step.cost_usd)
    return (f"{step.flow}/{step.step}", step.model, str(step.executions), size, step.prompt_hash[:8], cost)
