"""Executes engines at the same time, one thread each. Threads only run engines: their events are written by the
caller's thread, which is the only one that touches git and the ledger."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from queue import Empty, SimpleQueue

from msgspec import Struct, field

from gitswarm.engines.base import StepEndedError, StepResult
from gitswarm.process_table import end_processes_with
from gitswarm.records.base import Clock
from gitswarm.records.event import Event
from gitswarm.runner.engines import Engines
from gitswarm.runner.session import SIBLING_MARKER
from gitswarm.runner.step.execute import ask
from gitswarm.runner.step.plan import OpenStep

_ENDING_S = 20.0
_POLL_S = 0.05


class Done(Struct, frozen=True):
    """A step whose engine has returned."""

    step: OpenStep
    result: StepResult


class _Emitted(Struct, frozen=True):
    """An event that waits to be written."""

    step: OpenStep
    event: Event
    written: threading.Event = field(default_factory=threading.Event)


class _Broken(Struct, frozen=True):
    """Our own fault, to be raised where it can be dealt with."""

    error: BaseException


class ParallelSteps:
    """Steps in execution. Iterating gives each as soon as it is done; the caller may end the others meanwhile."""

    def __init__(self, steps: Sequence[OpenStep], engines: Engines, clock: Clock) -> None:
        self._clock = clock
        self._engines = engines
        self._queue: SimpleQueue[_Emitted | Done | _Broken] = SimpleQueue()
        self._threads = {
            step.name: threading.Thread(target=self._work, args=(step,), name=step.name, daemon=True)
            for step in steps
        }
        self.running = {step.name: step for step in steps}

    def __iter__(self) -> Iterator[Done]:
        for thread in self._threads.values():
            thread.start()
        while self.running:
            try:
                # With a timeout: a signal that comes just before Python waits here is handled only when it wakes up.
                item = self._queue.get(timeout=_POLL_S)
            except Empty:
                continue
            if isinstance(item, _Emitted):
                self._write(item)
            elif isinstance(item, _Broken):
                raise item.error
            elif self.running.pop(item.step.name, None) is not None:
                yield item

    def end(self) -> Collection[OpenStep]:
        """Ends all that are still executed: their waiting, their processes, their threads. From here on none of them
        touches anything."""
        ended = list(self.running.values())
        self.running = {}
        for step in ended:
            step.request.ended.set()
        deadline = time.monotonic() + _ENDING_S
        left = ended
        while left and time.monotonic() < deadline:
            left = [step for step in left if not self._joined(step)]
            for step in left:
                end_processes_with(SIBLING_MARKER, step.plan.mark)
        return ended

    def _joined(self, step: OpenStep) -> bool:
        thread = self._threads[step.name]
        if thread.ident is not None:
            thread.join(_POLL_S)
        return not thread.is_alive()

    def _write(self, emitted: _Emitted) -> None:
        if not emitted.step.request.ended.is_set():
            emitted.step.journal.append(emitted.event)
        emitted.written.set()

    def _work(self, step: OpenStep) -> None:
        ended = step.request.ended

        def emit(event: Event) -> None:
            emitted = _Emitted(step, event)
            if not ended.is_set():
                self._queue.put(emitted)
                while not (emitted.written.wait(_POLL_S) or ended.is_set()):  # who should write it may be interrupted
                    pass
            if ended.is_set():
                raise StepEndedError

        try:
            result = ask(self._engines[step.plan.choice.key], step.request, emit, self._clock)
            self._queue.put(Done(step, result))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._queue.put(_Broken(error))
