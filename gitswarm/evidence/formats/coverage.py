"""Total coverage in tables of coverage.py, Go, Istanbul (jest, vitest), tarpaulin and llvm-cov; no library does."""

from __future__ import annotations

import re

_TOTALS = (
    re.compile(r"^TOTAL[^\n%]{1,120}?[ \t]([0-9]{1,3}(?:\.[0-9]{1,9})?)%[ \t]*$", re.MULTILINE),
    re.compile(r"^total:\s{1,40}\(statements\)\s{1,40}([0-9]{1,3}(?:\.[0-9]{1,9})?)%", re.MULTILINE),
    re.compile(r"^All files[ \t]{0,200}\|[ \t]{0,20}([0-9]{1,3}(?:\.[0-9]{1,9})?)[ \t]{0,20}\|", re.MULTILINE),
    re.compile(r"^([0-9]{1,3}(?:\.[0-9]{1,9})?)% coverage, [0-9]", re.MULTILINE),
)
_GO_PACKAGE = re.compile(r"coverage: ([0-9]{1,3}(?:\.[0-9]{1,9})?)% of statements")
_LLVM_TOTAL = re.compile(r"^TOTAL[ \t].{0,400}%[ \t]*.{0,40}$", re.MULTILINE)
_LLVM_LINES = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")


def total_coverage(text: str) -> float | None:
    """Per cent of statements or lines, from the last total in `text`.

    Go tells the coverage of each package; of several packages without a total nothing follows.
    """
    for pattern in _TOTALS:
        if found := pattern.findall(text):
            return _percent(found[-1])
    if tables := _LLVM_TOTAL.findall(text):  # columns: regions, functions, lines, perhaps branches
        columns = _LLVM_LINES.findall(tables[-1])
        return _percent(columns[2]) if len(columns) >= 3 else None
    packages = _GO_PACKAGE.findall(text)
    return _percent(packages[0]) if len(packages) == 1 else None


def _percent(digits: str) -> float | None:
    value = float(digits)
    return value if value <= 100 else None
