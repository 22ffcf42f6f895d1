"""The state of a run, by replay of its branch, the base of its code included (docs/decisions/0011-reset.md): nothing
else is asked, so it works after a fetch elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.object_reader import Commit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import FORMAT, CommitMessage, Kind, parse_message
from gitswarm.ledger.steps import OpenConcern, StepRecord, Tally
from gitswarm.records.execution import Execution, Result, RunStatus, Status
from gitswarm.records.text import read

REBASED_FROM = "Swarm-Rebased-From"
"""Trailer of a copy on another base: the commit that executing the step made."""

ONTO = "Swarm-Onto"
"""Trailer of a step that left the run's code merged onto another base: the new base, and the one before."""

REBASED = "Swarm-Rebased"
"""Trailer of the step that ends a rebase: the chain belongs on that base."""

GIVEN_UP = "Swarm-Given-Up"
"""Trailer of the step that takes a rebase back: the run stays on that base."""


class RunBase(Struct, frozen=True):
    """`base`: the commit that the code of a run is a change of; `root`: the one that its chain branches off.
    `before`: the base that a rebase which is under way started from."""

    base: str
    root: str
    before: str | None = None

    @property
    def is_moved(self) -> bool:
        """Whether the chain belongs on another base than it stands on."""
        return self.before is None and self.base != self.root

    def after(self, trailers: Mapping[str, str]) -> RunBase:
        """The bases behind a commit with these trailers."""
        if ONTO in trailers:
            base, _blank, before = trailers[ONTO].partition(" ")
            return replace(self, base=base, before=before)
        if GIVEN_UP in trailers:
            return replace(self, base=trailers[GIVEN_UP], before=None)
        return replace(self, before=None) if REBASED in trailers else self


class RunState(Struct, frozen=True):
    """Where a run stands. `end` is set when the tip is an `end` commit; `ends` counts those so far.

    The first `shared` of `steps` belong to the run that this one was forked from. `format`: as its first commit says.
    `bases`: the base, and a rebase that is under way.
    """

    layout: RunLayout
    run_commit: str
    bases: RunBase
    tip: str
    tip_tree: str
    tip_events: str
    steps: tuple[StepRecord, ...] = ()
    tally: Tally = field(default_factory=Tally)
    end: RunStatus | None = None
    ends: int = 0
    shared: int = 0
    format: int = FORMAT

    @property
    def base(self) -> str:
        """The commit that the run's code is a change of."""
        return self.bases.base

    @property
    def own_steps(self) -> tuple[StepRecord, ...]:
        return self.steps[self.shared :]

    @property
    def last_step(self) -> StepRecord | None:
        """The newest step that the flow led to: an approval or a landing by command is none."""
        return next((record for record in reversed(self.steps) if not record.by_command), None)

    def executions(self, flow: str, step: str) -> int:
        """How often the step's execution was committed: what rules count."""
        return self.tally.executions(flow, step)

    def last_iteration(self, flow: str, step: str) -> int:
        found = self.tally.steps.get((flow, step))
        return found.last_iteration if found else 0

    @property
    def is_judged(self) -> bool:
        """Whether what is proven decides: in runs of format 1 it was only written down."""
        return self.format > 1

    @property
    def executed(self) -> int:
        """How many steps people are shown: an approval or a landing by command is none."""
        return sum(1 for record in self.steps if not record.by_command)

    @property
    def concerns(self) -> tuple[OpenConcern, ...]:
        """The open ones, the oldest first."""
        return tuple(self.tally.concerns.values())

    @property
    def blocking(self) -> tuple[OpenConcern, ...]:
        return tuple(concern for concern in self.concerns if concern.blocking)

    @property
    def tokens(self) -> int:
        return self.tally.tokens

    @property
    def cost_usd(self) -> float | None:
        """The cost of the steps on the branch; None as soon as one of them is unknown: an unknown cost is not 0."""
        return self.tally.cost_usd

    def with_commits(self, commits: Iterable[tuple[Commit, CommitMessage]]) -> RunState:
        """The state after more commits on the branch, oldest first.

        :raises SwarmError: one lacks what every commit of a run says.
        """
        steps, tally, bases = list(self.steps), self.tally, self.bases
        tip, tip_tree, tip_events = self.tip, self.tip_tree, self.tip_events
        end, ends = self.end, self.ends
        for commit, message in commits:
            tip, tip_tree, end = commit.id, commit.tree, None
            if message.trailers["Swarm-Kind"] == Kind.STEP:
                record = _next_record(self.layout, len(steps) + 1, commit, message, tally)
                steps.append(record)
                bases, tally, tip_events = (
                    bases.after(message.trailers),
                    tally.after(record),
                    record.execution.events,
                )
            else:
                ends += 1
                end, tip_events = RunStatus(message.trailers["Swarm-Result"]), self.layout.end_events(ends)
        return replace(
            self,
            bases=bases,
            tip=tip,
            tip_tree=tip_tree,
            tip_events=tip_events,
            steps=tuple(steps),
            tally=tally,
            end=end,
            ends=ends,
        )


def replay(repository: RepositoryReader, layout: RunLayout, tip: str | None = None) -> RunState:
    """
    :param tip: where to look instead of the branch.
    :raises NotFoundError: no such run.
    :raises SwarmError: the branch holds something that we did not write.
    """
    start = tip or _last_own(repository, layout)
    own, run_commit, forked_from = _own_chain(repository, layout, start)
    shared, bases = _shared_history(repository, run_commit, forked_from)
    state = RunState(
        layout=layout,
        run_commit=run_commit.id,
        bases=bases,
        tip=run_commit.id,
        tip_tree=run_commit.tree,
        tip_events=layout.run_events,
        steps=shared,
        tally=reduce(Tally.after, shared, Tally()).without_costs(),
        shared=len(shared),
        format=_format(run_commit),
    )
    return state.with_commits(own)


def first_parents(repository: RepositoryReader, tip: str | None) -> Iterator[tuple[Commit, CommitMessage | None]]:
    """The commits from `tip` down to the first of all, each with its message if that is one of ours."""
    cursor = tip
    while cursor is not None:
        commit = repository.objects.commit(cursor)
        yield commit, parse_message(commit.message)
        cursor = commit.parents[0] if commit.parents else None


def _format(run_commit: Commit) -> int:
    message = parse_message(run_commit.message)
    number = message.trailers["Swarm-Format"] if message is not None else ""
    return int(number) if number.isdecimal() else 1


def _last_own(repository: RepositoryReader, layout: RunLayout) -> str:
    """The branch's tip, or the newest commit of ours below it when an agent or a person put others on top.

    :raises NotFoundError: no such run.
    """
    for commit, message in first_parents(repository, repository.refs.read(layout.branch)):
        if message is not None and _is_whole(layout, commit, message):
            return commit.id
    if repository.refs.read(layout.base_ref) is not None:
        branch = layout.branch.removeprefix("refs/heads/")
        raise NotFoundError(f"{branch} no longer holds a commit of the run", hint=f"git swarm resume {layout.run_id}")
    raise NotFoundError(f"no run {layout.run_id} here", hint="git swarm list")


def _is_whole(layout: RunLayout, commit: Commit, message: CommitMessage) -> bool:
    """Whether it is a commit of this run with everything in its trailers that a replay asks for."""
    if not _is_own(layout, commit, message):
        return False
    try:
        if message.trailers["Swarm-Kind"] == Kind.STEP:
            step_record(layout, 1, commit, message)
    except (KeyError, ValueError):
        return False
    return True


def _is_own(layout: RunLayout, commit: Commit, message: CommitMessage) -> bool:
    """Whether it says that it is a commit of this run, and which kind."""
    trailers = message.trailers
    if trailers.get("Swarm-Run") != layout.run_id or not commit.parents:
        return False
    kind = trailers.get("Swarm-Kind")
    return kind in (Kind.RUN, Kind.STEP) or (kind == Kind.END and trailers.get("Swarm-Result") in list(RunStatus))


_Chain = list[tuple[Commit, CommitMessage]]


def _own_chain(repository: RepositoryReader, layout: RunLayout, start: str) -> tuple[_Chain, Commit, str | None]:
    """A run's own commits behind its first one, oldest first; its first one; what that was forked from."""
    chain: _Chain = []
    for commit, message in first_parents(repository, start):
        if message is None or not _is_own(layout, commit, message):
            raise _foreign(layout, commit.id)
        if message.trailers["Swarm-Kind"] == Kind.RUN:
            return chain[::-1], commit, message.trailers.get("Swarm-Forked-From")
        chain.append((commit, message))
    raise _foreign(layout, start)


def _foreign(layout: RunLayout, commit_id: str) -> SwarmError:
    branch = layout.branch.removeprefix("refs/heads/")
    return SwarmError(
        f"{branch} holds {commit_id[:12]}, which git-swarm did not write for this run", hint=f"git log {branch}"
    )


def _shared_history(
    repository: RepositoryReader, run_commit: Commit, forked_from: str | None
) -> tuple[tuple[StepRecord, ...], RunBase]:
    """Steps that a fork has from the run it came from, and what the code branched off."""
    if forked_from is None:
        return (), RunBase(run_commit.parents[0], run_commit.parents[0])
    other = replay(repository, RunLayout(forked_from.split()[0]), run_commit.parents[0])
    return other.steps, other.bases


def _next_record(layout: RunLayout, number: int, commit: Commit, message: CommitMessage, before: Tally) -> StepRecord:
    """
    :raises SwarmError: the commit lacks what every step says.
    """
    try:
        execution = Execution.of_trailers(layout.run_id, message.trailers)
        executed = before.executions(execution.flow, execution.step) + 1
        return step_record(layout, number, commit, message, executed)
    except (KeyError, ValueError) as error:
        raise _foreign(layout, commit.id) from error


def step_record(
    layout: RunLayout, number: int, commit: Commit, message: CommitMessage, executions: int = 0
) -> StepRecord:
    """A step as its commit says.

    :raises KeyError: a trailer is missing.
    :raises ValueError: one holds what it cannot.
    """
    trailers = message.trailers
    engine, _slash, mode = trailers["Swarm-Engine"].partition("/")
    concerns = trailers.get("Swarm-Concerns", "").split()
    return StepRecord(
        number=number,
        commit=commit.id,
        tree=commit.tree,
        parent=commit.parents[0],
        execution=Execution.of_trailers(layout.run_id, trailers),
        engine=engine,
        mode=mode,
        model=trailers.get("Swarm-Model", "none"),
        status=Status(trailers["Swarm-Status"]),
        result=Result(trailers["Swarm-Result"]),
        summary=message.body or message.subject.partition(": ")[2],
        tokens=int(trailers.get("Swarm-Tokens", "0")),
        cost_usd=read(trailers["Swarm-Cost-USD"]) if "Swarm-Cost-USD" in trailers else None,
        executions=executions,
        stack=tuple(trailers.get("Swarm-Stack", "").split()),
        opened=tuple(each[1:] for each in concerns if each.startswith("+")),
        closed=tuple(each[1:] for each in concerns if each.startswith("-")),
        repeat=int(trailers.get("Swarm-Repeat", "0")),
        fork=trailers.get("Swarm-Fork"),
        sibling=trailers.get("Swarm-Fork-Commit"),
        by_command=trailers.get("Swarm-By") == "command",
        rebased_from=trailers.get(REBASED_FROM),
    )


def copied_message(message: str, origin: str) -> str:
    """The message of a copy of the commit `origin`.

    :param message: that commit's, or that of another copy of it.
    """
    lines = message.rstrip("\n").split("\n")
    kept = lines[:-1] if lines[-1].startswith(f"{REBASED_FROM}: ") else lines
    return "\n".join([*kept, f"{REBASED_FROM}: {origin}"]) + "\n"
