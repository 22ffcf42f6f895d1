"""An agent's claims, judged by the facts: the fields of its handoff, what its summary says, the files that it names.

Nothing here blocks anything: a verdict is evidence for routing and people. A command step needs no verdict: its
handoff is made from the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from gitswarm.evidence.declarations import CaseCounts
from gitswarm.records.envelope import Confidence, FileChange
from gitswarm.records.evidence import CheckOutcome, DiffSummary, Finding, Flag, TestReport, Verdict
from gitswarm.records.execution import Status
from gitswarm.records.text import listed, shorten


def means(name: str, path: str) -> bool:
    """Whether what somebody calls `name` may be `path`, which is relative to the top of the tree.

    A name may leave out leading folders, start with `./`, be an absolute path of the worktree, or name an artifact by
    its place in the commit.
    """
    stated, real = _parts(name), _parts(path)
    if not stated or not real:
        return False
    if len(stated) <= len(real):
        return real[-len(stated) :] == stated
    return name.startswith(("/", "$", "~", ".swarm/", "./.swarm/")) and stated[-len(real) :] == real


def any_means(name: str, paths: Iterable[str]) -> bool:
    """As `means`, and a name that is a folder stands for what lies in it."""
    folder = _parts(name)
    return any(means(name, path) or (bool(folder) and _parts(path)[: len(folder)] == folder) for path in paths)


def _parts(name: str) -> list[str]:
    return [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in {".", "/"}]


class PassClaim(Struct, frozen=True):
    """A claim that tests pass. `passed` is their number if there is one; `all_green`: it admits no failure."""

    text: str
    passed: int | None
    all_green: bool


class ProgressClaim(Struct, frozen=True):
    """A claim that something was done; `files`: to which."""

    text: str
    files: tuple[str, ...]


class CoverageClaim(Struct, frozen=True):
    text: str
    percent: float


class Claims(Struct, frozen=True):
    """The claims of a handoff. Mentioning a file claims nothing about it."""

    status: Status
    confidence: Confidence | None
    artifacts: tuple[str, ...] = ()
    file_changes: tuple[FileChange, ...] = ()
    passes: tuple[PassClaim, ...] = ()
    progress: tuple[ProgressClaim, ...] = ()
    coverage: tuple[CoverageClaim, ...] = ()

    @property
    def says_something(self) -> bool:
        """Whether there is anything but a status to compare with facts."""
        return bool(self.file_changes or self.passes or self.progress or self.coverage)


COVERAGE_LOSS = 2.0
"""Points by which coverage may fall from one run to the next."""

COVERAGE_CLAIM = 5.0
"""Points by which coverage may lie below what was claimed."""

_CRITICAL: frozenset[Flag] = frozenset({"tests_deleted", "claimed_pass_but_failed", "claimed_verified_with_failures"})
_WARNING_COSTS = 0.1
_CRITICAL_COSTS = 0.6
_QUOTED_COLUMNS = 200


class CommandCheck(Struct, frozen=True):
    """What a command step found; `report` None when its output is of no known test tool."""

    outcome: CheckOutcome
    report: TestReport | None = None

    @property
    def failed(self) -> bool:
        """Also when a command hides its failures (`pytest || true`)."""
        return self.outcome.passed is False or (self.report is not None and self.report.failed > 0)

    @property
    def passed(self) -> bool:
        return self.outcome.passed is True and not self.failed


class Facts(Struct, frozen=True):
    """What is known about a step.

    :param diff: of this step only, `.swarm/runs` left out.
    :param cases: declared test cases of the changed files, before and after.
    :param check: of the newest command step that tested exactly the code that stands after this step; else None.
    :param previous: of the run of the same command before that one, on whatever code.
    :param written: artifacts that this step wrote, relative to RUN_BASE or the flow's folder in it.
    :param artifacts: all that exist after it; None when that is not known.
    """

    diff: DiffSummary
    cases: CaseCounts = field(default_factory=CaseCounts)
    check: CommandCheck | None = None
    previous: CommandCheck | None = None
    written: frozenset[str] = frozenset()
    artifacts: frozenset[str] | None = None


def judge(claims: Claims, facts: Facts, *, only: frozenset[Flag] | None = None) -> Verdict:
    """One finding per flag and contradiction, in the order of the flags' table in docs/evidence.md.

    REJECT with a critical finding, VERIFY with any, else TRUST. score = max(0, 1 − 0.6·c − 0.1·w), where c and w are
    the numbers of distinct critical and other flags: TRUST is 1, VERIFY at least 0.5, REJECT at most 0.4.

    :param only: flags that are looked for; None: all.
    """
    rules = (
        _tests_deleted,
        _test_count_decreased,
        _coverage_dropped,
        _claimed_pass_but_failed,
        _claimed_verified_with_failures,
        _claimed_progress_no_diff,
        _file_changes_mismatch,
        _artifacts_missing,
        _unverified_claims,
    )
    findings = (finding for rule in rules for finding in rule(claims, facts))
    return _verdict(tuple(finding for finding in findings if only is None or finding.flag in only), ())


def merge_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict about several steps: all their findings."""
    findings = tuple(dict.fromkeys(finding for verdict in verdicts for finding in verdict.findings))
    return _verdict(findings, tuple(name for verdict in verdicts for name in verdict.about))


def _verdict(findings: tuple[Finding, ...], about: tuple[str, ...]) -> Verdict:
    flags = tuple(dict.fromkeys(finding.flag for finding in findings))
    critical = len(_CRITICAL.intersection(flags))
    score = max(0.0, 1 - _CRITICAL_COSTS * critical - _WARNING_COSTS * (len(flags) - critical))
    return Verdict(
        recommendation="REJECT" if critical else "VERIFY" if flags else "TRUST",
        score=round(score, 2),
        flags=flags,
        findings=findings,
        about=about,
    )


def _finding(flag: Flag, claim: str, fact: str) -> Finding:
    return Finding(
        flag=flag,
        claim=shorten(claim, _QUOTED_COLUMNS),
        fact=shorten(fact, _QUOTED_COLUMNS),
        severity="critical" if flag in _CRITICAL else "warning",
    )


def _tests_deleted(_claims: Claims, facts: Facts) -> Iterator[Finding]:
    """Files with all their tests are gone or emptied, and other files did not take the tests over."""
    cases = facts.cases
    if cases.emptied and cases.after < cases.before:
        fact = f"{_counted(cases.before)} before, {cases.after} after; none left in {listed(cases.emptied)}"
        yield _finding("tests_deleted", "", fact)


def _test_count_decreased(claims: Claims, facts: Facts) -> Iterator[Finding]:
    cases = facts.cases
    if cases.after < cases.before:
        if not cases.emptied:
            fewer = tuple(file.path for file in cases.files if file.after < file.before)
            fact = f"{_counted(cases.before)} before, {cases.after} after in {listed(fewer)}"
            yield _finding("test_count_decreased", "", fact)
        return
    now, then = _executed(facts.check), _executed(facts.previous)
    if now is not None and then is not None and _comparable(facts) and now < then:
        yield _finding("test_count_decreased", "", f"{_counted(then)} executed in the run before, {now} in the last")
    yield from _fewer_than_claimed(claims, facts)


def _fewer_than_claimed(claims: Claims, facts: Facts) -> Iterator[Finding]:
    report = facts.check.report if facts.check else None
    for claim in claims.passes if facts.check is not None and not facts.check.failed else ():
        if report is not None and _overstates(claim, report):
            yield _finding("test_count_decreased", claim.text, f"{_counted(report.passed)} passed")


def _coverage_dropped(claims: Claims, facts: Facts) -> Iterator[Finding]:
    now, then = _coverage(facts.check), _coverage(facts.previous)
    if now is None:
        return
    if then is not None and round(then - now, 6) > COVERAGE_LOSS:
        yield _finding("coverage_dropped", "", f"coverage {now:g} %, {then:g} % in the run before")
    for claim in claims.coverage:
        if round(claim.percent - now, 6) > COVERAGE_CLAIM:
            yield _finding("coverage_dropped", claim.text, f"coverage {now:g} %")


def _claimed_pass_but_failed(claims: Claims, facts: Facts) -> Iterator[Finding]:
    check = facts.check
    if check is None or not check.failed:
        return
    for claim in claims.passes:
        if claim.all_green or _overstates(claim, check.report):
            yield _finding("claimed_pass_but_failed", claim.text, _failure(check))


def _claimed_verified_with_failures(claims: Claims, facts: Facts) -> Iterator[Finding]:
    """A reader that changed nothing and says nothing about results or work only vouches for its reading."""
    verified = claims.status is Status.VERIFIED and (claims.says_something or bool(facts.diff.files))
    if verified and facts.check is not None and facts.check.failed:
        yield _finding("claimed_verified_with_failures", "status VERIFIED", _failure(facts.check))


def _claimed_progress_no_diff(claims: Claims, facts: Facts) -> Iterator[Finding]:
    if facts.diff.files or facts.written:
        return
    if claims.progress:
        yield _finding("claimed_progress_no_diff", claims.progress[0].text, "the step changed no file")
    elif claims.file_changes:
        paths = listed(tuple(change.path for change in claims.file_changes))
        yield _finding("claimed_progress_no_diff", f"file_changes: {paths}", "the step changed no file")


def _file_changes_mismatch(claims: Claims, facts: Facts) -> Iterator[Finding]:
    """A file that changed and is not named is no mismatch; nobody lists lock files."""
    if not facts.diff.files and not facts.written:
        return  # claimed_progress_no_diff says it
    old = tuple(file.old_path for file in facts.diff.files if file.old_path)
    changed = (*(file.path for file in facts.diff.files), *old, *facts.written)
    gone = (*(file.path for file in facts.diff.files if file.change == "deleted"), *old)
    for change in claims.file_changes:
        if not any_means(change.path, changed):
            yield _finding("file_changes_mismatch", f"{change.path} {change.change}", "the file did not change")
        elif change.change == "deleted" and not any_means(change.path, gone):
            yield _finding("file_changes_mismatch", f"{change.path} deleted", "the file is still there")
    for claim in claims.progress:
        for name in claim.files:
            if not any_means(name, changed):
                yield _finding("file_changes_mismatch", claim.text, f"{name} did not change")


def _artifacts_missing(claims: Claims, facts: Facts) -> Iterator[Finding]:
    if facts.artifacts is None:
        return
    known = (*facts.artifacts, *facts.written, *(file.path for file in facts.diff.files))
    for name in claims.artifacts:
        if not any_means(name, known):
            yield _finding("file_changes_mismatch", f"artifact {name}", "there is no such artifact")


def _unverified_claims(claims: Claims, facts: Facts) -> Iterator[Finding]:
    """Claims that nothing can confirm or contradict are normal; claiming them for certain is not."""
    if claims.confidence != "high":
        return
    judged = facts.check is not None and (facts.check.failed or facts.check.passed)
    if claims.passes and not judged:
        fact = "no test run on the current code"
        if facts.check is not None:
            fact = (
                "the test command reported no tests" if facts.check.outcome.reason is None else "there were no tests"
            )
        yield _finding("unverified_claims_high_confidence", claims.passes[0].text, fact)
    if claims.coverage and _coverage(facts.check) is None:
        yield _finding("unverified_claims_high_confidence", claims.coverage[0].text, "no coverage was measured")


def _overstates(claim: PassClaim, report: TestReport | None) -> bool:
    return claim.passed is not None and report is not None and not report.partial and claim.passed > report.passed


def _comparable(facts: Facts) -> bool:
    """Whether both runs were reported whole, by the same tool."""
    now, then = facts.check and facts.check.report, facts.previous and facts.previous.report
    return bool(now and then and now.source == then.source and not now.partial and not then.partial)


def _executed(check: CommandCheck | None) -> int | None:
    return check.report.passed + check.report.failed if check is not None and check.report is not None else None


def _coverage(check: CommandCheck | None) -> float | None:
    return check.report.coverage_percent if check is not None and check.report is not None else None


def _failure(check: CommandCheck) -> str:
    report = check.report
    if report is not None and report.failed:
        names = f": {listed(report.failing)}" if report.failing else ""
        return f"{report.failed} of {_counted(report.total)} failed{names}"
    return f"{check.outcome.command or 'the test command'} ended with exit code {check.outcome.exit_code}"


def _counted(tests: int) -> str:
    return f"{tests} test" if tests == 1 else f"{tests} tests"
