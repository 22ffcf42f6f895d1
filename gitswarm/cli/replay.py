"""`replay`: a run once more without a model, compared step by step."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import astuple, replace

from gitswarm.cli.console import INTERRUPTED, advise, err, out, out_json, plural, table
from gitswarm.cli.executing import apply_durability, config_of_run, stop_signals, watching
from gitswarm.cli.here import now, repository_here, surroundings
from gitswarm.cli.opened import JsonFlag, RunArgument
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.state import replay as read_run
from gitswarm.runner.replaying import ComparedStep, Recording, compare_steps, plan_replay, play
from gitswarm.runner.run_processes import refuse_agent

if TYPE_CHECKING:
    from pydantic import JsonValue

_DIFFERS = 1
_FIELDS = ("step", "code tree", "status", "route")


def replay(run: RunArgument = None, as_json: JsonFlag = False) -> None:
    """Execute a recorded run once more without a model, and compare code, status and route of each step."""
    repository = repository_here()
    refuse_agent(os.environ, "replay", repository.common_dir)
    layout = find_run(repository, run)
    config = config_of_run(repository, layout)
    apply_durability(repository, config)
    recording = plan_replay(repository, read_run(repository, layout), now(), os.urandom(2))
    for line in recording.left_out:
        err(f"left out   {line}")
    with watching(repository, as_json=False) as observer, stop_signals(observer) as stop:
        around = replace(surroundings(config, observer), stop_requested=stop.is_over)
        played = play(repository, recording, around)
    found = compare_steps(repository, recording, played)
    equal = all(step.equal for step in found)
    if as_json:
        out_json(_plain(recording, found))
    else:
        _show(recording, found, is_stopped=stop.is_over())
    newer = "(without a RUN, commands mean the replay now: it is newer)"
    advise(f"git swarm status {recording.state.layout.run_id}   {newer}" if equal else _look(recording, found))
    if stop.is_over():
        raise SystemExit(INTERRUPTED)
    raise SystemExit(0 if equal else _DIFFERS)


def _show(recording: Recording, found: Sequence[ComparedStep], *, is_stopped: bool) -> None:
    """What was recorded, and below it what of it the replay has otherwise."""
    rows, below = [], {}
    times: Counter[str] = Counter()
    for index, step in enumerate(step for step in found if step.replayed is not None):
        one = step.recorded or step.replayed
        if one is not None:
            mark = "equal" if step.equal else "differs"
            times[one.step] += 1
            name = one.step + (f"@{times[one.step]}" if times[one.step] > 1 else "")
            rows.append((str(step.n), name, one.tree[:10], one.status, mark, one.route))
            below[index] = _differences(step)
    table(("#", "step", "code tree", "status", "replay", "route"), rows, below=below)
    if len(rows) < len(found):
        out(f"{plural(len(found) - len(rows), 'step')} not executed by the replay")
    run, fresh = recording.state.layout.run_id, recording.new.spec.run_id
    differ = sum(1 for step in found if not step.equal and not (is_stopped and step.replayed is None))
    total = len(rows) if is_stopped else len(found)
    word = f"{plural(differ, 'step')} of {total} differ" if differ else f"{plural(total, 'step')} equal"
    if is_stopped:
        word = f"stopped, {word} so far"
    out(f"{run} replayed as {fresh}: {word}")
    if recording.ends_at:
        out(f"{len(recording.state.own_steps) - recording.until} not replayed: {recording.ends_at}")


def _differences(step: ComparedStep) -> list[str]:
    if step.equal or step.replayed is None:
        return []
    if step.recorded is None:
        return ["   only executed by the replay"]
    if step.replayed.step != step.recorded.step:
        return [f"   {step.replayed.step} in the replay"]
    pairs = zip(_FIELDS, astuple(step.recorded), astuple(step.replayed), strict=True)
    return [f"   {name:<9} {now[:60]} in the replay" for name, before, now in pairs if before != now]


def _look(recording: Recording, found: Sequence[ComparedStep]) -> str:
    """The command that shows the first difference."""
    first = next(step for step in found if not step.equal)
    fresh = recording.new.spec.run_id
    if first.replayed is None:
        return f"git swarm status {fresh}"
    return f"git swarm show {first.n} --run {fresh}   (code: git swarm diff {recording.state.layout.run_id} {fresh})"


def _plain(recording: Recording, found: Sequence[ComparedStep]) -> dict[str, JsonValue]:
    return {
        "run_id": recording.state.layout.run_id,
        "replay": recording.new.spec.run_id,
        "base": recording.new.spec.base,
        "equal": all(step.equal for step in found),
        "steps": [{**to_builtins(step), "equal": step.equal} for step in found],
        "not_replayed": len(recording.state.own_steps) - recording.until,
        "ends_at": recording.ends_at,
        "left_out": list(recording.left_out),
    }
