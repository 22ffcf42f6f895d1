"""Executes engines at the same time, one thread each. Threads only run engines: whatever they tell is written by the
caller's thread, which is the only one that touches git and the ledger."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from queue import Empty, SimpleQueue

from gitswarm.engines.base import StepEndedError, StepRequest, StepResult
from gitswarm.ledger.journal import Journal
from gitswarm.processes import end_processes_with
from gitswarm.records.base import Clock
from gitswarm.records.event import Event
from gitswarm.runner.engines import Engines
from gitswarm.runner.session import SIBLING_MARKER, Workplace
from gitswarm.runner.step.execute import ask
from gitswarm.runner.step.plan import StepPlan

_ENDING_S = 20.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Sibling:
    """One of the steps, ready to be executed. `is_shared`: it works in the run's own worktree, as others do."""

    plan: StepPlan
    place: Workplace
    journal: Journal
    request: StepRequest
    is_shared: bool

    @property
    def step(self) -> str:
        return self.plan.step.id

    @property
    def mark(self) -> str:
        return self.plan.beside.mark if self.plan.beside else ""


@dataclass(frozen=True, slots=True)
class Done:
    """A sibling whose engine has answered."""

    sibling: Sibling
    result: StepResult
    started: datetime
    completed: datetime


@dataclass(frozen=True, slots=True)
class _Told:
    """An event that waits to be written."""

    sibling: Sibling
    event: Event
    written: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _Broken:
    """Our own fault, to be raised where it can be dealt with."""

    error: BaseException


class SideBySide:
    """Siblings in execution. Iterating gives each as soon as it is done; the caller may end the others meanwhile."""

    def __init__(self, siblings: Sequence[Sibling], engines: Engines, clock: Clock) -> None:
        self._clock = clock
        self._engines = engines
        self._said: SimpleQueue[_Told | Done | _Broken] = SimpleQueue()
        self._threads = {
            sibling.step: threading.Thread(target=self._work, args=(sibling,), name=sibling.step, daemon=True)
            for sibling in siblings
        }
        self.running = {sibling.step: sibling for sibling in siblings}

    def __iter__(self) -> Iterator[Done]:
        for thread in self._threads.values():
            thread.start()
        while self.running:
            said = self._said.get()
            if isinstance(said, _Told):
                self._write(said)
            elif isinstance(said, _Broken):
                raise said.error
            elif self.running.pop(said.sibling.step, None) is not None:
                yield said

    def end(self) -> Collection[Sibling]:
        """Ends all that are still executed: their waiting, their processes, their threads. From here on none of them
        touches anything."""
        ended = list(self.running.values())
        self.running = {}
        for sibling in ended:
            sibling.request.ended.set()
        deadline = time.monotonic() + _ENDING_S
        left = ended
        while left and time.monotonic() < deadline:
            self._release()
            left = [sibling for sibling in left if not self._joined(sibling)]
            for sibling in left:
                end_processes_with(SIBLING_MARKER, sibling.mark)
        return ended

    def _joined(self, sibling: Sibling) -> bool:
        thread = self._threads[sibling.step]
        if thread.ident is not None:
            thread.join(_POLL_S)
        return not thread.is_alive()

    def _write(self, told: _Told) -> None:
        if not told.sibling.request.ended.is_set():
            told.sibling.journal.append(told.event)
        told.written.set()

    def _release(self) -> None:
        """Lets go of threads that wait for what nobody writes any more."""
        while True:
            try:
                said = self._said.get_nowait()
            except Empty:
                return
            if isinstance(said, _Told):
                said.written.set()

    def _work(self, sibling: Sibling) -> None:
        ended = sibling.request.ended

        def emit(event: Event) -> None:
            told = _Told(sibling, event)
            if not ended.is_set():
                self._said.put(told)
                told.written.wait()
            if ended.is_set():
                raise StepEndedError

        try:
            started = self._clock()
            result = ask(self._engines[sibling.plan.choice.key], sibling.request, emit)
            self._said.put(Done(sibling, result, started, self._clock()))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._said.put(_Broken(error))
