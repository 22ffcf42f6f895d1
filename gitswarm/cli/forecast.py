"""`start --dry-run`: what would be executed, by whom, and what it can cost at worst."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from msgspec import to_builtins

from gitswarm.cli.console import duration, fact, money, out, out_json, out_lines, table
from gitswarm.engines.detect import DetectedCommand, how_to_set
from gitswarm.git.repository import Repository
from gitswarm.records.budget import limit_words, time_words
from gitswarm.records.execution import TEST
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import listed, usd
from gitswarm.runner.begin import NewRun
from gitswarm.runner.prompts import StepForecast, forecast
from gitswarm.runner.step.proving import MOST_EXTRA_RUNS
from gitswarm.runner.step.test_steps import configured_command, detected_tests


def show_forecast(repository: Repository, new: NewRun, *, as_json: bool) -> None:
    """Every step of the run, its loops at their maximum and its sessions at all of their turns."""
    commands = _commands(repository, new)
    engine = new.spec.settings.default_engine
    steps = [step for flow in new.specs.flows.values() for step in forecast(new.specs, flow, new.spec)]
    if as_json:
        out_json([{**to_builtins(step), "command": _plain_command(commands, step)} for step in steps])
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
    for name, found in dict(commands.values()).items():
        what = f"{found.command}: {found.reason}" if found else f"none is configured or found: {how_to_set(name)}"
        out_lines(fact(name, what))
    tests = sum(step.executions for step in steps if step.extra_runs)
    if tests:
        longest = duration(new.spec.settings.proof.max_time * 1000)
        what = (
            f"executed {tests} times, and once more where code changed after them; each may add up to"
            f" {MOST_EXTRA_RUNS} runs of base and commit, {longest} in all (proof.max_time)"
        )
        out_lines(fact("tests", what))
    if engine.mode == "stub":
        out(f"actual     {money(0.0)}: mode stub calls no model")


_Commands = Mapping[tuple[str, str], tuple[str, DetectedCommand | None]]


def _commands(repository: Repository, new: NewRun) -> _Commands:
    """By flow and step: the name of a command of the project, and the line behind it; None: there is none."""
    settings = new.spec.settings
    names = {
        (flow.id, step.id): step.command
        for flow in new.specs.flows.values()
        for step in flow.steps
        if isinstance(step.command, str)
    }
    lines = {name: configured_command(settings, name) for name in names.values()}
    if TEST in lines and lines[TEST] is None:
        lines[TEST] = detected_tests(repository.objects, new.spec.base, os.environ)
    return {place: (name, lines[name]) for place, name in names.items()}


def _plain_command(commands: _Commands, step: StepForecast) -> JsonValue:
    """None for what is no command of the project."""
    name, found = commands.get((step.flow, step.step), ("", None))
    if not name:
        return None
    return {
        "name": name,
        "line": found.command if found is not None else None,
        "because": found.reason if found is not None else None,
    }


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
