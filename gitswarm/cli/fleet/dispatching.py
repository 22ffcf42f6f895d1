"""Gives runs to free slots until none is left that can continue without a person; the hub says how they stand."""

from __future__ import annotations

import queue
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.cli.console import money
from gitswarm.cli.exchange import context_for_hub
from gitswarm.cli.fleet.cluster import SLOT, other_version, slots_of
from gitswarm.cli.fleet.entry_file import FleetEntry, StartOptions
from gitswarm.cli.fleet.fleet_status import GIVEN_UP, NOT_BEGUN, Display, FleetRun, fleet_run_of
from gitswarm.cli.fleet.worker import Answer, Order, execute, version_here
from gitswarm.cli.invocation import now, run_context
from gitswarm.cli.progress import NoticeObserver
from gitswarm.cli.run_execution import apply_durability, log_of, quiet_context
from gitswarm.cli.start import plan_run, rehearsal_words
from gitswarm.engines.names import STUB
from gitswarm.errors import FencedError, GitFailedError, RunHeldError, SwarmError
from gitswarm.git.remote import Remote
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease, look_at_hub
from gitswarm.ledger.reading import run_spec
from gitswarm.ledger.state import replay
from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.run_spec import RunSpec
from gitswarm.records.text import usd
from gitswarm.runner.begin import create_run
from gitswarm.runner.hub.queue import MOST_ATTEMPTS, Queue, is_given_up, is_open, put_in_queue, read_for
from gitswarm.runner.hub.transfer import pull_run
from gitswarm.runner.open_run import open_run
from gitswarm.runner.run_engines import engines_of
from gitswarm.runner.run_session import FrozenSpecs
from gitswarm.runner.specs import read_frozen
from gitswarm.runner.undo.discard import discard_run

if TYPE_CHECKING:
    from distributed import Client, Future

_POLL_S = 0.5
_LOOK_S = 2.0
"""How often the hub is read for the table."""
_PAUSES_S = (0.5, 1.0, 5.0)
"""Before a run is tried again, by how many attempts had no new step."""

ELSEWHERE = "elsewhere"


class Job(Struct):
    """`entry` None: a run that was named. `failures`: attempts in a row without a new step. `ended`: nothing more is
    to be done about it by this process. `providers`: of models that it may ask; None: nobody has looked."""

    entry: FleetEntry | None
    run_id: str | None
    steps: int = 0
    failures: int = 0
    not_before: float = 0.0
    ended: bool = False
    state: str = NOT_BEGUN
    attempts: int = 0
    providers: frozenset[str] | None = None


class Fleet(Struct):
    """
    :param queued: what the hub had when the jobs were made.
    :param here: whether runs are executed in this repository; else in clones of the workers.
    :param limit_usd: what all runs together may have cost when one more is begun.
    :param at_once: by provider, how many runs that ask it may be executed at the same time.
    """

    repository: Repository
    remote: Remote
    queued: Queue
    jobs: Sequence[Job]
    display: Display
    here: bool
    limit_usd: float | None
    at_once: Mapping[str, int]
    problem: SwarmError | None = None
    spent_out: bool = False
    _name: str = field(default_factory=lambda: f"fleet-{secrets.token_hex(4)}")
    _answers: queue.SimpleQueue[tuple[Job, Future[Answer]]] = field(default_factory=queue.SimpleQueue)
    _running: dict[str, tuple[Job, Future[Answer]]] = field(default_factory=dict)
    _notices: set[str] = field(default_factory=set)
    _planned: dict[StartOptions, frozenset[str]] = field(default_factory=dict)
    _looked: float = 0.0
    _is_stopping: bool = False

    def work(self, client: Client, presses: Callable[[], int]) -> None:
        """Until nothing is left to do, or it is to stop.

        :param presses: how often it was asked to stop: once, behind the steps; twice, now.
        """
        passed_on = 0
        try:
            while True:
                wanted = max(presses(), 1 if self.problem else 0)
                self._is_stopping = wanted > 0
                if wanted > passed_on:
                    self._pass_on(client, wanted)
                    passed_on = wanted
                if not wanted:
                    self._try_to_fill(client)
                if not self._running and (wanted or self.spent_out or all(job.ended for job in self.jobs)):
                    return
                self._take_answer(client)
                self._show()
        except (OSError, TimeoutError) as error:  # Dask's: the connection is gone
            self.problem = SwarmError(
                f"the scheduler is gone; what was pushed is on the hub ({error})",
                hint="git swarm fleet serve, git swarm fleet work URL, and then the same command again",
            )

    def _pass_on(self, client: Client, wanted: int) -> None:
        from distributed import Event  # noqa: PLC0415

        running = f"{len(self._running)} running"
        how = "now" if wanted > 1 else f"after the steps that are executed ({running}); Ctrl-C again stops now"
        self.display.notice(f"stopping {how}")
        for name in ("stop", "now")[:wanted]:
            Event(f"{self._name}/{name}", client=client).set()

    def _try_to_fill(self, client: Client) -> None:
        """What goes wrong here is told when the runs that are executed have stopped."""
        try:
            self._fill(client)
        except SwarmError as error:
            self.problem = error

    def _fill(self, client: Client) -> None:
        free = slots_of(client) - len(self._running)
        if not self._running and free <= 0:
            self._notice_once(
                "no worker has joined yet: git swarm fleet work URL   (on the machines that are to work)"
            )
        for job in self.jobs:
            if free <= 0 or self.problem:
                return
            if job.ended or job.run_id in self._running or job.not_before > time.monotonic():
                continue
            if not self._provider_has_room(job):
                continue
            if self._is_spent():
                return
            is_new = bring_to_hub(self.repository, self.remote, job, self.queued, self._notice_once)
            if is_new and job.entry is not None:
                payload = {"entry": job.entry.location}
                self.display.event("created", job.run_id, f"created: {job.entry.title}", payload)
            self._submit(client, job)
            free -= 1

    def _provider_has_room(self, job: Job) -> bool:
        """Whether one more run may ask what the job's run asks."""
        if not self.at_once:
            return True
        if job.providers is None:
            job.providers = self._providers_of(job)
        running = Counter(each for other, _future in self._running.values() for each in other.providers or ())
        return all(running[each] < number for each, number in self.at_once.items() if each in job.providers)

    def _providers_of(self, job: Job) -> frozenset[str]:
        if job.run_id is not None:
            return providers_of_run(self.repository, self.remote, RunLayout(job.run_id))
        assert job.entry is not None  # noqa: S101
        how = replace(job.entry.options, task="-", priority=0)
        if how not in self._planned:
            new = plan_run(self.repository, how.run_options()).new
            self._planned[how] = providers_of(new.spec, new.specs)
        return self._planned[how]

    def _is_spent(self) -> bool:
        if self.limit_usd is None:
            return False
        ours = {job.run_id for job in self.jobs}
        leases = self._leases()
        cost = usd(*(fleet_run_of(lease).cost_usd for run, lease in leases.items() if run in ours))
        if cost is not None and cost < self.limit_usd:
            return False
        self.spent_out = True
        self._notice_once(f"no more runs are begun: {money(cost)} of {money(self.limit_usd)} are spent (--max-cost)")
        return True

    def _submit(self, client: Client, job: Job) -> None:
        assert job.run_id is not None  # noqa: S101
        job.attempts += 1
        folder = self.repository.checkout or self.repository.common_dir
        logs = log_of(self.repository, job.run_id).parent
        order = Order(
            job.run_id,
            version_here(),
            self._name,
            self.remote.name if self.here else self.remote.url,
            (str(folder), str(logs)) if self.here else None,
        )
        key = f"{self._name}/{job.run_id}/{job.attempts}"  # a key that has ended would answer from memory
        future = client.submit(execute, order, key=key, resources={SLOT: 1}, pure=False)
        self._running[job.run_id] = job, future
        future.add_done_callback(lambda done: self._answers.put((job, done)))
        self.display.event("submitted", job.run_id, f"begins, attempt {job.attempts}", {"attempt": job.attempts})

    def _take_answer(self, client: Client) -> None:
        try:
            job, future = self._answers.get(timeout=_POLL_S)
        except queue.Empty:
            if client.status not in ("running", "newly-created"):
                raise ConnectionError(client.status) from None
            return
        assert job.run_id is not None  # noqa: S101
        if self._running.pop(job.run_id, None) is None:
            return
        if future.cancelled() or future.status == "lost":
            raise ConnectionError(future.status)
        answer = future.result() if future.status == "finished" else Answer(1, f"{future.exception()}")
        if answer.version is not None:
            self.problem = other_version("it was given to", answer.version)
            return
        self._settle(job, answer)

    def _settle(self, job: Job, answer: Answer) -> None:
        """The outcome of a run whose process has ended: ended, tried again or given up."""
        run = job.run_id or ""
        lease = self._lease(run)
        found, is_further = fleet_run_of(lease) if lease is not None else None, False
        if lease is not None and found is not None:
            is_further = found.steps > job.steps
            job.steps, job.state = found.steps, found.state
        job.failures = 0 if is_further else job.failures + 1
        payload: dict[str, JsonValue] = {
            "exit_code": answer.code,
            "state": job.state,
            "steps": job.steps,
            "attempt": job.attempts,
        }
        # Of an attempt that failed the hub still says how the one before it ended: also one that was told to stop.
        is_stopped = job.state == RunStatus.STOPPED.value and answer.code == 0
        is_over = lease is not None and (not is_open(lease) or is_stopped)
        if answer.code == FencedError.exit_code:
            job.ended, job.state = True, ELSEWHERE
            self.display.event("ended", run, f"is executed elsewhere: {answer.said}", {**payload, "state": ELSEWHERE})
        elif is_over:
            job.ended = True
            self._bring_home(run)
            self.display.event("ended", run, job.state, payload)
        elif (lease is not None and is_given_up(lease)) or job.failures >= MOST_ATTEMPTS:
            job.ended, job.state = True, GIVEN_UP
            self.display.event(
                "ended", run, f"given up: {answer.said}", {**payload, "state": GIVEN_UP, "said": answer.said}
            )
        elif self._is_stopping:
            self.display.event("ended", run, job.state, payload)
        else:
            job.not_before = time.monotonic() + _PAUSES_S[job.failures]
            self.display.event("retried", run, f"is tried again: {answer.said}", {**payload, "said": answer.said})

    def _lease(self, run: str) -> Lease | None:
        with suppress(GitFailedError):
            return look_at_hub(self.repository, self.remote, RunLayout(run)).leases.get(run)
        return None

    def _bring_home(self, run: str) -> None:
        """What a worker did is looked at, approved and landed here."""
        layout = RunLayout(run)
        if self.here:
            return
        try:
            pull_run(self.repository, self.remote, layout, context_for_hub(self.repository, layout))
        except (GitFailedError, RunHeldError) as error:
            self.display.notice(f"{run} is not here yet: {error.message}: git swarm pull {run}")

    def _notice_once(self, text: str) -> None:
        if text not in self._notices:
            self._notices.add(text)
            self.display.notice(text)

    def _show(self) -> None:
        if time.monotonic() - self._looked >= _LOOK_S:
            self._looked = time.monotonic()
            with suppress(GitFailedError):
                self.display.update(self.fleet_runs)

    def fleet_runs(self) -> list[FleetRun]:
        """All runs of the fleet, as the hub has them.

        :raises GitFailedError: the hub cannot be reached.
        """
        leases = self._leases()
        return [self._fleet_run(job, leases.get(job.run_id or "")) for job in self.jobs]

    def _leases(self) -> dict[str, Lease]:
        """The leases by run, as they are now; of archived runs as they were when the jobs were made."""
        return {**self.queued.leases, **look_at_hub(self.repository, self.remote).leases}

    def _fleet_run(self, job: Job, lease: Lease | None) -> FleetRun:
        if lease is None:
            return FleetRun(job.run_id, NOT_BEGUN, job.entry.title if job.entry else "-")
        found = fleet_run_of(lease)
        return replace(found, state=job.state) if job.ended and job.state in (ELSEWHERE, GIVEN_UP) else found


def providers_of(spec: RunSpec, specs: FrozenSpecs) -> frozenset[str]:
    """The providers of the models that a run may ask; the stub asks none."""
    choices = engines_of(spec.settings, specs.flows.values(), specs.sidequests.values())
    return frozenset(choice.provider for choice in choices if choice.mode != STUB)


def providers_of_run(repository: Repository, remote: Remote, layout: RunLayout) -> frozenset[str]:
    """The providers of a run on the hub; it is brought here to be looked at."""
    if repository.refs.read(layout.branch) is None:
        pull_run(repository, remote, layout, context_for_hub(repository, layout))
    state = replay(repository, layout)
    tree = repository.objects.commit(state.run_commit).tree
    return providers_of(run_spec(repository, state), read_frozen(repository, layout, tree))


def bring_to_hub(
    repository: Repository, remote: Remote, job: Job, queued: Queue, notice: Callable[[str], object]
) -> bool:
    """Makes the run of an entry that has none, or takes that of somebody faster; whether a new one was made.

    :param queued: what the hub had when the jobs were made.
    """
    if job.entry is None or job.run_id is not None:
        return False
    queued = read_for(repository, remote, job.entry.name, queued)
    job.run_id = queued.runs.get(job.entry.name)
    if job.run_id is not None:
        return False
    planned = plan_run(repository, job.entry.options.run_options())
    apply_durability(repository, planned.config)
    for line in filter(None, (rehearsal_words(planned.new), *planned.notices)):
        notice(line)
    context = run_context(planned.config, NoticeObserver())
    with create_run(repository, planned.new, context, ()) as (_session, state):
        layout = state.layout
    job.run_id = put_in_queue(repository, remote, layout, now, (job.entry.name, queued))
    if job.run_id != layout.run_id:
        with open_run(repository, layout, quiet_context(repository, layout)) as opened:
            discard_run(opened.session, opened.state, force=True)
    return True


def job_of(entry: FleetEntry | None, run: str | None, queued: Queue) -> Job:
    """To be done if it can continue without a person; else it is as it is."""
    lease = queued.leases.get(run or "")
    if lease is None:
        return Job(entry, run)
    found = fleet_run_of(lease)
    return Job(entry, run, steps=found.steps, state=found.state, ended=not is_open(lease) or is_given_up(lease))
