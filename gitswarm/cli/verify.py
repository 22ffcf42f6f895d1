"""`verify`: whether what a run stores is what git-swarm wrote."""

from __future__ import annotations

import re
import sys
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import advise, complain, out, out_json, out_lines, plural, readable
from gitswarm.cli.invocation import repository_here
from gitswarm.cli.runs import JsonFlag, RunArgument
from gitswarm.errors import UsageError
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.verify.commit_reader import Mismatch, Report
from gitswarm.ledger.verify.verifier import verify_run

_ID = re.compile("[0-9a-fA-F]{4,40}")


def verify(
    run: RunArgument = None,
    tip: Annotated[str | None, Option(metavar="COMMIT", help="A commit that the run is known to have had.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that a run was not tampered with; offline, from git alone."""
    repository = repository_here()
    repository.is_for_reading = True
    layout = find_run(repository, run)
    report = verify_run(repository, layout, _trusted(repository, tip) if tip is not None else None)
    if as_json:
        out_json(report.to_plain())
    else:
        _show(report, is_shallow=(repository.common_dir / "shallow").exists())
    if not report.is_sound:
        raise SystemExit(1)


def _trusted(repository: Repository, tip: str) -> str:
    """
    :raises UsageError: what looks like an id names something else here: a branch or tag that anybody may have made.
    """
    found = repository.resolve(tip)
    if _ID.fullmatch(tip) and not found.startswith(tip.lower()):
        raise UsageError(
            f"{tip} is the name of a branch or tag here, of {found[:12]}", hint="git swarm verify --tip WHOLE-ID"
        )
    return found


_WHOLE = "git fetch --unshallow   (this clone is shallow: what it lacks cannot be compared)"


def _show(report: Report, *, is_shallow: bool) -> None:
    for finding in report.findings:
        out_lines(readable("", _line(report, finding), sys.stdout))
    commits = plural(report.commits, "commit")
    errors = sum(1 for finding in report.findings if finding.severity == "error")
    warnings = len(report.findings) - errors
    warned = f", {plural(warnings, 'warning')}" if warnings else ""
    if errors:
        complain(
            f"{plural(errors, 'finding')} in {commits} of {report.run_id}{warned}",
            _WHOLE if is_shallow else _next(report),
        )
        return
    out(f"{commits} verified, no changes found{warned}")
    if warnings and is_shallow:
        advise(_WHOLE)
    if report.trusted is not None:
        behind = "" if report.trusted == report.tip else "; later commits are known only here"
        out_lines(readable("compared with ", f"{report.trusted}{behind}", sys.stdout))
    else:
        advise(f"git swarm verify {report.run_id} --tip COMMIT   (compares it with a tip that you noted elsewhere)")


def _line(report: Report, finding: Mismatch) -> str:
    """`<commit> <step> <check>: <path in RUN_BASE>: <what>`."""
    base = f".swarm/runs/{report.run_id}/"
    words = [finding.commit[:8] if finding.commit else "-", finding.step or "-"]
    words += ["warning"] if finding.severity == "warning" else []
    path = f"{finding.path.removeprefix(base)}: " if finding.path else ""
    return f"{' '.join(words)} {finding.check}: {path}{finding.message}"


def _next(report: Report) -> str:
    """What to type first: damage is git's to explain, a commit is to be looked at."""
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if any(finding.check == "objects" for finding in errors):
        return "git fsck --full   (says what is damaged or missing)"
    commit = next((finding.commit for finding in errors if finding.commit), None)
    return f"git show --stat {commit[:12]}" if commit else f"git swarm status {report.run_id}"
