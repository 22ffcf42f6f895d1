"""Writes gitswarm/safety/redact/rules/betterleaks.rules anew: pip install kingfisher-secret-scanner; python
tests/betterleaks_rules.py

The rules are those of Betterleaks (MIT), as kingfisher-secret-scanner carries them. Taken are those whose value
begins with letters of its own: what is known by a name before it is a matter of `assignments`.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import re
import re._constants as code  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "gitswarm" / "safety" / "redact" / "rules" / "betterleaks.rules"
PACKAGE = "kingfisher-secret-scanner"

_HEAD = """\
# Rules of Betterleaks (https://github.com/betterleaks/betterleaks, MIT: see betterleaks.LICENSE), as they stand in
# {package} {version}. Written by tests/betterleaks_rules.py: do not edit.
# Kind, keywords (one of them is in every match), pattern (RE2); least entropy of the value, as the rule says.
"""
_BEGIN = re.compile(r"^(?:\(\?i\))?(?:\\b)?\((?!\?)|^(?:\(\?i\))?(?:\\b)?(?=[A-Za-z])")
_END = re.compile(r"""(?:\(\?:\\\\\?\[.{5,8}\]\|\[\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)|\\b)$""")
_NO_KIND = re.compile(
    r"jwt|private-key|url|host|cookie|uri|curl|-id(?:\.|$)|public|pub-key|credentials|service-account|veles|mail-address",
    re.IGNORECASE,
)
_SHORTEST = 3
_TOO_COMMON = {"https://", "eyj", "sc_"}


def rules(details: list[dict[str, Any]]) -> Iterator[str]:
    """One line for each rule that can be had."""
    for detail in details:
        kind = detail["id"].partition(".")[2].partition(".")[0]
        if not detail["visible"] or detail["path"] or detail["confidence"] != "high" or _NO_KIND.search(detail["id"]):
            continue
        pattern = _bare(detail["detection_regex"])
        if pattern is None:
            continue
        keywords = sorted(_beginnings(pattern))
        if keywords and min(map(len, keywords)) >= _SHORTEST and not _TOO_COMMON & set(keywords):
            yield f"{kind} {','.join(keywords)} {_entropy(detail['betterleaks_filter'])} {pattern}"


def _bare(regex: str) -> str | None:
    """The value alone, without what has to stand before and behind it."""
    folded = "(?i)" if regex.startswith("(?i)") else ""
    begin, end = _BEGIN.search(regex), _END.search(regex)
    body = regex[begin.end() if begin else 0 : end.start() if end else None]
    if begin and begin[0].endswith("("):
        if not body.endswith(")"):
            return None
        body = body[:-1]
    body = re.sub(r"^((?:[^()\[\]\\]|\\.)+)\(\?i\)(.*)$", r"\1(?i:\2)", body)
    try:
        re.compile(body)
    except re.error:
        return None
    is_near = re.search(r"\s|\}\?|\(\?P<|\[\[:", body)  # known by what stands before it
    return folded + body if not is_near else None


def _beginnings(pattern: str) -> set[str]:
    """What a match may begin with, in small letters; empty when that is too much."""
    found = _expanded(list(parser.parse(pattern)))
    return {each.lower() for each in found} if found else set()


def _expanded(items: list[Any]) -> set[str]:
    texts = {""}
    for operation, argument in items:
        more: set[str] | None = None
        if operation is code.LITERAL:
            more = {chr(argument)}
        elif operation is code.SUBPATTERN:
            more = _expanded(list(argument[3]))
        elif operation is code.BRANCH:
            more = set().union(*(_expanded(list(branch)) for branch in argument[1]))
        elif operation is code.IN and all(each is code.LITERAL for each, _letter in argument):
            more = {chr(letter) for _literal, letter in argument}
        if not more or "" in more or len(texts) * len(more) > 12:
            break
        texts = {first + second for first, second in itertools.product(texts, more)}
    return texts


def _entropy(node: Any) -> str:
    """The threshold that a filter compares `entropy(…)` with; 0: none."""
    found: list[str] = []

    def walk(at: Any) -> None:
        if isinstance(at, dict):
            if at.get("operator") in ("<=", "<") and '"entropy"' in repr(at["left"]).replace("'", '"'):
                found.append(str(at["right"].get("value", 0)))
            for inner in at.values():
                walk(inner)
        elif isinstance(at, list):
            for inner in at:
                walk(inner)

    walk(node)
    return found[0] if found else "0"


def main() -> None:
    from kingfisher_sdk import Rules  # type: ignore[import-not-found]  # noqa: PLC0415 - not a dependency

    known = Rules(confidence="low", cache=False)
    lines = sorted(set(rules([known.detail(each["id"]) | each for each in known.metadata()])))
    head = _HEAD.format(package=PACKAGE, version=importlib.metadata.version(PACKAGE))
    TARGET.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
