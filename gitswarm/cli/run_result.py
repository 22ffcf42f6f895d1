"""What a command prints when it has executed a run, and its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from msgspec import Struct

from gitswarm.cli.console import INTERRUPTED, duration, err, fact, money, next_lines, out_lines, plural, told
from gitswarm.cli.run_words import tests_word
from gitswarm.engines.registry import adapter_of
from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import code_tree
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.overview import RunOverview, is_played, overview
from gitswarm.ledger.state import RunState
from gitswarm.ledger.stored_json import ConcernFields, SpecFields, deployed_as, spec_fields
from gitswarm.ledger.work import worked_ms
from gitswarm.records.execution import FORK_OF, RunStatus

EXIT_CODES = {RunStatus.FAILED: 4, RunStatus.UNPROVEN: 4, RunStatus.PAUSED: 5}


class Executed(Struct, frozen=True):
    """Where a run stands after this process executed it. `stopped_by_hand`: Ctrl-C asked it to stop."""

    state: RunState
    stopped_by_hand: bool


def finish(repository: Repository, executed: Executed, *, as_json: bool) -> None:
    """The result on stdout, the exit code of the contract."""
    state = executed.state
    status = state.end or RunStatus.INTERRUPTED
    if not as_json:
        _summarize(repository, executed, status)
    if executed.stopped_by_hand and status in (RunStatus.STOPPED, RunStatus.PAUSED):
        raise SystemExit(INTERRUPTED)
    raise SystemExit(EXIT_CODES.get(status, 0))


def concern_lines(concerns: Iterable[ConcernFields]) -> list[str]:
    """Open concerns, those that block first."""
    ordered = sorted(concerns, key=lambda concern: not concern.blocking)
    return [
        line
        for concern in ordered
        for line in fact("blocking" if concern.blocking else "warning", f"{concern.id}: {concern.fact}")
    ]


def _summarize(repository: Repository, executed: Executed, status: RunStatus) -> None:
    """How it ended, how long it took, tests, changes and cost; what is open; what to type next."""
    state = executed.state
    found = overview(repository, state.layout, state)
    first = f", {plural(len(state.blocking), 'blocking concern')}" if status is RunStatus.UNPROVEN else ""
    word = "not proven" if status is RunStatus.UNPROVEN else status.value
    facts = [f"{plural(found.steps_executed, 'step')} in {duration(worked_ms(repository, state))}"]
    facts += [tests_word(found)] if found.tests else []
    facts += [_changes(repository, state), f"{found.tokens} tokens", money(found.cost_usd)]
    out_lines(told("", f"{state.layout.run_id} {word}{first}: {', '.join(facts)}", sys.stdout))
    out_lines(fact("budget", found.budget.told) if found.budget else ())
    out_lines(concern_lines(found.open_concerns))
    deployed = deployed_as(repository, state)
    if deployed is not None:
        out_lines(fact(*deployed))
    last = state.last_step
    if last is not None and status in (RunStatus.FAILED, RunStatus.PAUSED, RunStatus.INTERRUPTED):
        why = parse_message(repository.objects.commit(state.tip).message)
        out_lines(fact("last step", f"{last.flow}/{last.step}: {next(iter(last.summary.splitlines()), '')}"))
        out_lines(fact("because", why.body) if why and why.body else ())
    for command in _next_commands(found):
        out_lines(next_lines(f"{'next':<11}", command))
    if found.rehearsal or is_played(state):
        explain_rehearsal(repository, state)


def _changes(repository: Repository, state: RunState) -> str:
    size = repository.diffs.summary(repository.objects.commit(state.base).tree, code_tree(repository, state))
    return (
        f"+{size.insertions} -{size.deletions} in {plural(len(size.files), 'file')}" if size.files else "no changes"
    )


def _next_commands(found: RunOverview) -> list[str]:
    """Two at most: what shows why it ended so, or what it changed, then what the run waits for."""
    look = f"git swarm {'diff' if found.state is RunStatus.SUCCEEDED else 'log'} {found.run_id}"
    return list(dict.fromkeys(command for command in (look, found.hint) if command))


def explain_rehearsal(repository: Repository, state: RunState) -> None:
    """That nothing here is the work of a model, and what to type for one; `start -h` has more of that."""
    spec = spec_fields(repository, state)
    may = "may land (--allow-stub)" if spec.allow_stub else "cannot land"
    lines = [
        *_for_real(spec.engine, *_begun(spec, state)),
        *told("", f"STUB MODE, a rehearsal: no model was called, the result {may}", sys.stderr),
    ]
    for line in lines:
        err(line)


def _begun(spec: SpecFields, state: RunState) -> tuple[str, str]:
    """The command that began a run, before and behind its mode."""
    if not spec.initiator.startswith(FORK_OF):
        return f"git swarm start {' '.join(spec.flows)}", " -m 'TASK'"
    step = str(state.shared) if state.shared else "1 --again"
    return f"git swarm fork {step} --run {spec.initiator.removeprefix(FORK_OF)}", ""


def _for_real(engine: str, start: str, more: str) -> list[str]:
    """What to type for a run by an engine's model: nothing where it has no such mode, or is not here any more.

    :param start, more: the command that began the rehearsal.
    """
    try:
        adapter = adapter_of(engine)
    except SwarmError:
        return []
    mode = adapter.advised
    if not mode:
        return []
    line = next_lines(f"{'for real':<11}", f"{start} --mode {mode}{more}")
    missing = not adapter.located(os.environ)
    return [*(next_lines(f"{'install':<11}", adapter.install) if missing else ()), *line]
