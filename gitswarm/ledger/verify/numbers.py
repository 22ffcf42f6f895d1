"""Iterations, ends and totals count up along the chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from gitswarm.ledger.message import Kind
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.link import Link
from gitswarm.ledger.verify.schemas import Papers

StepKey = tuple[str, str]
"""Flow and step."""


class ChainCounts(Struct, frozen=True):
    """What the chain had so far: steps, ends of its own, highest iteration of each step, steps that did not fail."""

    steps: int = 0
    ends: int = 0
    iterations: Mapping[StepKey, int] = field(default_factory=dict)
    completed: frozenset[StepKey] = frozenset()

    def after(self, link: Link) -> ChainCounts:
        if link.kind is Kind.RUN:
            return ChainCounts(self.steps, 0, self.iterations, self.completed)
        if link.execution is None:
            return ChainCounts(self.steps, self.ends + 1, self.iterations, self.completed)
        key = (link.execution.flow, link.execution.step)
        highest = max(self.iterations.get(key, 0), link.execution.iteration)
        completed = self.completed if link.is_failed else self.completed | {key}
        return ChainCounts(self.steps + 1, self.ends, {**self.iterations, key: highest}, completed)


def check_numbers(
    link: Link, papers: Papers, before: ChainCounts, elsewhere: Mapping[StepKey, int] | None
) -> Iterator[Mismatch]:
    """
    :param elsewhere: highest iterations of executions that came to no commit on the branch: they leave gaps. None:
        that is not known here.
    """
    if link.kind is Kind.END:
        yield from _end(link, papers, before)
    elif link.execution is not None:
        execution = link.execution
        key = (execution.flow, execution.step)
        last = before.iterations.get(key, 0)
        if execution.iteration <= last:
            yield link.finding("numbers", f"iteration {execution.iteration} comes after iteration {last}")
        elif elsewhere is not None and execution.iteration > max(last, elsewhere.get(key, 0)) + 1:
            yield link.finding("numbers", f"iteration {execution.iteration} comes after {last}: one is missing")


def _end(link: Link, papers: Papers, before: ChainCounts) -> Iterator[Mismatch]:
    if link.said.get("Swarm-Iteration") != str(before.ends + 1):
        yield link.finding("numbers", f"it is the end number {before.ends + 1} of the run")
    told = papers.events[-1].payload if papers.events else {}
    for name, count in (("total_steps_executed", before.steps), ("steps_completed", len(before.completed))):
        if name in told and told[name] != count:
            yield link.finding("numbers", f"{name} is {told[name]}, the chain has {count}", link.events)
