"""What commands that execute a run share: limits, progress, Ctrl-C, `--detach`, the result and its exit code."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import (
    INTERRUPTED,
    advise,
    duration,
    err,
    fact,
    money,
    next_lines,
    out_lines,
    plural,
    readable,
)
from gitswarm.cli.invocation import config_at, now, read_text, run_context
from gitswarm.cli.progress import JsonProgress, LiveProgress, NoticeObserver, PlainProgress
from gitswarm.cli.runs import severity, status_word, tests_command, tests_word
from gitswarm.cli.terminal import on_signals
from gitswarm.engines.names import DEFAULT, short_of
from gitswarm.engines.registry import adapter_of
from gitswarm.errors import RunInterruptedError, SwarmError, UsageError
from gitswarm.git.owners import announce
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import code_tree
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.next_command import is_played
from gitswarm.ledger.overview import overview
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.stored_json import SpecFields, deployed_as, spec_fields
from gitswarm.ledger.work import worked_ms
from gitswarm.records.budget import OPTIONS, seconds
from gitswarm.records.execution import FORK_OF, RunStatus
from gitswarm.records.record import timestamp
from gitswarm.records.worklists import Feedback
from gitswarm.runner.run_context import Observer, RunContext
from gitswarm.settings import Config

if TYPE_CHECKING:
    from gitswarm.runner.hub.leased_run import LeasedRun
    from gitswarm.runner.human_steps import ResumeOptions
    from gitswarm.runner.run_processes import RequestKind

MaxCostOption = Annotated[str | None, Option("--max-cost", metavar="USD", help="What the run may cost; or none.")]
MaxTokensOption = Annotated[
    str | None, Option("--max-tokens", metavar="NUMBER", help="How many tokens the run may use; or none.")
]
MaxTimeOption = Annotated[
    str | None, Option("--max-time", metavar="DURATION", help="How long steps may take in all: 45m, 4h; or none.")
]
AcceptOption = Annotated[
    list[str] | None,
    Option("--accept", metavar="ID=WHY", help="Accept a concern, and say why; ID as in `status`, or with *."),
]
FeedbackOption = Annotated[
    str | None,
    Option("--feedback", metavar="FILE", help="Comments on the change, for Review: JSON, Markdown or text."),
]
HubFlag = Annotated[
    bool | None,
    Option(
        "--hub/--no-hub",
        help="Take the run over on the hub, or continue it here alone; else there, if nobody else executes it.",
    ),
]

EXIT_CODES = {RunStatus.FAILED: 4, RunStatus.UNPROVEN: 4, RunStatus.PAUSED: 5}
_ONCE_MORE_S = 0.01
_READ: Mapping[str, tuple[Callable[[str], float], str]] = {
    "cost_usd": (lambda text: float(text.removeprefix("$")), "5"),
    "tokens": (lambda text: int(text.replace(",", "").replace("_", "")), "200000"),
    "time_s": (seconds, "4h"),
}
"""By name of the limit: how it is read, and an example."""


def budget_of_options(cost: str | None, tokens: str | None, time: str | None) -> dict[str, float | None]:
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


def execute_in_background(repository: Repository, layout: RunLayout, until: str | None, *, hub: bool = False) -> Path:
    """Starts a command in a process that outlives this one; the file that its output goes to."""
    log = log_of(repository, layout.run_id)
    words = ["resume", layout.run_id, *(["--until", until] if until else []), *(["--hub"] if hub else [])]
    process = in_background(words, repository.checkout or repository.common_dir, os.environ, log)
    announce(repository.common_dir, layout.run_id, process.pid, timestamp(now()))
    return log


def log_of(repository: RepositoryReader, run: str) -> Path:
    """What processes in the background say about a run."""
    log = repository.swarm_dir / "logs" / f"{run}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def in_background(words: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A command of git-swarm, in a process that outlives this one."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command_line(words),
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def command_line(words: Sequence[str]) -> list[str]:
    """What starts a command of this git-swarm."""
    # -P: the folder that we stand in may hold modules with our names.
    return [sys.executable, "-P", "-m", "gitswarm", *words]


def accept_of(given: list[str] | None) -> dict[str, str]:
    """Id → why.

    :raises UsageError: one has no reason.
    """
    pairs = {}
    for each in given or ():
        concern, _equals, why = each.partition("=")
        if not concern.strip() or not why.strip():
            raise UsageError(f"--accept {each}: say why", hint=f"--accept '{concern or 'ID'}=why it may stay'")
        pairs[concern.strip()] = why.strip()
    return pairs


def feedback_of(path: str | None) -> Feedback | None:
    """
    :raises SwarmError: the file cannot be read, or is no feedback.
    """
    if path is None:
        return None
    from gitswarm.runner.operations.forge.feedback import read_feedback  # noqa: PLC0415 - few have any

    return read_feedback(path, read_text(path, "git swarm resume --feedback FILE"))


def apply_durability(repository: Repository, config: Config) -> None:
    """And lets those write who share the repository."""
    repository.share()
    if config.durability == "full":
        repository.survive_power_loss()


def config_of_run(repository: Repository, layout: RunLayout) -> Config:
    """Configuration as the run's base has it, with the person's over it: no agent of the run wrote it."""
    base = replay(repository, layout).base
    return config_at(repository, repository.objects.commit(base).tree)


def quiet_context(repository: Repository, layout: RunLayout) -> RunContext:
    """Surroundings of commands that change a run without executing it: notices only."""
    config = config_of_run(repository, layout)
    apply_durability(repository, config)
    return run_context(config, NoticeObserver())


def continue_run(
    repository: Repository,
    layout: RunLayout,
    options: ResumeOptions,
    *,
    until: str | None,
    as_json: bool,
    leased: LeasedRun | None = None,
    cut_off_means: RequestKind = "pause",
) -> None:
    """Executes an existing run from where it stands, and ends the process with its exit code."""
    from gitswarm.runner.resuming import resume_run  # noqa: PLC0415 - a start needs none of it

    config = config_of_run(repository, layout)
    apply_durability(repository, config)
    with watching(repository, as_json=as_json) as observer, stop_signals(observer) as stop:
        context = replace(run_context(config, observer), stop_requested=stop.requested, until=until, leased=leased)
        context = replace(context, cut_off_means=cut_off_means)
        resumed = resume_run(repository, layout, context, options)
    if resumed.was_complete:
        again = f"its worktree was made again: {resumed.made}" if resumed.made else "nothing to do"
        err(f"{layout.run_id} succeeded already: {again}")
        advise(f"git swarm diff {layout.run_id}")
        return
    by_hand = stop.requested() or (stop.is_cut_off and cut_off_means == "stop")
    finish(repository, Executed(resumed.state, by_hand), as_json=as_json)


class StopFlag(Struct):
    """Set by the first Ctrl-C: stop after this step."""

    is_set: bool = False
    is_cut_off: bool = False

    def requested(self) -> bool:
        return self.is_set

    def is_over(self) -> bool:
        """Whether nothing more is to be executed: asked for by Ctrl-C, or cut off by the second one or SIGTERM."""
        return self.is_set or self.is_cut_off


@contextmanager
def stop_signals(observer: Observer) -> Iterator[StopFlag]:
    """Ctrl-C once: stop after the step. Twice, SIGTERM, or a terminal that closes: now; after that the end of the run
    is not disturbed."""
    flag, is_interrupted = StopFlag(), False

    def interrupt(number: int, frame: FrameType | None) -> None:
        if flag.is_set:
            terminate(number, frame)
        else:
            flag.is_set = True
            observer.notice("stopping after this step; Ctrl-C again stops now")

    def terminate(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = flag.is_cut_off = True
            raise RunInterruptedError

    def repeat(lost: sys.UnraisableHookArgs) -> None:
        """Python drops what is raised while it deletes an object: the signal comes once more, when that is done."""
        nonlocal is_interrupted
        if lost.exc_type is not RunInterruptedError:
            unraisable(lost)
            return
        is_interrupted = False
        threading.Timer(_ONCE_MORE_S, os.kill, [os.getpid(), signal.SIGTERM]).start()

    with on_signals(interrupt, terminate):
        unraisable, sys.unraisablehook = sys.unraisablehook, repeat
        try:
            yield flag
        finally:
            sys.unraisablehook = unraisable


@contextmanager
def watching(repository: Repository, *, as_json: bool) -> Iterator[Observer]:
    if as_json:
        yield JsonProgress()
    elif sys.stderr.isatty():
        with LiveProgress(repository) as live:
            yield live
    else:
        yield PlainProgress(repository)


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


def _summarize(repository: Repository, executed: Executed, status: RunStatus) -> None:
    """How it ended, how long it took, tests, changes and cost; what is open; what to type next."""
    state = executed.state
    found = overview(repository, state.layout, state)
    first = f", {plural(len(state.blocking), 'blocking concern')}" if status is RunStatus.UNPROVEN else ""
    facts = [f"{plural(found.steps_executed, 'step')} in {duration(worked_ms(repository, state))}"]
    facts += [tests_word(found)] if found.tests else []
    facts += [_changes(repository, state), f"{found.tokens} tokens", money(found.cost_usd)]
    out_lines(readable("", f"{state.layout.run_id} {status_word(status)}{first}: {', '.join(facts)}", sys.stdout))
    out_lines(fact("budget", found.budget.told) if found.budget else ())
    for concern in sorted(found.open_concerns, key=lambda each: not each.blocking):
        out_lines(fact(severity(concern), f"{concern.id}: {concern.fact}"))
    configure = tests_command(found)
    out_lines(next_lines(f"{'configure':<11}", configure) if configure else ())
    deployed = deployed_as(repository, state)
    if deployed is not None:
        out_lines(fact(*deployed))
    last = state.last_step
    if last is not None and status in (RunStatus.FAILED, RunStatus.PAUSED, RunStatus.INTERRUPTED):
        message = parse_message(repository.objects.commit(state.tip).message)
        why, said = message.body if message else "", next(iter(last.summary.splitlines()), "")
        is_said_below = bool(said) and said in why
        out_lines(() if is_said_below else fact("last step", f"{last.execution.name}: {said}"))
        out_lines(fact("because", why) if why else ())
    # What shows why it ended so, or what it changed; then what the run waits for.
    look = f"git swarm {'diff' if found.state is RunStatus.SUCCEEDED else 'log'} {found.run_id}"
    for command in dict.fromkeys(each for each in (look, found.hint) if each):
        out_lines(next_lines(f"{'next':<11}", command))
    if found.rehearsal or is_played(state):
        explain_rehearsal(repository, state)


def _changes(repository: Repository, state: RunState) -> str:
    size = repository.diffs.summary(repository.objects.commit(state.base).tree, code_tree(repository, state))
    return (
        f"+{size.insertions} -{size.deletions} in {plural(len(size.files), 'file')}" if size.files else "no changes"
    )


def explain_rehearsal(repository: Repository, state: RunState) -> None:
    """That nothing here is the work of a model, and what to type for one; `start -h` has more of that."""
    spec = spec_fields(repository, state)
    may = "may land (--allow-stub)" if spec.allow_stub else "cannot land"
    lines = [
        *_for_real(spec.engine, *_begun(spec, state)),
        *readable("", f"STUB MODE, a rehearsal: no model was called, the result {may}", sys.stderr),
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
    by = "" if short_of(engine) == DEFAULT else f" --engine {short_of(engine)}"
    line = next_lines(f"{'for real':<11}", f"{start}{by} --mode {mode}{more}")
    missing = not adapter.located(os.environ)
    return [*(next_lines(f"{'install':<11}", adapter.install) if missing else ()), *line]
