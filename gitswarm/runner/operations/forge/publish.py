"""`publish`: shows a run on the forge; executed again it only brings what is there into line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.git.incoming import EarlierContent
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.routing import HumanPolicy
from gitswarm.records.safety import SecretFound
from gitswarm.records.worklists import PullRequestStatus, Reply
from gitswarm.runner.operations.forge.branch import (
    NO_FORGE,
    Mark,
    RequestText,
    branch_of,
    configured_forge,
    harmless,
    has_change,
    publish_branch,
    target_on_remote,
)
from gitswarm.runner.operations.forge.program import Forge, ForgeError, PullRequest, Remark
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.judge import described
from gitswarm.runner.step.operation import KernelStep, reported
from gitswarm.runner.stored import is_rehearsal
from gitswarm.specs.station import RunArtifact, parse_artifact

TEXT = "review/pr.md"
STATUS = "review/pr_status.json"
REPORT = "review/github_report.md"
HARVESTED = "review/pr_feedback.json"


PUBLISHED = ("review/pr.md", "review/pr_status.json", "review/github_report.md")
"""Artifacts of a run that a forge gets, besides its code."""


def publish(step: KernelStep, request: StepRequest, emit: Emit) -> StepResult:
    """Sends what the step names among its inputs: the text, and once they are due status, answers and report."""
    kept = _kept_here(step)
    if kept:
        return _not_published(step, request, Handoff(status=Status.VERIFIED, summary=f"not published: {kept}"), kept)
    found = secrets_in(step.session, step.state)
    if found:
        return _not_published(step, request, _barred(step, found), "secrets bar publishing", len(found))
    shown = _Shown(step, emit)
    try:
        shown.bring_into_line(_named(step))
    except ForgeError as error:
        shown.report["reason"] = error.message
        summary = f"{shown.summary}: {error.message}"
        handoff = Handoff(status=Status.UNVERIFIED, summary=summary, concerns=error.lines)
        return reported(step, request, handoff, shown.report)
    handoff = Handoff(
        status=Status.UNVERIFIED if shown.concerns else Status.VERIFIED,
        summary=shown.summary,
        concerns=tuple(shown.concerns),
    )
    return reported(step, request, handoff, shown.report)


def _kept_here(step: KernelStep) -> str:
    """Why the run is nothing for a forge; "" when it is."""
    session, state = step.session, step.state
    if session.spec.settings.review.forge == "none":
        return NO_FORGE
    if is_rehearsal(session, state):
        return "it was a rehearsal, not started with --allow-stub"
    return "" if has_change(session, state) else "there is no difference to the base"


def _not_published(
    step: KernelStep, request: StepRequest, handoff: Handoff, reason: str, secrets: int = 0
) -> StepResult:
    report: dict[str, JsonValue] = {"published": False, "reason": reason, "text": TEXT}
    if secrets:
        report["secrets"] = secrets
    return reported(step, request, handoff, report)


def _barred(step: KernelStep, found: Sequence[SecretFound]) -> Handoff:
    """A watched run waits for a person to take them out; nobody else's word changes it."""
    watched = step.session.spec.human is HumanPolicy.SUPERVISED
    descriptions = tuple(map(described, found[:5]))
    count = f"{len(found)} secret{' bars' if len(found) == 1 else 's bar'} it"
    way_on = f"take them out in the run's worktree, then: git swarm resume {step.run} --adopt"
    return Handoff(
        status=Status.BLOCKED if watched else Status.UNVERIFIED,
        summary=f"not published: {count}",
        blockers=(*descriptions, way_on) if watched else (),
        concerns=() if watched else descriptions,
    )


def _named(step: KernelStep) -> frozenset[str]:
    plan = step.plan
    named = (parse_artifact(name, plan.flow.id) for name in plan.step.teaching.inputs)
    return frozenset(artifact.path for artifact in named if isinstance(artifact, RunArtifact))


class _Shown(Struct):
    """What is on the forge so far. Each change asks first whether it was made already."""

    step: KernelStep
    emit: Emit
    report: dict[str, JsonValue] = field(default_factory=lambda: {"published": False, "reason": "", "text": TEXT})
    concerns: list[str] = field(default_factory=list)
    summary: str = "not published"

    def bring_into_line(self, named: frozenset[str]) -> None:
        """
        :raises ForgeError: something went wrong; the report says how far it came.
        """
        step = self.step
        proposal = RequestText.of(step.text(TEXT), step.session.redactor.scrub)
        if proposal is None:
            raise ForgeError(f"{TEXT} has no title", hint=f"git swarm show --run {step.run}")
        forge = configured_forge(step.session)
        if forge is None:
            raise ForgeError(NO_FORGE)
        status = self._status() if STATUS in named else None
        request = self._requested(forge, proposal, status)
        if request is None or STATUS not in named:
            return
        remarks = forge.remarks(request)
        trusted = {request.author, forge.account()} - {""}
        own = [remark for remark in remarks if remark.author in trusted]
        if status is not None and step.earlier(HARVESTED).get("source") != "file":  # what a file said has no page
            self._answer(forge, request, (remarks, own), status.replies)
        if REPORT in named:
            self._post_report(forge, request, own)

    def _status(self) -> PullRequestStatus | None:
        try:
            return PullRequestStatus.from_json(self.step.text(STATUS).encode())
        except MistakesError:
            self.concerns.append(f"{STATUS} is missing, or does not match its schema: the request stays as it is")
            return None

    def _requested(self, forge: Forge, proposal: RequestText, status: PullRequestStatus | None) -> PullRequest | None:
        """The open request, saying what it should; None: people have closed it."""
        step, branch, program = self.step, branch_of(self.step.run), forge.program.name
        existing = forge.find(branch)
        if existing is not None and not existing.is_open:
            self.report |= {"url": existing.url, "number": existing.number, "reason": "the request was closed there"}
            self.summary = f"not published: {existing.url} was closed there"
            self.concerns.append(f"{existing.url} is closed; opened there again, it is brought up to date")
            return None
        self.emit(Event(EventKind.INTENT, {"key": f"publish {step.run}", "forge": program, "branch": branch}))
        commit = publish_branch(step.session, step.state, proposal.title)
        self.report |= {"branch": branch, "commit": commit}
        if existing is None:
            forge.create(branch, target_on_remote(step.session), proposal.title, proposal.body)
            existing = forge.find(branch)
            if existing is None:
                raise ForgeError(f"{program} made a request that it does not list", hint=f"{program} auth status")
        draft = status.state == "draft" if status is not None else existing.is_draft
        self.report |= {"published": True, "url": existing.url, "number": existing.number}
        self.summary = f"published as {existing.url}"
        forge.edit(existing, proposal.title, proposal.body, draft=draft)
        self.report["state"] = "draft" if draft else "ready"
        return existing

    def _answer(
        self, forge: Forge, request: PullRequest, known: tuple[list[Remark], list[Remark]], replies: tuple[Reply, ...]
    ) -> None:
        """Each remark once, and only what was really said there."""
        remarks, own = known
        by_id = {remark.id: remark for remark in remarks}
        answered: list[JsonValue] = []
        self.report["answered"] = answered
        for reply in replies:
            mark = Mark(self.step.run, reply.to)
            remark = by_id.get(reply.to)
            if remark is None:
                self.concerns.append(f"{STATUS}: nothing to answer has the id {reply.to}")
                continue
            if mark.found_in(own) is None:
                forge.answer(request, remark, mark.under(self._harmless(reply.text)))
            answered.append(reply.to)

    def _post_report(self, forge: Forge, request: PullRequest, own: list[Remark]) -> None:
        """One report, in the place of the one before."""
        text = self._harmless(self.step.text(REPORT))
        if not text:
            return
        mark = Mark(self.step.run)
        body, existing = mark.under(text), mark.found_in(own)
        if existing is None:
            forge.comment(request, body)
        elif existing.text.replace("\r\n", "\n").strip() != body:
            forge.rewrite(request, existing, body)
        self.report["reported"] = True

    def _harmless(self, text: str) -> str:
        return harmless(text, self.step.session.redactor.scrub)


def secrets_in(session: Session, state: RunState) -> Sequence[SecretFound]:
    """Secrets in what the run changes in the code, and in the texts that a forge gets."""
    return list(_in_code(session, state)) + list(_in_texts(session, state))


def _in_code(session: Session, state: RunState) -> Iterator[SecretFound]:
    objects, store = session.repository.objects, session.store
    base, code = store.code(objects.commit(state.base).tree), store.code(state.tip_tree)
    changed = ((delta.path, objects.file(code, delta.path)) for delta in session.repository.diffs.between(base, code))
    found = [each for path, content in changed if content for each in session.redactor.find_in_code(path, content)]
    held = EarlierContent(session.repository.git, objects, (base,)).held({each.value for each in found})
    yield from (each.found for each in found if each.value not in held)


def _in_texts(session: Session, state: RunState) -> Iterator[SecretFound]:
    for artifact in PUBLISHED:
        path = f"{session.layout.base}/{artifact}"
        content = session.repository.objects.file(state.tip_tree, path)
        if content is not None:
            yield from (each.found for each in session.redactor.find_in_code(path, content))
