"""Relative to which commit a run is sound: git's own ids carry the trust from there down to the first byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from gitswarm.ledger.verify.finding import Mismatch


class Witnesses(Struct, frozen=True):
    """Commits that others say the run had. `asked`: a person; `landed`: target branches; `hubs`: remotes, when they
    were asked last; `approved`: the chain itself."""

    asked: str | None
    landed: Sequence[str]
    hubs: Sequence[str]
    approved: Sequence[str]


def trusted_commit(witnesses: Witnesses, chain: Sequence[str]) -> str | None:
    """The commit to rely on; None: nobody but the branch itself knows the run."""
    said = (*((witnesses.asked,) if witnesses.asked else ()), *witnesses.landed, *witnesses.hubs, *witnesses.approved)
    return next((commit for commit in said if commit in chain), None)


def check_trust(witnesses: Witnesses, chain: Sequence[str], kept: Callable[[], Iterable[str]]) -> list[Mismatch]:
    """
    :param kept: commits that the run had and knows of, but off its branch.
    """
    findings = []
    if witnesses.asked is not None and witnesses.asked not in chain:
        findings.append(
            Mismatch(commit=witnesses.asked, check="chain", message="the trusted tip is not on the branch")
        )
    for commit in witnesses.hubs:
        if commit not in chain and commit not in kept():
            message = "a remote had the run's branch here; it is no longer on the branch, and nothing was set aside"
            findings.append(Mismatch(commit=commit, check="chain", message=message))
    return findings
