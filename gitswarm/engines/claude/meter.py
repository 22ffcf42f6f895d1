"""What a step's sessions have used so far, counted answer by answer: they may never come to their result."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.claude.said import AnswerUsage, Usage
from gitswarm.records.money import usd
from gitswarm.records.receipt import Tokens

Price = Callable[[AnswerUsage], float | None]
"""US dollars for an answer; None: not known."""

Tell = Callable[[Tokens, float | None], None]
"""Is told all that was used so far, and what it cost in US dollars; None: not known."""


class Meter(Struct):
    """Of one execution: all its phases and attempts."""

    price: Price
    tell: Tell
    _answers: dict[str, AnswerUsage] = field(default_factory=dict)
    _newest: dict[str | None, str] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """The cost is unknown as long as nothing was answered: what a request takes that is under way nobody says."""
        answers = self._answers.values()
        prompt, completion = sum(each.prompt for each in answers), sum(each.completion for each in answers)
        cost = usd(*map(self.price, answers)) if answers else None
        return Usage(own=prompt + completion, prompt=prompt, completion=completion, cost_usd=cost)

    def begin(self) -> None:
        """A session begins."""
        if not self._answers:
            self._report()

    def count(self, said: AnswerUsage) -> None:
        name = said.id or self._newest.get(said.parent)
        if name is None:
            return
        self._newest[said.parent] = name
        before = self._answers.get(name)
        after = said if before is None else _later(before, said)
        if after != before:
            self._answers[name] = after
            self._report()

    def since(self, earlier: Usage) -> Usage:
        """What was used after the meter said `earlier`."""
        now = self.usage
        if now.own == earlier.own:
            return Usage()
        cost = usd(now.cost_usd, -(earlier.cost_usd or 0.0))
        return Usage(now.own - earlier.own, now.prompt - earlier.prompt, now.completion - earlier.completion, cost)

    def _report(self) -> None:
        used = self.usage
        self.tell(Tokens.of(used.prompt, used.completion), used.cost_usd)


def _later(before: AnswerUsage, said: AnswerUsage) -> AnswerUsage:
    """The same answer, of which more is known."""
    return replace(
        before,
        prompt=max(before.prompt, said.prompt),
        billed=max(before.billed, said.billed),
        completion=max(before.completion, said.completion),
    )
