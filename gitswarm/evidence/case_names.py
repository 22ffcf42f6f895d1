"""Parts of the names that tools give to tests.

| tool                    | name                                            | own name    | inside of |
|-------------------------|-------------------------------------------------|-------------|-----------|
| pytest                  | `tests/test_a.py::TestX::test_y[1]`             | `test_y`    | `TestX`   |
| jest, vitest, node, TAP | `a.test.js > total > right`                     | `right`     | `total`   |
| go                      | `example.test/shop.TestX/sub`                   | `TestX`     |           |
| cargo                   | `tests/shop.rs sums::right`, `shop sums::right` | `right`     | `sums`    |
| nextest                 | `shop::shop sums::right`                        | `right`     | `sums`    |
| JUnit of others         | `com.x.TillTest.adds(int)[1]`                   | `adds`      | …         |
"""

from __future__ import annotations

import re

from gitswarm.records.case_results import CaseResult

_GO = re.compile(
    r"^(?P<package>.*?)(?:^|\.)(?P<test>(?:Test|Fuzz|Example|Benchmark)[A-Z0-9_]?\w*)(?P<inner>/.*)?$", re.DOTALL
)
_PARAMETERS = re.compile(r"(?:\[.*\]|\(.*\)|\{.*\})+$", re.DOTALL)


def own_name(name: str) -> str:
    """The last segment without parameters: of a result's name, or of one that somebody wrote down."""
    if " > " in name:
        return name.rpartition(" > ")[2].strip()
    without = _without_parameters(name)
    if "::" in without:
        return without.rpartition("::")[2].strip()
    if (found := _GO.match(without)) and not any(space in without for space in " \t"):
        return found["test"]
    if any(space in without.strip() for space in " \t"):
        last = without.rpartition(" ")[2]
        return last if without.startswith(("doc ", "src/", "tests/")) and last.isidentifier() else name.strip()
    if without.endswith((".py", ".js", ".ts")):
        return without
    return without.replace("#", ".").rpartition(".")[2] or name


def go_parts(name: str) -> tuple[str, str, str] | None:
    """Package, top-level test and subtests of `go test`; None for a package that did not build."""
    found = _GO.match(name)
    return (found["package"], found["test"], found["inner"] or "") if found and found["package"] else None


def titles(case: CaseResult) -> tuple[str, ...]:
    """Of a JavaScript test: its describe blocks and its own title."""
    inner = case.name.removeprefix(f"{case.file} > ") if case.file else case.name
    return tuple(inner.split(" > "))


def path_within(case: CaseResult) -> str:
    """What the name says besides its file: `TestX::test_y[1]`, `total > right`; the whole of it without a file."""
    if case.file is None:
        return case.name
    return case.name.removeprefix(case.file).removeprefix("::").removeprefix(" > ").strip()


def _without_parameters(name: str) -> str:
    """`test_p[a::b]` is `test_p`; of pytest's names what follows the first bracket after the file is parameters."""
    file, separator, inner = name.partition("::")
    if separator and file.endswith(".py"):
        return f"{file}::{inner.partition('[')[0]}"
    return _PARAMETERS.sub("", name)
