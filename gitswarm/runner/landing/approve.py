"""`approve`: a person's word on the code that a run has now, as a commit of the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gitswarm.engines.base import StepResult
from gitswarm.errors import GitFailedError, SwarmError
from gitswarm.git.object_reader import NewCommit, Person
from gitswarm.ledger.approval import ApprovalKind, last_word, standing_approval
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.evidence import Concern
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.records.globs import gitignore
from gitswarm.records.outcome import Result, RunStatus, Status
from gitswarm.runner.human import ADOPT
from gitswarm.runner.landing.look import met_conflict, users_git
from gitswarm.runner.landing.out_of_band import OutOfBandStep, execute_out_of_band
from gitswarm.runner.landing.plan import Refused, Wish, refuse_rehearsal
from gitswarm.runner.landing.subject import APPROVE, Subject, accepted_concerns, speaking, subject_of
from gitswarm.runner.session import Session
from gitswarm.runner.stored import evidence_of
from gitswarm.runner.undo.recovery import look, standing_partial
from gitswarm.runner.workplace import prepare_worktree

ACCEPT = "accept"


def accept_concerns(session: Session, state: RunState, accept: Mapping[str, str]) -> RunState:
    """A step of agent `human`: these concerns may stay. The run ends after it as it had ended.

    :param state: a run that has ended.
    :raises SwarmError: nothing that is open has such an id.
    """
    accepted = accepted_concerns(session, state, accept)
    summary = "accepted: " + "; ".join(f"{each.id} ({each.why})" for each in accepted)
    handoff = Handoff(status=Status.VERIFIED, summary=summary)
    result = StepResult(ACCEPT, Result.SUCCEEDED, summary, handoff=handoff)
    step = OutOfBandStep(ACCEPT, HUMAN, lambda _request, _emit: result, accepted=accepted)
    return execute_out_of_band(session, state, step)


ALLOW = "allow"
_GLOB = re.compile(r"([\\*?\[\]!#])")


def allow_secrets(session: Session, state: RunState, allow: Mapping[str, str]) -> RunState:
    """A step of agent `human`: what was found there is no secret. The run ends after it as it had ended. From here on
    the files are not
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


class Approval(Struct, frozen=True):
    """What was said. `commit` says it; `is_new`: it was not said before. `state`: the run afterwards."""

    commit: str
    subject: Subject
    is_new: bool
    state: RunState


def approve_run(
    session: Session, state: RunState, note: str = "", accept: Mapping[str, str] | None = None
) -> Approval | Refused:
    """Approves the run's code in a person's name. Approving it again changes nothing.

    :param state: a run that has ended.
    :param accept: concerns that may stay, id → why.
    :raises SwarmError: nothing that is open has such an id.
    """
    refused = _refused(session, state) or met_conflict(session, state, Wish())
    if refused is not None:
        return refused
    subject = subject_of(session, state)
    if subject.never:
        return refuse_rehearsal(session.layout.run_id)
    standing = standing_approval(session.repository, state)
    accepted = accepted_concerns(session, state, accept or {})
    still = [each for each in subject.concerns if each.blocking and each.id not in {one.id for one in accepted}]
    if still:
        return _unproven(session, still)
    if standing is not None and not accepted:
        return Approval(standing.commit, subject, is_new=False, state=state)
    waived = "".join(f"; accepted {each.id}: {each.why}" for each in accepted)
    summary = f"approved: {subject.size}; {subject.tests}{waived}"
    handoff = Handoff(status=Status.VERIFIED, summary=summary, observations=(note,) if note else ())
    make = None
    if session.spec.settings.deploy.require_signature:
        make = users_git(session).signed
        unsigned = _try_signing(session, state)
        if unsigned is not None:
            return unsigned
    step = OutOfBandStep(APPROVE, HUMAN, speaking(ApprovalKind.APPROVES, subject, handoff), make, accepted=accepted)
    return _said(session, execute_out_of_band(session, state, step), subject)


def _unproven(session: Session, still: Sequence[Concern]) -> Refused:
    """What blocks is accepted one by one, or worked off."""
    run = session.layout.run_id
    ids = " ".join(f"--accept '{concern.id}=WHY'" for concern in still)
    what = f"{len(still)} blocking concern{'' if len(still) == 1 else 's'} open"
    hint = f"git swarm approve {run} {ids}   (or: git swarm resume {run})"
    return Refused(what, hint, tuple(f"{concern.id}: {concern.fact}" for concern in still))


def reject_run(session: Session, state: RunState, why: str) -> Approval | Refused:
    """Says that the run's code is not to land; an approval of it does not stand any more."""
    refused = _refused(session, state)
    if refused is not None:
        return refused
    subject = subject_of(session, state)
    earlier = last_word(session.repository, state)
    if earlier is not None and (earlier.word, earlier.code) == (ApprovalKind.REJECTS, subject.code):
        return Approval(earlier.commit, subject, is_new=False, state=state)
    handoff = Handoff(status=Status.BLOCKED, summary=f"rejected: {why}", blockers=(why,))
    step = OutOfBandStep(APPROVE, HUMAN, speaking(ApprovalKind.REJECTS, subject, handoff))
    return _said(session, execute_out_of_band(session, state, step), subject)


def _said(session: Session, after: RunState, subject: Subject) -> Approval:
    spoken = last_word(session.repository, after)
    return Approval(spoken.commit if spoken is not None else after.tip, subject, is_new=True, state=after)


def _refused(session: Session, state: RunState) -> Refused | None:
    run = session.layout.run_id
    if state.end is RunStatus.FAILED:
        return Refused(f"{run} failed: resume it, or roll it back, before you approve", f"git swarm resume {run}")
    return uncommitted_edits(session, state)


def uncommitted_edits(session: Session, state: RunState) -> Refused | None:
    """What is approved and lands has to be what a person sees in the run's worktree."""
    run = session.layout.run_id
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    cut_off = any(journal.step != ADOPT for journal in left.journals)
    if not left.is_dirty or cut_off or standing_partial(session, state) is not None:
        return None
    clean = session.repository.objects.with_subtree(state.tip_tree, RUNS_FOLDER, None)
    paths = tuple(delta.path for delta in session.repository.diffs.between(clean, left.code))
    hint = f"git swarm resume {run} --adopt   (makes them a step of yours)"
    return Refused(f"{shadow.path} has uncommitted edits: they are not part of the run", hint, paths)


def _try_signing(session: Session, state: RunState) -> Refused | None:
    """Nothing is begun that could not be signed."""
    users = users_git(session)
    if users.config("user.signingkey") is None and users.config("gpg.ssh.defaultKeyCommand") is None:
        return Refused(
            "this run asks for signed approvals (deploy.require_signature), and git has no signing key for you",
            "git config --global gpg.format ssh && git config --global user.signingkey ~/.ssh/id_ed25519.pub",
        )
    me = session.repository.committer()
    trial = NewCommit(state.tip_tree, (), "can I sign?\n", Person(HUMAN, me.email), me, session.around.clock())
    try:
        users.signed(trial)
    except GitFailedError as error:
        return Refused("git could not sign the approval", "git config --get-regexp '^(gpg|user)'", said=error.message)
    return None
