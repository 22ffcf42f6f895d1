"""`approve`: what an approval is about, what a person has to know first, and their word as a commit of the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from gitswarm.errors import GitFailedError, SwarmError
from gitswarm.git.object_reader import NewCommit, Person
from gitswarm.ledger.approval import ApprovalKind, code_tree, current_approval, latest_approval
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.next_command import accepting
from gitswarm.ledger.state import RunState
from gitswarm.ledger.stored_json import last_tests
from gitswarm.records.envelope import Handoff
from gitswarm.records.evidence import AcceptedConcern, Concern, DiffSummary, concern_id
from gitswarm.records.execution import RunStatus, Status
from gitswarm.records.globs import gitignore
from gitswarm.records.safety import SecretFound
from gitswarm.runner.human_steps import ADOPT, OutOfBandStep, execute_out_of_band
from gitswarm.runner.landing.landing_plan import LandingRequest, Refused, met_conflict, refuse_rehearsal, users_git
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import prepare_worktree
from gitswarm.runner.step.findings import accepted_so_far, not_waived
from gitswarm.runner.step.operation import handed_off
from gitswarm.runner.step.plan import OutOfBand
from gitswarm.runner.step.test_steps import is_test_step, untested
from gitswarm.runner.stored import evidence_of, is_rehearsal, open_concerns, was_played
from gitswarm.runner.undo.recovery import current_partial, look


def concerns_at_end(session: Session, state: RunState) -> tuple[Concern, ...]:
    """Concerns open at an approval, with what the run would find at its end: nothing is approved untested."""
    known = open_concerns(session, state)
    if state.end is RunStatus.SUCCEEDED:
        return known
    flows = (
        session.specs.flows.get(name) for name in dict.fromkeys(state.tally.flow_sequence)
    )  # a fork's may be another's
    missing = ((flow.id, step) for flow in flows if flow and (step := untested(session, state, flow)) is not None)
    names = {concern.id for concern in known}
    end = f"the run is {state.end}, and " if state.end is not None else ""
    skipped = (
        Concern(
            id=concern_id("tests_not_run", flow, step),
            flag="tests_not_run",
            blocking=True,
            fact=f"{end}no test of {flow} ran on its code",
        )
        for flow, step in missing
    )
    accepted = accepted_so_far(session, state)
    more = (concern for concern in skipped if concern.id not in names and not_waived(concern, accepted) is not None)
    return (*known, *more)


def accepted_concerns(session: Session, state: RunState, accept: Mapping[str, str]) -> tuple[AcceptedConcern, ...]:
    """
    :param accept: id, or a glob of ids, → why.
    :raises SwarmError: nothing that is open has such an id.
    """
    known = concerns_at_end(session, state)
    found: dict[str, AcceptedConcern] = {}
    for wanted, why in accept.items():
        fitting = [concern for concern in known if fnmatchcase(concern.id, wanted)]
        if not fitting:
            ids = ", ".join(concern.id for concern in known)
            hint = f"open: {ids}" if ids else f"git swarm status {state.layout.run_id}"
            raise SwarmError(f"no open concern {wanted}", hint=hint)
        for concern in fitting:
            found.setdefault(concern.id, AcceptedConcern(id=concern.id, why=why, names=concern.names))
    return tuple(found.values())


_OUTCOMES = {True: "passed", False: "failed", None: "had nothing to run"}


class Caution(Struct, frozen=True):
    """`name`: one or two words, `text`: one line."""

    name: str
    text: str


def cautions_of(session: Session, state: RunState) -> tuple[Caution, ...]:
    """
    :param state: a run that has ended.
    """
    found: list[Caution] = []
    if state.end is not None and state.end is not RunStatus.SUCCEEDED:
        found.append(Caution("state", f"the run is {state.end}: it is not complete"))
    last = state.last_step
    if last is not None and last.status is Status.BLOCKED:
        found.append(Caution("blocked", f"{last.execution.name}: {(last.summary.splitlines() or [''])[0]}"))
    found += (Caution("left out", f"{one.path}: a secret ({one.kind})") for one in _left_out(session, state))
    return tuple(found)


def tests_of(session: Session, state: RunState) -> str:
    """What the newest test run said, and whether it was about this code."""
    if found := last_tests(session.repository, state):
        outcome = "fail as they did before the run" if found.red_before else _OUTCOMES[found.passed]
        return f"tests {outcome}{'' if found.current else ' on earlier code'} ({found.step})"
    missing = next(
        (
            f"{flow.id}/{step.id}"
            for flow in map(session.specs.flows.__getitem__, session.spec.flows)
            for step in flow.steps
            if is_test_step(session.spec.settings, step)
        ),
        None,
    )
    return "no tests have run on this code" + (f": {missing} was not executed" if missing else "")


def _left_out(session: Session, state: RunState) -> list[SecretFound]:
    """The files that secrets kept out, but for those that a later step brought; one secret of each."""
    found: dict[str, SecretFound] = {}
    for record in state.steps:
        evidence = evidence_of(session, record)
        if evidence is None:
            continue
        for file in evidence.diff.files:
            found.pop(file.path, None)
        found |= {one.path: one for one in reversed(evidence.secrets)}
    return list(found.values())


APPROVE = "approve"


class Subject(Struct, frozen=True):
    """What is judged: the code from `base` to `tip`. `tests`: what the last test run on exactly this code said;
    `played`: engines were in stub mode, or a script was played; `cautions`: what speaks against a quick yes;
    `concerns`: what is open."""

    base: str
    tip: str
    code: str
    diff: DiffSummary
    tests: str
    played: bool
    cautions: tuple[Caution, ...] = ()
    concerns: tuple[Concern, ...] = ()

    @property
    def size(self) -> str:
        files = len(self.diff.files)
        count = f"{files} file{'' if files == 1 else 's'}"
        return f"{count}, +{self.diff.insertions} -{self.diff.deletions}"


def subject_of(session: Session, state: RunState) -> Subject:
    repository = session.repository
    code = code_tree(repository, state)
    base = repository.objects.commit(state.base).tree
    return Subject(
        base=state.base,
        tip=state.tip,
        code=code,
        diff=repository.diffs.summary(base, code),
        tests=tests_of(session, state),
        played=was_played(session, state),
        cautions=cautions_of(session, state),
        concerns=concerns_at_end(session, state),
    )


def _approval_step(
    kind: ApprovalKind, subject: Subject, handoff: Handoff, out_of_band: OutOfBand | None = None
) -> OutOfBandStep:
    """Approves or rejects the code; its commit stands on `subject.tip`."""
    result = handed_off(APPROVE, handoff, trailers={kind.value: f"{subject.tip} {subject.code}"})
    return OutOfBandStep.of(result, out_of_band)


ACCEPT = "accept"


def accept_concerns(session: Session, state: RunState, accept: Mapping[str, str]) -> RunState:
    """A step of agent `human`: these concerns may stay. The run ends after it as it had ended.

    :param state: a run that has ended.
    :raises SwarmError: nothing that is open has such an id.
    """
    accepted = accepted_concerns(session, state, accept)
    summary = "accepted: " + "; ".join(f"{each.id} ({each.why})" for each in accepted)
    result = handed_off(ACCEPT, Handoff(status=Status.VERIFIED, summary=summary))
    return execute_out_of_band(session, state, OutOfBandStep.of(result, OutOfBand(accepted=accepted)))


ALLOW = "allow"
_GLOB = re.compile(r"([\\*?\[\]!#])")


def allow_secrets(session: Session, state: RunState, allow: Mapping[str, str]) -> RunState:
    """A step of agent `human`: what was found there is no secret. The run ends after it as it had ended. From here on
    the files are not looked through.

    :param state: a run that has ended.
    :param allow: path, or pattern as in .gitignore → why.
    :raises SwarmError: nothing was found there.
    """
    evidence = (evidence_of(session, record) for record in state.steps)
    found = sorted({found.path for each in evidence if each is not None for found in each.secrets})
    run = state.layout.run_id
    patterns = {_pattern(path, found, run): why for path, why in allow.items()}
    summary = "no secrets: " + "; ".join(f"{path} ({why})" if why else path for path, why in allow.items())
    handoff = Handoff(status=Status.VERIFIED, summary=summary)
    result = handed_off(ALLOW, handoff, {"allowed": dict(patterns)})
    after = execute_out_of_band(session, state, OutOfBandStep.of(result))
    session.redactor.allow(patterns)
    return after


def allowed_so_far(session: Session, state: RunState) -> Iterator[str]:
    """The patterns that people allowed in this run."""
    for record in state.steps:
        evidence = evidence_of(session, record) if record.by_human and record.step == ALLOW else None
        allowed = evidence.operation.get("allowed") if evidence is not None else None
        yield from allowed if isinstance(allowed, dict) else ()


def _pattern(path: str, found: Sequence[str], run: str) -> str:
    """The pattern of a path from the top of the worktree, or of a file that was found by its name alone.

    :raises SwarmError: it fits none of the files that were found.
    """
    bare = path.removeprefix("./").lstrip("/")
    pattern = "/" + (_GLOB.sub(r"\\\1", bare) if bare in found else bare)
    if not any(map(gitignore(pattern).match_file, found)):
        known = f"found in: {', '.join(found)}" if found else "nothing was found in this run"
        raise SwarmError(f"no secret was found in {path}; {known}", hint=f"git swarm log {run}")
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
    refused = _refused(session, state) or met_conflict(session, state, LandingRequest())
    if refused is not None:
        return refused
    if is_rehearsal(session, state):
        return refuse_rehearsal(session.layout.run_id)
    subject = subject_of(session, state)
    approval = current_approval(session.repository, state)
    accepted = accepted_concerns(session, state, accept or {})
    still = [each for each in subject.concerns if each.blocking and each.id not in {one.id for one in accepted}]
    if still:
        return _unproven(session, still)
    if approval is not None and not accepted:
        return Approval(approval.commit, subject, is_new=False, state=state)
    waived = "".join(f"; accepted {each.id}: {each.why}" for each in accepted)
    summary = f"approved: {subject.size}; {subject.tests}{waived}"
    handoff = Handoff(status=Status.VERIFIED, summary=summary, observations=(note,) if note else ())
    make = None
    if session.spec.settings.deploy.require_signature:
        make = users_git(session).signed
        unsigned = _try_signing(session, state)
        if unsigned is not None:
            return unsigned
    step = _approval_step(ApprovalKind.APPROVES, subject, handoff, OutOfBand(make, accepted))
    return _recorded(session, execute_out_of_band(session, state, step), subject)


def _unproven(session: Session, still: Sequence[Concern]) -> Refused:
    """What blocks is accepted one by one, or worked off."""
    run = session.layout.run_id
    what = f"{len(still)} blocking concern{'' if len(still) == 1 else 's'} open"
    hint = f"{accepting(run, (concern.id for concern in still))}   (or: git swarm resume {run})"
    return Refused(what, hint, tuple(f"{concern.id}: {concern.fact}" for concern in still))


def reject_run(session: Session, state: RunState, why: str) -> Approval | Refused:
    """Says that the run's code is not to land; an approval of it does not stand any more."""
    refused = _refused(session, state)
    if refused is not None:
        return refused
    subject = subject_of(session, state)
    earlier = latest_approval(session.repository, state)
    if earlier is not None and (earlier.kind, earlier.code) == (ApprovalKind.REJECTS, subject.code):
        return Approval(earlier.commit, subject, is_new=False, state=state)
    handoff = Handoff(status=Status.BLOCKED, summary=f"rejected: {why}", blockers=(why,))
    step = _approval_step(ApprovalKind.REJECTS, subject, handoff)
    return _recorded(session, execute_out_of_band(session, state, step), subject)


def _recorded(session: Session, after: RunState, subject: Subject) -> Approval:
    latest = latest_approval(session.repository, after)
    return Approval(latest.commit if latest is not None else after.tip, subject, is_new=True, state=after)


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
    if not left.is_dirty or cut_off or current_partial(session, state) is not None:
        return None
    clean = session.store.code(state.tip_tree)
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
    trial = NewCommit(state.tip_tree, (), "can I sign?\n", Person(HUMAN, me.email), me, session.context.clock())
    try:
        users.signed(trial)
    except GitFailedError as error:
        return Refused(
            "git could not sign the approval", "git config --get-regexp '^(gpg|user)'", output=error.message
        )
    return None
