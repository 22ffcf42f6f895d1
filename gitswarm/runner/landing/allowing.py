"""A person's word that what was found in a file is no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitswarm.engines.base import StepResult
from gitswarm.errors import SwarmError
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.globs import gitignore
from gitswarm.records.outcome import Result, Status
from gitswarm.runner.landing.out_of_band import OutOfBandStep, execute_out_of_band
from gitswarm.runner.session import Session
from gitswarm.runner.stored import evidence_of

ALLOW = "allow"
_GLOB = re.compile(r"([\\*?\[\]!#])")


def allow_secrets(session: Session, state: RunState, allow: Mapping[str, str]) -> RunState:
    """A step of agent `human` that says so; the run ends after it as it had ended. From here on the files are not
    looked through.

    :param state: a run that has ended.
    :param allow: path, or pattern as in .gitignore → why.
    :raises SwarmError: nothing was found there.
    """
    found = sorted(_found_in(session, state))
    patterns = {_pattern(path, found): why for path, why in allow.items()}
    summary = "no secrets: " + "; ".join(f"{path} ({why})" if why else path for path, why in allow.items())
    handoff = Handoff(status=Status.VERIFIED, summary=summary)
    result = StepResult(ALLOW, Result.SUCCEEDED, summary, handoff=handoff, facts={"allowed": dict(patterns)})
    step = OutOfBandStep(ALLOW, HUMAN, lambda _request, _emit: result)
    after = execute_out_of_band(session, state, step)
    session.redactor.allow(patterns)
    return after


def allowed_so_far(session: Session, state: RunState) -> Iterator[str]:
    """The patterns that people allowed in this run."""
    for record in state.steps:
        evidence = evidence_of(session, record) if record.by_human and record.step == ALLOW else None
        allowed = evidence.operation.get("allowed") if evidence is not None else None
        yield from allowed if isinstance(allowed, dict) else ()


def _found_in(session: Session, state: RunState) -> set[str]:
    evidence = (evidence_of(session, record) for record in state.steps)
    return {found.path for each in evidence if each is not None for found in each.secrets}


def _pattern(path: str, found: Sequence[str]) -> str:
    """From the top of the worktree; a file that was found by its name alone.

    :raises SwarmError: it fits none of the files that were found.
    """
    bare = path.removeprefix("./").lstrip("/")
    pattern = "/" + (_GLOB.sub(r"\\\1", bare) if bare in found else bare)
    if not any(map(gitignore(pattern).match_file, found)):
        known = f"found in: {', '.join(found)}" if found else "nothing was found in this run"
        raise SwarmError(f"no secret was found in {path}; {known}", hint="git swarm log")
    return pattern
