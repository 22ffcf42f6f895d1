"""What commands that execute a run share: progress, Ctrl-C, the result and its exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import err, money, out, out_lines, plural
from gitswarm.cli.here import config_at, read_text, surroundings
from gitswarm.cli.lines import hanging
from gitswarm.cli.progress import JsonProgress, LiveProgress, PlainProgress
from gitswarm.errors import RunInterruptedError, UsageError
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.overview import accepting, way_home, way_on
from gitswarm.ledger.reading import run_spec
from gitswarm.ledger.spent import spent
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.stored_json import ConcernFields, concern_fields, deployed_as
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.records.outcome import RunStatus
from gitswarm.records.review import Feedback
from gitswarm.runner.human import ResumeOptions
from gitswarm.runner.observer import Observer, SilentObserver
from gitswarm.runner.operations.forge.feedback import read_feedback
from gitswarm.runner.resume import resume_run
from gitswarm.runner.session import Surroundings
from gitswarm.settings import Config

EXIT_CODES = {RunStatus.FAILED: 4, RunStatus.UNPROVEN: 4, RunStatus.PAUSED: 5}
INTERRUPTED = 130

AcceptOption = Annotated[
    list[str] | None,
    Option("--accept", metavar="ID=WHY", help="A concern may stay, and why; ID as status says it, or with *."),
]
FeedbackOption = Annotated[
    str | None,
    Option(
        "--feedback", metavar="FILE", help="What others said about the change, for Review: JSON, Markdown or text."
    ),
]
_ONCE_MORE_S = 0.01


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
    return read_feedback(path, read_text(path)) if path is not None else None


def apply_durability(repository: Repository, config: Config) -> None:
    if config.durability == "full":
        repository.survive_power_loss()


def config_of_run(repository: Repository, layout: RunLayout) -> Config:
    """Configuration as the run's base has it, with the person's over it: no agent of the run wrote it."""
    base = replay(repository, layout).base
    return config_at(repository, repository.objects.commit(base).tree)


def quiet_surroundings(repository: Repository, layout: RunLayout) -> Surroundings:
    """For commands that change a run without executing it: notices only."""
    config = config_of_run(repository, layout)
    apply_durability(repository, config)
    return surroundings(config, NoticeObserver())


class NoticeObserver(SilentObserver):
    def notice(self, text: str) -> None:
        err(text)


def go_on(
    repository: Repository, layout: RunLayout, options: ResumeOptions, *, until: str | None, as_json: bool
) -> None:
    """Executes an existing run from where it stands, and ends the process with its exit code."""
    config = config_of_run(repository, layout)
    apply_durability(repository, config)
    with watching(as_json=as_json) as observer, stop_signals(observer) as stop:
        around = replace(surroundings(config, observer), stop_requested=stop.requested, until=until)
        resumed = resume_run(repository, layout, around, options)
    if resumed.was_complete:
        err(f"{layout.run_id} succeeded already: nothing to do")
        err(f"hint: git swarm diff {layout.run_id}")
        return
    finish(repository, resumed.state, stopped_by_hand=stop.requested(), as_json=as_json)


@dataclass(slots=True)
class StopFlag:
    """Set by the first Ctrl-C: stop after this step."""

    is_set: bool = False

    def requested(self) -> bool:
        return self.is_set


@contextmanager
def stop_signals(observer: Observer) -> Iterator[StopFlag]:
    """Ctrl-C once: stop after the step. Twice, SIGTERM, or a terminal that closes: now; after that the end of the run
    is not disturbed."""
    flag = StopFlag()
    interrupted = StopFlag()

    def cut_off() -> None:
        if not interrupted.is_set:
            interrupted.is_set = True
            raise RunInterruptedError

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if flag.is_set:
            cut_off()
            return
        flag.is_set = True
        observer.notice("stopping after this step; Ctrl-C again stops now")

    def terminate(_number: int, _frame: FrameType | None) -> None:
        cut_off()

    def repeat(lost: sys.UnraisableHookArgs) -> None:
        """Python drops what is raised while it deletes an object: the signal comes once more, when that is done."""
        if lost.exc_type is not RunInterruptedError:
            unraisable(lost)
            return
        interrupted.is_set = False
        threading.Timer(_ONCE_MORE_S, os.kill, [os.getpid(), signal.SIGTERM]).start()

    wanted = {signal.SIGINT: interrupt, signal.SIGTERM: terminate}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup: it goes on without its terminal
        wanted[signal.SIGHUP] = terminate
    before = {number: signal.signal(number, answer) for number, answer in wanted.items()}
    unraisable, sys.unraisablehook = sys.unraisablehook, repeat
    try:
        yield flag
    finally:
        sys.unraisablehook = unraisable
        for number, answer in before.items():
            signal.signal(number, answer)


@contextmanager
def watching(*, as_json: bool) -> Iterator[Observer]:
    if as_json:
        yield JsonProgress()
    elif sys.stderr.isatty():
        with LiveProgress() as live:
            yield live
    else:
        yield PlainProgress()


def finish(repository: Repository, state: RunState, *, stopped_by_hand: bool, as_json: bool) -> None:
    """The result on stdout, the exit code of the contract."""
    status = state.end or RunStatus.INTERRUPTED
    if not as_json:
        _summarize(repository, state, status)
    if stopped_by_hand and status in (RunStatus.STOPPED, RunStatus.PAUSED):
        raise SystemExit(INTERRUPTED)
    raise SystemExit(EXIT_CODES.get(status, 0))


def concern_lines(concerns: Iterable[ConcernFields]) -> list[str]:
    """What is open, those that block first, in lines of 80 columns."""
    ordered = sorted(concerns, key=lambda concern: not concern.blocking)
    return [
        line
        for concern in ordered
        for line in hanging(f"{'blocking' if concern.blocking else 'warning':<11}", f"{concern.id}: {concern.fact}")
    ]


def _summarize(repository: Repository, state: RunState, status: RunStatus) -> None:
    spec = run_spec(repository, state)
    run = state.layout.run_id
    steps = plural(len(state.steps), "step")
    used = spent(repository, state)
    first = f", {plural(len(state.blocking), 'blocking concern')}" if status is RunStatus.UNPROVEN else ""
    out(f"{run} {status}{first}: {steps}, {used.tokens} tokens, {money(used.cost_usd)}")
    out_lines(concern_lines(concern_fields(repository, state)))
    deployed = deployed_as(repository, state)
    if deployed is not None:
        out_lines(hanging(*deployed))
    if status is RunStatus.UNPROVEN:
        out(f"go on      git swarm resume {run}")
        out(f"accept     {accepting(state)}")
    elif status is not RunStatus.SUCCEEDED:
        last = state.last_step
        if last is not None and status is not RunStatus.STOPPED:
            out(f"last step  {last.flow}/{last.step}: {last.summary.splitlines()[0]}")
            why = parse_message(repository.objects.commit(state.tip).message)
            out(f"because    {why.body if why else ''}")
        out(f"go on      {way_on(state, status)}")
    else:
        home = way_home(repository, state)
        for word in ("approve", "land"):
            if home.startswith(f"git swarm {word}"):
                out(f"{word:<10} {home}")
    out(f"look       git swarm log {run}")
    out(f"review     git swarm diff {run}")
    out(f"with git   git diff {state.base[:12]}...{spec.branch} -- ':(top,exclude){RUNS_FOLDER}'")
