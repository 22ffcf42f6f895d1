"""What sessions use: counted answer by answer, and as Claude Code adds it up."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.records.receipt import Tokens
from gitswarm.records.text import usd


class AnswerUsage(Struct, frozen=True):
    """What a request used, as far as the provider says: more than once for one answer, its number of output tokens
    last. `id` None: the newest answer of this `parent`, and what is 0 here stays. `billed`: input in units of the
    price of plain input, as a provider of Anthropic's bills what its cache writes and reads."""

    id: str | None
    parent: str | None
    model: str = ""
    prompt: int = 0
    billed: float = 0.0
    completion: int = 0


class Usage(Struct, frozen=True):
    """What a process and, where the CLI remembers them, the earlier ones of its session used, subagents included.

    `own`: tokens of this process's own conversation alone: by them one sees whether it remembered. `cost_usd` in US
    dollars, None: it did not say.
    """

    own: int = 0
    prompt: int = 0
    completion: int = 0
    cost_usd: float | None = None

    def after(self, earlier: Usage) -> Usage:
        """This process and the earlier ones of its session together."""
        remembers = self.prompt + self.completion >= earlier.prompt + earlier.completion + self.own
        if remembers:
            return self
        return earlier.plus(self)

    def plus(self, cut_off: Usage) -> Usage:
        """With what a process used that said no result."""
        return Usage(
            own=cut_off.own,
            prompt=self.prompt + cut_off.prompt,
            completion=self.completion + cut_off.completion,
            cost_usd=usd(self.cost_usd, cut_off.cost_usd),
        )

    def without(self, earlier: Usage) -> Usage:
        """What was used after `earlier`, of the same session."""
        cost = None if earlier.cost_usd is None else usd(self.cost_usd, -earlier.cost_usd)
        return Usage(self.own, self.prompt - earlier.prompt, self.completion - earlier.completion, cost)


NOTHING = Usage(cost_usd=0.0)

Price = Callable[[AnswerUsage], float | None]
"""US dollars for an answer; None: not known."""

Tell = Callable[[Tokens, float | None], None]
"""Is told all that was used so far, and what it cost in US dollars; None: not known."""


class Meter(Struct):
    """What one execution used: all its phases and attempts."""

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

    def count(self, usage: AnswerUsage) -> None:
        name = usage.id or self._newest.get(usage.parent)
        if name is None:
            return
        self._newest[usage.parent] = name
        before = self._answers.get(name)
        after = usage if before is None else _later(before, usage)
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


def _later(before: AnswerUsage, usage: AnswerUsage) -> AnswerUsage:
    """The same answer, of which more is known."""
    return replace(
        before,
        prompt=max(before.prompt, usage.prompt),
        billed=max(before.billed, usage.billed),
        completion=max(before.completion, usage.completion),
    )
