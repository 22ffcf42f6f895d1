"""Test reports from what a test command printed, and from the report files that it wrote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import ClassVar

from msgspec import Struct, structs

from gitswarm.evidence.compiled_reports import read_cargo, read_cargo_json, read_go, read_go_json, read_nextest
from gitswarm.evidence.javascript_reports import read_jest, read_jest_json, read_tap, read_vitest
from gitswarm.evidence.pytest_reports import read_junit, read_pytest
from gitswarm.evidence.test_output import CountedCases, Plain, plain, total_coverage
from gitswarm.records.evidence import CaseResult, CaseResults, TestReport

FILE_BYTES = 50_000_000
"""Report files larger than this are not read."""

Reader = Callable[[Plain], CountedCases | None]

_MACHINE: tuple[Reader, ...] = (read_junit, read_jest_json, read_go_json, read_cargo_json)
_TERMINAL: tuple[Reader, ...] = (
    read_nextest,
    read_pytest,
    read_jest,
    read_vitest,
    read_cargo,
    read_go,
    read_tap,
)


class TestRun(Struct, frozen=True):
    """What a test command left: its counts, and its tests by name."""

    __test__: ClassVar[bool] = False

    report: TestReport
    results: CaseResults


def read_report(output: str, files: Mapping[str, bytes], *, ended_well: bool = False) -> TestReport | None:
    """The report of one command: its report files, added up, else its output; coverage from either.

    A machine format wins over text. Of several tools the one whose summary ends last is the outermost. Whatever the
    input is, nothing raises, and 50 MB take less than two seconds.

    :param files: path → content. Only files that this command wrote: an agent may have left others.
    """
    found = read_run(output, files, ended_well=ended_well)
    return found.report if found else None


def read_run(
    output: str, files: Mapping[str, bytes], roots: Collection[str] = (), *, ended_well: bool = False
) -> TestRun | None:
    """The report of one command, and every test that it names.

    A file that pytest or node wrote anew at every call holds only the last: when the output shows more calls than
    there are files, and more executed tests, the output's counts hold, and the names are not `complete`.

    :param files: path → content. Only files that this command wrote: an agent may have left others.
    :param ended_well: the command ended with 0: failures that only its output shows were printed by a test.
    :param roots: the folder of the run, without a slash at its end, as paths of tests may begin with it.
    """
    printed = _counted(output)
    read = ((path, _file(content)) for path, content in sorted(files.items()))
    written = [_from_top(counted, path, roots) for path, counted in read if counted is not None]
    if not written:
        return TestRun(printed.report(), _relative(printed.results(), roots)) if printed else None
    total = written[0].plus(written[1:])
    report, results = total.report(), total.results()
    if ended_well and printed is not None and printed.failed > total.failed:
        printed = None
    if printed is not None and printed.runs > len(written) and _executed(printed) > _executed(total):
        report, results = printed.report(), structs.replace(results, complete=False)
    if printed is not None and printed.partial and not ended_well:  # it broke off: the file does not show that
        report = structs.replace(report, partial=True)
        results = structs.replace(results, complete=False)
    if report.coverage_percent is None and printed is not None:
        report = structs.replace(report, coverage_percent=printed.coverage_percent)
    return TestRun(report, _relative(results, roots))


def _executed(counted: CountedCases) -> int:
    return counted.passed + counted.failed


def _from_top(counted: CountedCases, path: str, roots: Collection[str]) -> CountedCases:
    """With files from the top of the repository, where pytest was called in a folder of it: it names them from where
    its settings are, at the top, in that folder, or between.

    :param path: of its report, which it leaves in a folder that is called as the one it was called in.
    """
    root = next((root for root in roots if root.startswith("/") and f"/{path}".startswith(f"{root}/")), None)
    if root is None or not path.endswith("/pytest.xml"):
        return counted
    folder = PurePosixPath(f"/{path}").relative_to(root).parent.parts
    files = {case.file for case in counted.cases if case.file is not None}
    ends = (at for at in range(len(folder)) if any(file.startswith("/".join((*folder[at:], ""))) for file in files))
    above = "/".join((*folder[: next(ends, len(folder))], ""))
    return replace(counted, cases=tuple(_below(case, "", above) for case in counted.cases)) if above else counted


def _relative(results: CaseResults, roots: Collection[str]) -> CaseResults:
    """Jest and vitest name files by their whole path, pytest from the folder where it found its settings: either may
    be another one in another checkout."""
    starts = tuple(f"{root}/" for root in sorted(roots, key=len, reverse=True) if root)
    if not any(case.file and case.file.startswith(starts) for case in results.cases):
        return results
    cases = (
        _below(case, next((each for each in starts if (case.file or "").startswith(each)), ""))
        for case in results.cases
    )
    return CaseResults.of(results.source, cases, complete=results.complete)


def _below(case: CaseResult, start: str, above: str = "") -> CaseResult:
    """With `above` in the place of `start`, in front of its file; unchanged without a file."""
    if case.file is None or not (start or above):
        return case
    return CaseResult(above + case.name.removeprefix(start), case.outcome, above + case.file.removeprefix(start))


def _file(content: bytes) -> CountedCases | None:
    if len(content) > FILE_BYTES:
        return None
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return _counted(content.decode(encoding, errors="replace"))


def _counted(text: str) -> CountedCases | None:
    prepared = plain(text)
    if found := [counted for read in _MACHINE if (counted := read(prepared))]:
        return max(found, key=lambda counted: counted.ends_at)
    if found := [counted for read in _TERMINAL if (counted := read(prepared))]:
        outermost = max(found, key=lambda counted: counted.ends_at)
        return replace(outermost, coverage_percent=total_coverage(prepared.text))
    return None
