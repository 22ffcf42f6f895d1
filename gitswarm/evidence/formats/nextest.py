"""Terminal output of cargo-nextest, which no library reads. Its JSON lines: `cargo`, its JUnit file: `junit`."""

from __future__ import annotations

import re

from gitswarm.evidence.formats.coverage import total_coverage
from gitswarm.evidence.formats.reading import CountedCases, Failure, Plain, milliseconds, number
from gitswarm.records.case_results import CaseOutcome, CaseResult

_SUMMARY = re.compile(
    r"\n *Summary \[ *([0-9]{1,9}(?:\.[0-9]{1,6})?)s\] ([0-9]{1,9})(?:/([0-9]{1,9}))? tests? run: ([^\n]{1,300})"
)
_ITEM = re.compile(r"(?:^|, )([0-9]{1,9}) ([a-z]+(?: [a-z]+){0,2})")
_STATUS = re.compile(
    r"\n *(?:TRY [0-9]{1,4} )?(?:(FAIL|TIMEOUT|ABORT|XFAIL|SIG[A-Z0-9]{1,10})(?: \+ LEAK)?|[A-Z]+-FAIL)"
    r" \[ *[>0-9.]{1,20}s\] (?:\( *[0-9]{1,9}/[0-9]{1,9}\) )?([^\n]{1,1000})"
)

_LINE = re.compile(
    r"\n *(?:TRY [0-9]{1,4} )?(?P<status>PASS|SKIP|LEAK|FLAKY|FAIL|TIMEOUT|ABORT|XFAIL|SIG[A-Z0-9]{1,10}|[A-Z]+-FAIL)"
    r"(?: [0-9]{1,4}/[0-9]{1,4})?(?: \+ LEAK)? \[ *[>0-9.s]{0,20}\]"
    r" (?:\( *[0-9]{1,9}/[0-9]{1,9}\) )?(?P<name>[^\n]{1,1000})"
)


def read(plain: Plain) -> CountedCases | None:
    summaries = list(_SUMMARY.finditer(plain.text))
    if not summaries:
        return None
    last = summaries[-1]
    counted = {word: number(digits) for digits, word in _ITEM.findall(_without_brackets(last[4]))}
    run, planned = number(last[2]), number(last[3])
    passed, skipped = counted.get("passed", 0), counted.get("skipped", 0)
    names = dict.fromkeys(f"{match[2].strip()}\n{match[1] or 'FAIL'}" for match in _STATUS.finditer(plain.text))
    return CountedCases(
        "nextest",
        passed=passed,
        failed=max(run - passed, 0),
        skipped=skipped,
        failures=tuple(Failure(*name.split("\n", 1)) for name in names)[: max(run - passed, 0)],
        cases=_cases(plain.text),
        duration_ms=milliseconds(last[1]),
        coverage_percent=total_coverage(plain.text),
        partial=planned > run,
        ends_at=last.end(),
    )


def _cases(text: str) -> tuple[CaseResult, ...]:
    """`shop::tests sums::right`: the binary and the test. Of several tries the last counts."""
    last: dict[str, CaseOutcome] = {}
    for match in _LINE.finditer(text):
        name, status = match["name"].strip(), match["status"]
        failed: CaseOutcome = "skipped" if status == "SKIP" else "failed"
        last[name] = "passed" if status in {"PASS", "LEAK", "FLAKY"} else failed
    return tuple(CaseResult(name, outcome) for name, outcome in last.items())


def _without_brackets(items: str) -> str:
    return re.sub(r" \([^()]{0,100}\)", "", items)
