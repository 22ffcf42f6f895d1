"""`verify` and `scan_secrets`: what a Gate and a forge may rely on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.git.incoming import Former
from gitswarm.ledger.state import RunState
from gitswarm.ledger.verify.verifier import verify_run
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Status
from gitswarm.records.secrets import SecretFound
from gitswarm.runner.operations.kernel_step import KernelStep, reported
from gitswarm.runner.session import Session
from gitswarm.runner.step.concerns import open_concerns
from gitswarm.runner.step.examined import described

PUBLISHED = ("review/pr.md", "review/pr_status.json", "review/github_report.md")
"""Artifacts of a run that a forge gets, besides its code."""

_MOST_FINDINGS = 50


class Verify(Struct, frozen=True):
    """What `git swarm verify` says of the run so far, and what is open in it."""

    step: KernelStep

    def __call__(self, request: StepRequest, _emit: Emit) -> StepResult:
        session = self.step.session
        report = verify_run(session.repository, session.layout)
        errors = [finding for finding in report.findings if finding.severity == "error"]
        findings: list[JsonValue] = [finding.model_dump(mode="json") for finding in report.findings[:_MOST_FINDINGS]]
        count = f"{len(errors)} error{'' if len(errors) == 1 else 's'}" if errors else "no error"
        summary = f"{count} in the ledger of {report.commits} commit{'' if report.commits == 1 else 's'}"
        handoff = Handoff(
            status=Status.UNVERIFIED if errors else Status.VERIFIED,
            summary=summary,
            concerns=tuple(f"{finding.check}: {finding.message}" for finding in errors[:5]),
        )
        found: dict[str, JsonValue] = {
            "sound": report.is_sound,
            "commits": report.commits,
            "errors": len(errors),
            "findings": findings,
            "open_concerns": [each.model_dump(mode="json") for each in open_concerns(session, self.step.state)],
        }
        return reported(self.step, request, handoff, found)


class ScanSecrets(Struct, frozen=True):
    """Looks through everything that would be published."""

    step: KernelStep

    def __call__(self, request: StepRequest, _emit: Emit) -> StepResult:
        step = self.step
        found = secrets_in(step.session, step.state)
        handoff = Handoff(
            status=Status.UNVERIFIED if found else Status.VERIFIED,
            summary=f"{len(found)} secrets bar publishing" if found else "nothing that looks like a secret",
            concerns=tuple(map(described, found[:5])),
        )
        findings: list[JsonValue] = [each.model_dump(mode="json") for each in found[:_MOST_FINDINGS]]
        return reported(step, request, handoff, {"found": len(found), "secrets": findings})


def secrets_in(session: Session, state: RunState) -> Sequence[SecretFound]:
    """Secrets in what the run changes in the code, and in the texts that a forge gets."""
    return list(_in_code(session, state)) + list(_in_texts(session, state))


def _in_code(session: Session, state: RunState) -> Iterator[SecretFound]:
    objects, store = session.repository.objects, session.store
    base, code = store.code(objects.commit(state.base).tree), store.code(state.tip_tree)
    changed = ((delta.path, objects.file(code, delta.path)) for delta in session.repository.diffs.between(base, code))
    found = [each for path, content in changed if content for each in session.redactor.find_in_code(path, content)]
    held = Former(session.repository.git, objects, (base,)).held({each.value for each in found})
    yield from (each.found for each in found if each.value not in held)


def _in_texts(session: Session, state: RunState) -> Iterator[SecretFound]:
    for artifact in PUBLISHED:
        path = f"{session.layout.base}/{artifact}"
        content = session.repository.objects.file(state.tip_tree, path)
        if content is not None:
            yield from (each.found for each in session.redactor.find_in_code(path, content))
