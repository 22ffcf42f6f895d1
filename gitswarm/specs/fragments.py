"""Prompt text that steps share: fragments and their variables, step templates, and the flow's charter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from gitswarm.errors import SpecError
from gitswarm.records.record import Record
from gitswarm.records.text import did_you_mean
from gitswarm.specs.context import sized
from gitswarm.specs.flow import Charter, Flow, Identifier, Microloop, OffroadPolicy, Step

_MARK = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_FRAGMENT = "fragment:"


class Fragments(Struct, frozen=True):
    """Texts by path without suffix: `common/evidence`."""

    texts: Mapping[str, str]

    def expand(self, text: str, variables: Mapping[str, str], where: str, used: dict[str, None] | None = None) -> str:
        """Replaces `{{fragment:path}}` by that fragment, nested ones too, and `{{name}}` by its variable.

        What a variable holds is not looked at again: nobody's data can pull a fragment in.

        :param where: what the text belongs to, for errors.
        :param used: gets the fragments in it, in the order of their first use.
        :raises SpecError: an unknown fragment or variable, or a fragment that contains itself.
        """
        return self._expand(text, variables, (where,), {} if used is None else used)

    def _expand(self, text: str, variables: Mapping[str, str], around: tuple[str, ...], used: dict[str, None]) -> str:
        def replacement(mark: re.Match[str]) -> str:
            name = mark[1]
            if name.startswith(_FRAGMENT):
                return self._fragment(name.removeprefix(_FRAGMENT).strip(), variables, around, used)
            if name not in variables:
                near = did_you_mean(name, list(variables))
                raise SpecError([f"{around[-1]}: unknown variable '{{{{{name}}}}}'{near}"])
            return variables[name]

        if "{{" in _MARK.sub("", text):
            raise SpecError([f"{around[-1]}: a '{{{{' without its '}}}}', or with nothing in between"])
        return _MARK.sub(replacement, text)

    def _fragment(
        self, name: str, variables: Mapping[str, str], around: tuple[str, ...], used: dict[str, None]
    ) -> str:
        if name not in self.texts:
            near = did_you_mean(name, list(self.texts))
            raise SpecError([f"{around[-1]}: unknown fragment '{name}'{near}"])
        here = f"fragment {name}"
        if here in around:
            raise SpecError([f"{here} contains itself: {' -> '.join(around[1:])} -> {here}"])
        used.setdefault(name)
        return self._expand(self.texts[name].strip(), variables, (*around, here), used)


class StepTemplate(Record):
    """`flows/templates/<id>.yaml`. Fragments are paths below `flows/fragments/`."""

    id: Identifier
    title: str
    fragments: tuple[str, ...] = ()
    emphasizes: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


DETOUR_TEMPLATE = "artifact-writer"
"""The template of steps of sidequests and injected nodes."""


def template_id(flow: Flow, step: Step) -> str:
    """The template that a step names, else the one of its place in a microloop."""
    if step.template is not None:
        return step.template
    if isinstance(step.routing, Microloop):
        return "microloop-critic"
    return "microloop-writer" if critics_of(flow, step) else DETOUR_TEMPLATE


def critics_of(flow: Flow, step: Step) -> tuple[Step, ...]:
    """Steps that send the flow back to this one."""
    return flow.critics.get(step.id, ())


def loop_variables(flow: Flow, step: Step) -> Mapping[str, str]:
    """What authored text may say about the microloop of a step; empty for a step in none."""
    if isinstance(step.routing, Microloop):
        author, limit = step.routing.loop_target, step.routing.max_iterations
        return {"loop.author": author, "loop.critic": step.id, "loop.max_iterations": str(limit)}
    critics = critics_of(flow, step)
    return {"loop.author": step.id, "loop.critic": ", ".join(c.id for c in critics)} if critics else {}


def charter_text(charter: Charter, limit: int, expand: Callable[[str], str] = str.strip) -> str:
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
    """The text without what differs between a folded line of YAML and a quotation of it."""
    return " ".join(text.split()).strip("-. ").casefold()
