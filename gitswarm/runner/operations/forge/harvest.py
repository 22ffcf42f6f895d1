"""`harvest`: brings home what was said about a change."""

from __future__ import annotations

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Status
from gitswarm.records.review import Feedback
from gitswarm.runner.operations.forge.access import NO_FORGE, configured_forge
from gitswarm.runner.operations.forge.branch import branch_of
from gitswarm.runner.operations.forge.feedback import bounded, from_forge, given_feedback
from gitswarm.runner.operations.forge.program import ForgeError
from gitswarm.runner.operations.kernel_step import KernelStep, reported

NOTHING = Feedback()


class _Harvest(Struct, frozen=True):
    """`source`: file, the name of the forge's command line, or none. `concerns`: what went wrong."""

    source: str
    feedback: Feedback = NOTHING
    reason: str = ""
    concerns: tuple[str, ...] = ()


class Harvest(Struct, frozen=True):
    """What a file says, else what the forge has; nothing to bring home is a result too."""

    step: KernelStep

    def __call__(self, request: StepRequest, _emit: Emit) -> StepResult:
        found = self._found()
        items = found.feedback.items
        report: dict[str, JsonValue] = {
            "source": found.source,
            "reason": found.reason,
            "left_out": found.feedback.left_out,
            "items": [item.model_dump(mode="json") for item in items],
        }
        count = f"{len(items)} item{'' if len(items) == 1 else 's'} of feedback ({found.source})"
        handoff = Handoff(
            status=Status.UNVERIFIED if found.concerns else Status.VERIFIED,
            summary=f"{count}: {found.reason}" if found.reason else count,
            concerns=found.concerns,
        )
        return reported(self.step, request, handoff, report)

    def _found(self) -> _Harvest:
        session = self.step.session
        given = given_feedback(session, self.step.state)
        if given is not None:
            return _Harvest("file", given)
        try:
            return self._from_forge()
        except ForgeError as error:
            lines = tuple(text for text in (error.message, error.hint) if text)
            return _Harvest("none", reason=error.message, concerns=lines)

    def _from_forge(self) -> _Harvest:
        """
        :raises ForgeError: it could not be asked.
        """
        session, run = self.step.session, self.step.run
        forge = configured_forge(session)
        if forge is None:
            return _Harvest("none", reason=NO_FORGE)
        request = forge.find(branch_of(run))
        if request is None:
            return _Harvest("none", reason="nothing was published")
        checks = forge.checks(request.head) if request.head else None
        items = from_forge(forge.remarks(request), checks or (), run)
        return _Harvest(forge.name, bounded(items, session.redactor.scrub))
