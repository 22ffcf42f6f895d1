"""`a && b | c > f` as a shell reads it. The grammar hangs a redirect on everything that stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gitswarm.safety.policy.syntax import REDIRECTS

if TYPE_CHECKING:
    from tree_sitter import Node

CHAINS = frozenset({"list", "pipeline", "redirected_statement", "negated_command"})
_PIPES = frozenset({"|", "|&"})
_LINKS = frozenset({"&&", "||"})
_SIGNS = _PIPES | _LINKS | {"!"}


@dataclass(frozen=True, slots=True)
class Part:
    """A command, or a compound one, with the redirects that are its own. `node` None: redirects alone."""

    node: Node | None
    redirects: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`link`: what joins it to the one before, `&&` or `||`; empty for the first."""

    link: str
    parts: tuple[Part, ...]
    negated: bool = False


def pipelines(node: Node) -> Iterator[Pipeline]:
    """
    :param node: one of CHAINS.
    """
    link, negated = "", False
    parts: list[Part] = []
    for each in _flat(node):
        if isinstance(each, Part):
            parts.append(each)
        elif each == "!":
            negated = True
        elif each in _LINKS:
            yield Pipeline(link, tuple(parts), negated)
            link, negated, parts = each, False, []
    yield Pipeline(link, tuple(parts), negated)


def _flat(root: Node) -> list[Part | str]:
    """Parts and the signs between them, from left to right."""
    found: list[Part | str] = []
    waiting: list[Node | tuple[Node, ...]] = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            _redirect_last(found, each)
            waiting += (child for redirect in reversed(each) for child in reversed(rest_of_line(redirect)))
        elif each.type in _SIGNS:
            found.append(each.type)
        elif each.type == "redirected_statement":
            body = each.child_by_field_name("body")
            waiting.append(tuple(child for child in each.children if child != body))
            if body is not None:
                waiting.append(body)
        elif each.type in CHAINS:
            waiting += reversed(each.children)
        else:
            found.append(Part(each))
    return found


def _redirect_last(found: list[Part | str], redirects: tuple[Node, ...]) -> None:
    last = found[-1] if found else None
    if isinstance(last, Part):
        found[-1] = Part(last.node, (*last.redirects, *redirects))
    else:
        found.append(Part(None, redirects))


def rest_of_line(redirect: Node) -> list[Node]:
    """`cat <<E | sh`: what follows stands in the node of the here-document, and so does its text."""
    if redirect.type != "heredoc_redirect":
        return []
    children = redirect.children
    starts = (at for at, child in enumerate(children) if child.type in _SIGNS or child.type == "pipeline")
    begin = next(starts, len(children))
    return [
        child
        for child in children[begin:]
        if child.type not in REDIRECTS and child.type not in ("heredoc_body", "heredoc_end")
    ]
