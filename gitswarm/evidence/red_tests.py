"""Which failures count: excused by the base, flaky, or red; and runs that executed nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitswarm.evidence.suite_run import ComparisonIndex, SuiteRun, finding, is_own, own_tests, red_cases
from gitswarm.records.proof import ProofFinding
from gitswarm.records.text import listed


def judge_failures(judged: ComparisonIndex) -> tuple[list[str], list[str], list[str]]:
    """Names that fail: excused by the base, flaky, and red."""
    base = judged.base.results.named() if judged.base is not None and judged.base.results is not None else {}
    alone = judged.proof.alone.named() if judged.proof.alone is not None else {}
    own_names = own_tests(judged.changes)
    excused, flaky, red = [], [], []
    for case in red_cases(judged.final):
        before = base.get(case.name)
        own = is_own(case, own_names) or case.name in judged.proof.criteria
        again = alone.get(case.name)
        if before is not None and before.is_red and not own and judged.proof.changes:
            excused.append(case.name)
        elif again is not None and again.is_green and not own:
            flaky.append(case.name)
        else:
            red.append(case.name)
    return excused, flaky, red


def is_excused_whole(judged: ComparisonIndex) -> bool:
    """A failure without a name that the base shows too: the same output, and the same counts above 0."""
    base, final = judged.base, judged.final
    if base is None or not base.is_red or not judged.proof.changes or judged.proof.criteria:
        return False
    if final.masked_output != base.masked_output or not final.masked_output:
        return False
    return _counts(base) == _counts(final) and final.executed > 0


def _counts(run: SuiteRun) -> tuple[int, ...]:
    return (run.report.passed, run.report.failed, run.report.skipped) if run.report else ()


def report_failures(
    judged: ComparisonIndex, excused: Sequence[str], flaky: Sequence[str], red: Sequence[str]
) -> Iterator[ProofFinding]:
    if excused:
        yield finding("red_before", excused, f"failed at the base too: {listed(excused)}")
    if flaky:
        yield finding("flaky", flaky, f"failed, and passed when run alone: {listed(flaky)}")
    if red:
        yield finding("tests_red", red, f"{len(red)} failed: {listed(red)}", blocking=True)
    elif judged.final.is_red and not red_cases(judged.final):
        if is_excused_whole(judged):
            yield finding("red_before", (), "the test command failed at the base in the same way")
        else:
            yield finding("tests_red", (), "the test command failed and names no test", blocking=True)


def judge_nothing(judged: ComparisonIndex) -> ProofFinding | None:
    """Neither side executed a test, or the final one did not."""
    final, base = judged.final, judged.base
    if final.failed and base is not None and base.failed and judged.proof.changes and _is_as_broken(base, final):
        return finding("tests_cannot_run", (), "no test could run, nor at the base")
    if not final.ran_nothing or final.failed:
        return None
    if base is None:
        return None
    if base.ran_nothing:
        return finding("no_tests", (), "no test ran, nor at the base")
    fact = f"no test ran; the base executed {base.executed}"
    return finding("tests_not_run", (), fact, blocking=True)


def _is_as_broken(base: SuiteRun, final: SuiteRun) -> bool:
    """Both executed nothing, or say nothing that can be read, with the same error."""
    nothing = (base.ran_nothing or base.report is None) and (final.ran_nothing or final.report is None)
    same_output = bool(final.masked_output) and final.masked_output == base.masked_output
    same_files = bool(red_cases(final)) and [each.name for each in red_cases(final)] == [
        each.name for each in red_cases(base)
    ]
    return nothing and (same_output or same_files)
