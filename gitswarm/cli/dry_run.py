"""`start --dry-run`: what would be executed, by whom, and what it could cost at worst."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import to_builtins

from gitswarm.cli.console import duration, money, out, out_json, out_lines, table
from gitswarm.cli.lines import fact
from gitswarm.records.budget import limit_words, time_words
from gitswarm.records.money import usd
from gitswarm.records.text import listed
from gitswarm.runner.begin import NewRun
from gitswarm.runner.prompts import StepForecast, forecast
from gitswarm.runner.step.proving import MOST_EXTRA_RUNS


def show_forecast(new: NewRun, *, as_json: bool) -> None:
    """Every step of the run, its loops at their maximum and its sessions at all of their turns."""
    engine = new.spec.settings.default_engine
    steps = [step for flow in new.specs.flows.values() for step in forecast(new.specs, flow, new.spec)]
    if as_json:
        out_json([to_builtins(step) for step in steps])
        return
    table(
        ("step", "model", "times", "prompt", "hash", "at worst"),
        [_row(step) for step in steps],
        stretch=1,
    )
    turn = new.specs.policy.turn
    total = usd(*(step.cost_usd for step in steps))
    out(f"at worst   {sum(step.tokens for step in steps):,} tokens, {money(total)}")
    for name, value in _budget(new, steps):
        out_lines(fact(name, value))
    counted = f"every loop to its maximum, every turn {turn.input:,} tokens in and {turn.output:,} out"
    out_lines(fact("counted", counted))
    tests = sum(step.executions for step in steps if step.extra_runs)
    if tests:
        longest = duration(new.spec.settings.proof.max_time * 1000)
        what = (
            f"executed {tests} times, and once more where code changed after them; each may add up to"
            f" {MOST_EXTRA_RUNS} runs to compare with the base, {longest} in all (proof.max_time)"
        )
        out_lines(fact("tests", what))
    if engine.mode == "stub":
        out(f"actual     {money(0.0)}: mode stub calls no model")


def _budget(new: NewRun, steps: list[StepForecast]) -> Iterator[tuple[str, str]]:
    """The longest that it can take, what nobody can say, and whether the limits hold all that."""
    limits = new.spec.settings.budget.limits
    longest = sum(step.time_s or 0.0 for step in steps)
    own = [f"{step.flow}/{step.step}" for step in steps if step.time_s is None]
    unbounded = f"; without {listed(own)}, which nothing bounds" if own else ""
    yield "time", f"at most {time_words(longest)}, one step after the other{unbounded}"
    unpriced = sorted({step.model for step in steps if step.cost_usd is None and step.model})
    if unpriced:
        yield "unknown", f"the price of {listed(unpriced)}: .swarm/flows/policy/models.yaml can say it"
    known = usd(*(step.cost_usd for step in steps if step.cost_usd is not None)) or 0.0
    worst = {"cost_usd": known, "tokens": sum(step.tokens for step in steps), "time_s": longest}
    for name, limit in limits.plain.items():
        open_ended = (name == "cost_usd" and unpriced) or (name == "time_s" and own)
        holds = (
            "is more than that" if limit >= worst[name] and not open_ended else "may be reached: then the run pauses"
        )
        yield "budget", f"{limit_words(name, limit)} {holds}"


def _row(step: StepForecast) -> tuple[str, str, str, str, str, str]:
    if step.model is None:
        return (f"{step.flow}/{step.step}", f"({step.agent})", str(step.executions), "", "", "")
    size = f"{step.prompt_chars:,}"
    cost = money(step.cost_usd)
    return (f"{step.flow}/{step.step}", step.model, str(step.executions), size, step.prompt_hash[:8], cost)
