"""A fork that is interrupted at an unlucky moment ends at once, as at any other."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping

import pytest
from filelock import FileLock

from gitswarm.engines.base import Emit, Engine, StepEndedError, StepRequest, StepResult
from gitswarm.errors import RunInterruptedError
from gitswarm.git import locks as locks_module
from gitswarm.git.locks import Locks
from gitswarm.ledger.journal import Journal
from gitswarm.records.event import Event, EventKind
from gitswarm.records.record import Clock
from gitswarm.runner import branching
from gitswarm.runner.branching import ParallelSteps
from gitswarm.runner.step.execute import ask as ask_engine
from gitswarm.worktree.extra_worktrees import StepWorktree, remove_step_worktree
from tests.conftest import Project
from tests.forking import WRITERS, check_tidy, with_flow
from tests.projects import ask, only_run
from tests.waiting import wait_until

PATIENCE_S = 5.0
NEWS = Event(EventKind.MESSAGE, {"role": "assistant", "text": "news"})

Branch = Callable[[StepRequest, Emit], None]


def interrupted(project: Project, monkeypatch: pytest.MonkeyPatch, branches: Mapping[str, Branch]) -> list[bool]:
    """Starts a run of which these branches wait for their end, after what they do first. It has to be paused then.

    :return: of each branch that waited whether it was ended before its patience was over.
    """
    with_flow(project, WRITERS)
    in_time = []

    def play(engine: Engine, request: StepRequest, emit: Emit, clock: Clock) -> StepResult:
        if request.execution.step not in branches:
            return ask_engine(engine, request, emit, clock)
        branches[request.execution.step](request, emit)
        in_time.append(request.ended.wait(PATIENCE_S))
        raise StepEndedError

    monkeypatch.setattr(branching, "ask", play)
    answer = ask(project, "start", "fan", "--script", project.script("steps: {}"))
    assert (answer.code, answer.stdout.split()[1:2]) == (5, ["paused:"]), answer.stderr
    assert f"because    interrupted {', '.join(branches)}, in parallel: what they left is kept\n" in answer.stdout
    check_tidy(project, only_run(project))
    return in_time


def _wait(_request: StepRequest, _emit: Emit) -> None:
    pass


def _main_thread_waits() -> bool:
    """Or is about to, past the last moment at which Python looks for signals."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return frame.f_code is ParallelSteps.__iter__.__code__


def test_a_signal_that_does_not_wake_the_main_thread_interrupts_it_all_the_same(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that comes between Python's last look for signals and the system call in which it waits."""

    def terminate(_request: StepRequest, _emit: Emit) -> None:
        wait_until(_main_thread_waits, "the main thread waits for its branches")
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    assert interrupted(project, monkeypatch, {"left": _wait, "right": terminate}) == [True, True]


class Signals:
    """Sends a signal when it is deleted: what its handler raises is dropped by Python."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_an_interrupt_while_python_deletes_an_object_is_not_lost(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Journal.append

    def append_and_delete(journal: Journal, event: Event) -> None:
        append(journal, event)
        if event is NEWS:
            Signals()

    monkeypatch.setattr(Journal, "append", append_and_delete)
    branches: dict[str, Branch] = {"left": _wait, "right": lambda _request, emit: emit(NEWS)}
    assert interrupted(project, monkeypatch, branches) == [True, True]


def test_an_interrupt_while_an_event_is_written_does_not_wait_for_its_branch(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Journal.append
    in_time = []

    def append_or_raise(journal: Journal, event: Event) -> None:
        if event is NEWS:
            raise RunInterruptedError
        append(journal, event)

    def tell(_request: StepRequest, emit: Emit) -> None:
        began = time.monotonic()
        with pytest.raises(StepEndedError):
            emit(NEWS)
        in_time.append(time.monotonic() - began < PATIENCE_S)

    monkeypatch.setattr(Journal, "append", append_or_raise)
    monkeypatch.setattr(branching, "_ENDING_S", PATIENCE_S)
    assert interrupted(project, monkeypatch, {"left": _wait, "right": tell}) == [True, True]
    assert in_time == [True]


def test_an_interrupt_does_not_keep_the_repository_locked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes when the lock is taken, and nobody is there yet to give it back."""
    is_due = threading.Event()
    acquire = FileLock.acquire

    def acquire_and_raise(lock: FileLock, timeout: float | None = None, poll_interval: float = 0.01) -> object:
        taken = acquire(lock, timeout, poll_interval)
        if is_due.is_set():
            is_due.clear()
            raise RunInterruptedError
        return taken

    def remove_left(side: StepWorktree, locks: Locks) -> None:
        is_due.set()
        remove_step_worktree(side, locks)

    monkeypatch.setattr(locks_module, "_REPO_LOCK_WAIT_S", 0.5)
    monkeypatch.setattr(FileLock, "acquire", acquire_and_raise)
    monkeypatch.setattr(branching, "remove_step_worktree", remove_left)
    assert interrupted(project, monkeypatch, {"right": _wait}) == [True]
