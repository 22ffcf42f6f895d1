"""What a flow's charter says to those who work by it: every step's agent, and the navigator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gitswarm.specs.context import sized
from gitswarm.specs.flow import Charter, Flow, OffroadPolicy


def told_charter(charter: Charter, limit: int, expand: Callable[[str], str] = str.strip) -> str:
    """The goal, and of the rest what fits: the most binding first; what found no room is named with its size.

    :param limit: characters of everything but the goal.
    :param expand: replaces the marks in authored text.
    """
    parts = [expand(charter.goal)]
    left_out: list[str] = []
    for name, text in _parts(charter, expand):
        if len(text) > limit:
            left_out.append(sized(name, text))
            continue
        limit -= len(text)
        parts.append(text)
    if left_out:
        parts.append(f"[CONTEXT_TRUNCATED] left out of the charter: {', '.join(left_out)}")
    return "\n\n".join(parts)


def _parts(charter: Charter, expand: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Name and text of each part that the charter has."""

    def items(title: str, entries: Iterable[str]) -> str:
        return f"{title}:\n\n" + "\n".join(f"- {expand(entry)}" for entry in entries)

    policy = charter.offroad_policy
    if charter.prime_directive.strip():
        yield "prime_directive", f"Above all: {expand(charter.prime_directive)}"
    if charter.question.strip():
        yield "question", f"The question that the flow answers: {expand(charter.question)}"
    if charter.exit_criteria:
        yield "exit_criteria", items("The flow is through when", charter.exit_criteria)
    if charter.non_goals:
        yield "non_goals", items("No part of it", charter.non_goals)
    if policy.justified:
        yield "offroad_policy.justified", items("Reasons to leave the way of the flow", policy.justified)
    if policy.not_justified:
        yield "offroad_policy.not_justified", items("No reasons to leave it", policy.not_justified)


def invoked_rule(flow: Flow, named: str | None) -> str | None:
    """The `justified` entry of the flow's charter that is meant, as it stands there; None: none is."""
    return _entry(_policy(flow).justified, named)


def offroad_problem(flow: Flow, named: str | None) -> str | None:
    """Why the charter does not let the flow's graph be left by the entry that is named; None: it does."""
    policy = _policy(flow)
    if _entry(policy.not_justified, named) is not None:
        return f"the charter of {flow.id} does not allow it: {named!r} is not_justified"
    if not policy.justified or invoked_rule(flow, named) is not None:
        return None
    what = "needs offroad_rule" if named is None else f"offroad_rule {named!r} is no entry"
    return f"{what}: one of offroad_policy.justified in the charter of {flow.id}, word for word"


def _policy(flow: Flow) -> OffroadPolicy:
    return flow.charter.offroad_policy if flow.charter is not None else OffroadPolicy()


def _entry(entries: Iterable[str], named: str | None) -> str | None:
    return next((entry for entry in entries if named is not None and _plain(entry) == _plain(named)), None)


def _plain(text: str) -> str:
    """Without what differs between a folded line of YAML and a quotation of it."""
    return " ".join(text.split()).strip("-. ").casefold()
