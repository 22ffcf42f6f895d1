"""Doctests that have another name because what they show was renamed or moved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from gitswarm.evidence.case_names import path_within
from gitswarm.evidence.definitions import changed_definitions
from gitswarm.evidence.suite_run import ComparisonIndex, is_doctest
from gitswarm.evidence.test_count import TextChange
from gitswarm.records.case_results import CaseResult

_WORD = re.compile(r"\w+")
_BEGINS = re.compile(r"^( *)(?:async )?(?:def|class) (\w+)")


def moved_examples(judged: ComparisonIndex, lost: Iterable[CaseResult]) -> list[CaseResult]:
    """Those of `lost` of which every line stands in the changed files, by the new names of what the product has
    renamed; as many as doctests are executed that were not there."""
    candidates = [case for case in lost if is_doctest(case)]
    known = judged.base.results.named() if judged.base is not None and judged.base.results is not None else {}
    new = sum(is_doctest(case) and case.is_executed and name not in known for name, case in judged.cases.items())
    if not candidates or not new:
        return []
    changes = judged.proof.changes
    definitions = changed_definitions(changes)
    before = _lines((line for each in changes for line in _split(each.before)), definitions.removed)
    after = _lines((line for each in changes for line in _split(each.after)), definitions.added)
    moved = []
    for case in candidates:
        own = _lines(_shown_by(case, changes), definitions.removed)
        if own and own <= after - (before - own):
            moved.append(case)
    return moved[:new]


def _shown_by(case: CaseResult, changes: Sequence[TextChange]) -> Sequence[str]:
    """The lines of its definition; of its file, where that has none of this name."""
    text = next((each.before for each in changes if (each.old_path or each.path) == case.file), None)
    lines = _split(text)
    name = path_within(case).rpartition(".")[2]
    begins = [(at, len(found[1]), found[2]) for at, line in enumerate(lines) if (found := _BEGINS.match(line))]
    for at, depth, defined in begins:
        if defined == name:
            end = next((later for later, indent, _ in begins if later > at and indent <= depth), len(lines))
            return lines[at:end]
    return lines


def _split(text: str | None) -> Sequence[str]:
    return (text or "").splitlines()


def _lines(lines: Iterable[str], names: Collection[str]) -> Counter[str]:
    """Those that are examples, with one word in place of all these names."""
    examples = (line.strip() for line in lines if line.lstrip().startswith((">>> ", "... ")))
    return Counter(_WORD.sub(lambda word: "_" if word[0] in names else word[0], line) for line in examples)
