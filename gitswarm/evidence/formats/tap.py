"""Test Anything Protocol 12 to 14, as Perl, node, bats and vitest write it.

The readers on PyPI were tried and left: tap.py 3.2 (the one that is maintained) does not see subtests, cuts names
at an escaped `#`, prints to our output and raises at an old version line.

Leaves are counted: a test with subtests stands for them, unless it failed while they passed. SKIP and TODO
count as skipped. A planned test that did not run is a failure, and so is `Bail out!`.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from gitswarm.evidence.formats.test_output import SCRIPTS, CountedCases, Failure, Plain, milliseconds, number
from gitswarm.records.evidence import CaseOutcome, CaseResult

_LINE = re.compile(
    r"\n(?P<indent> *)(?:(?P<failed>not )?ok\b(?: +(?P<id>[0-9]{1,9}))?(?: +-)?(?P<name>[^\n]{0,1000})"
    r"|1\.\.(?P<plan>[0-9]{1,9})(?= *(?:#|\n))"
    r"|(?P<bail>Bail out!)(?P<why>[^\n]{0,200}))"
)
_VERSION = re.compile(r"\nTAP version [0-9]{1,3}(?=\n)")
_DIRECTIVE = re.compile(r"(?<!\\)# *(skip|todo)", re.IGNORECASE)
_COMMENT = re.compile(r" *(?<!\\)# (?:time=|SKIP|TODO|skip|todo)")
_ERROR = re.compile(r"\n {0,40}(?:error|message): *(?:\|-?\n)?([^\n]{1,300})")
_COMMENTED = re.compile(r"(?:\n *# [^\n]{0,300}){1,4}")
_DURATION = re.compile(r"\n# duration_ms ([0-9]{1,12}(?:\.[0-9]{1,9})?)")


class _Count(Struct):
    """Results whose parent has not come yet, by indentation, and what is counted so far.

    `braces`: parents come first, as vitest writes them, and end with one; `around` are those that are open.
    `cases` are by indentation too, for a parent that comes last gives its name to them.
    """

    open: list[tuple[int, bool]] = field(default_factory=list)
    cases: dict[int, list[CaseResult]] = field(default_factory=dict)
    around: list[tuple[int, str]] = field(default_factory=list)
    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    top: int = 0
    plan: int | None = None
    bailed: bool = False
    braces: bool = False


def read(plain: Plain) -> CountedCases | None:
    text, counting, ends_at = plain.text, _Count(), 0
    for match in _LINE.finditer(text):
        ends_at = match.end()
        if match["plan"] is not None:
            counting.plan = number(match["plan"]) if not match["indent"] else counting.plan
        elif match["bail"]:
            counting.bailed = True
            counting.failures.append(Failure("Bail out!", match["why"].strip()))
        else:
            _result(counting, match, text)
    if not _VERSION.search(text) and (counting.plan is None or not (counting.top or counting.plan == 0)):
        return None
    _missing(counting, cut=plain.cut)
    duration = _DURATION.search(text)
    return CountedCases(
        "tap",
        passed=counting.passed,
        failed=len(counting.failures),
        skipped=counting.skipped,
        failures=tuple(counting.failures),
        cases=tuple(case for depth in sorted(counting.cases) for case in counting.cases[depth]),
        duration_ms=milliseconds(duration[1], "ms") if duration else None,
        partial=plain.cut or counting.plan is None,
        runs=max(1, len(_VERSION.findall(text))),
        ends_at=ends_at,
    )


def _result(counting: _Count, match: re.Match[str], text: str) -> None:
    depth, name = len(match["indent"]), match["name"]
    children = []
    counting.braces = counting.braces or name.rstrip().endswith("{")
    while counting.open and counting.open[-1][0] > depth and not counting.braces:
        children.append(counting.open.pop()[1])
    directive = _DIRECTIVE.search(name)
    failed = bool(match["failed"]) and not directive
    counting.top += depth == 0
    counting.open.append((depth, failed or any(children)))
    if name.rstrip().endswith("{"):
        counting.around = [(at, title) for at, title in counting.around if at < depth]
        counting.around.append((depth, _title(match)))
        return
    _take_in(counting, depth, _title(match))
    if children and (any(children) or not failed):
        return
    if failed:
        counting.failures.append(Failure(_title(match), _message(text, match.end())))
    elif directive:
        counting.skipped += 1
    else:
        counting.passed += 1
    outcome = _outcome(directive, failed=bool(match["failed"]), braces=counting.braces)
    above = [title for at, title in counting.around if at < depth]
    title = _title(match)
    if title.startswith("/") and title.endswith(SCRIPTS):  # a whole file, as node calls one that it could not load
        case = CaseResult(title, "error" if outcome == "failed" else outcome, title)
    else:
        case = CaseResult(" > ".join((*above, title)), outcome)
    counting.cases.setdefault(depth, []).append(case)


def _take_in(counting: _Count, depth: int, parent: str) -> None:
    """Cases that stand deeper get their parent's name."""
    if counting.braces:
        return
    for deeper in [at for at in counting.cases if at > depth]:
        inner = counting.cases.pop(deeper)
        renamed = (case._replace(name=f"{parent} > {case.name}") for case in inner)
        counting.cases.setdefault(depth, []).extend(renamed)


def _outcome(directive: re.Match[str] | None, *, failed: bool, braces: bool) -> CaseOutcome:
    """What is TODO was run and may fail; vitest, whose tests stand in braces, does not run it."""
    if directive is None:
        return "failed" if failed else "passed"
    if braces or directive[1].lower() == "skip":
        return "skipped"
    return "xfailed" if failed else "xpassed"


def _title(match: re.Match[str]) -> str:
    title = _COMMENT.split(match["name"].rstrip().removesuffix("{"), maxsplit=1)[0].strip().replace("\\#", "#")
    return title or f"test {match['id'] or '?'}"


def _message(text: str, begin: int) -> str:
    """What stands below a failed test: the error of a YAML block, or comments."""
    below = text[begin : begin + 1_000]
    following = _LINE.search(below)
    below = below[: following.start()] if following else below
    found = _ERROR.search(below) or _COMMENTED.match(below)
    return found[0].strip() if found else ""


def _missing(counting: _Count, *, cut: bool) -> None:
    if counting.plan is None or counting.bailed or cut or counting.top >= counting.plan:
        return
    counting.failures.append(Failure("plan", f"{counting.plan} planned, {counting.top} run"))
